-- Runs, live task runs, what has ended, and what waits.

CREATE TABLE runs (
    id          BLOB PRIMARY KEY,
    version     INTEGER NOT NULL,
    workflow_id BLOB NOT NULL,
    state       INTEGER NOT NULL CHECK (state BETWEEN {run.pending} AND {run.cancelled}),
    stage       INTEGER NOT NULL DEFAULT 0 CHECK (stage BETWEEN {stage.main} AND {stage.finally}),
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
    deadline_at INTEGER,
    -- When it was reopened last: its lifetime counts from there.
    reopened_at INTEGER
) WITHOUT ROWID;
CREATE INDEX runs_by_workflow ON runs (workflow_id, id);
CREATE INDEX runs_by_deadline ON runs (deadline_at) WHERE deadline_at IS NOT NULL;
CREATE INDEX runs_queued ON runs (waits_for, rank, id) WHERE waits_for IS NOT NULL;
CREATE INDEX runs_holding ON runs (holds) WHERE holds IS NOT NULL;

-- Runs that ended otherwise than well.
CREATE TABLE unsuccessful_runs (
    run_id      BLOB PRIMARY KEY,
    state       INTEGER NOT NULL CHECK (state IN ({run.failed}, {run.cancelled})),
    -- Whether its failure was looked at for notifications.
    noticed     INTEGER NOT NULL DEFAULT FALSE
) WITHOUT ROWID;
CREATE INDEX unsuccessful_runs_unnoticed ON unsuccessful_runs (run_id) WHERE NOT noticed;

-- What a run was given; only for runs that were given something.
CREATE TABLE run_details (
    run_id         BLOB PRIMARY KEY,
    inputs         TEXT,
    outputs        TEXT,
    correlation_id TEXT,
    trigger        TEXT,
    reason         TEXT,
    -- When a run began that was put off: its waits match no event from before.
    began_at       INTEGER
);
CREATE INDEX run_details_by_correlation ON run_details (correlation_id) WHERE correlation_id IS NOT NULL;

CREATE TABLE submissions (
    namespace   TEXT NOT NULL,
    key         TEXT NOT NULL,
    run_id      BLOB NOT NULL,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (namespace, key)
) WITHOUT ROWID;
CREATE INDEX submissions_by_run ON submissions (run_id);

-- Runs that begin at a time of day to come. Until then they are pending and being made, without task runs or a slot.
CREATE TABLE starts (
    run_id BLOB PRIMARY KEY,
    due_at INTEGER NOT NULL
);
CREATE INDEX starts_due ON starts (due_at);

-- The numbered events of a run. Ended task runs, attempts that did not end theirs and the actions of people carry their
-- numbers already; what a run itself goes through has its rows here. The end of an ended run has none: it is the one number
-- that no row carries, and `runs` says when it was and how. So a plain run costs nothing.
-- `ended` is an end that a reopening took back, `cancelled` came with what waited for the run.
CREATE TABLE run_transitions (
    run_id      BLOB NOT NULL,
    seq         INTEGER NOT NULL,
    kind        INTEGER NOT NULL CHECK (kind BETWEEN {transition.admitted} AND {transition.cancelled}),
    state       INTEGER NOT NULL CHECK (state BETWEEN {run.pending} AND {run.cancelled}),
    stage       INTEGER NOT NULL CHECK (stage BETWEEN {stage.main} AND {stage.finally}),
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;

-- Live task runs: exactly those that are not terminal. Narrow, no JSON, deleted when they end. With a rowid: the entries
-- of its partial indexes stay small, and a claim and an end address rows by number, which halves their cost.
CREATE TABLE task_runs (
    run_id       BLOB NOT NULL,
    idx          INTEGER NOT NULL,
    item         INTEGER NOT NULL DEFAULT -1,
    state        INTEGER NOT NULL CHECK (state BETWEEN {task.pending} AND {task.waiting}),
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
    CHECK (state <> {task.running} OR (session IS NOT NULL AND attempt > 0))
);
-- The ready index holds claimable rows only; the other partial indexes hold what is due, gated, undecided or claimed.
CREATE INDEX task_runs_ready ON task_runs (route, rank, due_at) WHERE state = {task.ready};
CREATE INDEX task_runs_due ON task_runs (due_at) WHERE state IN ({task.retrying}, {task.waiting});
CREATE INDEX task_runs_gated ON task_runs (pool, rank, due_at) WHERE state = {task.gated};
CREATE INDEX task_runs_undecided ON task_runs (due_at) WHERE state = {task.deciding} AND session IS NULL;
CREATE INDEX task_runs_claimed ON task_runs (session) WHERE session IS NOT NULL;

-- One row per waiting task run. Whatever happens sets `outcome` and makes the
-- task run `deciding`; a node then concludes it.
CREATE TABLE waits (
    run_id      BLOB NOT NULL,
    idx         INTEGER NOT NULL,
    item        INTEGER NOT NULL,
    kind        INTEGER NOT NULL CHECK (kind BETWEEN {wait.timer} AND {wait.items}),
    attempt     INTEGER NOT NULL,
    namespace   TEXT,
    event       TEXT,
    key         TEXT,
    child       BLOB,
    body        TEXT,
    due_at      INTEGER,
    created_at  INTEGER NOT NULL,
    outcome     INTEGER CHECK (outcome BETWEEN {waited.badly} AND {waited.moot}),
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

-- Ended task runs. A run's id is its time of creation, so new rows land at the end of the tree.
CREATE TABLE history (
    run_id       BLOB NOT NULL,
    idx          INTEGER NOT NULL,
    item         INTEGER NOT NULL,
    state        INTEGER NOT NULL CHECK (state BETWEEN {task.success} AND {task.resolved_manually}),
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
-- Subscribers read a run from a number on. The first thousand tasks are looked up by their key; only what a run may
-- have more of is indexed, so that small runs pay nothing.
CREATE INDEX history_by_seq ON history (run_id, seq) WHERE item >= 0 OR idx >= 1000;

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
CREATE INDEX history_superseded_by_seq ON history_superseded (run_id, seq);

-- Attempts that did not end their task run. The last attempt is in the history row.
CREATE TABLE attempts (
    run_id       BLOB NOT NULL,
    idx          INTEGER NOT NULL,
    item         INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    outcome      INTEGER NOT NULL CHECK (outcome BETWEEN {attempt.failed} AND {attempt.released}),
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
CREATE INDEX attempts_by_seq ON attempts (run_id, seq);

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

-- Files that attempts left to be kept.
CREATE TABLE artifacts (
    run_id      BLOB NOT NULL,
    idx         INTEGER NOT NULL,
    item        INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    name        TEXT NOT NULL,
    bytes       INTEGER NOT NULL,
    sha256      TEXT NOT NULL,
    executable  BOOLEAN NOT NULL,
    -- Either the content, or the key of the object that has it.
    content     BLOB,
    object      TEXT,
    PRIMARY KEY (run_id, idx, item, attempt, name),
    CHECK ((content IS NULL) <> (object IS NULL))
);

-- Objects that no artifact names: those being written, until a time by which that has ended, and those to be deleted.
CREATE TABLE unused_objects (
    object      TEXT NOT NULL PRIMARY KEY,
    due_at      INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX unused_objects_by_due ON unused_objects (due_at);

-- Results and files of tasks that later runs take over: the attempt that is to make them. Its success in the history makes them
-- valid; when its run is forgotten, what is valid is kept here.
CREATE TABLE cache_entries (
    kind        INTEGER NOT NULL CHECK (kind IN ({cache.result}, {cache.files})),
    -- Of results the namespace, workflow and task; of files the namespace.
    scope       TEXT NOT NULL,
    key         TEXT NOT NULL,
    run_id      BLOB NOT NULL,
    idx         INTEGER NOT NULL,
    item        INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    begun_at    INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    -- Its run is forgotten; the output was copied here.
    kept        BOOLEAN NOT NULL DEFAULT FALSE,
    output      TEXT,
    PRIMARY KEY (run_id, idx, item, attempt, kind)
);
CREATE INDEX cache_entries_by_key ON cache_entries (kind, scope, key, begun_at);
CREATE INDEX cache_entries_by_expiry ON cache_entries (expires_at);

-- Files of entries. An entry is whole when it has as many as each of them says.
CREATE TABLE cached_files (
    run_id      BLOB NOT NULL,
    idx         INTEGER NOT NULL,
    item        INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    name        TEXT NOT NULL,
    files       INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,
    sha256      TEXT NOT NULL,
    executable  BOOLEAN NOT NULL,
    content     BLOB,
    object      TEXT,
    PRIMARY KEY (run_id, idx, item, attempt, name),
    CHECK ((content IS NULL) <> (object IS NULL))
);

-- What attempts looked for by a key, and the attempt whose result or files they got.
CREATE TABLE cache_uses (
    run_id          BLOB NOT NULL,
    idx             INTEGER NOT NULL,
    item            INTEGER NOT NULL,
    attempt         INTEGER NOT NULL,
    kind            INTEGER NOT NULL CHECK (kind IN ({cache.result}, {cache.files})),
    key             TEXT NOT NULL,
    source_run      BLOB,
    source_idx      INTEGER,
    source_item     INTEGER,
    source_attempt  INTEGER,
    PRIMARY KEY (run_id, idx, item, attempt, kind)
);

-- Big units go on in chunks: what is still to be done for a run.
CREATE TABLE continuations (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id      BLOB NOT NULL,
    kind        INTEGER NOT NULL CHECK (kind BETWEEN {continuation.create} AND {continuation.cancel_child}),
    idx         INTEGER NOT NULL DEFAULT 0,
    counts      INTEGER NOT NULL DEFAULT 0,
    position    INTEGER NOT NULL DEFAULT 0,
    created_at  INTEGER NOT NULL
);
CREATE INDEX continuations_of_run ON continuations (run_id);

-- What the unit that ends a task does not know is captured by a duty right after it; `captured_at` is null until then.
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
    updated_at        INTEGER NOT NULL,
    namespace         TEXT,
    workflow_id       BLOB,
    workflow          TEXT,
    task_name         TEXT,
    fingerprint       TEXT,
    task_config       TEXT,
    execution_context TEXT,
    task_snapshot     TEXT,
    acted_by          TEXT,
    captured_at       INTEGER
);
CREATE UNIQUE INDEX dead_letters_one_pending_task ON dead_letters (run_id, idx, item) WHERE status = {letter.pending} AND idx IS NOT NULL;
CREATE UNIQUE INDEX dead_letters_one_pending_run ON dead_letters (run_id) WHERE status = {letter.pending} AND idx IS NULL;
CREATE INDEX dead_letters_by_status ON dead_letters (status, created_at);
CREATE INDEX dead_letters_uncaptured ON dead_letters (id) WHERE captured_at IS NULL;
CREATE INDEX dead_letters_by_run ON dead_letters (run_id, id);
CREATE INDEX dead_letters_by_fingerprint ON dead_letters (status, fingerprint, created_at);
CREATE INDEX dead_letters_closed ON dead_letters (resolved_at) WHERE status <> {letter.pending};

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
    created_at  INTEGER NOT NULL,
    token       TEXT,
    metadata    TEXT
);
CREATE INDEX operator_actions_by_run ON operator_actions (run_id, seq);
