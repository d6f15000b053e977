-- The spine: versions, runs, live task runs, history, sessions, lanes, limits, logs.
-- Times are microseconds since the epoch, UTC. Ids are made by the caller unless they are interned numbers.

CREATE TABLE workflows (
    id          uuid PRIMARY KEY,
    namespace   text NOT NULL,
    name        text NOT NULL,
    active      boolean NOT NULL DEFAULT TRUE,
    latest      bigint,
    created_at  bigint NOT NULL,
    updated_at  bigint NOT NULL,
    UNIQUE (namespace, name)
);

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

-- Pools (kind 0) bound task runs, concurrency keys (kind 1) bound runs. A null capacity is unlimited.
CREATE TABLE limits (
    id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind        smallint NOT NULL CHECK (kind IN (0, 1)),
    key         text NOT NULL,
    capacity    integer CHECK (capacity >= 0),
    held        integer NOT NULL DEFAULT 0 CHECK (held >= 0),
    UNIQUE (kind, key)
) WITH (fillfactor = 50);

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

CREATE TABLE runs (
    id          uuid PRIMARY KEY,
    version     bigint NOT NULL,
    workflow_id uuid NOT NULL,
    state       smallint NOT NULL CHECK (state BETWEEN 0 AND 5),
    stage       smallint NOT NULL DEFAULT 0 CHECK (stage BETWEEN 0 AND 2),
    flags       smallint NOT NULL DEFAULT 0,
    rank        smallint NOT NULL,
    generation  smallint NOT NULL DEFAULT 0,
    open        integer NOT NULL CHECK (open >= 0),
    failed      integer NOT NULL DEFAULT 0,
    limit_id    integer,
    waits_for   integer,
    holds       integer,
    seq         bigint NOT NULL DEFAULT 0,
    created_at  bigint NOT NULL,
    started_at  bigint,
    finished_at bigint,
    progress_at bigint NOT NULL,
    deadline_at bigint
) WITH (fillfactor = 70);
-- No index names a column that changes while a run goes on, the state included: its updates stay in place. Open runs are
-- found by their live rows, those that failed or were cancelled by a table of their own.
CREATE INDEX runs_by_workflow ON runs (workflow_id, id);
CREATE INDEX runs_by_deadline ON runs (deadline_at) WHERE deadline_at IS NOT NULL;
CREATE INDEX runs_queued ON runs (waits_for, rank, id) WHERE waits_for IS NOT NULL;
CREATE INDEX runs_holding ON runs (holds) WHERE holds IS NOT NULL;

-- Runs that ended otherwise than well.
CREATE TABLE unsuccessful_runs (
    run_id      uuid PRIMARY KEY,
    state       smallint NOT NULL CHECK (state IN (4, 5))
);

-- What a run was given; only for runs that were given something.
CREATE TABLE run_details (
    run_id         uuid PRIMARY KEY,
    inputs         text,
    outputs        text,
    correlation_id text,
    trigger        text,
    reason         text
);
CREATE INDEX run_details_by_correlation ON run_details (correlation_id) WHERE correlation_id IS NOT NULL;

CREATE TABLE submissions (
    namespace   text NOT NULL,
    key         text NOT NULL,
    run_id      uuid NOT NULL,
    created_at  bigint NOT NULL,
    PRIMARY KEY (namespace, key)
);

-- Live task runs: exactly those that are not terminal. Narrow, no JSON, deleted when they end.
CREATE TABLE task_runs (
    run_id       uuid NOT NULL,
    idx          integer NOT NULL,
    item         integer NOT NULL DEFAULT -1,
    state        smallint NOT NULL CHECK (state BETWEEN 0 AND 8),
    rule         smallint NOT NULL,
    rank         smallint NOT NULL,
    flags        smallint NOT NULL,
    route        integer NOT NULL,
    pool         integer,
    attempt      integer NOT NULL DEFAULT 0,
    failures     smallint NOT NULL DEFAULT 0,
    max_failures smallint NOT NULL,
    lost         smallint NOT NULL DEFAULT 0,
    max_lost     smallint NOT NULL,
    generation   smallint NOT NULL DEFAULT 0,
    open         integer NOT NULL,
    succeeded    integer NOT NULL DEFAULT 0,
    failed       integer NOT NULL DEFAULT 0,
    skipped      integer NOT NULL DEFAULT 0,
    version      bigint NOT NULL,
    due_at       bigint NOT NULL,
    session      bigint,
    claim        bigint,
    started_at   bigint,
    PRIMARY KEY (run_id, idx, item),
    CHECK (state <> 2 OR (session IS NOT NULL AND attempt > 0))
) WITH (fillfactor = 100, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0);
-- The ready index holds claimable rows only; the other partial indexes hold what is due, gated, undecided or claimed.
CREATE INDEX task_runs_ready ON task_runs (route, rank, due_at) WHERE state = 1;
CREATE INDEX task_runs_due ON task_runs (due_at) WHERE state IN (3, 7, 8);
CREATE INDEX task_runs_gated ON task_runs (pool, rank, due_at) WHERE state = 5;
CREATE INDEX task_runs_undecided ON task_runs (due_at) WHERE state = 4 AND session IS NULL;
CREATE INDEX task_runs_claimed ON task_runs (session) WHERE session IS NOT NULL;

-- Ended task runs. A run's id is its time of creation, so lookups by run touch one partition and retention drops whole ones.
CREATE TABLE history (
    run_id       uuid NOT NULL,
    idx          integer NOT NULL,
    item         integer NOT NULL,
    state        smallint NOT NULL CHECK (state BETWEEN 10 AND 15),
    flags        smallint NOT NULL,
    generation   smallint NOT NULL,
    attempt      integer NOT NULL,
    failures     smallint NOT NULL,
    lost         smallint NOT NULL,
    session      bigint,
    seq          bigint NOT NULL,
    started_at   bigint,
    finished_at  bigint NOT NULL,
    exit_code    integer,
    error_kind   text,
    error        text,
    detail       text,
    output       text,
    PRIMARY KEY (run_id, idx, item)
) PARTITION BY RANGE (run_id);
CREATE TABLE history_other PARTITION OF history DEFAULT;

-- What an operator's reopening took out of the history.
CREATE TABLE history_superseded (
    run_id       uuid NOT NULL,
    idx          integer NOT NULL,
    item         integer NOT NULL,
    state        smallint NOT NULL,
    flags        smallint NOT NULL,
    generation   smallint NOT NULL,
    attempt      integer NOT NULL,
    failures     smallint NOT NULL,
    lost         smallint NOT NULL,
    session      bigint,
    seq          bigint NOT NULL,
    started_at   bigint,
    finished_at  bigint NOT NULL,
    exit_code    integer,
    error_kind   text,
    error        text,
    detail       text,
    output       text,
    PRIMARY KEY (run_id, idx, item, generation)
);

-- Attempts that did not end their task run: 0 failed, 1 lost, 2 released. The last attempt is in the history row.
CREATE TABLE attempts (
    run_id       uuid NOT NULL,
    idx          integer NOT NULL,
    item         integer NOT NULL,
    attempt      integer NOT NULL,
    outcome      smallint NOT NULL CHECK (outcome BETWEEN 0 AND 2),
    session      bigint,
    seq          bigint NOT NULL,
    started_at   bigint,
    finished_at  bigint NOT NULL,
    exit_code    integer,
    error_kind   text,
    error        text,
    detail       text,
    PRIMARY KEY (run_id, idx, item, attempt)
);

-- Big units go on in chunks: what is still to be done for a run. Kinds: 0 create, 1 admit, 2 cancel, 3 fan out,
-- 4 cancel a child.
CREATE TABLE continuations (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id      uuid NOT NULL,
    kind        smallint NOT NULL CHECK (kind BETWEEN 0 AND 4),
    idx         integer NOT NULL DEFAULT 0,
    counts      smallint NOT NULL DEFAULT 0,
    position    integer NOT NULL DEFAULT 0,
    created_at  bigint NOT NULL
);
CREATE INDEX continuations_of_run ON continuations (run_id);

CREATE TABLE nodes (
    id          uuid PRIMARY KEY,
    name        text NOT NULL,
    address     text,
    started_at  bigint NOT NULL,
    stopped_at  bigint
);

CREATE TABLE sessions (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node        uuid NOT NULL,
    worker      text NOT NULL,
    hostname    text NOT NULL,
    queues      text NOT NULL,
    labels      text NOT NULL,
    slots       integer NOT NULL,
    remote      boolean NOT NULL DEFAULT FALSE,
    draining    boolean NOT NULL DEFAULT FALSE,
    beat        bigint NOT NULL DEFAULT 0,
    dead        boolean NOT NULL DEFAULT FALSE,
    created_at  bigint NOT NULL,
    beat_at     bigint NOT NULL,
    ended_at    bigint
) WITH (fillfactor = 50);
CREATE INDEX sessions_live ON sessions (id) WHERE NOT dead;

-- One row per connection that exchanges: the guard that makes an exchange happen once. `voided` is the last one whose
-- number was used up while it was in doubt, so that it never will happen.
CREATE TABLE lanes (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node        uuid NOT NULL,
    seq         bigint NOT NULL DEFAULT 0,
    voided      bigint NOT NULL DEFAULT 0,
    created_at  bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE cancel_requests (
    session     bigint NOT NULL,
    run_id      uuid NOT NULL,
    idx         integer NOT NULL,
    item        integer NOT NULL,
    attempt     integer NOT NULL,
    reason      text NOT NULL,
    PRIMARY KEY (session, run_id, idx, item, attempt)
);

-- Leadership: one row per singleton duty. Only a compare-and-swap on it makes a leader.
CREATE TABLE terms (
    name        text PRIMARY KEY,
    epoch       bigint NOT NULL,
    term_id     uuid NOT NULL,
    node        uuid NOT NULL,
    beat        bigint NOT NULL,
    released    boolean NOT NULL DEFAULT FALSE
) WITH (fillfactor = 50);

CREATE TABLE dead_letters (
    id                uuid PRIMARY KEY,
    run_id            uuid NOT NULL,
    idx               integer,
    item              integer,
    version           bigint NOT NULL,
    reason            smallint NOT NULL CHECK (reason BETWEEN 0 AND 5),
    original_state    text NOT NULL,
    error_type        text,
    error_message     text,
    stack_trace       text,
    total_attempts    integer NOT NULL,
    last_attempt_at   bigint,
    status            smallint NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 5),
    notes             text,
    resolved_by       text,
    resolved_at       bigint,
    metadata          text,
    created_at        bigint NOT NULL,
    updated_at        bigint NOT NULL
);
CREATE UNIQUE INDEX dead_letters_one_pending_task ON dead_letters (run_id, idx, item) WHERE status = 0 AND idx IS NOT NULL;
CREATE UNIQUE INDEX dead_letters_one_pending_run ON dead_letters (run_id) WHERE status = 0 AND idx IS NULL;
CREATE INDEX dead_letters_by_status ON dead_letters (status, created_at);

-- Some lines of one attempt, as JSON. Append-only; `id` gives the order within the attempt.
CREATE TABLE logs (
    run_id      uuid NOT NULL,
    idx         integer NOT NULL,
    item        integer NOT NULL,
    attempt     integer NOT NULL,
    chunk       integer NOT NULL,
    lines       text NOT NULL,
    PRIMARY KEY (run_id, idx, item, attempt, chunk)
);

-- Who did what to which run, and why.
CREATE TABLE operator_actions (
    id          uuid PRIMARY KEY,
    run_id      uuid NOT NULL,
    idx         integer,
    item        integer,
    seq         bigint NOT NULL,
    action      text NOT NULL,
    actor       text NOT NULL,
    reason      text,
    created_at  bigint NOT NULL
);
CREATE INDEX operator_actions_by_run ON operator_actions (run_id, seq);
