-- The units that move work are stored functions on PostgreSQL. SQLite has none: there they are set-based statements inside
-- one immediate transaction, in `src/sqlite`. This number exists so that both databases count the same migrations.
SELECT 1;
