-- What follows from runs having ended and from events: jobs, handlers, deliveries.

-- Somebody wants to know how its runs end: their row in `runs` carries flag 256, and the unit that ends one leaves a row
-- in `run_ends`.
ALTER TABLE workflows ADD COLUMN followed boolean NOT NULL DEFAULT FALSE;
CREATE INDEX workflows_followed ON workflows (id) WHERE followed;

-- Ends of followed runs, one per generation, until what follows from them was done: in the transaction that deletes the row.
CREATE TABLE run_ends (
    run_id      uuid NOT NULL,
    generation  smallint NOT NULL,
    workflow_id uuid NOT NULL,
    state       smallint NOT NULL CHECK (state BETWEEN 3 AND 5),
    finished_at bigint NOT NULL,
    PRIMARY KEY (run_id, generation)
);

-- A workflow of one task and its trigger, made in one call. `spec` is what was asked for, as JSON. What its status is
-- follows from `cancelled_at` and from its trigger. The counters count every end of a run once.
-- Kinds: 0 cron, 1 one_time, 2 recurring, 3 dependent.
CREATE TABLE jobs (
    id           uuid PRIMARY KEY,
    namespace    text NOT NULL,
    name         text NOT NULL,
    kind         smallint NOT NULL CHECK (kind BETWEEN 0 AND 3),
    workflow_id  uuid NOT NULL UNIQUE REFERENCES workflows (id) ON DELETE CASCADE,
    spec         text NOT NULL,
    max_executions bigint, -- of a dependent job; the clock knows the others'
    depth        integer NOT NULL DEFAULT 0, -- how many runs led to its being made
    created_by   text NOT NULL,
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    cancelled_at bigint,
    executions   bigint NOT NULL DEFAULT 0,
    successes    bigint NOT NULL DEFAULT 0,
    failures     bigint NOT NULL DEFAULT 0,
    measured     bigint NOT NULL DEFAULT 0, -- how many executions `duration` sums up, in microseconds
    duration     bigint NOT NULL DEFAULT 0,
    last_run_at  bigint
) WITH (fillfactor = 80);
CREATE INDEX jobs_by_namespace ON jobs (namespace, id);

CREATE TABLE job_tags (
    tag         text NOT NULL,
    job_id      uuid NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    PRIMARY KEY (tag, job_id)
);

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

-- `run_id` is the run that announced it, `depth` how many runs led to it by events and ends of runs. `handled` once every
-- handler and trigger has its delivery.
ALTER TABLE events ADD COLUMN run_id uuid;
ALTER TABLE events ADD COLUMN depth integer NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN handled boolean NOT NULL DEFAULT FALSE;
CREATE INDEX events_unhandled ON events (created_at) WHERE NOT handled;

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

-- Leaves word that these runs have ended, once per generation.
CREATE FUNCTION runs_ended_v1(p_runs uuid[]) RETURNS void
LANGUAGE sql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
    INSERT INTO run_ends (run_id, generation, workflow_id, state, finished_at)
    SELECT r.id, r.generation, r.workflow_id, r.state, r.finished_at FROM runs r WHERE r.id = ANY (p_runs) AND r.state >= 3
    ON CONFLICT DO NOTHING
$$;

-- The flags of new runs, with 256 for those of followed workflows.
CREATE FUNCTION followed_flags_v1(p_workflow uuid[], p_flags smallint[]) RETURNS smallint[]
LANGUAGE sql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
    SELECT array_agg((u.flags | CASE WHEN w.id IS NULL THEN 0 ELSE 256 END)::smallint ORDER BY u.ord)
    FROM unnest(p_workflow, p_flags) WITH ORDINALITY AS u(workflow, flags, ord)
    LEFT JOIN workflows w ON w.id = u.workflow AND w.followed
$$;
