-- Everything that follows from task runs having ended. The rows have left `task_runs`, the caller holds the locks of
-- their runs, and the arrays are sorted by (run, idx, item). History and the runs' counters are written; dependents are
-- counted, placed, skipped or failed, round by round until nothing more follows; stages and runs end; slots are handed on.
-- `a_*` name dependents to count whose upstream ended in an earlier unit (a big fan-out goes on in chunks).
-- Dependents that may start go straight to the wanted slots. Returns claims, rows to decide, and ended runs.
CREATE FUNCTION settle_v1(
    p_now bigint, p_claim bigint,
    g_run uuid[], g_idx integer[], g_item integer[], g_version bigint[], g_state smallint[], g_flags smallint[],
    g_generation smallint[], g_attempt integer[], g_failures smallint[], g_lost smallint[], g_session bigint[],
    g_started bigint[], g_finished bigint[], g_exit integer[], g_kind text[], g_error text[], g_detail text[], g_output text[],
    g_pool integer[],
    a_run uuid[], a_dep integer[], a_counts smallint[],
    w_session bigint[], w_route integer[], w_slots integer[], w_rank smallint[], p_decide_session bigint, p_decide integer)
RETURNS TABLE (kind smallint, run_id uuid, idx integer, item integer, attempt integer, failures smallint, generation smallint,
               version bigint, session bigint, route integer, rank smallint, due_at bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    r_id uuid[]; r_base bigint[]; r_state smallint[]; r_open integer[]; r_limit integer[]; r_flags smallint[];
    n_run uuid[]; n_idx integer[]; n_version bigint[]; n_state smallint[]; n_flags smallint[]; n_generation smallint[]; n_attempt integer[];
    n_failures smallint[]; n_lost smallint[]; n_pool integer[];
    c_run uuid[]; c_idx integer[]; c_state smallint[]; c_attempt integer[]; c_failures smallint[]; c_generation smallint[]; c_version bigint[];
    c_session bigint[]; c_route integer[]; c_pool integer[]; c_rank smallint[]; c_due bigint[];
    released integer[] := '{}'; touched integer[] := '{}'; ended_limits integer[] := '{}';
    followed uuid[];
    budget integer := 5000;
    i integer;
BEGIN
    LOOP
        -- The runs' counters; a run without further stages ends in the same statement.
        WITH per_run AS (
            SELECT u.run, count(*)::integer AS n,
                   -- An item fails its task, not its run.
                   (count(*) FILTER (WHERE u.item < 0 AND (u.state = {task.upstream_failed} OR (u.state = {task.failed} AND u.flags & {task_flag.continues} = 0))))::integer AS bad
            FROM unnest(g_run, g_item, g_state, g_flags) AS u(run, item, state, flags) GROUP BY u.run
        ), changed AS (
            UPDATE runs r SET
                open = r.open - p.n,
                failed = r.failed + p.bad,
                progress_at = p_now,
                seq = r.seq + p.n + CASE WHEN r.open = p.n AND r.flags & {run_flag.has_finalisers} = 0 THEN 1 ELSE 0 END,
                state = CASE WHEN r.open = p.n AND r.flags & {run_flag.has_finalisers} = 0
                             THEN CASE WHEN r.flags & {run_flag.cancelling} <> 0 THEN {run.cancelled}
                                       WHEN r.failed + p.bad > 0 OR r.flags & {run_flag.timed_out} <> 0 THEN {run.failed} ELSE {run.success} END
                             ELSE r.state END,
                finished_at = CASE WHEN r.open = p.n AND r.flags & {run_flag.has_finalisers} = 0 THEN p_now END,
                holds = CASE WHEN r.open = p.n AND r.flags & {run_flag.has_finalisers} = 0 THEN NULL ELSE r.holds END,
                deadline_at = CASE WHEN r.open = p.n AND r.flags & {run_flag.has_finalisers} = 0 THEN NULL ELSE r.deadline_at END
            FROM per_run p WHERE r.id = p.run
            RETURNING r.id, r.seq - p.n - CASE WHEN r.open = 0 AND r.flags & {run_flag.has_finalisers} = 0 THEN 1 ELSE 0 END AS base, r.state, r.open, r.limit_id, r.flags
        )
        SELECT array_agg(c.id), array_agg(c.base), array_agg(c.state), array_agg(c.open), array_agg(c.limit_id), array_agg(c.flags)
        INTO r_id, r_base, r_state, r_open, r_limit, r_flags FROM (SELECT * FROM changed ORDER BY changed.id) c;

        INSERT INTO history (run_id, idx, item, state, flags, generation, attempt, failures, lost, session, seq,
                             started_at, finished_at, exit_code, error_kind, error, detail, output)
        SELECT u.run, u.idx, u.item, u.state, u.flags, u.generation, u.attempt, u.failures, u.lost, u.session,
               r_base[dense_rank() OVER (ORDER BY u.run)] + row_number() OVER (PARTITION BY u.run ORDER BY u.idx, u.item),
               u.started, u.finished, u.exit, u.kind, u.error, u.detail, u.output
        FROM unnest(g_run, g_idx, g_item, g_state, g_flags, g_generation, g_attempt, g_failures, g_lost, g_session, g_started,
                    g_finished, g_exit, g_kind, g_error, g_detail, g_output)
             AS u(run, idx, item, state, flags, generation, attempt, failures, lost, session, started, finished, exit, kind, error, detail, output);

        IF {task.failed} = ANY (g_state) THEN
            INSERT INTO dead_letters (id, run_id, idx, item, version, reason, original_state, error_type, error_message, stack_trace,
                                      total_attempts, last_attempt_at, created_at, updated_at)
            SELECT uuid_v7_v1(p_now), u.run, u.idx, u.item, u.version,
                   CASE u.kind WHEN 'poison_pill' THEN {letter_reason.poison_pill} WHEN 'worker_unavailable' THEN {letter_reason.worker_unavailable}
                        WHEN 'dependency_cycle_detected' THEN {letter_reason.dependency_cycle_detected}
                        ELSE {letter_reason.max_retries_exceeded} END, 'running',
                   u.kind, u.error, u.detail, u.attempt, u.started, p_now, p_now
            FROM unnest(g_run, g_idx, g_item, g_version, g_state, g_flags, g_attempt, g_started, g_kind, g_error, g_detail)
                 AS u(run, idx, item, version, state, flags, attempt, started, kind, error, detail)
            WHERE u.state = {task.failed} AND u.flags & {task_flag.dead_letter} <> 0
            ON CONFLICT DO NOTHING;
        END IF;

        released := released || ARRAY(SELECT p FROM unnest(g_pool) p WHERE p IS NOT NULL);

        IF EXISTS (SELECT 1 FROM unnest(g_item) i WHERE i >= 0) THEN
            touched := touched || items_v1(p_now, g_run, g_idx, g_item, g_state, g_flags);
        END IF;

        -- Dependents: counted once per upstream that really ended, placed where their rule, their run and the slots allow.
        n_run := NULL; c_run := NULL;
        IF cardinality(a_run) > 0 OR EXISTS (SELECT 1 FROM unnest(g_flags) f WHERE f & {task_flag.has_dependents} <> 0) THEN
            IF budget < 0 OR EXISTS (SELECT 1 FROM unnest(g_flags) f WHERE f & {task_flag.has_many_dependents} = {task_flag.has_many_dependents}) THEN
                INSERT INTO continuations (run_id, kind, idx, counts, created_at)
                SELECT u.run, {continuation.fan_out}, u.idx, counts_v1(u.state, u.flags), p_now
                FROM unnest(g_run, g_idx, g_state, g_flags) AS u(run, idx, state, flags)
                WHERE u.flags & {task_flag.has_dependents} <> 0 AND (budget < 0 OR u.flags & {task_flag.big_fan_out} <> 0);
            END IF;
            IF budget >= 0 THEN
                WITH dep AS (
                    SELECT c.run, c.dep, (count(*) FILTER (WHERE c.counts = {counts.succeeded}))::integer AS s,
                           (count(*) FILTER (WHERE c.counts = {counts.failed}))::integer AS f, (count(*) FILTER (WHERE c.counts = {counts.skipped}))::integer AS k
                    FROM (SELECT u.run, e.dep, counts_v1(u.state, u.flags) AS counts
                          FROM unnest(g_run, g_idx, g_version, g_state, g_flags) AS u(run, idx, version, state, flags)
                          JOIN version_tasks vt ON vt.version = u.version AND vt.idx = u.idx
                          CROSS JOIN LATERAL unnest(vt.dependents) AS e(dep)
                          WHERE u.flags & {task_flag.has_many_dependents} = {task_flag.has_dependents}
                          UNION ALL SELECT a.run, a.dep, a.counts FROM unnest(a_run, a_dep, a_counts) AS a(run, dep, counts)) c
                    GROUP BY c.run, c.dep
                ), hit AS (
                    -- OFFSET 0 makes it one look through the key per dependent. A planner that is free, and believes that few rows
                    -- are pending, reads every live row there is and compares each with every dependent.
                    SELECT t.tid, d.run, d.dep AS i, d.s, d.f, d.k, t.route AS rt, t.rank AS rk, startable_v1(r.state, t.flags, t.pool) AS may,
                           verdict_v1(t.rule, t.open - d.s - d.f - d.k, t.succeeded + d.s, t.failed + d.f, t.skipped + d.k) AS v
                    FROM dep d
                    CROSS JOIN LATERAL (SELECT l.ctid AS tid, l.route, l.rank, l.flags, l.pool, l.rule, l.open, l.succeeded, l.failed, l.skipped
                                        FROM task_runs l WHERE l.run_id = d.run AND l.idx = d.dep AND l.item = -1 AND l.state = {task.pending} OFFSET 0) t
                    CROSS JOIN LATERAL (SELECT l.state FROM runs l WHERE l.id = d.run OFFSET 0) r
                ), candidate AS (
                    SELECT h.*, array_position(w_route, h.rt) AS w,
                           row_number() OVER (PARTITION BY h.v = {verdict.start} AND h.may = {task.ready}, h.rt ORDER BY h.rk, h.run, h.i) AS nth,
                           row_number() OVER (PARTITION BY h.v = {verdict.start} AND h.may = {task.deciding}) AS nth_decide
                    FROM hit h WHERE h.v < {task.success}
                ), final AS (
                    SELECT p.tid, p.s, p.f, p.k,
                           (CASE WHEN p.v = {verdict.wait} THEN {task.pending}
                                 WHEN p.may = {task.ready} AND p.w IS NOT NULL AND p.nth <= w_slots[p.w] AND p.rk <= w_rank[p.w] THEN {task.running}
                                 ELSE p.may END)::smallint AS ns,
                           p.w, p.nth_decide, p.nth
                    FROM candidate p
                ), gone AS (
                    DELETE FROM task_runs t USING hit h
                    WHERE h.v >= {task.success} AND t.ctid = h.tid AND t.state = {task.pending}
                    RETURNING t.run_id, t.idx, t.version, h.v, t.flags, t.generation, t.attempt, t.failures, t.lost
                ), placed AS (
                    UPDATE task_runs t SET
                        open = t.open - x.s - x.f - x.k, succeeded = t.succeeded + x.s, failed = t.failed + x.f, skipped = t.skipped + x.k,
                        state = x.ns, due_at = CASE WHEN x.ns = {task.pending} THEN t.due_at ELSE p_now + x.nth END,
                        attempt = t.attempt + CASE WHEN x.ns = {task.running} THEN 1 ELSE 0 END,
                        session = CASE WHEN x.ns = {task.running} THEN w_session[x.w] WHEN x.ns = {task.deciding} AND x.nth_decide <= p_decide THEN p_decide_session END,
                        claim = CASE WHEN x.ns = {task.running} OR (x.ns = {task.deciding} AND x.nth_decide <= p_decide) THEN p_claim END,
                        started_at = CASE WHEN x.ns = {task.running} THEN p_now END
                    FROM final x WHERE t.ctid = x.tid AND t.state = {task.pending}
                    RETURNING t.run_id, t.idx, t.state, t.attempt, t.failures, t.generation, t.version, t.session, t.route, t.pool, t.rank, t.due_at
                )
                SELECT g.a, g.b, g.c, g.d, g.e, g.f, g.g, g.h, g.i, p.a, p.b, p.c, p.d, p.e, p.f, p.g, p.h, p.i, p.j, p.k, p.l
                INTO n_run, n_idx, n_version, n_state, n_flags, n_generation, n_attempt, n_failures, n_lost,
                     c_run, c_idx, c_state, c_attempt, c_failures, c_generation, c_version, c_session, c_route, c_pool, c_rank, c_due
                FROM (SELECT array_agg(z.run_id ORDER BY z.run_id, z.idx) a, array_agg(z.idx ORDER BY z.run_id, z.idx) b,
                             array_agg(z.version ORDER BY z.run_id, z.idx) c, array_agg(z.v ORDER BY z.run_id, z.idx) d,
                             array_agg(z.flags ORDER BY z.run_id, z.idx) e, array_agg(z.generation ORDER BY z.run_id, z.idx) f,
                             array_agg(z.attempt ORDER BY z.run_id, z.idx) g, array_agg(z.failures ORDER BY z.run_id, z.idx) h,
                             array_agg(z.lost ORDER BY z.run_id, z.idx) i FROM gone z) g,
                     (SELECT array_agg(z.run_id) a, array_agg(z.idx) b, array_agg(z.state) c, array_agg(z.attempt) d, array_agg(z.failures) e,
                             array_agg(z.generation) f, array_agg(z.version) g, array_agg(z.session) h, array_agg(z.route) i,
                             array_agg(z.pool) j, array_agg(z.rank) k, array_agg(z.due_at) l
                      FROM placed z WHERE z.state <> {task.pending}) p;
                budget := budget - coalesce(cardinality(n_run), 0) - coalesce(cardinality(c_run), 0);
            END IF;
        END IF;

        IF c_run IS NOT NULL THEN
            RETURN QUERY
                SELECT (CASE WHEN u.state = {task.running} THEN {answer.claimed} ELSE {answer.decide} END)::smallint, u.run, u.idx, -1, u.attempt, u.failures, u.generation, u.version,
                       u.session, u.route, u.rank, u.due
                FROM unnest(c_run, c_idx, c_state, c_attempt, c_failures, c_generation, c_version, c_session, c_route, c_rank, c_due)
                     AS u(run, idx, state, attempt, failures, generation, version, session, route, rank, due)
                WHERE u.session IS NOT NULL;
            FOR i IN 1 .. coalesce(cardinality(w_route), 0) LOOP
                w_slots[i] := w_slots[i] - (SELECT count(*)::integer FROM unnest(c_state, c_route) AS u(state, route) WHERE u.state = {task.running} AND u.route = w_route[i]);
            END LOOP;
            p_decide := p_decide - (SELECT count(*)::integer FROM unnest(c_state, c_session) AS u(state, session) WHERE u.state = {task.deciding} AND u.session IS NOT NULL);
            touched := touched || ARRAY(SELECT u.pool FROM unnest(c_state, c_pool) AS u(state, pool) WHERE u.state = {task.gated});
        END IF;

        -- Runs whose stage is over: those that ended are answered, the others enter their next stage.
        IF 0 = ANY (r_open) THEN
            -- Most runs just end: no further stage, no waiting parent, no follower, no limit.
            IF EXISTS (SELECT 1 FROM unnest(r_open, r_state, r_flags, r_limit) AS u(open, state, flags, held)
                       WHERE u.open = 0 AND (u.state < {run.success} OR u.flags & ({run_flag.has_parent} | {run_flag.followed}) <> 0 OR u.held IS NOT NULL)) THEN
                followed := NULL;
                FOR i IN 1 .. cardinality(r_id) LOOP
                    CONTINUE WHEN r_open[i] <> 0;
                    IF r_state[i] < {run.success} THEN
                        PERFORM next_stage_v1(p_now, r_id[i]);
                        r_state[i] := (SELECT r.state FROM runs r WHERE r.id = r_id[i]);
                        touched := touched || ARRAY(SELECT DISTINCT t.pool FROM task_runs t WHERE t.run_id = r_id[i] AND t.state = {task.gated});
                    END IF;
                    IF r_state[i] >= {run.success} AND r_flags[i] & {run_flag.has_parent} <> 0 THEN
                        PERFORM child_ended_v1(p_now, r_id[i]);
                    END IF;
                    IF r_state[i] >= {run.success} AND r_limit[i] IS NOT NULL THEN
                        ended_limits := ended_limits || r_limit[i];
                    END IF;
                    IF r_flags[i] & {run_flag.followed} <> 0 AND r_state[i] >= {run.success} THEN
                        followed := followed || r_id[i];
                    END IF;
                END LOOP;
                IF followed IS NOT NULL THEN
                    PERFORM runs_ended_v1(followed);
                END IF;
            END IF;
            IF {run.success} < ANY (r_state) THEN
                INSERT INTO unsuccessful_runs (run_id, state)
                    SELECT u.id, u.state FROM unnest(r_id, r_state, r_open) AS u(id, state, open) WHERE u.open = 0 AND u.state > {run.success} ON CONFLICT DO NOTHING;
            END IF;
            -- `item` says whether another run waits for it, `attempt` whether it has followers.
            RETURN QUERY SELECT {answer.run_ended}::smallint, u.id, u.state::integer, CASE WHEN u.flags & {run_flag.has_parent} <> 0 THEN 0 ELSE -1 END, u.flags & {run_flag.followed}, 0::smallint, 0::smallint, 0::bigint,
                       NULL::bigint, 0, 0::smallint, 0::bigint
                FROM unnest(r_id, r_state, r_open, r_flags) AS u(id, state, open, flags) WHERE u.open = 0 AND u.state >= {run.success};
        END IF;

        EXIT WHEN n_run IS NULL;
        a_run := '{}'; a_dep := '{}'; a_counts := '{}';
        -- What was skipped or failed without running is itself an end: the next round.
        g_run := n_run; g_idx := n_idx; g_version := n_version; g_state := n_state; g_flags := n_flags; g_generation := n_generation;
        g_attempt := n_attempt; g_failures := n_failures; g_lost := n_lost;
        g_item := array_fill(-1, ARRAY[cardinality(n_run)]);
        g_finished := array_fill(p_now, ARRAY[cardinality(n_run)]);
        g_session := '{}'; g_started := '{}'; g_exit := '{}'; g_kind := '{}'; g_error := '{}'; g_detail := '{}'; g_output := '{}'; g_pool := '{}';
    END LOOP;

    IF cardinality(released) > 0 OR cardinality(touched) > 0 OR cardinality(ended_limits) > 0 THEN
        PERFORM limits_v1(p_now, released, ended_limits, touched);
    END IF;
END $$;
