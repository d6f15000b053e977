DROP TABLE starts;
DROP TABLE backfills;
DROP TABLE calendars;
DROP TABLE fires;
DROP TABLE triggers;
DROP FUNCTION swap_triggers_v1(bigint, uuid[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[]);
