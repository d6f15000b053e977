-- Makes runs with their first rows. Runs behind a concurrency limit are made by another way.
CREATE FUNCTION create_runs_v1(p_now bigint, p_run uuid[], p_version bigint[], p_workflow uuid[], p_state smallint[], p_flags smallint[], p_rank smallint[],
                               p_open integer[], p_limit integer[], p_deadline bigint[], p_pools integer[]) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    -- Who deletes a workflow keeps others from writing runs meanwhile: the rows are written first, and looked for after that.
    IF EXISTS (SELECT 1 FROM workflows w WHERE w.id = ANY (p_workflow) AND w.followed) THEN
        p_flags := followed_flags_v1(p_workflow, p_flags);
    END IF;
    IF cardinality(p_run) = 1 THEN
        -- One run: the same without taking arrays apart, which takes longer than the rows.
        INSERT INTO runs (id, version, workflow_id, state, flags, rank, open, limit_id, waits_for, holds, created_at, started_at, progress_at, deadline_at)
        VALUES (p_run[1], p_version[1], p_workflow[1], p_state[1], p_flags[1], p_rank[1], p_open[1], p_limit[1], CASE WHEN p_state[1] = {run.pending} THEN p_limit[1] END,
                CASE WHEN p_state[1] = {run.running} THEN p_limit[1] END, p_now, CASE WHEN p_state[1] = {run.running} THEN p_now END, p_now, p_deadline[1]);
        IF NOT EXISTS (SELECT 1 FROM workflows w WHERE w.id = p_workflow[1]) THEN
            RAISE EXCEPTION 'the workflow of a run was deleted' USING ERRCODE = 'MS001';
        END IF;
        INSERT INTO task_runs (run_id, idx, state, rule, rank, flags, route, pool, max_failures, max_lost, open, version, due_at)
        SELECT p_run[1], vt.idx,
               CASE WHEN vt.needs > 0 THEN {task.pending} ELSE startable_v1(p_state[1], vt.flags, vt.pool) END,
               vt.rule, coalesce(vt.rank, p_rank[1]), vt.flags, vt.route, vt.pool, vt.max_failures, vt.max_lost, vt.needs, vt.version, p_now + 1 + vt.idx
        FROM version_tasks vt WHERE vt.version = p_version[1] AND vt.stage = {stage.main};
        IF cardinality(p_pools) > 0 THEN
            PERFORM limits_v1(p_now, '{}', '{}', p_pools);
        END IF;
        RETURN;
    END IF;
    INSERT INTO runs (id, version, workflow_id, state, flags, rank, open, limit_id, waits_for, holds, created_at, started_at, progress_at, deadline_at)
    SELECT u.run, u.version, u.workflow, u.state, u.flags, u.rank, u.open, u.lim, CASE WHEN u.state = {run.pending} THEN u.lim END, CASE WHEN u.state = {run.running} THEN u.lim END, p_now, CASE WHEN u.state = {run.running} THEN p_now END, p_now, u.deadline
    FROM unnest(p_run, p_version, p_workflow, p_state, p_flags, p_rank, p_open, p_limit, p_deadline)
         AS u(run, version, workflow, state, flags, rank, open, lim, deadline);
    IF EXISTS (SELECT 1 FROM unnest(p_workflow) AS u(id) WHERE NOT EXISTS (SELECT 1 FROM workflows w WHERE w.id = u.id)) THEN
        RAISE EXCEPTION 'the workflow of a run was deleted' USING ERRCODE = 'MS001';
    END IF;
    INSERT INTO task_runs (run_id, idx, state, rule, rank, flags, route, pool, max_failures, max_lost, open, version, due_at)
    SELECT u.run, vt.idx,
           CASE WHEN vt.needs > 0 THEN {task.pending} ELSE startable_v1(u.state, vt.flags, vt.pool) END,
           vt.rule, coalesce(vt.rank, u.rank), vt.flags, vt.route, vt.pool, vt.max_failures, vt.max_lost, vt.needs, vt.version, p_now + u.ord + vt.idx
    FROM unnest(p_run, p_version, p_state, p_rank) WITH ORDINALITY AS u(run, version, state, rank, ord)
    JOIN version_tasks vt ON vt.version = u.version AND vt.stage = {stage.main};
    IF cardinality(p_pools) > 0 THEN
        PERFORM limits_v1(p_now, '{}', '{}', p_pools);
    END IF;
END $$;
