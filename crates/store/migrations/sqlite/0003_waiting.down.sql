DROP TABLE artifacts;
DROP TABLE version_files;
DROP TABLE events;
DROP TABLE items;
DROP TABLE waits;
