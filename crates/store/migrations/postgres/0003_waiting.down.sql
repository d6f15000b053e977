DROP FUNCTION child_ended_v1;
DROP FUNCTION items_v1;
DROP TABLE artifacts;
DROP TABLE version_files;
DROP TABLE events;
DROP TABLE items;
DROP TABLE waits;
