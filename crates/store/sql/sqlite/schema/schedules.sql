-- What starts runs by the clock: triggers, their fires, calendars, backfills, jobs.

-- One row per trigger of the newest version of a workflow (not: manual). `name` is the trigger's id within its workflow and
-- survives applying it again. Kinds: 0 cron, 1 every, 2 at, 3 event, 4 webhook, 5 workflow, 6 poll;
-- from 5 on they listen to the ends of runs.
-- Every nominal instant up to `covered_at` has its row in `fires`, or lies within one that covers a range. Firing is a
-- compare-and-swap on (next_fire_at, revision) of a row that is present, active and not paused.
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
CREATE INDEX triggers_due ON triggers (next_fire_at) WHERE next_fire_at IS NOT NULL AND NOT paused AND present AND active;
CREATE INDEX triggers_listening ON triggers (namespace, kind, listens) WHERE listens IS NOT NULL AND present;
CREATE INDEX triggers_following ON triggers (listens) WHERE kind >= 5 AND present;
CREATE INDEX triggers_by_calendar ON triggers (namespace, calendar) WHERE calendar IS NOT NULL AND present;

-- What became of each nominal instant: 0 fired, 1 skipped (overlap), 2 missed, 3 blacked out by the calendar, 4 failed.
-- Missed and blacked-out rows may stand for a range: all nominal instants from `nominal_at` to `until_at`.
-- `backfill` is the nil UUID for fires of the clock.
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

CREATE TABLE calendars (
    namespace    TEXT NOT NULL,
    name         TEXT NOT NULL,
    spec         TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
);

-- 0 active, 1 done, 2 cancelled. `position_at` is the last nominal instant that was handled.
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

-- How a poll is doing. The row is changed in the transaction that makes something of the end of a check, and its lock keeps
-- two such ends apart.
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

-- Keys that a run was started for, until they were not found for long or many others were found since.
CREATE TABLE poll_keys (
    trigger_id   BLOB NOT NULL REFERENCES triggers (id) ON DELETE CASCADE,
    key          TEXT NOT NULL,
    run_id       BLOB NOT NULL,
    seen_at      INTEGER NOT NULL, -- when it was found last
    PRIMARY KEY (trigger_id, key)
) WITHOUT ROWID;
CREATE INDEX poll_keys_by_age ON poll_keys (trigger_id, seen_at);

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

CREATE TABLE job_tags (
    tag         TEXT NOT NULL,
    job_id      BLOB NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    PRIMARY KEY (tag, job_id)
) WITHOUT ROWID;
