-- Events, their handlers and deliveries, and the ends of runs that others follow.

-- Durable before it is acknowledged; `matched` once every waiting task run has been looked at. `run_id` is the run that
-- announced it, `depth` how many runs led to it by events and ends of runs. `handled` once every handler and trigger has its delivery.
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
CREATE INDEX events_by_name ON events (namespace, name, created_at);
CREATE INDEX events_unmatched ON events (created_at) WHERE NOT matched;
CREATE INDEX events_by_age ON events (created_at) WHERE matched;
CREATE INDEX events_unhandled ON events (created_at) WHERE NOT handled;

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

-- Ends of followed runs, one per generation, until what follows from them was done: in the transaction that deletes the row.
CREATE TABLE run_ends (
    run_id      BLOB NOT NULL,
    generation  INTEGER NOT NULL,
    workflow_id BLOB NOT NULL,
    state       INTEGER NOT NULL CHECK (state BETWEEN {run.success} AND {run.cancelled}),
    finished_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, generation)
) WITHOUT ROWID;

-- How many runs and jobs listeners have started for one cause since an instant: what bounds the fan-out of events.
CREATE TABLE event_causes (
    cause       BLOB PRIMARY KEY,
    since       INTEGER NOT NULL,
    started     INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX event_causes_by_age ON event_causes (since);
