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
        state = CASE WHEN x.open = 1 THEN {run.success} ELSE {run.running} END, finished_at = CASE WHEN x.open = 1 THEN p_now END,
        deadline_at = CASE WHEN x.open > 1 THEN x.deadline_at END
    WHERE x.id = p_run AND x.state = {run.running} AND x.flags & ~{run_flag.followed}::smallint = 0 AND x.failed = 0 AND x.limit_id IS NULL
    RETURNING x.open, x.seq, x.flags INTO r;
    applied := FOUND;
    IF NOT applied THEN RETURN; END IF;
    ended := r.open = 0;
    IF ended AND r.flags <> 0 THEN
        PERFORM runs_ended_v1(ARRAY[p_run]);
        attempt := r.flags;
    END IF;
    INSERT INTO history (run_id, idx, item, state, flags, generation, attempt, failures, lost, session, seq, started_at, finished_at, output)
    VALUES (p_run, p_idx, -1, {task.success}, p_flags, p_generation, p_attempt, p_failures, p_lost, p_session, CASE WHEN r.open = 0 THEN r.seq - 1 ELSE r.seq END,
            p_started, p_finished, p_output);
    IF p_flags & {task_flag.has_dependents} = 0 THEN RETURN; END IF;

    SELECT vt.dependents INTO dependents FROM version_tasks vt WHERE vt.version = p_version AND vt.idx = p_idx;
    IF cardinality(dependents) > 1 THEN
        others := dependents;
        RETURN;
    END IF;
    SELECT t.rule, t.open, t.succeeded, t.failed, t.skipped, t.flags, t.pool, t.route, t.rank, 0::smallint AS verdict INTO d
    FROM task_runs t WHERE t.run_id = p_run AND t.idx = dependents[1] AND t.item = -1 AND t.state = {task.pending};
    IF NOT FOUND THEN RETURN; END IF;
    d.verdict := verdict_v1(d.rule, d.open - 1, d.succeeded + 1, d.failed, d.skipped);
    IF d.verdict > {verdict.start} OR (d.verdict = {verdict.start} AND (d.flags & {task_flag.has_condition} <> 0 OR d.pool IS NOT NULL)) THEN
        others := dependents;
    ELSIF d.verdict = {verdict.wait} THEN
        UPDATE task_runs t SET open = t.open - 1, succeeded = t.succeeded + 1 WHERE t.run_id = p_run AND t.idx = dependents[1] AND t.item = -1;
    ELSE
        w := array_position(w_route, d.route);
        IF w_slots[w] > 0 AND d.rank <= w_rank[w] THEN
            UPDATE task_runs t SET open = t.open - 1, succeeded = t.succeeded + 1, state = {task.running}, due_at = p_now + 1, attempt = t.attempt + 1,
                session = w_session[w], claim = p_claim, started_at = p_now
            WHERE t.run_id = p_run AND t.idx = dependents[1] AND t.item = -1
            RETURNING t.idx, t.attempt, t.failures, t.generation, t.version, t.rank, t.due_at
            INTO idx, attempt, failures, generation, version, rank, due_at;
        ELSE
            UPDATE task_runs t SET open = t.open - 1, succeeded = t.succeeded + 1, state = {task.ready}, due_at = p_now + 1
            WHERE t.run_id = p_run AND t.idx = dependents[1] AND t.item = -1;
        END IF;
    END IF;
END $$;
