-- The spine: versions, runs, live task runs, history, sessions, lanes, limits, logs.
-- Times are microseconds since the epoch, UTC. Ids are made by the caller unless they are interned numbers, which are
-- never given twice (AUTOINCREMENT). UUIDs are blobs of 16 bytes. Tables whose rows are narrow and found by their key
-- alone are WITHOUT ROWID: one tree instead of two.

CREATE TABLE workflows (
    id          BLOB PRIMARY KEY,
    namespace   TEXT NOT NULL,
    name        TEXT NOT NULL,
    active      BOOLEAN NOT NULL DEFAULT TRUE,
    latest      INTEGER,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    UNIQUE (namespace, name)
);

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

-- Pools (kind 0) bound task runs, concurrency keys (kind 1) bound runs. A null capacity is unlimited.
CREATE TABLE limits (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    kind        INTEGER NOT NULL CHECK (kind IN (0, 1)),
    key         TEXT NOT NULL,
    capacity    INTEGER CHECK (capacity >= 0),
    held        INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0),
    UNIQUE (kind, key)
);

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

CREATE TABLE runs (
    id          BLOB PRIMARY KEY,
    version     INTEGER NOT NULL,
    workflow_id BLOB NOT NULL,
    state       INTEGER NOT NULL CHECK (state BETWEEN 0 AND 5),
    stage       INTEGER NOT NULL DEFAULT 0 CHECK (stage BETWEEN 0 AND 2),
    flags       INTEGER NOT NULL DEFAULT 0,
    rank        INTEGER NOT NULL,
    generation  INTEGER NOT NULL DEFAULT 0,
    open        INTEGER NOT NULL CHECK (open >= 0),
    failed      INTEGER NOT NULL DEFAULT 0,
    limit_id    INTEGER,
    waits_for   INTEGER,
    holds       INTEGER,
    seq         INTEGER NOT NULL DEFAULT 0,
    created_at  INTEGER NOT NULL,
    started_at  INTEGER,
    finished_at INTEGER,
    progress_at INTEGER NOT NULL,
    deadline_at INTEGER
) WITHOUT ROWID;
CREATE INDEX runs_by_workflow ON runs (workflow_id, id);
CREATE INDEX runs_by_deadline ON runs (deadline_at) WHERE deadline_at IS NOT NULL;
CREATE INDEX runs_queued ON runs (waits_for, rank, id) WHERE waits_for IS NOT NULL;
CREATE INDEX runs_holding ON runs (holds) WHERE holds IS NOT NULL;

-- Runs that ended otherwise than well.
CREATE TABLE unsuccessful_runs (
    run_id      BLOB PRIMARY KEY,
    state       INTEGER NOT NULL CHECK (state IN (4, 5))
) WITHOUT ROWID;

-- What a run was given; only for runs that were given something.
CREATE TABLE run_details (
    run_id         BLOB PRIMARY KEY,
    inputs         TEXT,
    outputs        TEXT,
    correlation_id TEXT,
    trigger        TEXT,
    reason         TEXT
);
CREATE INDEX run_details_by_correlation ON run_details (correlation_id) WHERE correlation_id IS NOT NULL;

CREATE TABLE submissions (
    namespace   TEXT NOT NULL,
    key         TEXT NOT NULL,
    run_id      BLOB NOT NULL,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (namespace, key)
) WITHOUT ROWID;

-- Live task runs: exactly those that are not terminal. Narrow, no JSON, deleted when they end. With a rowid: the entries
-- of its partial indexes stay small, and a claim and an end address rows by number, which halves their cost.
CREATE TABLE task_runs (
    run_id       BLOB NOT NULL,
    idx          INTEGER NOT NULL,
    item         INTEGER NOT NULL DEFAULT -1,
    state        INTEGER NOT NULL CHECK (state BETWEEN 0 AND 8),
    rule         INTEGER NOT NULL,
    rank         INTEGER NOT NULL,
    flags        INTEGER NOT NULL,
    route        INTEGER NOT NULL,
    pool         INTEGER,
    attempt      INTEGER NOT NULL DEFAULT 0,
    failures     INTEGER NOT NULL DEFAULT 0,
    max_failures INTEGER NOT NULL,
    lost         INTEGER NOT NULL DEFAULT 0,
    max_lost     INTEGER NOT NULL,
    generation   INTEGER NOT NULL DEFAULT 0,
    open         INTEGER NOT NULL,
    succeeded    INTEGER NOT NULL DEFAULT 0,
    failed       INTEGER NOT NULL DEFAULT 0,
    skipped      INTEGER NOT NULL DEFAULT 0,
    version      INTEGER NOT NULL,
    due_at       INTEGER NOT NULL,
    session      INTEGER,
    claim        INTEGER,
    started_at   INTEGER,
    PRIMARY KEY (run_id, idx, item),
    CHECK (state <> 2 OR (session IS NOT NULL AND attempt > 0))
);
-- The ready index holds claimable rows only; the other partial indexes hold what is due, gated, undecided or claimed.
CREATE INDEX task_runs_ready ON task_runs (route, rank, due_at) WHERE state = 1;
CREATE INDEX task_runs_due ON task_runs (due_at) WHERE state IN (3, 7, 8);
CREATE INDEX task_runs_gated ON task_runs (pool, rank, due_at) WHERE state = 5;
CREATE INDEX task_runs_undecided ON task_runs (due_at) WHERE state = 4 AND session IS NULL;
CREATE INDEX task_runs_claimed ON task_runs (session) WHERE session IS NOT NULL;

-- Ended task runs. A run's id is its time of creation, so new rows land at the end of the tree.
CREATE TABLE history (
    run_id       BLOB NOT NULL,
    idx          INTEGER NOT NULL,
    item         INTEGER NOT NULL,
    state        INTEGER NOT NULL CHECK (state BETWEEN 10 AND 15),
    flags        INTEGER NOT NULL,
    generation   INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    failures     INTEGER NOT NULL,
    lost         INTEGER NOT NULL,
    session      INTEGER,
    seq          INTEGER NOT NULL,
    started_at   INTEGER,
    finished_at  INTEGER NOT NULL,
    exit_code    INTEGER,
    error_kind   TEXT,
    error        TEXT,
    detail       TEXT,
    output       TEXT,
    PRIMARY KEY (run_id, idx, item)
) WITHOUT ROWID;

-- What an operator's reopening took out of the history.
CREATE TABLE history_superseded (
    run_id       BLOB NOT NULL,
    idx          INTEGER NOT NULL,
    item         INTEGER NOT NULL,
    state        INTEGER NOT NULL,
    flags        INTEGER NOT NULL,
    generation   INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    failures     INTEGER NOT NULL,
    lost         INTEGER NOT NULL,
    session      INTEGER,
    seq          INTEGER NOT NULL,
    started_at   INTEGER,
    finished_at  INTEGER NOT NULL,
    exit_code    INTEGER,
    error_kind   TEXT,
    error        TEXT,
    detail       TEXT,
    output       TEXT,
    PRIMARY KEY (run_id, idx, item, generation)
) WITHOUT ROWID;

-- Attempts that did not end their task run: 0 failed, 1 lost, 2 released. The last attempt is in the history row.
CREATE TABLE attempts (
    run_id       BLOB NOT NULL,
    idx          INTEGER NOT NULL,
    item         INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    outcome      INTEGER NOT NULL CHECK (outcome BETWEEN 0 AND 2),
    session      INTEGER,
    seq          INTEGER NOT NULL,
    started_at   INTEGER,
    finished_at  INTEGER NOT NULL,
    exit_code    INTEGER,
    error_kind   TEXT,
    error        TEXT,
    detail       TEXT,
    PRIMARY KEY (run_id, idx, item, attempt)
) WITHOUT ROWID;

-- Big units go on in chunks: what is still to be done for a run. Kinds: 0 create, 1 admit, 2 cancel, 3 fan out,
-- 4 cancel a child.
CREATE TABLE continuations (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id      BLOB NOT NULL,
    kind        INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 4),
    idx         INTEGER NOT NULL DEFAULT 0,
    counts      INTEGER NOT NULL DEFAULT 0,
    position    INTEGER NOT NULL DEFAULT 0,
    created_at  INTEGER NOT NULL
);
CREATE INDEX continuations_of_run ON continuations (run_id);

CREATE TABLE nodes (
    id          BLOB PRIMARY KEY,
    name        TEXT NOT NULL,
    address     TEXT,
    started_at  INTEGER NOT NULL,
    stopped_at  INTEGER
);

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
    ended_at    INTEGER
);
CREATE INDEX sessions_live ON sessions (id) WHERE NOT dead;

-- One row per connection that exchanges: the guard that makes an exchange happen once. `voided` is the last one whose
-- number was used up while it was in doubt, so that it never will happen.
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

CREATE TABLE dead_letters (
    id                BLOB PRIMARY KEY,
    run_id            BLOB NOT NULL,
    idx               INTEGER,
    item              INTEGER,
    version           INTEGER NOT NULL,
    reason            INTEGER NOT NULL CHECK (reason BETWEEN 0 AND 5),
    original_state    TEXT NOT NULL,
    error_type        TEXT,
    error_message     TEXT,
    stack_trace       TEXT,
    total_attempts    INTEGER NOT NULL,
    last_attempt_at   INTEGER,
    status            INTEGER NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 5),
    notes             TEXT,
    resolved_by       TEXT,
    resolved_at       INTEGER,
    metadata          TEXT,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL
);
CREATE UNIQUE INDEX dead_letters_one_pending_task ON dead_letters (run_id, idx, item) WHERE status = 0 AND idx IS NOT NULL;
CREATE UNIQUE INDEX dead_letters_one_pending_run ON dead_letters (run_id) WHERE status = 0 AND idx IS NULL;
CREATE INDEX dead_letters_by_status ON dead_letters (status, created_at);

-- Some lines of one attempt, as JSON. Append-only; `id` gives the order within the attempt.
CREATE TABLE logs (
    run_id      BLOB NOT NULL,
    idx         INTEGER NOT NULL,
    item        INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    chunk       INTEGER NOT NULL,
    lines       TEXT NOT NULL,
    PRIMARY KEY (run_id, idx, item, attempt, chunk)
);

-- Who did what to which run, and why.
CREATE TABLE operator_actions (
    id          BLOB PRIMARY KEY,
    run_id      BLOB NOT NULL,
    idx         INTEGER,
    item        INTEGER,
    seq         INTEGER NOT NULL,
    action      TEXT NOT NULL,
    actor       TEXT NOT NULL,
    reason      TEXT,
    created_at  INTEGER NOT NULL
);
CREATE INDEX operator_actions_by_run ON operator_actions (run_id, seq);
