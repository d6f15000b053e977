-- Workflow definitions: immutable versions, the template of their tasks, and what they share (routes and limits).
-- Times are microseconds since the epoch, UTC. Ids are made by the caller unless they are interned numbers.

CREATE TABLE workflows (
    id          BLOB PRIMARY KEY,
    namespace   TEXT NOT NULL,
    name        TEXT NOT NULL,
    active      BOOLEAN NOT NULL DEFAULT TRUE,
    latest      INTEGER,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    -- Who stored its first version.
    created_by  TEXT,
    -- Jobs, triggers or handlers follow how its runs end: their rows in `runs` carry the flag `followed`, and the unit that
    -- ends one leaves a row in `run_ends`.
    followed    BOOLEAN NOT NULL DEFAULT FALSE,
    -- Of the workflow that executes the checks of a poll: the workflow whose trigger that is. People do not see it in lists.
    check_of    BLOB,
    UNIQUE (namespace, name)
);
CREATE INDEX workflows_of_checks ON workflows (check_of) WHERE check_of IS NOT NULL;
CREATE INDEX workflows_followed ON workflows (id) WHERE followed;

-- Immutable. `spec` is the validated workflow as JSON, `source` the text it came from.
CREATE TABLE versions (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    workflow_id BLOB NOT NULL REFERENCES workflows (id) ON DELETE CASCADE,
    number      INTEGER NOT NULL,
    hash        TEXT NOT NULL,
    spec        TEXT NOT NULL,
    source      TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    UNIQUE (workflow_id, number),
    UNIQUE (workflow_id, hash)
);

-- Who may execute a task: its namespace, queue, labels, and the kind of slot it occupies.
CREATE TABLE routes (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace   TEXT NOT NULL,
    queue       TEXT NOT NULL,
    labels      TEXT NOT NULL,
    class       INTEGER NOT NULL CHECK (class BETWEEN 0 AND 2),
    UNIQUE (namespace, queue, labels, class)
);

-- What is not started for now. An empty namespace or queue stands for all of them. A row whose `resumed_at` is set has no effect
-- any more but one: what stood still until then is not stale for it.
CREATE TABLE pauses (
    namespace    TEXT NOT NULL,
    queue        TEXT NOT NULL,
    paused_by    TEXT NOT NULL,
    reason       TEXT,
    paused_at    INTEGER NOT NULL,
    resumed_at   INTEGER,
    PRIMARY KEY (namespace, queue)
);

-- Pools bound task runs, concurrency keys bound runs. A null capacity is unlimited. A pool with a rate lets in at most `rate`
-- task runs in a window of `period` microseconds; `window_began` is null while no window is under way.
CREATE TABLE limits (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    kind         INTEGER NOT NULL CHECK (kind IN ({limit.pool}, {limit.concurrency})),
    key          TEXT NOT NULL,
    capacity     INTEGER CHECK (capacity >= 0),
    held         INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0),
    rate         INTEGER CHECK (rate BETWEEN 1 AND 1000000),
    period       INTEGER CHECK (period BETWEEN 1000000 AND 86400000000),
    used         INTEGER NOT NULL DEFAULT 0 CHECK (used >= 0),
    window_began INTEGER,
    CHECK ((rate IS NULL) = (period IS NULL)),
    UNIQUE (kind, key)
);
CREATE INDEX limits_with_rate ON limits (id) WHERE rate IS NOT NULL;

-- What the hot path needs to know of a version's tasks: the template from which task runs are made.
CREATE TABLE version_tasks (
    version      INTEGER NOT NULL REFERENCES versions (id) ON DELETE CASCADE,
    idx          INTEGER NOT NULL,
    stage        INTEGER NOT NULL,
    needs        INTEGER NOT NULL,
    rule         INTEGER NOT NULL,
    rank         INTEGER,
    flags        INTEGER NOT NULL,
    route        INTEGER NOT NULL REFERENCES routes (id),
    pool         INTEGER REFERENCES limits (id),
    max_failures INTEGER NOT NULL,
    max_lost     INTEGER NOT NULL,
    dependents   TEXT NOT NULL, -- a JSON array of idx
    PRIMARY KEY (version, idx)
) WITHOUT ROWID;

-- What a version brings along for its tasks.
CREATE TABLE version_files (
    version     INTEGER NOT NULL REFERENCES versions (id) ON DELETE CASCADE,
    path        TEXT NOT NULL,
    executable  BOOLEAN NOT NULL,
    content     BLOB NOT NULL,
    PRIMARY KEY (version, path)
);
