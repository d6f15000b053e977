CREATE TABLE api_tokens (
    id           BLOB PRIMARY KEY,
    name         TEXT NOT NULL,
    hash         BLOB NOT NULL CHECK (length(hash) = 32),
    grants       TEXT NOT NULL,
    created_by   TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    last_used_at INTEGER,
    revoked_at   INTEGER
);

CREATE TABLE artifacts (
    run_id      BLOB NOT NULL,
    idx         INTEGER NOT NULL,
    item        INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    name        TEXT NOT NULL,
    content     BLOB NOT NULL,
    PRIMARY KEY (run_id, idx, item, attempt, name)
);

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

CREATE INDEX attempts_by_seq ON attempts (run_id, seq);

CREATE TABLE audit_log (
    id         BLOB PRIMARY KEY,
    at         INTEGER NOT NULL,
    actor      TEXT NOT NULL,
    address    TEXT,
    method     TEXT NOT NULL,
    path       TEXT NOT NULL,
    namespace  TEXT,
    status     INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    detail     TEXT
);

CREATE INDEX audit_log_by_actor ON audit_log (actor, id);

CREATE INDEX audit_log_by_namespace ON audit_log (namespace, id);

CREATE TABLE backfills (
    id           BLOB PRIMARY KEY,
    trigger_id   BLOB NOT NULL REFERENCES triggers (id) ON DELETE CASCADE,
    from_at      INTEGER NOT NULL,
    to_at        INTEGER NOT NULL,
    position_at  INTEGER NOT NULL,
    max_parallel INTEGER NOT NULL CHECK (max_parallel > 0),
    priority     INTEGER NOT NULL,
    status       INTEGER NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 2),
    created_by   TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    finished_at  INTEGER
);

CREATE INDEX backfills_active ON backfills (created_at) WHERE status = 0;

CREATE TABLE calendars (
    namespace    TEXT NOT NULL,
    name         TEXT NOT NULL,
    spec         TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
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

CREATE INDEX dead_letters_by_status ON dead_letters (status, created_at);

CREATE UNIQUE INDEX dead_letters_one_pending_run ON dead_letters (run_id) WHERE status = 0 AND idx IS NULL;

CREATE UNIQUE INDEX dead_letters_one_pending_task ON dead_letters (run_id, idx, item) WHERE status = 0 AND idx IS NOT NULL;

CREATE TABLE debounces (
    trigger_id  BLOB NOT NULL,
    key         TEXT NOT NULL,
    event_id    BLOB NOT NULL,
    due_at      INTEGER NOT NULL,
    PRIMARY KEY (trigger_id, key)
) WITHOUT ROWID;

CREATE INDEX debounces_due ON debounces (due_at);

CREATE TABLE event_deliveries (
    event_id    BLOB NOT NULL,
    listener    BLOB NOT NULL,
    outcome     INTEGER NOT NULL CHECK (outcome BETWEEN 0 AND 4),
    run_id      BLOB,
    job_id      BLOB,
    reason      TEXT,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (event_id, listener)
) WITHOUT ROWID;

CREATE TABLE event_handlers (
    id             BLOB PRIMARY KEY,
    namespace      TEXT,
    event_name     TEXT NOT NULL,
    handler_name   TEXT NOT NULL,
    handler_type   TEXT NOT NULL,
    enabled        BOOLEAN NOT NULL DEFAULT TRUE,
    priority       INTEGER NOT NULL DEFAULT 0,
    action         INTEGER NOT NULL CHECK (action BETWEEN 0 AND 2),
    config         TEXT NOT NULL,
    trigger_count  INTEGER NOT NULL DEFAULT 0,
    success_count  INTEGER NOT NULL DEFAULT 0,
    failure_count  INTEGER NOT NULL DEFAULT 0,
    last_triggered INTEGER,
    created_by     TEXT NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL
);

CREATE INDEX event_handlers_by_event ON event_handlers (event_name) WHERE enabled;

CREATE TABLE events (
    id          BLOB PRIMARY KEY,
    namespace   TEXT NOT NULL,
    name        TEXT NOT NULL,
    key         TEXT,
    data        TEXT NOT NULL,
    source      TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    matched     BOOLEAN NOT NULL DEFAULT FALSE,
    run_id      BLOB,
    depth       INTEGER NOT NULL DEFAULT 0,
    handled     BOOLEAN NOT NULL DEFAULT FALSE
);

CREATE INDEX events_by_age ON events (created_at) WHERE matched;

CREATE INDEX events_by_name ON events (namespace, name, created_at);

CREATE INDEX events_unhandled ON events (created_at) WHERE NOT handled;

CREATE INDEX events_unmatched ON events (created_at) WHERE NOT matched;

CREATE TABLE fires (
    trigger_id   BLOB NOT NULL,
    nominal_at   INTEGER NOT NULL,
    backfill     BLOB NOT NULL,
    outcome      INTEGER NOT NULL CHECK (outcome BETWEEN 0 AND 4),
    until_at     INTEGER,
    count        INTEGER NOT NULL DEFAULT 1,
    run_id       BLOB,
    reason       TEXT,
    fired_at     INTEGER NOT NULL,
    PRIMARY KEY (trigger_id, nominal_at, backfill),
    CHECK ((outcome = 0) = (run_id IS NOT NULL))
) WITHOUT ROWID;

CREATE INDEX fires_of_backfills ON fires (backfill, nominal_at) WHERE backfill <> x'00000000000000000000000000000000';

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

CREATE INDEX history_by_seq ON history (run_id, seq) WHERE item >= 0 OR idx >= 1000;

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

CREATE TABLE idempotent_requests (
    actor        TEXT NOT NULL,
    key          TEXT NOT NULL,
    request_hash BLOB NOT NULL CHECK (length(request_hash) = 32),
    claim        BLOB NOT NULL,
    status       INTEGER,
    content_type TEXT,
    body         BLOB,
    created_at   INTEGER NOT NULL,
    PRIMARY KEY (actor, key)
);

CREATE INDEX idempotent_requests_by_age ON idempotent_requests (created_at);

CREATE TABLE items (
    run_id      BLOB NOT NULL,
    idx         INTEGER NOT NULL,
    item        INTEGER NOT NULL,
    value       TEXT NOT NULL,
    PRIMARY KEY (run_id, idx, item)
) WITHOUT ROWID;

CREATE TABLE job_tags (
    tag         TEXT NOT NULL,
    job_id      BLOB NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    PRIMARY KEY (tag, job_id)
) WITHOUT ROWID;

CREATE TABLE jobs (
    id           BLOB PRIMARY KEY,
    namespace    TEXT NOT NULL,
    name         TEXT NOT NULL,
    kind         INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 3),
    workflow_id  BLOB NOT NULL UNIQUE REFERENCES workflows (id) ON DELETE CASCADE,
    spec         TEXT NOT NULL,
    max_executions INTEGER, -- of a dependent job; the clock knows the others'
    depth        INTEGER NOT NULL DEFAULT 0, -- how many runs led to its being made
    created_by   TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    cancelled_at INTEGER,
    executions   INTEGER NOT NULL DEFAULT 0,
    successes    INTEGER NOT NULL DEFAULT 0,
    failures     INTEGER NOT NULL DEFAULT 0,
    measured     INTEGER NOT NULL DEFAULT 0, -- how many executions `duration` sums up, in microseconds
    duration     INTEGER NOT NULL DEFAULT 0,
    last_run_at  INTEGER
);

CREATE INDEX jobs_by_namespace ON jobs (namespace, id);

CREATE TABLE lanes (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    node        BLOB NOT NULL,
    seq         INTEGER NOT NULL DEFAULT 0,
    voided      INTEGER NOT NULL DEFAULT 0,
    created_at  INTEGER NOT NULL
);

CREATE TABLE limits (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    kind        INTEGER NOT NULL CHECK (kind IN (0, 1)),
    key         TEXT NOT NULL,
    capacity    INTEGER CHECK (capacity >= 0),
    held        INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0),
    UNIQUE (kind, key)
);

CREATE TABLE locks (
    name         TEXT PRIMARY KEY,
    fence        INTEGER NOT NULL,
    holder       BLOB NOT NULL,
    holder_name  TEXT NOT NULL,
    ttl_ms       INTEGER NOT NULL CHECK (ttl_ms > 0),
    beat         INTEGER NOT NULL,
    released     BOOLEAN NOT NULL
);

CREATE TABLE logs (
    run_id      BLOB NOT NULL,
    idx         INTEGER NOT NULL,
    item        INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    chunk       INTEGER NOT NULL,
    lines       TEXT NOT NULL,
    PRIMARY KEY (run_id, idx, item, attempt, chunk)
);

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

CREATE TABLE namespaces (
    name          TEXT PRIMARY KEY,
    description   TEXT,
    max_open_runs INTEGER CHECK (max_open_runs >= 0),
    max_workflows INTEGER CHECK (max_workflows >= 0),
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL
);

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

CREATE TABLE routes (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace   TEXT NOT NULL,
    queue       TEXT NOT NULL,
    labels      TEXT NOT NULL,
    class       INTEGER NOT NULL CHECK (class BETWEEN 0 AND 2),
    UNIQUE (namespace, queue, labels, class)
);

CREATE TABLE run_details (
    run_id         BLOB PRIMARY KEY,
    inputs         TEXT,
    outputs        TEXT,
    correlation_id TEXT,
    trigger        TEXT,
    reason         TEXT
);

CREATE INDEX run_details_by_correlation ON run_details (correlation_id) WHERE correlation_id IS NOT NULL;

CREATE TABLE run_ends (
    run_id      BLOB NOT NULL,
    generation  INTEGER NOT NULL,
    workflow_id BLOB NOT NULL,
    state       INTEGER NOT NULL CHECK (state BETWEEN 3 AND 5),
    finished_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, generation)
) WITHOUT ROWID;

CREATE TABLE run_transitions (
    run_id      BLOB NOT NULL,
    seq         INTEGER NOT NULL,
    kind        INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 4),
    state       INTEGER NOT NULL CHECK (state BETWEEN 0 AND 5),
    stage       INTEGER NOT NULL CHECK (stage BETWEEN 0 AND 2),
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (run_id, seq)
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

CREATE INDEX runs_by_deadline ON runs (deadline_at) WHERE deadline_at IS NOT NULL;

CREATE INDEX runs_by_workflow ON runs (workflow_id, id);

CREATE INDEX runs_holding ON runs (holds) WHERE holds IS NOT NULL;

CREATE INDEX runs_queued ON runs (waits_for, rank, id) WHERE waits_for IS NOT NULL;

CREATE VIRTUAL TABLE search_documents USING fts5 (namespace UNINDEXED, kind UNINDEXED, id UNINDEXED, title, body, tokenize = 'unicode61');

CREATE TABLE 'search_documents_config'(k PRIMARY KEY, v) WITHOUT ROWID;

CREATE TABLE 'search_documents_content'(id INTEGER PRIMARY KEY, c0, c1, c2, c3, c4);

CREATE TABLE 'search_documents_data'(id INTEGER PRIMARY KEY, block BLOB);

CREATE TABLE 'search_documents_docsize'(id INTEGER PRIMARY KEY, sz BLOB);

CREATE TABLE 'search_documents_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;

CREATE TABLE secrets (
    namespace  TEXT NOT NULL,
    name       TEXT NOT NULL,
    sealed     BLOB NOT NULL,
    key_id     TEXT NOT NULL,
    updated_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
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

CREATE TABLE starts (
    run_id BLOB PRIMARY KEY,
    due_at INTEGER NOT NULL
);

CREATE INDEX starts_due ON starts (due_at);

CREATE TABLE submissions (
    namespace   TEXT NOT NULL,
    key         TEXT NOT NULL,
    run_id      BLOB NOT NULL,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (namespace, key)
) WITHOUT ROWID;

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

CREATE INDEX task_runs_claimed ON task_runs (session) WHERE session IS NOT NULL;

CREATE INDEX task_runs_due ON task_runs (due_at) WHERE state IN (3, 8);

CREATE INDEX task_runs_gated ON task_runs (pool, rank, due_at) WHERE state = 5;

CREATE INDEX task_runs_ready ON task_runs (route, rank, due_at) WHERE state = 1;

CREATE INDEX task_runs_undecided ON task_runs (due_at) WHERE state = 4 AND session IS NULL;

CREATE TABLE terms (
    name        TEXT PRIMARY KEY,
    epoch       INTEGER NOT NULL,
    term_id     BLOB NOT NULL,
    node        BLOB NOT NULL,
    beat        INTEGER NOT NULL,
    released    BOOLEAN NOT NULL DEFAULT FALSE
) WITHOUT ROWID;

CREATE TABLE triggers (
    id           BLOB PRIMARY KEY,
    workflow_id  BLOB NOT NULL REFERENCES workflows (id) ON DELETE CASCADE,
    namespace    TEXT NOT NULL,
    name         TEXT NOT NULL,
    kind         INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 5),
    listens      TEXT, -- the event or webhook, or `namespace/name` of the workflow it listens to
    calendar     TEXT,
    spec         TEXT NOT NULL,
    revision     INTEGER NOT NULL DEFAULT 1,
    present      BOOLEAN NOT NULL DEFAULT TRUE, -- false once the newest version does not name it any more
    active       BOOLEAN NOT NULL DEFAULT TRUE, -- that of its workflow
    paused       BOOLEAN NOT NULL DEFAULT FALSE,
    anchor_at    INTEGER NOT NULL,
    covered_at   INTEGER NOT NULL,
    next_nominal INTEGER,
    next_fire_at INTEGER,
    fired        INTEGER NOT NULL DEFAULT 0,
    last_fire_at INTEGER,
    problem      TEXT, -- why it cannot fire
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    UNIQUE (workflow_id, name),
    CHECK ((next_fire_at IS NULL) = (next_nominal IS NULL))
);

CREATE INDEX triggers_by_calendar ON triggers (namespace, calendar) WHERE calendar IS NOT NULL AND present;

CREATE INDEX triggers_due ON triggers (next_fire_at) WHERE next_fire_at IS NOT NULL AND NOT paused AND present AND active;

CREATE INDEX triggers_following ON triggers (listens) WHERE kind = 5 AND present;

CREATE INDEX triggers_listening ON triggers (namespace, kind, listens) WHERE listens IS NOT NULL AND present;

CREATE TABLE unsuccessful_runs (
    run_id      BLOB PRIMARY KEY,
    state       INTEGER NOT NULL CHECK (state IN (4, 5))
) WITHOUT ROWID;

CREATE TABLE version_files (
    version     INTEGER NOT NULL REFERENCES versions (id) ON DELETE CASCADE,
    path        TEXT NOT NULL,
    executable  BOOLEAN NOT NULL,
    content     BLOB NOT NULL,
    PRIMARY KEY (version, path)
);

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

CREATE UNIQUE INDEX waits_for_child ON waits (child) WHERE child IS NOT NULL;

CREATE INDEX waits_for_event ON waits (namespace, event) WHERE event IS NOT NULL AND outcome IS NULL;

CREATE TABLE workflows (
    id          BLOB PRIMARY KEY,
    namespace   TEXT NOT NULL,
    name        TEXT NOT NULL,
    active      BOOLEAN NOT NULL DEFAULT TRUE,
    latest      INTEGER,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    -- Jobs, triggers or handlers follow how its runs end: their rows in `runs` carry the flag `followed`, and the unit that
    -- ends one leaves a row in `run_ends`.
    followed    BOOLEAN NOT NULL DEFAULT FALSE,
    UNIQUE (namespace, name)
);

CREATE INDEX workflows_followed ON workflows (id) WHERE followed;
