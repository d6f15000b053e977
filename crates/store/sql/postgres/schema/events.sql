-- Events, their handlers and deliveries, and the ends of runs that others follow.

-- Durable before it is acknowledged; `matched` once every waiting task run has been looked at. `run_id` is the run that
-- announced it, `depth` how many runs led to it by events and ends of runs. `handled` once every handler and trigger has its delivery.
CREATE TABLE events (
    id          uuid PRIMARY KEY,
    namespace   text NOT NULL,
    name        text NOT NULL,
    key         text,
    data        text NOT NULL,
    source      text NOT NULL,
    created_at  bigint NOT NULL,
    matched     boolean NOT NULL DEFAULT FALSE,
    run_id      uuid,
    depth       integer NOT NULL DEFAULT 0,
    cause       uuid, -- the event or run at the beginning of what led to it; itself if there is none
    traceparent text, -- the span that it was announced in, unless that is one of the run
    handled     boolean NOT NULL DEFAULT FALSE
);
CREATE INDEX events_by_name ON events (namespace, name, created_at);
CREATE INDEX events_unmatched ON events (created_at) WHERE NOT matched;
CREATE INDEX events_by_age ON events (created_at) WHERE matched;
CREATE INDEX events_unhandled ON events (created_at) WHERE NOT handled;

-- Actions: 0 create_job, 1 trigger_workflow, 2 dispatch_agent. Without a namespace it handles the events of all.
-- An `event_name` that ends in `*` stands for every name that begins so.
CREATE TABLE event_handlers (
    id             uuid PRIMARY KEY,
    namespace      text,
    event_name     text NOT NULL,
    handler_name   text NOT NULL,
    handler_type   text NOT NULL,
    enabled        boolean NOT NULL DEFAULT TRUE,
    priority       integer NOT NULL DEFAULT 0,
    action         smallint NOT NULL CHECK (action BETWEEN 0 AND 2),
    config         text NOT NULL,
    trigger_count  bigint NOT NULL DEFAULT 0,
    success_count  bigint NOT NULL DEFAULT 0,
    failure_count  bigint NOT NULL DEFAULT 0,
    last_triggered bigint,
    created_by     text NOT NULL,
    created_at     bigint NOT NULL,
    updated_at     bigint NOT NULL
);
CREATE INDEX event_handlers_by_event ON event_handlers (event_name) WHERE enabled;

-- What one handler or trigger made of one event, exactly once: the row is written in the transaction that does it.
-- Outcomes: 0 started, 1 its condition said no, 2 failed, 3 waits for the window of its debounce, 4 a later event took its place.
CREATE TABLE event_deliveries (
    event_id    uuid NOT NULL,
    listener    uuid NOT NULL,
    outcome     smallint NOT NULL CHECK (outcome BETWEEN 0 AND 4),
    run_id      uuid,
    job_id      uuid,
    reason      text,
    created_at  bigint NOT NULL,
    PRIMARY KEY (event_id, listener)
);

-- The last event of those that follow each other within a window; a run is made of it when the window has passed.
CREATE TABLE debounces (
    trigger_id  uuid NOT NULL,
    key         text NOT NULL,
    event_id    uuid NOT NULL,
    due_at      bigint NOT NULL,
    PRIMARY KEY (trigger_id, key)
);
CREATE INDEX debounces_due ON debounces (due_at);

-- Ends of followed runs, one per generation, until what follows from them was done: in the transaction that deletes the row.
CREATE TABLE run_ends (
    run_id      uuid NOT NULL,
    generation  smallint NOT NULL,
    workflow_id uuid NOT NULL,
    state       smallint NOT NULL CHECK (state BETWEEN {run.success} AND {run.cancelled}),
    finished_at bigint NOT NULL,
    PRIMARY KEY (run_id, generation)
);

-- How many runs and jobs listeners have started for one cause since an instant: what bounds the fan-out of events.
CREATE TABLE event_causes (
    cause       uuid PRIMARY KEY,
    since       bigint NOT NULL,
    started     bigint NOT NULL
);
CREATE INDEX event_causes_by_age ON event_causes (since);
