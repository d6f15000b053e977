-- Moves every trigger that is still as it was seen, each found by its id whatever the statistics say; returns how many were.
CREATE FUNCTION swap_triggers_v1(p_at bigint, p_id uuid[], p_revision bigint[], p_expected bigint[], p_covered bigint[], p_nominal bigint[], p_fire bigint[],
                                 p_added bigint[]) RETURNS bigint
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    swapped bigint;
BEGIN
    UPDATE triggers t SET covered_at = u.covered, next_nominal = u.nominal, next_fire_at = u.fire, fired = t.fired + u.added,
           last_fire_at = CASE WHEN u.added > 0 THEN p_at ELSE t.last_fire_at END, problem = NULL
    FROM unnest(p_id, p_revision, p_expected, p_covered, p_nominal, p_fire, p_added) AS u(id, revision, expected, covered, nominal, fire, added)
    -- Said so that only the key fits: through triggers_due, a plan made among few would read all that are due for each.
    WHERE t.id = u.id AND t.revision = u.revision AND t.next_fire_at = u.expected AND NOT t.paused AND coalesce(t.present AND t.active, FALSE);
    GET DIAGNOSTICS swapped = ROW_COUNT;
    RETURN swapped;
END $$;
