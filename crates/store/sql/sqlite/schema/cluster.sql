-- The processes that share this database: worker sessions, lanes, leadership.

CREATE TABLE sessions (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    node        BLOB NOT NULL,
    worker      TEXT NOT NULL,
    hostname    TEXT NOT NULL,
    queues      TEXT NOT NULL,
    labels      TEXT NOT NULL,
    slots       INTEGER NOT NULL,
    remote      BOOLEAN NOT NULL DEFAULT FALSE,
    draining    BOOLEAN NOT NULL DEFAULT FALSE,
    beat        INTEGER NOT NULL DEFAULT 0,
    dead        BOOLEAN NOT NULL DEFAULT FALSE,
    created_at  INTEGER NOT NULL,
    beat_at     INTEGER NOT NULL,
    ended_at    INTEGER,
    -- The last exchange of a remote worker that was begun.
    seq         INTEGER NOT NULL DEFAULT 0,
    -- Where a remote worker may take tasks, joined by commas; null is everywhere.
    namespaces  TEXT,
    function_slots INTEGER NOT NULL DEFAULT 0,
    remote_slots INTEGER NOT NULL DEFAULT 0,
    handlers    TEXT NOT NULL DEFAULT '',
    version     TEXT NOT NULL DEFAULT '',
    token_hash  BLOB,
    -- How many attempts a remote worker has and has not begun.
    backlog     INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX sessions_live ON sessions (id) WHERE NOT dead;

-- An idle remote worker asks another one for a share of what that has not begun.
CREATE TABLE steal_requests (
    victim      INTEGER PRIMARY KEY,
    thief       INTEGER NOT NULL,
    wanted      INTEGER NOT NULL,
    created_at  INTEGER NOT NULL
);

-- One row per connection that exchanges: the guard that makes an exchange happen once. `voided` is the last one whose
-- number was used up and that applied nothing: while it was in doubt, so that it never will happen, or for a dead session.
CREATE TABLE lanes (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    node        BLOB NOT NULL,
    seq         INTEGER NOT NULL DEFAULT 0,
    voided      INTEGER NOT NULL DEFAULT 0,
    created_at  INTEGER NOT NULL
);

CREATE TABLE cancel_requests (
    session     INTEGER NOT NULL,
    run_id      BLOB NOT NULL,
    idx         INTEGER NOT NULL,
    item        INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    reason      TEXT NOT NULL,
    PRIMARY KEY (session, run_id, idx, item, attempt)
) WITHOUT ROWID;

-- Leadership: one row per singleton duty. Only a compare-and-swap on it makes a leader.
CREATE TABLE terms (
    name        TEXT PRIMARY KEY,
    epoch       INTEGER NOT NULL,
    term_id     BLOB NOT NULL,
    node        BLOB NOT NULL,
    beat        INTEGER NOT NULL,
    released    BOOLEAN NOT NULL DEFAULT FALSE
) WITHOUT ROWID;

-- Processes that take part. A beat that stands still says that one is gone.
CREATE TABLE members (
    node        BLOB PRIMARY KEY,
    name        TEXT NOT NULL,
    address     TEXT,
    roles       TEXT NOT NULL,
    version     TEXT NOT NULL,
    started_at  INTEGER NOT NULL,
    beat        INTEGER NOT NULL,
    beat_at     INTEGER NOT NULL
);

-- Named locks. The fencing value rises with every holder, so a row is never deleted.
CREATE TABLE locks (
    name         TEXT PRIMARY KEY,
    fence        INTEGER NOT NULL,
    holder       BLOB NOT NULL,
    holder_name  TEXT NOT NULL,
    ttl_ms       INTEGER NOT NULL CHECK (ttl_ms > 0),
    beat         INTEGER NOT NULL,
    released     BOOLEAN NOT NULL
);
