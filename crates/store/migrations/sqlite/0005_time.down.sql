DROP TABLE starts;
DROP TABLE backfills;
DROP TABLE calendars;
DROP TABLE fires;
DROP TABLE triggers;
