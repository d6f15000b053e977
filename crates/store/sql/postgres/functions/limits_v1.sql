-- Hands free slots of the named limits to those that wait. `released` names a pool once per slot given back,
-- `ended` a concurrency limit once per run that ended, `touched` limits that may have gained waiters.
-- A pool with a rate lets in what its window leaves; `PoolRate` in `src/runs/rates.rs` is the same for SQLite.
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
        SELECT x.id, x.kind, x.capacity, x.held, x.rate, x.period, x.used, x.window_began, d.back
        FROM limits x
        JOIN (SELECT u.id, sum(u.back)::integer AS back FROM (
                  SELECT unnest(p_released) AS id, 1 AS back
                  UNION ALL SELECT unnest(p_ended), 1
                  UNION ALL SELECT unnest(p_touched), 0) u GROUP BY u.id) d ON d.id = x.id
        ORDER BY x.id
    LOOP
        -- One by one in order of id: a joined subquery would not order the locks.
        SELECT capacity, held, rate, period, used, window_began INTO l.capacity, l.held, l.rate, l.period, l.used, l.window_began
        FROM limits WHERE id = l.id FOR NO KEY UPDATE;
        l.held := greatest(l.held - l.back, 0);
        free := coalesce(l.capacity, 2147483647) - l.held;
        IF l.rate IS NOT NULL THEN
            -- Units come a little out of order, and that is no clock that was set back. After one that was, the window begins anew with
            -- what was used: the pool waits for one period, and lets in no more than before.
            IF p_now < l.window_began - greatest(l.period, 60000000) THEN
                l.window_began := p_now;
            ELSIF p_now >= l.window_began + l.period THEN
                l.window_began := NULL;
                l.used := 0;
            END IF;
            free := least(free, l.rate - l.used);
        END IF;
        IF l.kind = {limit.pool} AND free > 0 THEN
            UPDATE task_runs t SET state = {task.ready}, due_at = CASE WHEN t.failures > 0 THEN greatest(p_now, t.due_at) ELSE p_now END
            WHERE t.ctid = ANY (ARRAY(
                SELECT s.ctid FROM task_runs s WHERE s.state = {task.gated} AND s.pool = l.id
                ORDER BY s.rank, s.due_at LIMIT least(free, 5000) FOR UPDATE SKIP LOCKED));
            GET DIAGNOSTICS n = ROW_COUNT;
            l.held := l.held + n;
            IF l.rate IS NOT NULL AND n > 0 THEN
                l.used := l.used + n;
                l.window_began := coalesce(l.window_began, p_now);
            END IF;
        ELSIF l.kind = {limit.concurrency} THEN
            WHILE free > 0 LOOP
                -- A child whose parent was cancelled will be, too: it does not start before that.
                SELECT r.id, r.open INTO admitted, n FROM runs r WHERE r.waits_for = l.id AND r.flags & {run_flag.being_made} = 0
                  AND NOT EXISTS (SELECT 1 FROM continuations c WHERE c.run_id = r.id AND c.kind = {continuation.cancel_child})
                ORDER BY r.rank, r.id LIMIT 1 FOR UPDATE SKIP LOCKED;
                EXIT WHEN NOT FOUND;
                UPDATE runs SET state = {run.running}, waits_for = NULL, holds = l.id, started_at = p_now, progress_at = p_now, seq = seq + 1 WHERE id = admitted;
                INSERT INTO run_transitions (run_id, seq, kind, state, stage, created_at) SELECT r.id, r.seq, {transition.admitted}, {run.running}, r.stage, p_now FROM runs r WHERE r.id = admitted;
                IF n BETWEEN 1 AND 5000 AND NOT EXISTS (SELECT 1 FROM task_runs t WHERE t.run_id = admitted AND t.state = {task.held} AND t.pool IS NOT NULL) THEN
                    UPDATE task_runs t SET state = startable_v1({run.running}::smallint, t.flags, NULL), due_at = p_now + t.idx
                    WHERE t.run_id = admitted AND t.state = {task.held};
                ELSE
                    -- Many rows, rows with a gate of their own, or none, so that the run is over: in units of their own.
                    INSERT INTO continuations (run_id, kind, created_at) VALUES (admitted, {continuation.admit}, p_now);
                END IF;
                l.held := l.held + 1;
                free := free - 1;
            END LOOP;
        END IF;
        UPDATE limits SET held = l.held, used = l.used, window_began = l.window_began WHERE id = l.id;
    END LOOP;
END $$;
