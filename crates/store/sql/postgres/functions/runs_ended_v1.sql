-- Leaves word that these runs have ended, once per generation.
CREATE FUNCTION runs_ended_v1(p_runs uuid[]) RETURNS void
LANGUAGE sql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
    INSERT INTO run_ends (run_id, generation, workflow_id, state, finished_at)
    SELECT r.id, r.generation, r.workflow_id, r.state, r.finished_at FROM runs r WHERE r.id = ANY (p_runs) AND r.state >= {run.success}
    ON CONFLICT DO NOTHING
$$;
