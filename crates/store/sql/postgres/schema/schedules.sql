-- What starts runs by the clock: triggers, their fires, calendars, backfills, jobs.

-- One row per trigger of the newest version of a workflow (not: manual). `name` is the trigger's id within its workflow and
-- survives applying it again. Kinds: 0 cron, 1 every, 2 at, 3 event, 4 webhook, 5 workflow, 6 poll;
-- from 5 on they listen to the ends of runs.
-- Every nominal instant up to `covered_at` has its row in `fires`, or lies within one that covers a range. Firing is a
-- compare-and-swap on (next_fire_at, revision) of a row that is present, active and not paused.
CREATE TABLE triggers (
    id           uuid PRIMARY KEY,
    workflow_id  uuid NOT NULL REFERENCES workflows (id) ON DELETE CASCADE,
    namespace    text NOT NULL,
    name         text NOT NULL,
    kind         smallint NOT NULL CHECK (kind BETWEEN 0 AND 6),
    listens      text, -- the event or webhook, or `namespace/name` of the workflow it listens to
    calendar     text,
    spec         text NOT NULL,
    check_version bigint, -- of a poll: the version that its fires start runs of
    revision     bigint NOT NULL DEFAULT 1,
    present      boolean NOT NULL DEFAULT TRUE, -- false once the newest version does not name it any more
    active       boolean NOT NULL DEFAULT TRUE, -- that of its workflow
    paused       boolean NOT NULL DEFAULT FALSE,
    anchor_at    bigint NOT NULL,
    covered_at   bigint NOT NULL,
    next_nominal bigint,
    next_fire_at bigint,
    fired        bigint NOT NULL DEFAULT 0,
    last_fire_at bigint,
    problem      text, -- why it cannot fire
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    UNIQUE (workflow_id, name),
    CHECK ((next_fire_at IS NULL) = (next_nominal IS NULL))
) WITH (fillfactor = 80);
CREATE INDEX triggers_due ON triggers (next_fire_at) WHERE next_fire_at IS NOT NULL AND NOT paused AND present AND active;
CREATE INDEX triggers_listening ON triggers (namespace, kind, listens) WHERE listens IS NOT NULL AND present;
CREATE INDEX triggers_following ON triggers (listens) WHERE kind >= 5 AND present;
CREATE INDEX triggers_by_calendar ON triggers (namespace, calendar) WHERE calendar IS NOT NULL AND present;

-- What became of each nominal instant: 0 fired, 1 skipped (overlap), 2 missed, 3 blacked out by the calendar, 4 failed.
-- Missed and blacked-out rows may stand for a range: all nominal instants from `nominal_at` to `until_at`.
-- `backfill` is the nil UUID for fires of the clock.
CREATE TABLE fires (
    trigger_id   uuid NOT NULL,
    nominal_at   bigint NOT NULL,
    backfill     uuid NOT NULL,
    outcome      smallint NOT NULL CHECK (outcome BETWEEN 0 AND 4),
    until_at     bigint,
    count        bigint NOT NULL DEFAULT 1,
    run_id       uuid,
    reason       text,
    fired_at     bigint NOT NULL,
    PRIMARY KEY (trigger_id, nominal_at, backfill),
    CHECK ((outcome = 0) = (run_id IS NOT NULL))
);
CREATE INDEX fires_of_backfills ON fires (backfill, nominal_at) WHERE backfill <> '00000000-0000-0000-0000-000000000000';

CREATE TABLE calendars (
    namespace    text NOT NULL,
    name         text NOT NULL,
    spec         text NOT NULL,
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    PRIMARY KEY (namespace, name)
);

-- 0 active, 1 done, 2 cancelled. `position_at` is the last nominal instant that was handled.
CREATE TABLE backfills (
    id           uuid PRIMARY KEY,
    trigger_id   uuid NOT NULL REFERENCES triggers (id) ON DELETE CASCADE,
    from_at      bigint NOT NULL,
    to_at        bigint NOT NULL,
    position_at  bigint NOT NULL,
    max_parallel integer NOT NULL CHECK (max_parallel > 0),
    priority     smallint NOT NULL,
    status       smallint NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 2),
    created_by   text NOT NULL,
    created_at   bigint NOT NULL,
    finished_at  bigint
);
CREATE INDEX backfills_active ON backfills (created_at) WHERE status = 0;

-- How a poll is doing. The row is changed in the transaction that makes something of the end of a check, and its lock keeps
-- two such ends apart.
CREATE TABLE polls (
    trigger_id   uuid PRIMARY KEY REFERENCES triggers (id) ON DELETE CASCADE,
    checks       bigint NOT NULL DEFAULT 0, -- those that have ended
    checked_at   bigint,
    check_run    uuid,
    started      bigint NOT NULL DEFAULT 0, -- runs, one per key
    last_key     text,
    last_run     uuid, -- the one that was started last
    failures     bigint NOT NULL DEFAULT 0, -- in a row
    error        text -- of the last check, if it failed
);

-- Keys that a run was started for, until they were not found for long or many others were found since.
CREATE TABLE poll_keys (
    trigger_id   uuid NOT NULL REFERENCES triggers (id) ON DELETE CASCADE,
    key          text NOT NULL,
    run_id       uuid NOT NULL,
    seen_at      bigint NOT NULL, -- when it was found last
    PRIMARY KEY (trigger_id, key)
);
CREATE INDEX poll_keys_by_age ON poll_keys (trigger_id, seen_at);

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
    cause        uuid, -- what is at the beginning of them
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
