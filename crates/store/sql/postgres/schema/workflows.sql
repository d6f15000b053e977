-- Workflow definitions: immutable versions, the template of their tasks, and what they share (routes and limits).
-- Times are microseconds since the epoch, UTC. Ids are made by the caller unless they are interned numbers.

CREATE TABLE workflows (
    id          uuid PRIMARY KEY,
    namespace   text NOT NULL,
    name        text NOT NULL,
    active      boolean NOT NULL DEFAULT TRUE,
    latest      bigint,
    created_at  bigint NOT NULL,
    updated_at  bigint NOT NULL,
    -- Who stored its first version.
    created_by  text,
    -- Jobs, triggers or handlers follow how its runs end: their rows in `runs` carry the flag `followed`, and the unit that
    -- ends one leaves a row in `run_ends`.
    followed    boolean NOT NULL DEFAULT FALSE,
    -- Of the workflow that executes the checks of a poll: the workflow whose trigger that is. People do not see it in lists.
    check_of    uuid,
    UNIQUE (namespace, name)
);
CREATE INDEX workflows_of_checks ON workflows (check_of) WHERE check_of IS NOT NULL;
CREATE INDEX workflows_followed ON workflows (id) WHERE followed;

-- Immutable. `spec` is the validated workflow as JSON, `source` the text it came from.
CREATE TABLE versions (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workflow_id uuid NOT NULL REFERENCES workflows (id) ON DELETE CASCADE,
    number      integer NOT NULL,
    hash        text NOT NULL,
    spec        text NOT NULL,
    source      text NOT NULL,
    created_at  bigint NOT NULL,
    UNIQUE (workflow_id, number),
    UNIQUE (workflow_id, hash)
);

-- Who may execute a task: its namespace, queue, labels, and the kind of slot it occupies.
CREATE TABLE routes (
    id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace   text NOT NULL,
    queue       text NOT NULL,
    labels      text NOT NULL,
    class       smallint NOT NULL CHECK (class BETWEEN 0 AND 2),
    UNIQUE (namespace, queue, labels, class)
);

-- What is not started for now. An empty namespace or queue stands for all of them. A row whose `resumed_at` is set has no effect
-- any more but one: what stood still until then is not stale for it.
CREATE TABLE pauses (
    namespace    text NOT NULL,
    queue        text NOT NULL,
    paused_by    text NOT NULL,
    reason       text,
    paused_at    bigint NOT NULL,
    resumed_at   bigint,
    PRIMARY KEY (namespace, queue)
);

-- Pools bound task runs, concurrency keys bound runs. A null capacity is unlimited. A pool with a rate lets in at most `rate`
-- task runs in a window of `period` microseconds; `window_began` is null while no window is under way.
CREATE TABLE limits (
    id           integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind         smallint NOT NULL CHECK (kind IN ({limit.pool}, {limit.concurrency})),
    key          text NOT NULL,
    capacity     integer CHECK (capacity >= 0),
    held         integer NOT NULL DEFAULT 0 CHECK (held >= 0),
    rate         integer CHECK (rate BETWEEN 1 AND 1000000),
    period       bigint CHECK (period BETWEEN 1000000 AND 86400000000),
    used         integer NOT NULL DEFAULT 0 CHECK (used >= 0),
    window_began bigint,
    CHECK ((rate IS NULL) = (period IS NULL)),
    UNIQUE (kind, key)
) WITH (fillfactor = 50);
CREATE INDEX limits_with_rate ON limits (id) WHERE rate IS NOT NULL;

-- What the hot path needs to know of a version's tasks: the template from which task runs are made.
CREATE TABLE version_tasks (
    version      bigint NOT NULL REFERENCES versions (id) ON DELETE CASCADE,
    idx          integer NOT NULL,
    stage        smallint NOT NULL,
    needs        integer NOT NULL,
    rule         smallint NOT NULL,
    rank         smallint,
    flags        smallint NOT NULL,
    route        integer NOT NULL REFERENCES routes (id),
    pool         integer REFERENCES limits (id),
    max_failures smallint NOT NULL,
    max_lost     smallint NOT NULL,
    dependents   integer[] NOT NULL,
    PRIMARY KEY (version, idx)
);

-- What a version brings along for its tasks.
CREATE TABLE version_files (
    version     bigint NOT NULL REFERENCES versions (id) ON DELETE CASCADE,
    path        text NOT NULL,
    executable  boolean NOT NULL,
    content     bytea NOT NULL,
    PRIMARY KEY (version, path)
);
