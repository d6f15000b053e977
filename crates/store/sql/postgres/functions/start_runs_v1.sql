-- Makes plain runs like `create_runs_v1`, and starts as many of their first task runs as a session has slots for: those are
-- written as running, and never visit the queue. Applied once per (lane, seq), as an exchange is; when the guard does not
-- move, it fails, and with it the whole statement that it is part of. Without a lane it starts nothing.
--   w_*  free slots of the session per route; `w_rank` bounds who may start before those that wait
-- Answers are of the kinds {answer.claimed} and, once, {answer.left} if something was left for others to start or to decide.
CREATE FUNCTION start_runs_v1(p_now bigint, p_run uuid[], p_version bigint[], p_workflow uuid[], p_only_latest boolean[], p_flags smallint[], p_rank smallint[],
                              p_open integer[], p_deadline bigint[], p_pools integer[],
                              p_lane bigint, p_seq bigint, p_session bigint, w_route integer[], w_slots integer[], w_rank smallint[])
RETURNS TABLE (kind smallint, run_id uuid, idx integer, item integer, attempt integer, failures smallint, generation smallint,
               version bigint, session bigint, route integer, rank smallint, due_at bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_claim bigint := (p_lane << 32) | (p_seq & 4294967295);
    one version_tasks; v_want integer; v_may smallint; v_rank smallint; v_starts boolean;
BEGIN
    IF p_lane IS NOT NULL THEN
        UPDATE lanes l SET seq = p_seq WHERE l.id = p_lane AND l.seq = p_seq - 1;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the guard of this lane was moved before' USING ERRCODE = 'MS002';
        END IF;
        -- Who is dead starts nothing, and the runs are made all the same.
        PERFORM 1 FROM sessions s WHERE s.id = p_session AND NOT s.dead FOR KEY SHARE;
        IF NOT FOUND THEN
            w_slots := array_fill(0, ARRAY[cardinality(w_route)]);
        END IF;
    END IF;
    IF EXISTS (SELECT 1 FROM workflows w WHERE w.id = ANY (p_workflow) AND w.followed) THEN
        p_flags := followed_flags_v1(p_workflow, p_flags);
    END IF;
    IF cardinality(p_run) = 1 AND p_open[1] = 1 THEN
        -- One run of one task: the same without taking arrays apart, which takes longer than the rows.
        INSERT INTO runs (id, version, workflow_id, state, flags, rank, open, created_at, started_at, progress_at, deadline_at)
        VALUES (p_run[1], p_version[1], p_workflow[1], {run.running}, p_flags[1], p_rank[1], 1, p_now, p_now, p_now, p_deadline[1]);
        IF NOT EXISTS (SELECT 1 FROM workflows w WHERE w.id = p_workflow[1] AND (NOT p_only_latest[1] OR w.latest = p_version[1])) THEN
            RAISE EXCEPTION 'the workflow of a run was deleted, or has a newer version' USING ERRCODE = 'MS001';
        END IF;
        SELECT vt.* INTO one FROM version_tasks vt WHERE vt.version = p_version[1] AND vt.stage = {stage.main};
        v_want := array_position(w_route, one.route);
        v_may := CASE WHEN one.needs > 0 THEN {task.pending} ELSE startable_v1({run.running}::smallint, one.flags, one.pool) END;
        v_rank := coalesce(one.rank, p_rank[1]);
        v_starts := v_may = {task.ready} AND v_want IS NOT NULL AND coalesce(w_slots[v_want], 0) > 0 AND v_rank <= w_rank[v_want];
        INSERT INTO task_runs (run_id, idx, state, rule, rank, flags, route, pool, attempt, max_failures, max_lost, open, version, due_at,
                               session, claim, started_at)
        VALUES (p_run[1], one.idx, CASE WHEN v_starts THEN {task.running} ELSE v_may END, one.rule, v_rank, one.flags, one.route, one.pool,
                CASE WHEN v_starts THEN 1 ELSE 0 END, one.max_failures, one.max_lost, one.needs, one.version, p_now + 1 + one.idx,
                CASE WHEN v_starts THEN p_session END, CASE WHEN v_starts THEN v_claim END, CASE WHEN v_starts THEN p_now END);
        IF v_starts THEN
            kind := {answer.claimed}; run_id := p_run[1]; idx := one.idx; item := -1; attempt := 1; failures := 0; generation := 0;
            version := one.version; session := p_session; route := one.route; rank := v_rank; due_at := p_now + 1 + one.idx;
        ELSE
            kind := {answer.left};
        END IF;
        RETURN NEXT;
        IF cardinality(p_pools) > 0 THEN
            PERFORM limits_v1(p_now, '{}', '{}', p_pools);
        END IF;
        RETURN;
    END IF;
    INSERT INTO runs (id, version, workflow_id, state, flags, rank, open, created_at, started_at, progress_at, deadline_at)
    SELECT u.run, u.version, u.workflow, {run.running}, u.flags, u.rank, u.open, p_now, p_now, p_now, u.deadline
    FROM unnest(p_run, p_version, p_workflow, p_flags, p_rank, p_open, p_deadline) AS u(run, version, workflow, flags, rank, open, deadline);
    -- Who deletes a workflow keeps others from writing runs meanwhile: the rows are written first, and looked for after that.
    IF EXISTS (SELECT 1 FROM unnest(p_workflow, p_version, p_only_latest) AS u(id, version, only_latest)
               WHERE NOT EXISTS (SELECT 1 FROM workflows w WHERE w.id = u.id AND (NOT u.only_latest OR w.latest = u.version))) THEN
        RAISE EXCEPTION 'the workflow of a run was deleted, or has a newer version' USING ERRCODE = 'MS001';
    END IF;
    RETURN QUERY
        WITH first AS (
            SELECT u.run, u.ord, vt.*, coalesce(vt.rank, u.rank) AS rk, array_position(w_route, vt.route) AS w,
                   (CASE WHEN vt.needs > 0 THEN {task.pending} ELSE startable_v1({run.running}::smallint, vt.flags, vt.pool) END)::smallint AS may
            FROM unnest(p_run, p_version, p_rank) WITH ORDINALITY AS u(run, version, rank, ord)
            JOIN version_tasks vt ON vt.version = u.version AND vt.stage = {stage.main}
        ), placed AS (
            SELECT f.*, f.may = {task.ready} AND f.w IS NOT NULL AND f.rk <= w_rank[f.w]
                        AND row_number() OVER (PARTITION BY f.route, f.may ORDER BY f.rk, f.ord, f.idx) <= w_slots[f.w] AS starts
            FROM first f
        ), made AS (
            INSERT INTO task_runs (run_id, idx, state, rule, rank, flags, route, pool, attempt, max_failures, max_lost, open, version, due_at,
                                   session, claim, started_at)
            SELECT p.run, p.idx, CASE WHEN p.starts THEN {task.running} ELSE p.may END, p.rule, p.rk, p.flags, p.route, p.pool,
                   CASE WHEN p.starts THEN 1 ELSE 0 END, p.max_failures, p.max_lost, p.needs, p.version, p_now + p.ord + p.idx,
                   CASE WHEN p.starts THEN p_session END, CASE WHEN p.starts THEN v_claim END, CASE WHEN p.starts THEN p_now END
            FROM placed p
            RETURNING *
        )
        SELECT {answer.claimed}::smallint, m.run_id, m.idx, m.item, m.attempt, m.failures, m.generation, m.version, m.session, m.route, m.rank, m.due_at
        FROM made m WHERE m.state = {task.running}
        UNION ALL
        SELECT {answer.left}::smallint, NULL::uuid, 0, -1, 0, 0::smallint, 0::smallint, 0::bigint, NULL::bigint, 0, 0::smallint, 0::bigint
        WHERE EXISTS (SELECT 1 FROM made m WHERE m.state NOT IN ({task.running}, {task.pending}));
    IF cardinality(p_pools) > 0 THEN
        PERFORM limits_v1(p_now, '{}', '{}', p_pools);
    END IF;
END $$;
