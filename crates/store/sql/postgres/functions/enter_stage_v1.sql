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
           CASE WHEN vt.needs > 0 THEN {task.pending} ELSE startable_v1(r.state, vt.flags, vt.pool) END,
           vt.rule, coalesce(vt.rank, r.rank), vt.flags, vt.route, vt.pool, vt.max_failures, vt.max_lost, r.generation, vt.needs, vt.version,
           p_now + vt.idx
    FROM runs r JOIN version_tasks vt ON vt.version = r.version AND vt.stage = p_stage
    WHERE r.id = p_run;
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;
