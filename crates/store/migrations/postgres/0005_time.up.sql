-- What starts runs by the clock: triggers, their fires, calendars, backfills.

-- One row per trigger of the newest version of a workflow (not: manual). `name` is the trigger's id within its workflow and
-- survives applying it again. Kinds: 0 cron, 1 every, 2 at, 3 event, 4 webhook, 5 workflow.
-- Every nominal instant up to `covered_at` has its row in `fires`, or lies within one that covers a range. Firing is a
-- compare-and-swap on (next_fire_at, revision) of a row that is present, active and not paused.
CREATE TABLE triggers (
    id           uuid PRIMARY KEY,
    workflow_id  uuid NOT NULL REFERENCES workflows (id) ON DELETE CASCADE,
    namespace    text NOT NULL,
    name         text NOT NULL,
    kind         smallint NOT NULL CHECK (kind BETWEEN 0 AND 5),
    listens      text, -- the event or webhook, or `namespace/name` of the workflow it listens to
    calendar     text,
    spec         text NOT NULL,
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
CREATE INDEX triggers_following ON triggers (listens) WHERE kind = 5 AND present;
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

-- Moves every trigger that is still as it was seen, each found by its id whatever the statistics say; returns how many were.
CREATE FUNCTION swap_triggers_v1(p_at bigint, p_id uuid[], p_revision bigint[], p_expected bigint[], p_covered bigint[], p_nominal bigint[], p_fire bigint[],
                                 p_added bigint[]) RETURNS bigint
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    swapped bigint;
BEGIN
    UPDATE triggers t SET covered_at = u.covered, next_nominal = u.nominal, next_fire_at = u.fire, fired = t.fired + u.added,
           last_fire_at = CASE WHEN u.added > 0 THEN p_at ELSE t.last_fire_at END, problem = NULL
    FROM unnest(p_id, p_revision, p_expected, p_covered, p_nominal, p_fire, p_added) AS u(id, revision, expected, covered, nominal, fire, added)
    -- Said so that only the key fits: through triggers_due, a plan made among few would read all that are due for each.
    WHERE t.id = u.id AND t.revision = u.revision AND t.next_fire_at = u.expected AND NOT t.paused AND coalesce(t.present AND t.active, FALSE);
    GET DIAGNOSTICS swapped = ROW_COUNT;
    RETURN swapped;
END $$;

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

-- Runs that begin at a time of day to come. Until then they are pending and being made, without task runs or a slot.
CREATE TABLE starts (
    run_id uuid PRIMARY KEY,
    due_at bigint NOT NULL
);
CREATE INDEX starts_due ON starts (due_at);
