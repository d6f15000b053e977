-- The flags of new runs, with `followed` for those of followed workflows.
CREATE FUNCTION followed_flags_v1(p_workflow uuid[], p_flags smallint[]) RETURNS smallint[]
LANGUAGE sql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
    SELECT array_agg((u.flags | CASE WHEN w.id IS NULL THEN 0 ELSE {run_flag.followed} END)::smallint ORDER BY u.ord)
    FROM unnest(p_workflow, p_flags) WITH ORDINALITY AS u(workflow, flags, ord)
    LEFT JOIN workflows w ON w.id = u.workflow AND w.followed
$$;
