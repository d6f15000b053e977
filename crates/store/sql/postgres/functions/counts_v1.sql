-- How an ended task counts for its dependents. A failure that continues and a skip by hand count as success.
CREATE FUNCTION counts_v1(state smallint, flags smallint) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (CASE
        WHEN state IN ({task.success}, {task.resolved_manually}) THEN {counts.succeeded}
        WHEN state = {task.failed} AND flags & {task_flag.continues} <> 0 THEN {counts.succeeded}
        WHEN state = {task.skipped} AND flags & {task_flag.skipped_by_hand} <> 0 THEN {counts.succeeded}
        WHEN state = {task.skipped} THEN {counts.skipped}
        ELSE {counts.failed} END)::smallint
$$;
