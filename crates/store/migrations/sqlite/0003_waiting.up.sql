-- What waits for something outside: timers, events, approvals, results, child runs, the items of an expansion.

-- One row per waiting task run. Whatever happens sets `outcome` (0 badly, 1 well, 2 nobody waits any more) and makes the
-- task run `deciding`; a node then concludes it. Kinds: 0 timer, 1 event, 2 approval, 3 result, 4 child run, 5 items.
CREATE TABLE waits (
    run_id      BLOB NOT NULL,
    idx         INTEGER NOT NULL,
    item        INTEGER NOT NULL,
    kind        INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 5),
    attempt     INTEGER NOT NULL,
    namespace   TEXT,
    event       TEXT,
    key         TEXT,
    child       BLOB,
    body        TEXT,
    due_at      INTEGER,
    created_at  INTEGER NOT NULL,
    outcome     INTEGER CHECK (outcome BETWEEN 0 AND 2),
    output      TEXT,
    actor       TEXT,
    reason      TEXT,
    happened_at INTEGER,
    PRIMARY KEY (run_id, idx, item)
);
CREATE INDEX waits_for_event ON waits (namespace, event) WHERE event IS NOT NULL AND outcome IS NULL;
CREATE UNIQUE INDEX waits_for_child ON waits (child) WHERE child IS NOT NULL;

-- The values of an expansion, written once when it happens.
CREATE TABLE items (
    run_id      BLOB NOT NULL,
    idx         INTEGER NOT NULL,
    item        INTEGER NOT NULL,
    value       TEXT NOT NULL,
    PRIMARY KEY (run_id, idx, item)
) WITHOUT ROWID;

-- Durable before it is acknowledged; `matched` once every waiting task run has been looked at.
CREATE TABLE events (
    id          BLOB PRIMARY KEY,
    namespace   TEXT NOT NULL,
    name        TEXT NOT NULL,
    key         TEXT,
    data        TEXT NOT NULL,
    source      TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    matched     BOOLEAN NOT NULL DEFAULT FALSE
);
CREATE INDEX events_by_name ON events (namespace, name, created_at);
CREATE INDEX events_unmatched ON events (created_at) WHERE NOT matched;
CREATE INDEX events_by_age ON events (created_at) WHERE matched;

-- What a version brings along for its tasks.
CREATE TABLE version_files (
    version     INTEGER NOT NULL REFERENCES versions (id) ON DELETE CASCADE,
    path        TEXT NOT NULL,
    executable  BOOLEAN NOT NULL,
    content     BLOB NOT NULL,
    PRIMARY KEY (version, path)
);

-- Files that attempts left to be kept.
CREATE TABLE artifacts (
    run_id      BLOB NOT NULL,
    idx         INTEGER NOT NULL,
    item        INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    name        TEXT NOT NULL,
    content     BLOB NOT NULL,
    PRIMARY KEY (run_id, idx, item, attempt, name)
);
