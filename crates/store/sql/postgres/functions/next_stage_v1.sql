-- A run whose stage has no open task left enters its next one, or ends. The caller holds the run's lock. Each of these is an
-- event with a number: entering a stage has its row, the end is what `runs` says of it.
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
        next := CASE WHEN r.stage < {stage.on_failure} AND r.flags & {run_flag.has_on_failure} <> 0 THEN {stage.on_failure}
                     WHEN r.stage < {stage.on_success} AND r.flags & {run_flag.has_on_success} <> 0 THEN {stage.on_success}
                     WHEN r.stage < {stage.finally} AND r.flags & {run_flag.has_finally} <> 0 THEN {stage.finally} END;
        IF next IS NULL THEN
            UPDATE runs SET finished_at = p_now, holds = NULL, deadline_at = NULL, seq = seq + 1,
                state = CASE WHEN r.flags & {run_flag.cancelling} <> 0 THEN {run.cancelled} WHEN r.failed > 0 OR r.flags & {run_flag.timed_out} <> 0 THEN {run.failed}
                             ELSE {run.success} END
            WHERE id = p_run;
            INSERT INTO unsuccessful_runs (run_id, state) SELECT x.id, x.state FROM runs x WHERE x.id = p_run AND x.state > {run.success} ON CONFLICT DO NOTHING;
            IF r.flags & {run_flag.has_parent} <> 0 THEN
                PERFORM child_ended_v1(p_now, p_run);
            END IF;
            IF r.flags & {run_flag.followed} <> 0 THEN
                PERFORM runs_ended_v1(ARRAY[p_run]);
            END IF;
            RETURN;
        END IF;
        -- What follows another end of the main tasks is skipped; what is called off is cancelled.
        leave := CASE WHEN next = {stage.on_failure} AND (r.flags & {run_flag.cancelling} <> 0 OR (r.failed = 0 AND r.flags & {run_flag.timed_out} = 0)) THEN {task.skipped}
                      WHEN next = {stage.on_success} AND (r.flags & ({run_flag.cancelling} | {run_flag.timed_out}) <> 0 OR r.failed > 0) THEN {task.skipped}
                      WHEN r.flags & {run_flag.no_finalisers} <> 0 THEN {task.cancelled} END;
        IF leave IS NULL THEN
            n := enter_stage_v1(p_now, p_run, next);
            UPDATE runs SET stage = next, open = n, seq = seq + 1 WHERE id = p_run;
            INSERT INTO run_transitions (run_id, seq, kind, state, stage, created_at) VALUES (p_run, r.seq + 1, {transition.stage}, r.state, next, p_now);
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
