-- The task run that waits for this run can be decided. Only its own row is touched: its run may be busy meanwhile.
CREATE FUNCTION child_ended_v1(p_now bigint, p_child uuid) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE w record;
BEGIN
    FOR w IN SELECT x.run_id, x.idx, x.item FROM waits x WHERE x.child = p_child AND x.outcome IS NULL FOR UPDATE LOOP
        UPDATE waits SET outcome = (SELECT CASE WHEN r.state = {run.success} THEN {waited.well} ELSE {waited.badly} END FROM runs r WHERE r.id = p_child), happened_at = p_now
        WHERE run_id = w.run_id AND idx = w.idx AND item = w.item;
        UPDATE task_runs t SET state = {task.deciding}, due_at = p_now WHERE t.run_id = w.run_id AND t.idx = w.idx AND t.item = w.item AND t.state = {task.waiting};
    END LOOP;
END $$;
