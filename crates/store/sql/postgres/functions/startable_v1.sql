-- The state that a task run takes up when nothing of its dependencies keeps it from starting. The twin of
-- `TaskState::startable` in core and of `startable!` for SQLite.
CREATE FUNCTION startable_v1(run_state smallint, flags smallint, pool integer) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (CASE
        WHEN run_state <> {run.running} THEN {task.held}
        WHEN flags & {task_flag.has_condition} <> 0 THEN {task.deciding}
        WHEN pool IS NOT NULL THEN {task.gated}
        ELSE {task.ready}
    END)::smallint
$$;
