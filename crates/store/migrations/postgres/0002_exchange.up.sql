-- The units that move work, each one call in autocommit. Names carry a version: a function stays one release beyond its
-- successor, so that nodes of two releases can share a database.
--
-- Lock order, always: sessions (key share, which renewals do not wait for and the mark of death does) → own claimed rows by (run, idx) → run rows by id → other rows → limit rows by id.
-- Plans are generic by decree: with arrays of known length the planner finds a plan of its own for every call, and the
-- planning then costs several times the execution.
-- Rows in state pending change only under their run's lock. Whatever is picked across runs is picked with SKIP LOCKED.

-- What a trigger rule says over counters: 0 wait, 1 start, 12 skip, 13 upstream failed. The twin of core's `rule.rs`.
CREATE FUNCTION verdict_v1(rule smallint, o integer, s integer, f integer, k integer) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (CASE
        WHEN rule = 0 THEN CASE WHEN f > 0 THEN 13 WHEN o > 0 THEN 0 WHEN k > 0 THEN 12 ELSE 1 END
        WHEN rule = 2 THEN CASE WHEN s > 0 OR k > 0 THEN 12 WHEN o > 0 THEN 0 ELSE 1 END
        WHEN rule = 3 THEN CASE WHEN s > 0 THEN 1 WHEN o > 0 THEN 0 WHEN f > 0 THEN 13 ELSE 12 END
        WHEN rule = 4 THEN CASE WHEN f > 0 THEN 1 WHEN o > 0 THEN 0 ELSE 12 END
        WHEN rule = 5 THEN CASE WHEN f > 0 THEN 13 WHEN o > 0 THEN 0 ELSE 1 END
        ELSE CASE WHEN o > 0 THEN 0 ELSE 1 END
    END)::smallint
$$;

-- How an ended task counts for its dependents: 1 succeeded, 2 failed, 3 skipped. A failure that continues (flag 8) and a
-- skip by hand (flag 64) count as success.
CREATE FUNCTION counts_v1(state smallint, flags smallint) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (CASE WHEN state IN (10, 15) THEN 1 WHEN state = 11 AND flags & 8 <> 0 THEN 1 WHEN state = 12 AND flags & 64 <> 0 THEN 1 WHEN state = 12 THEN 3 ELSE 2 END)::smallint
$$;

-- Whether nothing more of the run's stage may start. Cancelling stops all but `finally`, the run's timeout only the main
-- tasks; finalisers called off (16) stop everything. The twin of `flags::is_stopped`.
CREATE FUNCTION stopped_v1(flags smallint, stage smallint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT flags & 16 <> 0 OR (flags & 4 <> 0 AND stage < 2) OR (flags & 8 <> 0 AND stage = 0)
$$;

-- Hands free slots of the named limits to those that wait. `released` names a pool once per slot given back,
-- `ended` a concurrency limit once per run that ended, `touched` limits that may have gained waiters.
CREATE FUNCTION limits_v1(p_now bigint, p_released integer[], p_ended integer[], p_touched integer[]) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    l record;
    n integer;
    free integer;
    admitted uuid;
BEGIN
    FOR l IN
        SELECT x.id, x.kind, x.capacity, x.held, d.back
        FROM limits x
        JOIN (SELECT u.id, sum(u.back)::integer AS back FROM (
                  SELECT unnest(p_released) AS id, 1 AS back
                  UNION ALL SELECT unnest(p_ended), 1
                  UNION ALL SELECT unnest(p_touched), 0) u GROUP BY u.id) d ON d.id = x.id
        ORDER BY x.id
    LOOP
        -- One by one in order of id: a joined subquery would not order the locks.
        SELECT capacity, held INTO l.capacity, l.held FROM limits WHERE id = l.id FOR NO KEY UPDATE;
        l.held := greatest(l.held - l.back, 0);
        free := coalesce(l.capacity, 2147483647) - l.held;
        IF l.kind = 0 AND free > 0 THEN
            UPDATE task_runs t SET state = 1, due_at = CASE WHEN t.failures > 0 THEN greatest(p_now, t.due_at) ELSE p_now END
            WHERE t.ctid = ANY (ARRAY(
                SELECT s.ctid FROM task_runs s WHERE s.state = 5 AND s.pool = l.id
                ORDER BY s.rank, s.due_at LIMIT least(free, 5000) FOR UPDATE SKIP LOCKED));
            GET DIAGNOSTICS n = ROW_COUNT;
            l.held := l.held + n;
        ELSIF l.kind = 1 THEN
            WHILE free > 0 LOOP
                -- A child whose parent was cancelled (4) will be: it does not start before that.
                SELECT r.id, r.open INTO admitted, n FROM runs r WHERE r.waits_for = l.id AND r.flags & 32 = 0
                  AND NOT EXISTS (SELECT 1 FROM continuations c WHERE c.run_id = r.id AND c.kind = 4)
                ORDER BY r.rank, r.id LIMIT 1 FOR UPDATE SKIP LOCKED;
                EXIT WHEN NOT FOUND;
                UPDATE runs SET state = 1, waits_for = NULL, holds = l.id, started_at = p_now, progress_at = p_now, seq = seq + 1 WHERE id = admitted;
                INSERT INTO run_transitions (run_id, seq, kind, state, stage, created_at) SELECT r.id, r.seq, 0, 1, r.stage, p_now FROM runs r WHERE r.id = admitted;
                IF n BETWEEN 1 AND 5000 AND NOT EXISTS (SELECT 1 FROM task_runs t WHERE t.run_id = admitted AND t.state = 6 AND t.pool IS NOT NULL) THEN
                    UPDATE task_runs t SET state = CASE WHEN t.flags & 2 <> 0 THEN 4 ELSE 1 END, due_at = p_now + t.idx
                    WHERE t.run_id = admitted AND t.state = 6;
                ELSE
                    -- Many rows, rows with a gate of their own, or none, so that the run is over: in units of their own.
                    INSERT INTO continuations (run_id, kind, created_at) VALUES (admitted, 1, p_now);
                END IF;
                l.held := l.held + 1;
                free := free - 1;
            END LOOP;
        END IF;
        UPDATE limits SET held = l.held WHERE id = l.id;
    END LOOP;
END $$;

-- Makes the rows of a stage. Returns how many there are. Rows without dependencies start in the state the run allows.
CREATE FUNCTION enter_stage_v1(p_now bigint, p_run uuid, p_stage smallint) RETURNS integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE n integer;
BEGIN
    INSERT INTO task_runs (run_id, idx, attempt, state, rule, rank, flags, route, pool, max_failures, max_lost, generation, open, version, due_at)
    SELECT r.id, vt.idx,
           -- A reopened run enters its stages again: attempt numbers go on where they stopped.
           coalesce((SELECT max(h.attempt) FROM history_superseded h WHERE h.run_id = r.id AND h.idx = vt.idx), 0),
           CASE WHEN vt.needs > 0 THEN 0 WHEN r.state <> 1 THEN 6 WHEN vt.flags & 2 <> 0 THEN 4 WHEN vt.pool IS NOT NULL THEN 5 ELSE 1 END,
           vt.rule, coalesce(vt.rank, r.rank), vt.flags, vt.route, vt.pool, vt.max_failures, vt.max_lost, r.generation, vt.needs, vt.version,
           p_now + vt.idx
    FROM runs r JOIN version_tasks vt ON vt.version = r.version AND vt.stage = p_stage
    WHERE r.id = p_run;
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;

-- A run whose stage has no open task left enters its next one, or ends. The caller holds the run's lock. Each of these is an
-- event with a number: entering a stage has its row, the end is what `runs` says of it.
-- Run flags: 1 has on_failure, 2 has finally, 4 cancel requested, 8 timed out, 16 finalisers are called off,
-- 32 its rows are still being made, 256 somebody follows its end.
CREATE FUNCTION next_stage_v1(p_now bigint, p_run uuid) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    r record;
    next smallint;
    n integer;
    leave smallint;
BEGIN
    LOOP
        SELECT * INTO STRICT r FROM runs WHERE id = p_run;
        next := CASE WHEN r.stage < 1 AND r.flags & 1 <> 0 THEN 1 WHEN r.stage < 2 AND r.flags & 2 <> 0 THEN 2 END;
        IF next IS NULL THEN
            UPDATE runs SET finished_at = p_now, holds = NULL, deadline_at = NULL, seq = seq + 1,
                state = CASE WHEN r.flags & 4 <> 0 THEN 5 WHEN r.failed > 0 OR r.flags & 8 <> 0 THEN 4 ELSE 3 END
            WHERE id = p_run;
            INSERT INTO unsuccessful_runs (run_id, state) SELECT x.id, x.state FROM runs x WHERE x.id = p_run AND x.state > 3 ON CONFLICT DO NOTHING;
            IF r.flags & 128 <> 0 THEN
                PERFORM child_ended_v1(p_now, p_run);
            END IF;
            IF r.flags & 256 <> 0 THEN
                PERFORM runs_ended_v1(ARRAY[p_run]);
            END IF;
            RETURN;
        END IF;
        -- Recovery work for which there is no reason is skipped; what is called off is cancelled.
        leave := CASE WHEN next = 1 AND (r.flags & 4 <> 0 OR (r.failed = 0 AND r.flags & 8 = 0)) THEN 12 WHEN r.flags & 16 <> 0 THEN 14 END;
        IF leave IS NULL THEN
            n := enter_stage_v1(p_now, p_run, next);
            UPDATE runs SET stage = next, open = n, seq = seq + 1 WHERE id = p_run;
            INSERT INTO run_transitions (run_id, seq, kind, state, stage, created_at) VALUES (p_run, r.seq + 1, 1, r.state, next, p_now);
            IF n > 0 THEN RETURN; END IF;
        ELSE
            INSERT INTO history (run_id, idx, item, state, flags, generation, attempt, failures, lost, seq, finished_at)
            SELECT p_run, vt.idx, -1, leave, vt.flags, r.generation,
                   coalesce((SELECT max(h.attempt) FROM history_superseded h WHERE h.run_id = p_run AND h.idx = vt.idx), 0), 0, 0,
                   r.seq + row_number() OVER (ORDER BY vt.idx), p_now
            FROM version_tasks vt WHERE vt.version = r.version AND vt.stage = next;
            GET DIAGNOSTICS n = ROW_COUNT;
            UPDATE runs SET stage = next, seq = seq + n WHERE id = p_run;
        END IF;
    END LOOP;
END $$;

-- Everything that follows from task runs having ended. The rows have left `task_runs`, the caller holds the locks of
-- their runs, and the arrays are sorted by (run, idx, item). History and the runs' counters are written; dependents are
-- counted, placed, skipped or failed, round by round until nothing more follows; stages and runs end; slots are handed on.
-- `a_*` name dependents to count whose upstream ended in an earlier unit (a big fan-out goes on in chunks).
-- Dependents that may start go straight to the wanted slots. Returns claims (kind 1), rows to decide (2), ended runs (3).
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
                   (count(*) FILTER (WHERE u.item < 0 AND (u.state = 13 OR (u.state = 11 AND u.flags & 8 = 0))))::integer AS bad
            FROM unnest(g_run, g_item, g_state, g_flags) AS u(run, item, state, flags) GROUP BY u.run
        ), changed AS (
            UPDATE runs r SET
                open = r.open - p.n,
                failed = r.failed + p.bad,
                progress_at = p_now,
                seq = r.seq + p.n + CASE WHEN r.open = p.n AND r.flags & 3 = 0 THEN 1 ELSE 0 END,
                state = CASE WHEN r.open = p.n AND r.flags & 3 = 0
                             THEN CASE WHEN r.flags & 4 <> 0 THEN 5 WHEN r.failed + p.bad > 0 OR r.flags & 8 <> 0 THEN 4 ELSE 3 END
                             ELSE r.state END,
                finished_at = CASE WHEN r.open = p.n AND r.flags & 3 = 0 THEN p_now END,
                holds = CASE WHEN r.open = p.n AND r.flags & 3 = 0 THEN NULL ELSE r.holds END,
                deadline_at = CASE WHEN r.open = p.n AND r.flags & 3 = 0 THEN NULL ELSE r.deadline_at END
            FROM per_run p WHERE r.id = p.run
            RETURNING r.id, r.seq - p.n - CASE WHEN r.open = 0 AND r.flags & 3 = 0 THEN 1 ELSE 0 END AS base, r.state, r.open, r.limit_id, r.flags
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

        IF 11 = ANY (g_state) THEN
            INSERT INTO dead_letters (id, run_id, idx, item, version, reason, original_state, error_type, error_message, stack_trace,
                                      total_attempts, last_attempt_at, created_at, updated_at)
            SELECT gen_random_uuid(), u.run, u.idx, u.item, u.version,
                   CASE u.kind WHEN 'poison_pill' THEN 4 WHEN 'worker_unavailable' THEN 3 ELSE 1 END, 'running',
                   u.kind, u.error, u.detail, u.attempt, u.started, p_now, p_now
            FROM unnest(g_run, g_idx, g_item, g_version, g_state, g_flags, g_attempt, g_started, g_kind, g_error, g_detail)
                 AS u(run, idx, item, version, state, flags, attempt, started, kind, error, detail)
            WHERE u.state = 11 AND u.flags & 4 <> 0
            ON CONFLICT DO NOTHING;
        END IF;

        released := released || ARRAY(SELECT p FROM unnest(g_pool) p WHERE p IS NOT NULL);

        IF EXISTS (SELECT 1 FROM unnest(g_item) i WHERE i >= 0) THEN
            touched := touched || items_v1(p_now, g_run, g_idx, g_item, g_state, g_flags);
        END IF;

        -- Dependents: counted once per upstream that really ended, placed where their rule, their run and the slots allow.
        n_run := NULL; c_run := NULL;
        IF cardinality(a_run) > 0 OR EXISTS (SELECT 1 FROM unnest(g_flags) f WHERE f & 1 <> 0) THEN
            IF budget < 0 OR EXISTS (SELECT 1 FROM unnest(g_flags) f WHERE f & 33 = 33) THEN
                INSERT INTO continuations (run_id, kind, idx, counts, created_at)
                SELECT u.run, 3, u.idx, counts_v1(u.state, u.flags), p_now
                FROM unnest(g_run, g_idx, g_state, g_flags) AS u(run, idx, state, flags)
                WHERE u.flags & 1 <> 0 AND (budget < 0 OR u.flags & 32 <> 0);
            END IF;
            IF budget >= 0 THEN
                WITH dep AS (
                    SELECT c.run, c.dep, (count(*) FILTER (WHERE c.counts = 1))::integer AS s,
                           (count(*) FILTER (WHERE c.counts = 2))::integer AS f, (count(*) FILTER (WHERE c.counts = 3))::integer AS k
                    FROM (SELECT u.run, e.dep, counts_v1(u.state, u.flags) AS counts
                          FROM unnest(g_run, g_idx, g_version, g_state, g_flags) AS u(run, idx, version, state, flags)
                          JOIN version_tasks vt ON vt.version = u.version AND vt.idx = u.idx
                          CROSS JOIN LATERAL unnest(vt.dependents) AS e(dep)
                          WHERE u.flags & 33 = 1
                          UNION ALL SELECT a.run, a.dep, a.counts FROM unnest(a_run, a_dep, a_counts) AS a(run, dep, counts)) c
                    GROUP BY c.run, c.dep
                ), hit AS (
                    -- OFFSET 0 makes it one look through the key per dependent. A planner that is free, and believes that few rows
                    -- are pending, reads every live row there is and compares each with every dependent.
                    SELECT t.tid, d.run, d.dep AS i, d.s, d.f, d.k, r.state AS rs, t.route AS rt, t.rank AS rk, t.flags AS fl, t.pool AS po,
                           verdict_v1(t.rule, t.open - d.s - d.f - d.k, t.succeeded + d.s, t.failed + d.f, t.skipped + d.k) AS v
                    FROM dep d
                    CROSS JOIN LATERAL (SELECT l.ctid AS tid, l.route, l.rank, l.flags, l.pool, l.rule, l.open, l.succeeded, l.failed, l.skipped
                                        FROM task_runs l WHERE l.run_id = d.run AND l.idx = d.dep AND l.item = -1 AND l.state = 0 OFFSET 0) t
                    CROSS JOIN LATERAL (SELECT l.state FROM runs l WHERE l.id = d.run OFFSET 0) r
                ), candidate AS (
                    SELECT h.*, array_position(w_route, h.rt) AS w,
                           row_number() OVER (PARTITION BY h.v = 1 AND h.rs = 1 AND h.fl & 2 = 0 AND h.po IS NULL, h.rt ORDER BY h.rk, h.run, h.i) AS nth,
                           row_number() OVER (PARTITION BY h.v = 1 AND h.rs = 1 AND h.fl & 2 <> 0) AS nth_decide
                    FROM hit h WHERE h.v < 10
                ), final AS (
                    SELECT p.tid, p.s, p.f, p.k,
                           (CASE WHEN p.v = 0 THEN 0
                                 WHEN p.rs <> 1 THEN 6
                                 WHEN p.fl & 2 <> 0 THEN 4
                                 WHEN p.po IS NOT NULL THEN 5
                                 WHEN p.w IS NOT NULL AND p.nth <= w_slots[p.w] AND p.rk <= w_rank[p.w] THEN 2
                                 ELSE 1 END)::smallint AS ns,
                           p.w, p.nth_decide, p.nth
                    FROM candidate p
                ), gone AS (
                    DELETE FROM task_runs t USING hit h
                    WHERE h.v >= 10 AND t.ctid = h.tid AND t.state = 0
                    RETURNING t.run_id, t.idx, t.version, h.v, t.flags, t.generation, t.attempt, t.failures, t.lost
                ), placed AS (
                    UPDATE task_runs t SET
                        open = t.open - x.s - x.f - x.k, succeeded = t.succeeded + x.s, failed = t.failed + x.f, skipped = t.skipped + x.k,
                        state = x.ns, due_at = CASE WHEN x.ns = 0 THEN t.due_at ELSE p_now + x.nth END,
                        attempt = t.attempt + CASE WHEN x.ns = 2 THEN 1 ELSE 0 END,
                        session = CASE WHEN x.ns = 2 THEN w_session[x.w] WHEN x.ns = 4 AND x.nth_decide <= p_decide THEN p_decide_session END,
                        claim = CASE WHEN x.ns = 2 OR (x.ns = 4 AND x.nth_decide <= p_decide) THEN p_claim END,
                        started_at = CASE WHEN x.ns = 2 THEN p_now END
                    FROM final x WHERE t.ctid = x.tid AND t.state = 0
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
                      FROM placed z WHERE z.state <> 0) p;
                budget := budget - coalesce(cardinality(n_run), 0) - coalesce(cardinality(c_run), 0);
            END IF;
        END IF;

        IF c_run IS NOT NULL THEN
            RETURN QUERY
                SELECT (CASE WHEN u.state = 2 THEN 1 ELSE 2 END)::smallint, u.run, u.idx, -1, u.attempt, u.failures, u.generation, u.version,
                       u.session, u.route, u.rank, u.due
                FROM unnest(c_run, c_idx, c_state, c_attempt, c_failures, c_generation, c_version, c_session, c_route, c_rank, c_due)
                     AS u(run, idx, state, attempt, failures, generation, version, session, route, rank, due)
                WHERE u.session IS NOT NULL;
            FOR i IN 1 .. coalesce(cardinality(w_route), 0) LOOP
                w_slots[i] := w_slots[i] - (SELECT count(*)::integer FROM unnest(c_state, c_route) AS u(state, route) WHERE u.state = 2 AND u.route = w_route[i]);
            END LOOP;
            p_decide := p_decide - (SELECT count(*)::integer FROM unnest(c_state, c_session) AS u(state, session) WHERE u.state = 4 AND u.session IS NOT NULL);
            touched := touched || ARRAY(SELECT u.pool FROM unnest(c_state, c_pool) AS u(state, pool) WHERE u.state = 5);
        END IF;

        -- Runs whose stage is over: those that ended are told, the others enter their next stage.
        IF 0 = ANY (r_open) THEN
            -- Most runs just end: no further stage, nobody who waits for them or follows them, no limit.
            IF EXISTS (SELECT 1 FROM unnest(r_open, r_state, r_flags, r_limit) AS u(open, state, flags, held)
                       WHERE u.open = 0 AND (u.state < 3 OR u.flags & 384 <> 0 OR u.held IS NOT NULL)) THEN
                followed := NULL;
                FOR i IN 1 .. cardinality(r_id) LOOP
                    CONTINUE WHEN r_open[i] <> 0;
                    IF r_state[i] < 3 THEN
                        PERFORM next_stage_v1(p_now, r_id[i]);
                        r_state[i] := (SELECT r.state FROM runs r WHERE r.id = r_id[i]);
                        touched := touched || ARRAY(SELECT DISTINCT t.pool FROM task_runs t WHERE t.run_id = r_id[i] AND t.state = 5);
                    END IF;
                    IF r_state[i] >= 3 AND r_flags[i] & 128 <> 0 THEN
                        PERFORM child_ended_v1(p_now, r_id[i]);
                    END IF;
                    IF r_state[i] >= 3 AND r_limit[i] IS NOT NULL THEN
                        ended_limits := ended_limits || r_limit[i];
                    END IF;
                    IF r_flags[i] & 256 <> 0 AND r_state[i] >= 3 THEN
                        followed := followed || r_id[i];
                    END IF;
                END LOOP;
                IF followed IS NOT NULL THEN
                    PERFORM runs_ended_v1(followed);
                END IF;
            END IF;
            IF 3 < ANY (r_state) THEN
                INSERT INTO unsuccessful_runs (run_id, state)
                    SELECT u.id, u.state FROM unnest(r_id, r_state, r_open) AS u(id, state, open) WHERE u.open = 0 AND u.state > 3 ON CONFLICT DO NOTHING;
            END IF;
            -- `item` says whether another run waits for it, `attempt` whether somebody follows it.
            RETURN QUERY SELECT 3::smallint, u.id, u.state::integer, CASE WHEN u.flags & 128 <> 0 THEN 0 ELSE -1 END, u.flags & 256, 0::smallint, 0::smallint, 0::bigint,
                       NULL::bigint, 0, 0::smallint, 0::bigint
                FROM unnest(r_id, r_state, r_open, r_flags) AS u(id, state, open, flags) WHERE u.open = 0 AND u.state >= 3;
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

-- The short way of `settle_v1`: one task without a pool has succeeded, in a run of which nothing special is known, and at
-- most one dependent is touched here. What chains and idle systems hand in is of this kind, and starting the large
-- statements of the general way takes several times as long as this. The row has left `task_runs`; the run's lock is taken here.
-- `applied` is false, and nothing is changed, where the general way has to be taken. `others` are dependents that the
-- caller still has to count by it.
CREATE FUNCTION settle_one_v1(
    p_now bigint, p_claim bigint, p_run uuid, p_idx integer, p_version bigint, p_flags smallint, p_generation smallint, p_attempt integer,
    p_failures smallint, p_lost smallint, p_session bigint, p_started bigint, p_finished bigint, p_output text,
    w_session bigint[], w_route integer[], w_slots integer[], w_rank smallint[],
    OUT applied boolean, OUT ended boolean, OUT others integer[], OUT w integer, OUT idx integer, OUT attempt integer, OUT failures smallint,
    OUT generation smallint, OUT version bigint, OUT rank smallint, OUT due_at bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    r record; d record;
    dependents integer[];
BEGIN
    UPDATE runs x SET
        open = x.open - 1, progress_at = p_now, seq = x.seq + CASE WHEN x.open = 1 THEN 2 ELSE 1 END,
        state = CASE WHEN x.open = 1 THEN 3 ELSE 1 END, finished_at = CASE WHEN x.open = 1 THEN p_now END,
        deadline_at = CASE WHEN x.open > 1 THEN x.deadline_at END
    WHERE x.id = p_run AND x.state = 1 AND x.flags & -257 = 0 AND x.failed = 0 AND x.limit_id IS NULL
    RETURNING x.open, x.seq, x.flags INTO r;
    applied := FOUND;
    IF NOT applied THEN RETURN; END IF;
    ended := r.open = 0;
    IF ended AND r.flags <> 0 THEN
        PERFORM runs_ended_v1(ARRAY[p_run]);
        attempt := r.flags;
    END IF;
    INSERT INTO history (run_id, idx, item, state, flags, generation, attempt, failures, lost, session, seq, started_at, finished_at, output)
    VALUES (p_run, p_idx, -1, 10, p_flags, p_generation, p_attempt, p_failures, p_lost, p_session, CASE WHEN r.open = 0 THEN r.seq - 1 ELSE r.seq END,
            p_started, p_finished, p_output);
    IF p_flags & 1 = 0 THEN RETURN; END IF;

    SELECT vt.dependents INTO dependents FROM version_tasks vt WHERE vt.version = p_version AND vt.idx = p_idx;
    IF cardinality(dependents) > 1 THEN
        others := dependents;
        RETURN;
    END IF;
    SELECT t.rule, t.open, t.succeeded, t.failed, t.skipped, t.flags, t.pool, t.route, t.rank, 0::smallint AS verdict INTO d
    FROM task_runs t WHERE t.run_id = p_run AND t.idx = dependents[1] AND t.item = -1 AND t.state = 0;
    IF NOT FOUND THEN RETURN; END IF;
    d.verdict := verdict_v1(d.rule, d.open - 1, d.succeeded + 1, d.failed, d.skipped);
    IF d.verdict > 1 OR (d.verdict = 1 AND (d.flags & 2 <> 0 OR d.pool IS NOT NULL)) THEN
        others := dependents;
    ELSIF d.verdict = 0 THEN
        UPDATE task_runs t SET open = t.open - 1, succeeded = t.succeeded + 1 WHERE t.run_id = p_run AND t.idx = dependents[1] AND t.item = -1;
    ELSE
        w := array_position(w_route, d.route);
        IF w_slots[w] > 0 AND d.rank <= w_rank[w] THEN
            UPDATE task_runs t SET open = t.open - 1, succeeded = t.succeeded + 1, state = 2, due_at = p_now + 1, attempt = t.attempt + 1,
                session = w_session[w], claim = p_claim, started_at = p_now
            WHERE t.run_id = p_run AND t.idx = dependents[1] AND t.item = -1
            RETURNING t.idx, t.attempt, t.failures, t.generation, t.version, t.rank, t.due_at
            INTO idx, attempt, failures, generation, version, rank, due_at;
        ELSE
            UPDATE task_runs t SET open = t.open - 1, succeeded = t.succeeded + 1, state = 1, due_at = p_now + 1
            WHERE t.run_id = p_run AND t.idx = dependents[1] AND t.item = -1;
        END IF;
    END IF;
END $$;

-- The exchange: hand in what ended, say how decisions went, take what may start. One atomic unit, applied once per
-- (lane, seq): when the guard does not move, nothing happens and the answer is one row of kind 9.
--   f_*  ended attempts and negative decisions, sorted by (run, idx, item): `f_from` is the state the row must be in (2 running, 4 deciding),
--        `f_state` the terminal state proposed
--   x_*  attempts that may go on: outcome 0 failed with a retry due at `x_due`, 2 released
--   d_*  decisions to start
--   w_*  demand per (session, route); `w_rank` bounds straight hand-over, the floor bounds the scan of the ready index
-- Answers: 1 claimed, 2 to decide, 3 run ended (state in idx), 4 fenced, 5 cancel this attempt, 8 session is dead, 9 not applied.
CREATE FUNCTION exchange_v1(
    p_lane bigint, p_seq bigint, p_now bigint, p_sessions bigint[],
    f_run uuid[], f_idx integer[], f_item integer[], f_session bigint[], f_attempt integer[], f_from smallint[], f_state smallint[],
    f_started bigint[], f_finished bigint[], f_exit integer[], f_kind text[], f_error text[], f_detail text[], f_output text[],
    x_run uuid[], x_idx integer[], x_item integer[], x_session bigint[], x_attempt integer[], x_outcome smallint[], x_due bigint[],
    x_started bigint[], x_finished bigint[], x_exit integer[], x_kind text[], x_error text[], x_detail text[],
    d_run uuid[], d_idx integer[], d_item integer[], d_session bigint[],
    w_session bigint[], w_route integer[], w_slots integer[], w_rank smallint[], w_floor_rank smallint[], w_floor_due bigint[],
    p_decide_session bigint, p_decide integer, p_look boolean)
RETURNS TABLE (kind smallint, run_id uuid, idx integer, item integer, attempt integer, failures smallint, generation smallint,
               version bigint, session bigint, route integer, rank smallint, due_at bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_claim bigint := (p_lane << 32) | (p_seq & 4294967295);
    n integer; i integer; got integer; settled record;
    g_run uuid[]; g_idx integer[]; g_item integer[]; g_version bigint[]; g_state smallint[]; g_flags smallint[]; g_generation smallint[];
    g_attempt integer[]; g_failures smallint[]; g_lost smallint[]; g_session bigint[]; g_started bigint[]; g_finished bigint[];
    g_exit integer[]; g_kind text[]; g_error text[]; g_detail text[]; g_output text[]; g_pool integer[];
    g_ord integer[];
    y_run uuid[]; y_tid tid[]; y_ord integer[];
    a_run uuid[] := '{}'; a_dep integer[] := '{}'; a_counts smallint[] := '{}';
    released integer[] := '{}'; touched integer[] := '{}';
    -- One success and nothing else: perhaps the short way.
    single boolean := cardinality(f_run) = 1 AND f_item[1] = -1 AND f_from[1] = 2 AND f_state[1] = 10
                      AND cardinality(x_run) = 0 AND cardinality(d_run) = 0;
    one record;
BEGIN
    UPDATE lanes l SET seq = p_seq WHERE l.id = p_lane AND l.seq = p_seq - 1;
    IF NOT FOUND THEN
        kind := 9; RETURN NEXT; RETURN;
    END IF;
    SELECT count(*) INTO n FROM (SELECT 1 FROM sessions s WHERE s.id = ANY (p_sessions) AND NOT s.dead ORDER BY s.id FOR KEY SHARE) live;
    IF n <> cardinality(p_sessions) THEN
        RETURN QUERY SELECT 8::smallint, NULL::uuid, 0, -1, 0, 0::smallint, 0::smallint, 0::bigint, u.id, 0, 0::smallint, 0::bigint
            FROM unnest(p_sessions) AS u(id) WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = u.id AND NOT s.dead);
        RETURN;
    END IF;

    -- Ended: the live row must be claimed by exactly this session and attempt. Every row is found by its key: OFFSET 0 keeps
    -- the planner from looking through everything the session holds, or through every live row there is; IS NOT DISTINCT
    -- FROM (below) keeps it from the index on sessions.
    IF single THEN
        DELETE FROM task_runs t
        WHERE t.run_id = f_run[1] AND t.idx = f_idx[1] AND t.item = -1 AND t.state = 2
          AND t.session IS NOT DISTINCT FROM f_session[1] AND t.attempt = f_attempt[1]
        RETURNING t.version, t.flags, t.generation, t.failures, t.lost, t.pool INTO one;
        single := FOUND;
    END IF;
    IF single THEN
        g_run := f_run; g_idx := f_idx; g_item := f_item; g_state := f_state; g_attempt := f_attempt; g_session := f_session;
        g_started := f_started; g_finished := f_finished; g_exit := f_exit; g_kind := f_kind; g_error := f_error; g_detail := f_detail;
        g_output := f_output; g_version := ARRAY[one.version]; g_flags := ARRAY[one.flags]; g_generation := ARRAY[one.generation];
        g_failures := ARRAY[one.failures]; g_lost := ARRAY[one.lost]; g_pool := ARRAY[one.pool];
        single := one.pool IS NULL AND one.flags & 32 = 0;
    ELSIF cardinality(f_run) > 0 THEN
        WITH gone AS (
            DELETE FROM task_runs t
            USING (SELECT u.*, l.tid FROM unnest(f_run, f_idx, f_item, f_session, f_attempt, f_from)
                       WITH ORDINALITY AS u(run, idx, item, session, attempt, from_state, ord)
                   CROSS JOIN LATERAL (SELECT s.ctid AS tid FROM task_runs s WHERE s.run_id = u.run AND s.idx = u.idx AND s.item = u.item OFFSET 0) l OFFSET 0) f
            -- Compared here, so that they are compared again should somebody have changed the row meanwhile.
            WHERE t.ctid = f.tid AND t.state = f.from_state AND t.session IS NOT DISTINCT FROM f.session AND t.attempt = f.attempt
            RETURNING f.ord::integer, t.version, t.flags, t.generation, t.failures, t.lost, CASE WHEN t.state = 2 THEN t.pool END AS pool
        )
        SELECT array_agg(g.ord), array_agg(g.version), array_agg(g.flags), array_agg(g.generation), array_agg(g.failures), array_agg(g.lost), array_agg(g.pool)
        INTO g_ord, g_version, g_flags, g_generation, g_failures, g_lost, g_pool
        FROM (SELECT * FROM gone ORDER BY gone.ord) g;
        IF cardinality(g_ord) = cardinality(f_run) THEN
            -- All of them, in the order given: what was handed in lies beside what was deleted.
            g_run := f_run; g_idx := f_idx; g_item := f_item; g_state := f_state; g_attempt := f_attempt; g_session := f_session;
            g_started := f_started; g_finished := f_finished; g_exit := f_exit; g_kind := f_kind; g_error := f_error; g_detail := f_detail;
            g_output := f_output;
        ELSIF g_ord IS NOT NULL THEN
            SELECT array_agg(f.run), array_agg(f.idx), array_agg(f.item), array_agg(f.state), array_agg(f.attempt), array_agg(f.session),
                   array_agg(f.started), array_agg(f.finished), array_agg(f.exit), array_agg(f.kind), array_agg(f.error), array_agg(f.detail), array_agg(f.output)
            INTO g_run, g_idx, g_item, g_state, g_attempt, g_session, g_started, g_finished, g_exit, g_kind, g_error, g_detail, g_output
            FROM (SELECT * FROM unnest(f_run, f_idx, f_item, f_state, f_attempt, f_session, f_started, f_finished, f_exit, f_kind, f_error, f_detail, f_output)
                      WITH ORDINALITY AS u(run, idx, item, state, attempt, session, started, finished, exit, kind, error, detail, output, ord)
                  WHERE u.ord = ANY (g_ord) ORDER BY u.ord) f;
        END IF;
        IF 4 = ANY (f_from) THEN
            -- Who decides is not who executes.
            g_session := ARRAY(SELECT CASE WHEN f_from[g_ord[u.ord]] = 2 THEN u.session END
                               FROM unnest(g_session) WITH ORDINALITY AS u(session, ord) ORDER BY u.ord);
        END IF;
        IF 11 = ANY (g_state) THEN
            g_failures := ARRAY(SELECT (u.failures + CASE WHEN u.state = 11 THEN 1 ELSE 0 END)::smallint
                                FROM unnest(g_failures, g_state) WITH ORDINALITY AS u(failures, state, ord) ORDER BY u.ord);
        END IF;
        IF coalesce(cardinality(g_run), 0) < cardinality(f_run) THEN
            -- Refused, unless it is the very one that was applied already.
            RETURN QUERY SELECT 4::smallint, f.run, f.idx, f.item, f.attempt, 0::smallint, 0::smallint, 0::bigint, f.session, 0, 0::smallint, 0::bigint
                FROM unnest(f_run, f_idx, f_item, f_session, f_attempt) AS f(run, idx, item, session, attempt)
                WHERE NOT EXISTS (SELECT 1 FROM unnest(g_run, g_idx, g_item, g_attempt) AS g(run, idx, item, attempt)
                                  WHERE g.run = f.run AND g.idx = f.idx AND g.item = f.item AND g.attempt = f.attempt)
                  AND NOT EXISTS (SELECT 1 FROM history h WHERE h.run_id = f.run AND h.idx = f.idx AND h.item = f.item
                                  AND h.attempt = f.attempt AND h.session = f.session);
        END IF;
    END IF;

    -- Attempts that may go on: lock the rows first, their runs after.
    IF cardinality(x_run) > 0 THEN
        SELECT array_agg(q.run_id), array_agg(q.tid), array_agg(q.ord)
        INTO y_run, y_tid, y_ord
        FROM (SELECT t.run_id, t.tid, x.ord::integer AS ord
              FROM (SELECT * FROM unnest(x_run, x_idx, x_item, x_session, x_attempt) WITH ORDINALITY AS u(run, idx, item, session, attempt, ord)
                    ORDER BY u.run, u.idx, u.item) x
              CROSS JOIN LATERAL (SELECT l.ctid AS tid, l.run_id FROM task_runs l WHERE l.run_id = x.run AND l.idx = x.idx AND l.item = x.item
                                  AND l.state = 2 AND l.session IS NOT DISTINCT FROM x.session AND l.attempt = x.attempt FOR UPDATE) t) q;
        IF coalesce(cardinality(y_run), 0) < cardinality(x_run) THEN
            RETURN QUERY SELECT 4::smallint, x.run, x.idx, x.item, x.attempt, 0::smallint, 0::smallint, 0::bigint, x.session, 0, 0::smallint, 0::bigint
                FROM unnest(x_run, x_idx, x_item, x_session, x_attempt) WITH ORDINALITY AS x(run, idx, item, session, attempt, ord)
                WHERE NOT x.ord = ANY (coalesce(y_ord, '{}'))
                  AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.run_id = x.run AND a.idx = x.idx AND a.item = x.item
                                  AND a.attempt = x.attempt AND a.session = x.session)
                  AND NOT EXISTS (SELECT 1 FROM history h WHERE h.run_id = x.run AND h.idx = x.idx AND h.item = x.item
                                  AND h.attempt = x.attempt AND h.session = x.session);
        END IF;
    END IF;

    IF single THEN
        one := settle_one_v1(p_now, v_claim, f_run[1], f_idx[1], one.version, one.flags, one.generation, f_attempt[1], one.failures, one.lost,
                             f_session[1], f_started[1], f_finished[1], f_output[1], w_session, w_route, w_slots, w_rank);
        IF one.applied THEN
            run_id := f_run[1]; item := -1;
            IF one.ended THEN
                kind := 3; idx := 3; attempt := coalesce(one.attempt, 0); failures := 0; generation := 0; version := 0; session := NULL; route := 0; rank := 0; due_at := 0;
                RETURN NEXT;
            ELSIF one.idx IS NOT NULL THEN
                kind := 1; idx := one.idx; attempt := one.attempt; failures := one.failures; generation := one.generation; version := one.version;
                session := w_session[one.w]; route := w_route[one.w]; rank := one.rank; due_at := one.due_at;
                w_slots[one.w] := w_slots[one.w] - 1;
                RETURN NEXT;
            END IF;
            g_run := NULL;
            IF one.others IS NOT NULL THEN
                -- All of it is written; only these dependents are still to be counted.
                g_run := '{}'; g_idx := '{}'; g_item := '{}'; g_version := '{}'; g_state := '{}'; g_flags := '{}'; g_generation := '{}'; g_attempt := '{}';
                g_failures := '{}'; g_lost := '{}'; g_session := '{}'; g_started := '{}'; g_finished := '{}'; g_exit := '{}'; g_kind := '{}';
                g_error := '{}'; g_detail := '{}'; g_output := '{}'; g_pool := '{}';
                a_run := array_fill(f_run[1], ARRAY[cardinality(one.others)]); a_dep := one.others;
                a_counts := array_fill(1::smallint, ARRAY[cardinality(one.others)]);
            END IF;
        END IF;
    END IF;

    IF g_run IS NOT NULL OR y_run IS NOT NULL OR cardinality(d_run) > 0 THEN
        PERFORM 1 FROM runs r WHERE r.id = ANY (coalesce(g_run, '{}') || coalesce(y_run, '{}') || d_run) ORDER BY r.id FOR NO KEY UPDATE;
    END IF;

    IF y_run IS NOT NULL THEN
        -- Used-up budgets, and stages that are being cancelled, make the end of the task run.
        WITH final AS (
            DELETE FROM task_runs t
            USING (SELECT u.tid, u.ord, r.stopped FROM unnest(y_run, y_tid, y_ord) AS u(run, tid, ord)
                   CROSS JOIN LATERAL (SELECT stopped_v1(l.flags, l.stage) AS stopped FROM runs l WHERE l.id = u.run OFFSET 0) r OFFSET 0) y
            WHERE t.ctid = y.tid AND (y.stopped OR (x_outcome[y.ord] = 0 AND t.failures + 1 >= t.max_failures))
            RETURNING t.*, y.ord
        ), merged AS (
            SELECT f.run_id, f.idx, f.item, f.version, (CASE WHEN x_outcome[f.ord] = 0 AND f.failures + 1 >= f.max_failures THEN 11 ELSE 14 END)::smallint AS state, f.flags, f.generation,
                   f.attempt, (f.failures + CASE WHEN x_outcome[f.ord] = 0 THEN 1 ELSE 0 END)::smallint AS failures, f.lost, f.session,
                   coalesce(x_started[f.ord], f.started_at) AS started, x_finished[f.ord] AS finished, x_exit[f.ord] AS exit, x_kind[f.ord] AS kind,
                   x_error[f.ord] AS error, x_detail[f.ord] AS detail, NULL::text AS output, f.pool
            FROM final f
            UNION ALL
            SELECT * FROM unnest(g_run, g_idx, g_item, g_version, g_state, g_flags, g_generation, g_attempt, g_failures, g_lost, g_session,
                                 g_started, g_finished, g_exit, g_kind, g_error, g_detail, g_output, g_pool)
        )
        SELECT array_agg(m.run_id), array_agg(m.idx), array_agg(m.item), array_agg(m.version), array_agg(m.state), array_agg(m.flags),
               array_agg(m.generation), array_agg(m.attempt), array_agg(m.failures), array_agg(m.lost), array_agg(m.session), array_agg(m.started),
               array_agg(m.finished), array_agg(m.exit), array_agg(m.kind), array_agg(m.error), array_agg(m.detail), array_agg(m.output), array_agg(m.pool)
        INTO g_run, g_idx, g_item, g_version, g_state, g_flags, g_generation, g_attempt, g_failures, g_lost, g_session, g_started, g_finished,
             g_exit, g_kind, g_error, g_detail, g_output, g_pool
        FROM (SELECT * FROM merged ORDER BY merged.run_id, merged.idx, merged.item) m;

        WITH numbered AS (
            UPDATE runs r SET seq = r.seq + c.n, progress_at = p_now
            FROM (SELECT y.run, count(*) AS n FROM unnest(y_run, y_tid) AS y(run, tid)
                  CROSS JOIN LATERAL (SELECT 1 FROM task_runs l WHERE l.ctid = y.tid OFFSET 0) t GROUP BY y.run) c
            WHERE r.id = c.run RETURNING r.id, r.seq - c.n AS base
        )
        INSERT INTO attempts (run_id, idx, item, attempt, outcome, session, seq, started_at, finished_at, exit_code, error_kind, error, detail)
        SELECT t.run_id, t.idx, t.item, t.attempt, x_outcome[y.ord], t.session,
               b.base + row_number() OVER (PARTITION BY t.run_id ORDER BY t.idx, t.item),
               coalesce(x_started[y.ord], t.started_at), x_finished[y.ord], x_exit[y.ord], x_kind[y.ord], x_error[y.ord], x_detail[y.ord]
        FROM unnest(y_tid, y_ord) AS y(tid, ord)
        CROSS JOIN LATERAL (SELECT l.run_id, l.idx, l.item, l.attempt, l.session, l.started_at FROM task_runs l WHERE l.ctid = y.tid OFFSET 0) t
        JOIN numbered b ON b.id = t.run_id;

        WITH back AS (
            UPDATE task_runs t SET
                state = CASE WHEN x_outcome[y.ord] = 0 THEN 3 WHEN y.state <> 1 THEN 6 WHEN t.pool IS NOT NULL THEN 5 ELSE 1 END,
                failures = t.failures + CASE WHEN x_outcome[y.ord] = 0 THEN 1 ELSE 0 END,
                due_at = CASE WHEN x_outcome[y.ord] = 0 THEN x_due[y.ord] ELSE p_now END,
                session = NULL, claim = NULL, started_at = NULL
            FROM (SELECT u.tid, u.ord, r.state FROM unnest(y_run, y_tid, y_ord) AS u(run, tid, ord)
                  CROSS JOIN LATERAL (SELECT l.state FROM runs l WHERE l.id = u.run OFFSET 0) r OFFSET 0) y
            WHERE t.ctid = y.tid
            RETURNING t.pool
        )
        SELECT coalesce(array_agg(b.pool), '{}') INTO released FROM back b WHERE b.pool IS NOT NULL;
        IF cardinality(released) > 0 THEN
            PERFORM limits_v1(p_now, released, '{}', '{}');
        END IF;
    END IF;

    -- A decision to start comes too late for a run that is being cancelled.
    IF cardinality(d_run) > 0 AND EXISTS (SELECT 1 FROM runs r WHERE r.id = ANY (d_run) AND stopped_v1(r.flags, r.stage)) THEN
        WITH late AS (
            DELETE FROM task_runs t
            USING (SELECT l.tid, d.session FROM unnest(d_run, d_idx, d_item, d_session) AS d(run, idx, item, session)
                   CROSS JOIN LATERAL (SELECT s.ctid AS tid FROM task_runs s WHERE s.run_id = d.run AND s.idx = d.idx AND s.item = d.item OFFSET 0) l
                   CROSS JOIN LATERAL (SELECT 1 FROM runs r WHERE r.id = d.run AND stopped_v1(r.flags, r.stage) OFFSET 0) r OFFSET 0) d
            WHERE t.ctid = d.tid AND t.state = 4 AND t.session IS NOT DISTINCT FROM d.session
            RETURNING t.*
        ), merged AS (
            SELECT l.run_id, l.idx, l.item, l.version, 14::smallint AS state, l.flags, l.generation, l.attempt, l.failures, l.lost, NULL::bigint AS session,
                   NULL::bigint AS started, p_now AS finished, NULL::integer AS exit, NULL::text AS kind, NULL::text AS error, NULL::text AS detail,
                   NULL::text AS output, NULL::integer AS pool
            FROM late l
            UNION ALL
            SELECT * FROM unnest(g_run, g_idx, g_item, g_version, g_state, g_flags, g_generation, g_attempt, g_failures, g_lost, g_session,
                                 g_started, g_finished, g_exit, g_kind, g_error, g_detail, g_output, g_pool)
        )
        SELECT array_agg(m.run_id), array_agg(m.idx), array_agg(m.item), array_agg(m.version), array_agg(m.state), array_agg(m.flags),
               array_agg(m.generation), array_agg(m.attempt), array_agg(m.failures), array_agg(m.lost), array_agg(m.session), array_agg(m.started),
               array_agg(m.finished), array_agg(m.exit), array_agg(m.kind), array_agg(m.error), array_agg(m.detail), array_agg(m.output), array_agg(m.pool)
        INTO g_run, g_idx, g_item, g_version, g_state, g_flags, g_generation, g_attempt, g_failures, g_lost, g_session, g_started, g_finished,
             g_exit, g_kind, g_error, g_detail, g_output, g_pool
        FROM (SELECT * FROM merged ORDER BY merged.run_id, merged.idx, merged.item) m;
    END IF;

    -- Decisions to start: straight to a slot where route and rank allow, else to the queue or its gate.
    IF cardinality(d_run) > 0 THEN
        FOR settled IN
            WITH start AS (
                SELECT t.tid, r.state AS rs, t.pool AS po, t.rank AS rk, array_position(w_route, t.route) AS w,
                       row_number() OVER (PARTITION BY t.route, t.pool IS NULL AND r.state = 1 ORDER BY t.rank, t.run_id, t.idx, t.item) AS nth
                FROM unnest(d_run, d_idx, d_item, d_session) AS d(run, idx, item, session)
                CROSS JOIN LATERAL (SELECT l.ctid AS tid, l.* FROM task_runs l WHERE l.run_id = d.run AND l.idx = d.idx AND l.item = d.item
                                    AND l.state = 4 AND l.session IS NOT DISTINCT FROM d.session OFFSET 0) t
                CROSS JOIN LATERAL (SELECT l.state FROM runs l WHERE l.id = d.run OFFSET 0) r
            ), final AS (
                SELECT s.*, (CASE WHEN s.rs <> 1 THEN 6 WHEN s.po IS NOT NULL THEN 5
                                  WHEN s.w IS NOT NULL AND s.nth <= w_slots[s.w] AND s.rk <= w_rank[s.w] THEN 2 ELSE 1 END)::smallint AS ns
                FROM start s
            )
            UPDATE task_runs t SET state = x.ns, flags = t.flags & ~2::smallint, due_at = p_now + x.nth,
                   attempt = t.attempt + CASE WHEN x.ns = 2 THEN 1 ELSE 0 END,
                   session = CASE WHEN x.ns = 2 THEN w_session[x.w] END, claim = CASE WHEN x.ns = 2 THEN v_claim END,
                   started_at = CASE WHEN x.ns = 2 THEN p_now END
            FROM final x WHERE t.ctid = x.tid AND t.state = 4
            RETURNING t.*, x.w
        LOOP
            IF settled.state = 2 THEN
                w_slots[settled.w] := w_slots[settled.w] - 1;
                kind := 1; run_id := settled.run_id; idx := settled.idx; item := settled.item; attempt := settled.attempt;
                failures := settled.failures; generation := settled.generation; version := settled.version; session := settled.session;
                route := settled.route; rank := settled.rank; due_at := settled.due_at;
                RETURN NEXT;
            ELSIF settled.state = 5 THEN
                touched := touched || settled.pool;
            END IF;
        END LOOP;
        IF cardinality(touched) > 0 THEN
            PERFORM limits_v1(p_now, '{}', '{}', touched);
        END IF;
    END IF;

    IF g_run IS NOT NULL AND cardinality(a_run) = 0 AND NOT EXISTS (SELECT 1 FROM unnest(g_flags) f WHERE f & 1 <> 0) THEN
        -- Nothing depends on them: nothing is claimed on the way, and no demand is used up.
        RETURN QUERY SELECT * FROM settle_v1(p_now, v_claim, g_run, g_idx, g_item, g_version, g_state, g_flags, g_generation, g_attempt, g_failures, g_lost,
            g_session, g_started, g_finished, g_exit, g_kind, g_error, g_detail, g_output, g_pool, a_run, a_dep, a_counts,
            w_session, w_route, w_slots, w_rank, p_decide_session, p_decide);
    ELSIF g_run IS NOT NULL THEN
        FOR settled IN
            SELECT * FROM settle_v1(p_now, v_claim, g_run, g_idx, g_item, g_version, g_state, g_flags, g_generation, g_attempt, g_failures, g_lost,
                g_session, g_started, g_finished, g_exit, g_kind, g_error, g_detail, g_output, g_pool, a_run, a_dep, a_counts,
                w_session, w_route, w_slots, w_rank, p_decide_session, p_decide)
        LOOP
            kind := settled.kind; run_id := settled.run_id; idx := settled.idx; item := settled.item; attempt := settled.attempt;
            failures := settled.failures; generation := settled.generation; version := settled.version; session := settled.session;
            route := settled.route; rank := settled.rank; due_at := settled.due_at;
            RETURN NEXT;
            IF settled.kind = 1 THEN
                i := array_position(w_route, settled.route);
                w_slots[i] := w_slots[i] - 1;
            ELSIF settled.kind = 2 THEN
                p_decide := p_decide - 1;
            END IF;
        END LOOP;
    END IF;

    -- Claims, one route at a time: SKIP LOCKED does not skip one's own locks. `p_now` is from before this call waited for
    -- anything: what was due later than that began later.
    FOR i IN 1 .. cardinality(w_route) LOOP
        IF w_slots[i] > 0 THEN
            got := 0;
            IF w_floor_due[i] IS NOT NULL THEN
                -- Above the floor's rank everything is looked at; at its rank only what lies behind the floor.
                RETURN QUERY UPDATE task_runs t
                    SET state = 2, attempt = t.attempt + 1, session = w_session[i], claim = v_claim,
                        started_at = CASE WHEN t.failures > 0 THEN greatest(p_now, t.due_at) ELSE p_now END
                    WHERE t.ctid = ANY (ARRAY(
                        SELECT s.ctid FROM task_runs s WHERE s.state = 1 AND s.route = w_route[i] AND s.rank < w_floor_rank[i]
                        ORDER BY s.rank, s.due_at LIMIT w_slots[i] FOR UPDATE SKIP LOCKED))
                    RETURNING 1::smallint, t.run_id, t.idx, t.item, t.attempt, t.failures, t.generation, t.version, t.session, t.route, t.rank, t.due_at;
                GET DIAGNOSTICS got = ROW_COUNT;
            END IF;
            IF got < w_slots[i] THEN
                RETURN QUERY UPDATE task_runs t
                    SET state = 2, attempt = t.attempt + 1, session = w_session[i], claim = v_claim,
                        started_at = CASE WHEN t.failures > 0 THEN greatest(p_now, t.due_at) ELSE p_now END
                    WHERE t.ctid = ANY (ARRAY(
                        SELECT s.ctid FROM task_runs s WHERE s.state = 1 AND s.route = w_route[i]
                          AND (s.rank, s.due_at) >= (coalesce(w_floor_rank[i], 0::smallint), coalesce(w_floor_due[i], 0::bigint))
                        ORDER BY s.rank, s.due_at LIMIT w_slots[i] - got FOR UPDATE SKIP LOCKED))
                    RETURNING 1::smallint, t.run_id, t.idx, t.item, t.attempt, t.failures, t.generation, t.version, t.session, t.route, t.rank, t.due_at;
            END IF;
        END IF;
    END LOOP;

    IF p_look AND p_decide > 0 THEN
        RETURN QUERY UPDATE task_runs t SET session = p_decide_session, claim = v_claim
            WHERE t.ctid = ANY (ARRAY(
                SELECT s.ctid FROM task_runs s WHERE s.state = 4 AND s.session IS NULL ORDER BY s.due_at LIMIT p_decide FOR UPDATE SKIP LOCKED))
            RETURNING 2::smallint, t.run_id, t.idx, t.item, t.attempt, t.failures, t.generation, t.version, t.session, t.route, t.rank, t.due_at;
    END IF;

    IF EXISTS (SELECT 1 FROM cancel_requests c WHERE c.session = ANY (p_sessions)) THEN
        -- Who has ended is not asked to stop any more.
        DELETE FROM cancel_requests c WHERE c.session = ANY (p_sessions) AND NOT EXISTS (
            SELECT 1 FROM task_runs t WHERE t.run_id = c.run_id AND t.idx = c.idx AND t.item = c.item
            AND t.state = 2 AND t.session IS NOT DISTINCT FROM c.session AND t.attempt = c.attempt OFFSET 0);
        RETURN QUERY SELECT 5::smallint, c.run_id, c.idx, c.item, c.attempt, 0::smallint, 0::smallint, 0::bigint, c.session, 0, 0::smallint, 0::bigint
            FROM cancel_requests c WHERE c.session = ANY (p_sessions);
    END IF;
END $$;

-- Makes runs with their first rows. Runs behind a concurrency limit are made by another way.
CREATE FUNCTION create_runs_v1(p_now bigint, p_run uuid[], p_version bigint[], p_workflow uuid[], p_state smallint[], p_flags smallint[], p_rank smallint[],
                               p_open integer[], p_limit integer[], p_deadline bigint[], p_pools integer[]) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM workflows w WHERE w.id = ANY (p_workflow) AND w.followed) THEN
        p_flags := followed_flags_v1(p_workflow, p_flags);
    END IF;
    IF cardinality(p_run) = 1 THEN
        -- One run: the same without taking arrays apart, which takes longer than the rows.
        INSERT INTO runs (id, version, workflow_id, state, flags, rank, open, limit_id, waits_for, holds, created_at, started_at, progress_at, deadline_at)
        VALUES (p_run[1], p_version[1], p_workflow[1], p_state[1], p_flags[1], p_rank[1], p_open[1], p_limit[1], CASE WHEN p_state[1] = 0 THEN p_limit[1] END,
                CASE WHEN p_state[1] = 1 THEN p_limit[1] END, p_now, CASE WHEN p_state[1] = 1 THEN p_now END, p_now, p_deadline[1]);
        INSERT INTO task_runs (run_id, idx, state, rule, rank, flags, route, pool, max_failures, max_lost, open, version, due_at)
        SELECT p_run[1], vt.idx,
               CASE WHEN vt.needs > 0 THEN 0 WHEN p_state[1] <> 1 THEN 6 WHEN vt.flags & 2 <> 0 THEN 4 WHEN vt.pool IS NOT NULL THEN 5 ELSE 1 END,
               vt.rule, coalesce(vt.rank, p_rank[1]), vt.flags, vt.route, vt.pool, vt.max_failures, vt.max_lost, vt.needs, vt.version, p_now + 1 + vt.idx
        FROM version_tasks vt WHERE vt.version = p_version[1] AND vt.stage = 0;
        IF cardinality(p_pools) > 0 THEN
            PERFORM limits_v1(p_now, '{}', '{}', p_pools);
        END IF;
        RETURN;
    END IF;
    INSERT INTO runs (id, version, workflow_id, state, flags, rank, open, limit_id, waits_for, holds, created_at, started_at, progress_at, deadline_at)
    SELECT u.run, u.version, u.workflow, u.state, u.flags, u.rank, u.open, u.lim, CASE WHEN u.state = 0 THEN u.lim END, CASE WHEN u.state = 1 THEN u.lim END, p_now, CASE WHEN u.state = 1 THEN p_now END, p_now, u.deadline
    FROM unnest(p_run, p_version, p_workflow, p_state, p_flags, p_rank, p_open, p_limit, p_deadline)
         AS u(run, version, workflow, state, flags, rank, open, lim, deadline);
    INSERT INTO task_runs (run_id, idx, state, rule, rank, flags, route, pool, max_failures, max_lost, open, version, due_at)
    SELECT u.run, vt.idx,
           CASE WHEN vt.needs > 0 THEN 0 WHEN u.state <> 1 THEN 6 WHEN vt.flags & 2 <> 0 THEN 4 WHEN vt.pool IS NOT NULL THEN 5 ELSE 1 END,
           vt.rule, coalesce(vt.rank, u.rank), vt.flags, vt.route, vt.pool, vt.max_failures, vt.max_lost, vt.needs, vt.version, p_now + u.ord + vt.idx
    FROM unnest(p_run, p_version, p_state, p_rank) WITH ORDINALITY AS u(run, version, state, rank, ord)
    JOIN version_tasks vt ON vt.version = u.version AND vt.stage = 0;
    IF cardinality(p_pools) > 0 THEN
        PERFORM limits_v1(p_now, '{}', '{}', p_pools);
    END IF;
END $$;
