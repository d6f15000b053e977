-- Counts ended items for the tasks they belong to, and lets as many go that waited for their turn. The caller holds the
-- locks of the runs. Returns the pools that these now wait for.
CREATE FUNCTION items_v1(p_now bigint, g_run uuid[], g_idx integer[], g_item integer[], g_state smallint[], g_flags smallint[]) RETURNS integer[]
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    e record;
    left_open integer;
    run_state smallint;
    freed integer[];
    pools integer[] := '{}';
BEGIN
    FOR e IN
        SELECT u.run, u.idx, count(*)::integer AS n,
               (count(*) FILTER (WHERE counts_v1(u.state, u.flags) = {counts.succeeded}))::integer AS s,
               (count(*) FILTER (WHERE counts_v1(u.state, u.flags) = {counts.failed}))::integer AS f,
               (count(*) FILTER (WHERE counts_v1(u.state, u.flags) = {counts.skipped}))::integer AS k
        FROM unnest(g_run, g_idx, g_item, g_state, g_flags) AS u(run, idx, item, state, flags)
        WHERE u.item >= 0 GROUP BY u.run, u.idx ORDER BY u.run, u.idx
    LOOP
        SELECT r.state INTO run_state FROM runs r WHERE r.id = e.run;
        UPDATE task_runs t SET open = t.open - e.n, succeeded = t.succeeded + e.s, failed = t.failed + e.f, skipped = t.skipped + e.k,
            state = CASE WHEN t.open > e.n THEN t.state WHEN run_state = {run.running} THEN {task.deciding} ELSE {task.held} END,
            due_at = CASE WHEN t.open > e.n THEN t.due_at ELSE p_now END
        WHERE t.run_id = e.run AND t.idx = e.idx AND t.item = -1 AND t.state = {task.waiting} AND t.flags & {task_flag.expanded} <> 0
        RETURNING t.open INTO left_open;
        CONTINUE WHEN NOT FOUND OR left_open = 0;
        WITH go AS (
            UPDATE task_runs t SET
                state = startable_v1(run_state, t.flags, t.pool),
                due_at = p_now + t.item
            WHERE t.ctid = ANY (ARRAY(
                SELECT s.ctid FROM task_runs s WHERE s.run_id = e.run AND s.idx = e.idx AND s.item >= 0 AND s.state = {task.pending}
                ORDER BY s.item LIMIT e.n))
            RETURNING t.state, t.pool
        )
        SELECT array_agg(g.pool) INTO freed FROM go g WHERE g.state = {task.gated};
        pools := pools || coalesce(freed, '{}');
    END LOOP;
    RETURN pools;
END $$;
