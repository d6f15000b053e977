-- What follows from runs having ended and from events: jobs, handlers, deliveries.

-- Somebody wants to know how its runs end: their row in `runs` carries flag 256, and the unit that ends one leaves a row
-- in `run_ends`.
ALTER TABLE workflows ADD COLUMN followed BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX workflows_followed ON workflows (id) WHERE followed;

-- Ends of followed runs, one per generation, until what follows from them was done: in the transaction that deletes the row.
CREATE TABLE run_ends (
    run_id      BLOB NOT NULL,
    generation  INTEGER NOT NULL,
    workflow_id BLOB NOT NULL,
    state       INTEGER NOT NULL CHECK (state BETWEEN 3 AND 5),
    finished_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, generation)
) WITHOUT ROWID;

-- A workflow of one task and its trigger, made in one call. `spec` is what was asked for, as JSON. What its status is
-- follows from `cancelled_at` and from its trigger. The counters count every end of a run once.
-- Kinds: 0 cron, 1 one_time, 2 recurring, 3 dependent.
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

CREATE TABLE job_tags (
    tag         TEXT NOT NULL,
    job_id      BLOB NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    PRIMARY KEY (tag, job_id)
) WITHOUT ROWID;

-- Actions: 0 create_job, 1 trigger_workflow, 2 dispatch_agent. Without a namespace it handles the events of all.
-- An `event_name` that ends in `*` stands for every name that begins so.
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

-- `run_id` is the run that announced it, `depth` how many runs led to it by events and ends of runs. `handled` once every
-- handler and trigger has its delivery.
ALTER TABLE events ADD COLUMN run_id BLOB;
ALTER TABLE events ADD COLUMN depth INTEGER NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN handled BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX events_unhandled ON events (created_at) WHERE NOT handled;

-- What one handler or trigger made of one event, exactly once: the row is written in the transaction that does it.
-- Outcomes: 0 started, 1 its condition said no, 2 failed, 3 waits for the window of its debounce, 4 a later event took its place.
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

-- The last event of those that follow each other within a window; a run is made of it when the window has passed.
CREATE TABLE debounces (
    trigger_id  BLOB NOT NULL,
    key         TEXT NOT NULL,
    event_id    BLOB NOT NULL,
    due_at      INTEGER NOT NULL,
    PRIMARY KEY (trigger_id, key)
) WITHOUT ROWID;
CREATE INDEX debounces_due ON debounces (due_at);
