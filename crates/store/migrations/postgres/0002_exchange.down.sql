DROP FUNCTION create_runs_v1, exchange_v1, settle_one_v1, settle_v1, next_stage_v1, enter_stage_v1, limits_v1, stopped_v1, counts_v1, verdict_v1;
