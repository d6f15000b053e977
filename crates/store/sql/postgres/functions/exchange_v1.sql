-- The exchange: hand in what ended, say how decisions went, take what may start. One atomic unit, applied once per
-- (lane, seq): when the guard does not move, nothing happens and the answer is one row that says so.
--   f_*  ended attempts and negative decisions, sorted by (run, idx, item): `f_from` is the state the row must be in (running or deciding),
--        `f_state` the terminal state proposed
--   x_*  attempts that may go on: failed with a retry due at `x_due`, or released
--   d_*  decisions to start
--   w_*  demand per (session, route); `w_rank` bounds straight hand-over, the floor bounds the scan of the ready index
-- Answers are of the kinds {answer.…}; that of an ended run has its state in `idx`.
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
    single boolean := cardinality(f_run) = 1 AND f_item[1] = -1 AND f_from[1] = {task.running} AND f_state[1] = {task.success}
                      AND cardinality(x_run) = 0 AND cardinality(d_run) = 0;
    one record;
BEGIN
    UPDATE lanes l SET seq = p_seq WHERE l.id = p_lane AND l.seq = p_seq - 1;
    IF NOT FOUND THEN
        kind := {answer.not_applied}; RETURN NEXT; RETURN;
    END IF;
    SELECT count(*) INTO n FROM (SELECT 1 FROM sessions s WHERE s.id = ANY (p_sessions) AND NOT s.dead ORDER BY s.id FOR KEY SHARE) live;
    IF n <> cardinality(p_sessions) THEN
        -- Its number is used up and nothing was applied: who lost this answer must find that too.
        UPDATE lanes l SET voided = p_seq WHERE l.id = p_lane;
        RETURN QUERY SELECT {answer.session_dead}::smallint, NULL::uuid, 0, -1, 0, 0::smallint, 0::smallint, 0::bigint, u.id, 0, 0::smallint, 0::bigint
            FROM unnest(p_sessions) AS u(id) WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = u.id AND NOT s.dead);
        RETURN;
    END IF;

    -- Ended: the live row must be claimed by exactly this session and attempt. Every row is found by its key: OFFSET 0 keeps
    -- the planner from looking through everything the session holds, or through every live row there is; IS NOT DISTINCT
    -- FROM (below) keeps it from the index on sessions.
    IF single THEN
        DELETE FROM task_runs t
        WHERE t.run_id = f_run[1] AND t.idx = f_idx[1] AND t.item = -1 AND t.state = {task.running}
          AND t.session IS NOT DISTINCT FROM f_session[1] AND t.attempt = f_attempt[1]
        RETURNING t.version, t.flags, t.generation, t.failures, t.lost, t.pool INTO one;
        single := FOUND;
    END IF;
    IF single THEN
        g_run := f_run; g_idx := f_idx; g_item := f_item; g_state := f_state; g_attempt := f_attempt; g_session := f_session;
        g_started := f_started; g_finished := f_finished; g_exit := f_exit; g_kind := f_kind; g_error := f_error; g_detail := f_detail;
        g_output := f_output; g_version := ARRAY[one.version]; g_flags := ARRAY[one.flags]; g_generation := ARRAY[one.generation];
        g_failures := ARRAY[one.failures]; g_lost := ARRAY[one.lost]; g_pool := ARRAY[one.pool];
        single := one.pool IS NULL AND one.flags & {task_flag.big_fan_out} = 0;
    ELSIF cardinality(f_run) > 0 THEN
        WITH gone AS (
            DELETE FROM task_runs t
            USING (SELECT u.*, l.tid FROM unnest(f_run, f_idx, f_item, f_session, f_attempt, f_from)
                       WITH ORDINALITY AS u(run, idx, item, session, attempt, from_state, ord)
                   CROSS JOIN LATERAL (SELECT s.ctid AS tid FROM task_runs s WHERE s.run_id = u.run AND s.idx = u.idx AND s.item = u.item OFFSET 0) l OFFSET 0) f
            -- Compared here, so that they are compared again should another transaction have changed the row meanwhile.
            WHERE t.ctid = f.tid AND t.state = f.from_state AND t.session IS NOT DISTINCT FROM f.session AND t.attempt = f.attempt
            RETURNING f.ord::integer, t.version, t.flags, t.generation, t.failures, t.lost, CASE WHEN t.state = {task.running} THEN t.pool END AS pool
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
        IF {task.deciding} = ANY (f_from) THEN
            -- Who decides is not who executes.
            g_session := ARRAY(SELECT CASE WHEN f_from[g_ord[u.ord]] = {task.running} THEN u.session END
                               FROM unnest(g_session) WITH ORDINALITY AS u(session, ord) ORDER BY u.ord);
            -- What ended does not wait any more. Child runs close their own rows, in the opposite order of locks.
            UPDATE waits w SET outcome = {waited.moot}, happened_at = p_now
            WHERE w.ctid = ANY (ARRAY(
                SELECT l.tid FROM unnest(g_run, g_idx, g_item) AS u(run, idx, item)
                CROSS JOIN LATERAL (SELECT s.ctid AS tid FROM waits s WHERE s.run_id = u.run AND s.idx = u.idx AND s.item = u.item
                                    AND s.outcome IS NULL AND s.child IS NULL OFFSET 0) l));
        END IF;
        IF {task.failed} = ANY (g_state) THEN
            g_failures := ARRAY(SELECT (u.failures + CASE WHEN u.state = {task.failed} THEN 1 ELSE 0 END)::smallint
                                FROM unnest(g_failures, g_state) WITH ORDINALITY AS u(failures, state, ord) ORDER BY u.ord);
        END IF;
        IF coalesce(cardinality(g_run), 0) < cardinality(f_run) THEN
            -- Refused, unless it is the very one that was applied already.
            RETURN QUERY SELECT {answer.fenced}::smallint, f.run, f.idx, f.item, f.attempt, 0::smallint, 0::smallint, 0::bigint, f.session, 0, 0::smallint, 0::bigint
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
                                  AND l.state = {task.running} AND l.session IS NOT DISTINCT FROM x.session AND l.attempt = x.attempt FOR UPDATE) t) q;
        IF coalesce(cardinality(y_run), 0) < cardinality(x_run) THEN
            RETURN QUERY SELECT {answer.fenced}::smallint, x.run, x.idx, x.item, x.attempt, 0::smallint, 0::smallint, 0::bigint, x.session, 0, 0::smallint, 0::bigint
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
                kind := {answer.run_ended}; idx := {run.success}; attempt := coalesce(one.attempt, 0); failures := 0; generation := 0; version := 0; session := NULL; route := 0; rank := 0; due_at := 0;
                RETURN NEXT;
            ELSIF one.idx IS NOT NULL THEN
                kind := {answer.claimed}; idx := one.idx; attempt := one.attempt; failures := one.failures; generation := one.generation; version := one.version;
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
                a_counts := array_fill({counts.succeeded}::smallint, ARRAY[cardinality(one.others)]);
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
            WHERE t.ctid = y.tid AND (y.stopped OR (x_outcome[y.ord] = {attempt.failed} AND t.failures + 1 >= t.max_failures))
            RETURNING t.*, y.ord
        ), merged AS (
            SELECT f.run_id, f.idx, f.item, f.version, (CASE WHEN x_outcome[f.ord] = {attempt.failed} AND f.failures + 1 >= f.max_failures THEN {task.failed} ELSE {task.cancelled} END)::smallint AS state, f.flags, f.generation,
                   f.attempt, (f.failures + CASE WHEN x_outcome[f.ord] = {attempt.failed} THEN 1 ELSE 0 END)::smallint AS failures, f.lost, f.session,
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
                state = CASE WHEN x_outcome[y.ord] = {attempt.failed} THEN {task.retrying} ELSE startable_v1(y.state, 0::smallint, t.pool) END,
                failures = t.failures + CASE WHEN x_outcome[y.ord] = {attempt.failed} THEN 1 ELSE 0 END,
                due_at = CASE WHEN x_outcome[y.ord] = {attempt.failed} THEN x_due[y.ord] ELSE p_now END,
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
            WHERE t.ctid = d.tid AND t.state = {task.deciding} AND t.session IS NOT DISTINCT FROM d.session
            RETURNING t.*
        ), merged AS (
            SELECT l.run_id, l.idx, l.item, l.version, {task.cancelled}::smallint AS state, l.flags, l.generation, l.attempt, l.failures, l.lost, NULL::bigint AS session,
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
                SELECT t.tid, startable_v1(r.state, 0::smallint, t.pool) AS may, t.rank AS rk, array_position(w_route, t.route) AS w,
                       row_number() OVER (PARTITION BY t.route, t.pool IS NULL AND r.state = {run.running} ORDER BY t.rank, t.run_id, t.idx, t.item) AS nth
                FROM unnest(d_run, d_idx, d_item, d_session) AS d(run, idx, item, session)
                CROSS JOIN LATERAL (SELECT l.ctid AS tid, l.* FROM task_runs l WHERE l.run_id = d.run AND l.idx = d.idx AND l.item = d.item
                                    AND l.state = {task.deciding} AND l.session IS NOT DISTINCT FROM d.session OFFSET 0) t
                CROSS JOIN LATERAL (SELECT l.state FROM runs l WHERE l.id = d.run OFFSET 0) r
            ), final AS (
                SELECT s.*, (CASE WHEN s.may = {task.ready} AND s.w IS NOT NULL AND s.nth <= w_slots[s.w] AND s.rk <= w_rank[s.w]
                                  THEN {task.running} ELSE s.may END)::smallint AS ns
                FROM start s
            )
            UPDATE task_runs t SET state = x.ns, flags = t.flags & ~{task_flag.has_condition}::smallint, due_at = p_now + x.nth,
                   attempt = t.attempt + CASE WHEN x.ns = {task.running} THEN 1 ELSE 0 END,
                   session = CASE WHEN x.ns = {task.running} THEN w_session[x.w] END, claim = CASE WHEN x.ns = {task.running} THEN v_claim END,
                   started_at = CASE WHEN x.ns = {task.running} THEN p_now END
            FROM final x WHERE t.ctid = x.tid AND t.state = {task.deciding}
            RETURNING t.*, x.w
        LOOP
            IF settled.state = {task.running} THEN
                w_slots[settled.w] := w_slots[settled.w] - 1;
                kind := {answer.claimed}; run_id := settled.run_id; idx := settled.idx; item := settled.item; attempt := settled.attempt;
                failures := settled.failures; generation := settled.generation; version := settled.version; session := settled.session;
                route := settled.route; rank := settled.rank; due_at := settled.due_at;
                RETURN NEXT;
            ELSIF settled.state = {task.gated} THEN
                touched := touched || settled.pool;
            END IF;
        END LOOP;
        IF cardinality(touched) > 0 THEN
            PERFORM limits_v1(p_now, '{}', '{}', touched);
        END IF;
    END IF;

    IF g_run IS NOT NULL AND cardinality(a_run) = 0 AND NOT EXISTS (SELECT 1 FROM unnest(g_flags) f WHERE f & {task_flag.has_dependents} <> 0) THEN
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
            IF settled.kind = {answer.claimed} THEN
                i := array_position(w_route, settled.route);
                w_slots[i] := w_slots[i] - 1;
            ELSIF settled.kind = {answer.decide} THEN
                p_decide := p_decide - 1;
            END IF;
        END LOOP;
    END IF;

    -- Claims, one route at a time: SKIP LOCKED does not skip the locks of this transaction. `p_now` is from before this call waited for
    -- anything: what was due later than that began later.
    FOR i IN 1 .. cardinality(w_route) LOOP
        IF w_slots[i] > 0 THEN
            got := 0;
            IF w_floor_due[i] IS NOT NULL THEN
                -- Above the floor's rank everything is looked at; at its rank only what lies behind the floor.
                RETURN QUERY UPDATE task_runs t
                    SET state = {task.running}, attempt = t.attempt + 1, session = w_session[i], claim = v_claim,
                        started_at = CASE WHEN t.failures > 0 THEN greatest(p_now, t.due_at) ELSE p_now END
                    WHERE t.ctid = ANY (ARRAY(
                        SELECT s.ctid FROM task_runs s WHERE s.state = {task.ready} AND s.route = w_route[i] AND s.rank < w_floor_rank[i]
                        ORDER BY s.rank, s.due_at LIMIT w_slots[i] FOR UPDATE SKIP LOCKED))
                    RETURNING {answer.claimed}::smallint, t.run_id, t.idx, t.item, t.attempt, t.failures, t.generation, t.version, t.session, t.route, t.rank, t.due_at;
                GET DIAGNOSTICS got = ROW_COUNT;
            END IF;
            IF got < w_slots[i] THEN
                RETURN QUERY UPDATE task_runs t
                    SET state = {task.running}, attempt = t.attempt + 1, session = w_session[i], claim = v_claim,
                        started_at = CASE WHEN t.failures > 0 THEN greatest(p_now, t.due_at) ELSE p_now END
                    WHERE t.ctid = ANY (ARRAY(
                        SELECT s.ctid FROM task_runs s WHERE s.state = {task.ready} AND s.route = w_route[i]
                          AND (s.rank, s.due_at) >= (coalesce(w_floor_rank[i], 0::smallint), coalesce(w_floor_due[i], 0::bigint))
                        ORDER BY s.rank, s.due_at LIMIT w_slots[i] - got FOR UPDATE SKIP LOCKED))
                    RETURNING {answer.claimed}::smallint, t.run_id, t.idx, t.item, t.attempt, t.failures, t.generation, t.version, t.session, t.route, t.rank, t.due_at;
            END IF;
        END IF;
    END LOOP;

    IF p_look AND p_decide > 0 THEN
        RETURN QUERY UPDATE task_runs t SET session = p_decide_session, claim = v_claim
            WHERE t.ctid = ANY (ARRAY(
                SELECT s.ctid FROM task_runs s WHERE s.state = {task.deciding} AND s.session IS NULL ORDER BY s.due_at LIMIT p_decide FOR UPDATE SKIP LOCKED))
            RETURNING {answer.decide}::smallint, t.run_id, t.idx, t.item, t.attempt, t.failures, t.generation, t.version, t.session, t.route, t.rank, t.due_at;
    END IF;

    IF EXISTS (SELECT 1 FROM cancel_requests c WHERE c.session = ANY (p_sessions)) THEN
        -- Who has ended is not asked to stop any more.
        DELETE FROM cancel_requests c WHERE c.session = ANY (p_sessions) AND NOT EXISTS (
            SELECT 1 FROM task_runs t WHERE t.run_id = c.run_id AND t.idx = c.idx AND t.item = c.item
            AND t.state = {task.running} AND t.session IS NOT DISTINCT FROM c.session AND t.attempt = c.attempt OFFSET 0);
        RETURN QUERY SELECT {answer.cancel}::smallint, c.run_id, c.idx, c.item, c.attempt, 0::smallint, 0::smallint, 0::bigint, c.session, 0, 0::smallint, 0::bigint
            FROM cancel_requests c WHERE c.session = ANY (p_sessions);
    END IF;
END $$;
