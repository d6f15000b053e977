-- Whether nothing more of the run's stage may start. Cancelling stops all but `finally`, the run's timeout only the main
-- tasks; finalisers that are called off stop everything. The twin of `flags::is_stopped`.
CREATE FUNCTION stopped_v1(flags smallint, stage smallint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT flags & {run_flag.no_finalisers} <> 0 OR (flags & {run_flag.cancelling} <> 0 AND stage < {stage.finally}) OR (flags & {run_flag.timed_out} <> 0 AND stage = {stage.main})
$$;
