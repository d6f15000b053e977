-- What a trigger rule says over counters: to wait, to start, or the state in which the task ends without running. The twin of core's `rule.rs`.
CREATE FUNCTION verdict_v1(rule smallint, o integer, s integer, f integer, k integer) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (CASE
        WHEN rule = {rule.all_success} THEN CASE WHEN f > 0 THEN {task.upstream_failed} WHEN o > 0 THEN {verdict.wait} WHEN k > 0 THEN {task.skipped} ELSE {verdict.start} END
        WHEN rule = {rule.all_failed} THEN CASE WHEN s > 0 OR k > 0 THEN {task.skipped} WHEN o > 0 THEN {verdict.wait} ELSE {verdict.start} END
        WHEN rule = {rule.one_success} THEN CASE WHEN s > 0 THEN {verdict.start} WHEN o > 0 THEN {verdict.wait} WHEN f > 0 THEN {task.upstream_failed} ELSE {task.skipped} END
        WHEN rule = {rule.one_failed} THEN CASE WHEN f > 0 THEN {verdict.start} WHEN o > 0 THEN {verdict.wait} ELSE {task.skipped} END
        WHEN rule = {rule.none_failed} THEN CASE WHEN f > 0 THEN {task.upstream_failed} WHEN o > 0 THEN {verdict.wait} ELSE {verdict.start} END
        WHEN rule = {rule.none_failed_min_one_success} THEN CASE WHEN f > 0 THEN {task.upstream_failed} WHEN o > 0 THEN {verdict.wait} WHEN s > 0 THEN {verdict.start} ELSE {task.skipped} END
        ELSE CASE WHEN o > 0 THEN {verdict.wait} ELSE {verdict.start} END
    END)::smallint
$$;
