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
    bytes       INTEGER NOT NULL,
    sha256      TEXT NOT NULL,
    executable  BOOLEAN NOT NULL,
    -- Either the content, or the key of the object that has it.
    content     BLOB,
    object      TEXT,
    PRIMARY KEY (run_id, idx, item, attempt, name),
    CHECK ((content IS NULL) <> (object IS NULL))
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

CREATE TABLE cache_entries (
    kind        INTEGER NOT NULL CHECK (kind IN (0, 1)),
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

CREATE INDEX cache_entries_by_expiry ON cache_entries (expires_at);

CREATE INDEX cache_entries_by_key ON cache_entries (kind, scope, key, begun_at);

CREATE TABLE cache_uses (
    run_id          BLOB NOT NULL,
    idx             INTEGER NOT NULL,
    item            INTEGER NOT NULL,
    attempt         INTEGER NOT NULL,
    kind            INTEGER NOT NULL CHECK (kind IN (0, 1)),
    key             TEXT NOT NULL,
    source_run      BLOB,
    source_idx      INTEGER,
    source_item     INTEGER,
    source_attempt  INTEGER,
    PRIMARY KEY (run_id, idx, item, attempt, kind)
);

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

CREATE INDEX dead_letters_by_fingerprint ON dead_letters (status, fingerprint, created_at);

CREATE INDEX dead_letters_by_run ON dead_letters (run_id, id);

CREATE INDEX dead_letters_by_status ON dead_letters (status, created_at);

CREATE INDEX dead_letters_closed ON dead_letters (resolved_at) WHERE status <> 0;

CREATE UNIQUE INDEX dead_letters_one_pending_run ON dead_letters (run_id) WHERE status = 0 AND idx IS NULL;

CREATE UNIQUE INDEX dead_letters_one_pending_task ON dead_letters (run_id, idx, item) WHERE status = 0 AND idx IS NOT NULL;

CREATE INDEX dead_letters_uncaptured ON dead_letters (id) WHERE captured_at IS NULL;

CREATE TABLE debounces (
    trigger_id  BLOB NOT NULL,
    key         TEXT NOT NULL,
    event_id    BLOB NOT NULL,
    due_at      INTEGER NOT NULL,
    PRIMARY KEY (trigger_id, key)
) WITHOUT ROWID;

CREATE INDEX debounces_due ON debounces (due_at);

CREATE TABLE dlq_batches (
    id          BLOB PRIMARY KEY,
    namespaces  TEXT,
    filter      TEXT NOT NULL,
    action      TEXT NOT NULL,
    actor       TEXT NOT NULL,
    token       TEXT,
    reason      TEXT,
    status      INTEGER NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 2),
    matched     INTEGER NOT NULL,
    done        INTEGER NOT NULL DEFAULT 0,
    failed      INTEGER NOT NULL DEFAULT 0,
    position    BLOB,
    error       TEXT,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    finished_at INTEGER
);

CREATE INDEX dlq_batches_open ON dlq_batches (id) WHERE status = 0;

CREATE TABLE event_causes (
    cause       BLOB PRIMARY KEY,
    since       INTEGER NOT NULL,
    started     INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX event_causes_by_age ON event_causes (since);

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
    cause       BLOB, -- the event or run at the beginning of what led to it; itself if there is none
    traceparent TEXT, -- the span that it was announced in, unless that is one of the run
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
    cause        BLOB, -- what is at the beginning of them
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
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    kind         INTEGER NOT NULL CHECK (kind IN (0, 1)),
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
    updated_at    INTEGER NOT NULL,
    -- Who is notified when something goes wrong, as JSON.
    notifications TEXT
);

CREATE TABLE notifications (
    id          BLOB PRIMARY KEY,
    namespace   TEXT NOT NULL,
    workflow    TEXT NOT NULL,
    kind        INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 3),
    cause       TEXT NOT NULL,
    run_id      BLOB,
    target      TEXT NOT NULL,
    target_key  TEXT NOT NULL,
    body        TEXT NOT NULL,
    status      INTEGER NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 3),
    attempts    INTEGER NOT NULL DEFAULT 0,
    due_at      INTEGER NOT NULL,
    error       TEXT,
    created_at  INTEGER NOT NULL,
    sent_at     INTEGER,
    UNIQUE (cause, target_key)
);

CREATE INDEX notifications_by_age ON notifications (created_at);

CREATE INDEX notifications_due ON notifications (due_at) WHERE status = 0;

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

CREATE TABLE pauses (
    namespace    TEXT NOT NULL,
    queue        TEXT NOT NULL,
    paused_by    TEXT NOT NULL,
    reason       TEXT,
    paused_at    INTEGER NOT NULL,
    resumed_at   INTEGER,
    PRIMARY KEY (namespace, queue)
);

CREATE TABLE poll_keys (
    trigger_id   BLOB NOT NULL REFERENCES triggers (id) ON DELETE CASCADE,
    key          TEXT NOT NULL,
    run_id       BLOB NOT NULL,
    seen_at      INTEGER NOT NULL, -- when it was found last
    PRIMARY KEY (trigger_id, key)
) WITHOUT ROWID;

CREATE INDEX poll_keys_by_age ON poll_keys (trigger_id, seen_at);

CREATE TABLE polls (
    trigger_id   BLOB PRIMARY KEY REFERENCES triggers (id) ON DELETE CASCADE,
    checks       INTEGER NOT NULL DEFAULT 0, -- those that have ended
    checked_at   INTEGER,
    check_run    BLOB,
    started      INTEGER NOT NULL DEFAULT 0, -- runs, one per key
    last_key     TEXT,
    last_run     BLOB, -- the one that was started last
    failures     INTEGER NOT NULL DEFAULT 0, -- in a row
    error        TEXT -- of the last check, if it failed
);

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
    reason         TEXT,
    -- When a run began that was put off: its waits match no event from before.
    began_at       INTEGER
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
    stage       INTEGER NOT NULL CHECK (stage BETWEEN 0 AND 3),
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;

CREATE TABLE runs (
    id          BLOB PRIMARY KEY,
    version     INTEGER NOT NULL,
    workflow_id BLOB NOT NULL,
    state       INTEGER NOT NULL CHECK (state BETWEEN 0 AND 5),
    stage       INTEGER NOT NULL DEFAULT 0 CHECK (stage BETWEEN 0 AND 3),
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

CREATE TABLE staleness_defaults (
    id                       INTEGER PRIMARY KEY CHECK (id = 1),
    waiting_for_dependencies INTEGER NOT NULL,
    waiting_for_retry        INTEGER NOT NULL,
    steps_in_process         INTEGER NOT NULL,
    lifetime                 INTEGER NOT NULL
);

CREATE TABLE starts (
    run_id BLOB PRIMARY KEY,
    due_at INTEGER NOT NULL
);

CREATE INDEX starts_due ON starts (due_at);

CREATE TABLE steal_requests (
    victim      INTEGER PRIMARY KEY,
    thief       INTEGER NOT NULL,
    wanted      INTEGER NOT NULL,
    created_at  INTEGER NOT NULL
);

CREATE TABLE submissions (
    namespace   TEXT NOT NULL,
    key         TEXT NOT NULL,
    run_id      BLOB NOT NULL,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (namespace, key)
) WITHOUT ROWID;

CREATE INDEX submissions_by_run ON submissions (run_id);

CREATE TABLE task_overrides (
    run_id      BLOB NOT NULL,
    idx         INTEGER NOT NULL,
    item        INTEGER NOT NULL,
    timeout_ms  INTEGER NOT NULL,
    PRIMARY KEY (run_id, idx, item)
);

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
    kind         INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 6),
    listens      TEXT, -- the event or webhook, or `namespace/name` of the workflow it listens to
    calendar     TEXT,
    spec         TEXT NOT NULL,
    check_version INTEGER, -- of a poll: the version that its fires start runs of
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

CREATE INDEX triggers_following ON triggers (listens) WHERE kind >= 5 AND present;

CREATE INDEX triggers_listening ON triggers (namespace, kind, listens) WHERE listens IS NOT NULL AND present;

CREATE TABLE ui_codes (
    hash       BLOB PRIMARY KEY CHECK (length(hash) = 32),
    token_id   BLOB NOT NULL REFERENCES api_tokens (id) ON DELETE CASCADE,
    expires_at INTEGER NOT NULL
);

CREATE INDEX ui_codes_by_age ON ui_codes (expires_at);

CREATE TABLE ui_sessions (
    hash       BLOB PRIMARY KEY CHECK (length(hash) = 32),
    token_id   BLOB NOT NULL REFERENCES api_tokens (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL
);

CREATE INDEX ui_sessions_by_age ON ui_sessions (created_at);

CREATE INDEX ui_sessions_of_token ON ui_sessions (token_id);

CREATE TABLE unsuccessful_runs (
    run_id      BLOB PRIMARY KEY,
    state       INTEGER NOT NULL CHECK (state IN (4, 5)),
    -- Whether its failure was looked at for notifications.
    noticed     INTEGER NOT NULL DEFAULT FALSE
) WITHOUT ROWID;

CREATE INDEX unsuccessful_runs_unnoticed ON unsuccessful_runs (run_id) WHERE NOT noticed;

CREATE TABLE unused_objects (
    object      TEXT NOT NULL PRIMARY KEY,
    due_at      INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX unused_objects_by_due ON unused_objects (due_at);

CREATE VIEW v_dlq_dashboard AS
SELECT CASE e.reason WHEN 0 THEN 'staleness_timeout' WHEN 1 THEN 'max_retries_exceeded' WHEN 2 THEN 'dependency_cycle_detected'
                     WHEN 3 THEN 'worker_unavailable' WHEN 4 THEN 'poison_pill' ELSE 'manual_dlq' END AS dlq_reason,
       count(*) AS total_entries,
       count(*) FILTER (WHERE e.status = 0) AS pending,
       count(*) FILTER (WHERE e.status = 1) AS retried,
       count(*) FILTER (WHERE e.status = 2) AS skipped,
       count(*) FILTER (WHERE e.status = 3) AS manually_resolved,
       count(*) FILTER (WHERE e.status = 4) AS permanent_failures,
       count(*) FILTER (WHERE e.status = 5) AS cancelled,
       strftime('%Y-%m-%dT%H:%M:%fZ', min(e.created_at) / 1000000.0, 'unixepoch') AS oldest_entry,
       strftime('%Y-%m-%dT%H:%M:%fZ', max(e.created_at) / 1000000.0, 'unixepoch') AS newest_entry,
       round(avg(e.resolved_at - e.created_at) FILTER (WHERE e.status <> 0) / 60000000.0, 2) AS avg_resolution_time_minutes
FROM dead_letters e GROUP BY e.reason;

CREATE VIEW v_dlq_investigation_queue AS
SELECT e.id AS dlq_entry_id, e.run_id,
       CASE WHEN e.idx IS NOT NULL THEN lower(substr(hex(e.run_id), 1, 8) || '-' || substr(hex(e.run_id), 9, 4) || '-' || substr(hex(e.run_id), 13, 4) || '-' || substr(hex(e.run_id), 17, 4) || '-' || substr(hex(e.run_id), 21)) || '.' || e.idx || CASE WHEN e.item >= 0 THEN '.' || e.item ELSE '' END END AS task_run_id,
       CASE e.reason WHEN 0 THEN 'staleness_timeout' WHEN 1 THEN 'max_retries_exceeded' WHEN 2 THEN 'dependency_cycle_detected'
                     WHEN 3 THEN 'worker_unavailable' WHEN 4 THEN 'poison_pill' ELSE 'manual_dlq' END AS dlq_reason,
       round(CASE e.reason WHEN 0 THEN 10 WHEN 1 THEN 20 WHEN 3 THEN 30
            WHEN 5 THEN 50 ELSE 40 END + (c.now - e.created_at) / 3600000000.0, 2) AS priority_score,
       round((c.now - e.created_at) / 60000000.0, 2) AS minutes_in_dlq,
       coalesce(e.namespace, w.namespace) AS namespace, coalesce(e.workflow, w.name) AS workflow, e.task_name
FROM dead_letters e LEFT JOIN versions v ON v.id = e.version LEFT JOIN workflows w ON w.id = v.workflow_id
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) AS now) c
WHERE e.status = 0 ORDER BY priority_score DESC;

CREATE VIEW v_open_runs AS
SELECT l.run_id, w.namespace, w.name AS workflow, r.workflow_id, r.version, r.state, r.rank, r.created_at, l.phase,
       max(r.progress_at, l.moved_at, coalesce((SELECT max(b.resumed_at) FROM pauses b WHERE b.namespace IN ('', w.namespace)), 0)) AS moved_at,
       coalesce(r.reopened_at, r.started_at, r.created_at) AS begun_at,
       CASE WHEN r.state <> 1 OR (l.busy = 0 AND l.waiting = 1 AND l.unbounded = 0) OR (l.stopped = 1 AND l.phase <> 2) THEN 1 ELSE 0 END AS exempt,
       CASE l.phase WHEN 0 THEN coalesce(v.waiting_for_dependencies, d.waiting_for_dependencies)
                    WHEN 1 THEN coalesce(v.waiting_for_retry, d.waiting_for_retry)
                    ELSE coalesce(v.steps_in_process, max(d.steps_in_process, coalesce(v.longest_timeout, 0))) END AS threshold,
       coalesce(v.lifetime, max(d.lifetime, coalesce(v.run_timeout, 0))) AS lifetime
FROM (SELECT t.run_id,
             CASE WHEN max(CASE WHEN t.state = 2 THEN 1 ELSE 0 END) = 1 THEN 2 WHEN max(CASE WHEN t.state = 3 THEN 1 ELSE 0 END) = 1 THEN 1 ELSE 0 END AS phase,
             max(CASE WHEN t.state IN (0, 8) THEN 0 ELSE 1 END) AS busy,
             max(CASE WHEN t.state = 8 THEN 1 ELSE 0 END) AS waiting,
             max(CASE WHEN t.state = 1 AND t.route IN (SELECT o.id FROM routes o JOIN pauses b ON b.namespace IN ('', o.namespace)
                 AND b.queue IN ('', o.queue) AND b.resumed_at IS NULL) THEN 1 ELSE 0 END) AS stopped,
             max(CASE WHEN t.state = 8 AND t.due_at = 9223372036854775807 AND t.flags & 128 = 0 AND NOT EXISTS (
                 SELECT 1 FROM waits x WHERE x.run_id = t.run_id AND x.idx = t.idx AND x.item = t.item AND x.child IS NOT NULL) THEN 1 ELSE 0 END) AS unbounded,
             max(CASE WHEN t.state = 2 THEN t.started_at WHEN t.state IN (1, 5) THEN t.due_at ELSE 0 END) AS moved_at
      FROM task_runs t GROUP BY t.run_id) l
JOIN runs r ON r.id = l.run_id
JOIN workflows w ON w.id = r.workflow_id
JOIN staleness_defaults d ON d.id = 1
LEFT JOIN version_thresholds v ON v.version = r.version
WHERE r.state < 3;

CREATE VIEW v_task_staleness_monitoring AS
SELECT m.run_id, m.namespace, m.workflow,
       CASE m.phase WHEN 0 THEN 'waiting_for_dependencies' WHEN 1 THEN 'waiting_for_retry' ELSE 'steps_in_process' END AS current_state,
       round(CASE WHEN m.by_lifetime THEN m.alive ELSE m.in_phase END / 60000000.0, 2) AS time_in_state_minutes,
       round(CASE WHEN m.by_lifetime THEN m.lifetime ELSE m.threshold END / 60000000.0, 2) AS staleness_threshold_minutes,
       round(CASE WHEN m.by_lifetime THEN m.by_life ELSE m.by_phase END, 2) AS threshold_percentage,
       CASE WHEN max(m.by_phase, m.by_life) >= 100 THEN 'stale' WHEN max(m.by_phase, m.by_life) >= 80 THEN 'warning' ELSE 'healthy' END AS health_status,
       1000 - m.rank AS priority
FROM (SELECT p.*, p.exempt = 1 OR (p.by_life >= 100 AND p.by_phase < 100) OR (p.by_life >= 80 AND p.by_phase < 80) AS by_lifetime
      FROM (SELECT o.*, c.now - o.moved_at AS in_phase, c.now - o.begun_at AS alive,
                   CASE WHEN o.exempt = 1 THEN 0 ELSE (c.now - o.moved_at) * 100.0 / o.threshold END AS by_phase,
                   (c.now - o.begun_at) * 100.0 / o.lifetime AS by_life
            FROM v_open_runs o CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) AS now) c) p) m
ORDER BY threshold_percentage DESC;

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

CREATE TABLE version_thresholds (
    version                  INTEGER PRIMARY KEY REFERENCES versions (id) ON DELETE CASCADE,
    waiting_for_dependencies INTEGER,
    waiting_for_retry        INTEGER,
    steps_in_process         INTEGER,
    lifetime                 INTEGER,
    longest_timeout          INTEGER,
    run_timeout              INTEGER
);

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
    -- Who stored its first version.
    created_by  TEXT,
    -- Jobs, triggers or handlers follow how its runs end: their rows in `runs` carry the flag `followed`, and the unit that
    -- ends one leaves a row in `run_ends`.
    followed    BOOLEAN NOT NULL DEFAULT FALSE,
    -- Of the workflow that executes the checks of a poll: the workflow whose trigger that is. People do not see it in lists.
    check_of    BLOB,
    UNIQUE (namespace, name)
);

CREATE INDEX workflows_followed ON workflows (id) WHERE followed;

CREATE INDEX workflows_of_checks ON workflows (check_of) WHERE check_of IS NOT NULL;
