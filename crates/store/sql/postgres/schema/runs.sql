-- Runs, live task runs, what has ended, and what waits.

CREATE TABLE runs (
    id          uuid PRIMARY KEY,
    version     bigint NOT NULL,
    workflow_id uuid NOT NULL,
    state       smallint NOT NULL CHECK (state BETWEEN {run.pending} AND {run.cancelled}),
    stage       smallint NOT NULL DEFAULT 0 CHECK (stage BETWEEN {stage.main} AND {stage.finally}),
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
    deadline_at bigint,
    -- When it was reopened last: its lifetime counts from there.
    reopened_at bigint
) WITH (fillfactor = 50);
-- A batch ends all runs of a page in one transaction: each row needs room for a second version beside it.
-- No index names a column that changes while a run goes on, the state included: its updates stay in place. Open runs are
-- found by their live rows, those that failed or were cancelled by a table of their own.
CREATE INDEX runs_by_workflow ON runs (workflow_id, id);
CREATE INDEX runs_by_deadline ON runs (deadline_at) WHERE deadline_at IS NOT NULL;
CREATE INDEX runs_queued ON runs (waits_for, rank, id) WHERE waits_for IS NOT NULL;
CREATE INDEX runs_holding ON runs (holds) WHERE holds IS NOT NULL;

-- Runs that ended otherwise than well.
CREATE TABLE unsuccessful_runs (
    run_id      uuid PRIMARY KEY,
    state       smallint NOT NULL CHECK (state IN ({run.failed}, {run.cancelled})),
    -- Whether its failure was looked at for notifications.
    noticed     boolean NOT NULL DEFAULT FALSE
);
CREATE INDEX unsuccessful_runs_unnoticed ON unsuccessful_runs (run_id) WHERE NOT noticed;

-- What a run was given; only for runs that were given something.
CREATE TABLE run_details (
    run_id         uuid PRIMARY KEY,
    inputs         text,
    outputs        text,
    correlation_id text,
    trigger        text,
    reason         text,
    -- When a run began that was put off: its waits match no event from before.
    began_at       bigint
);
CREATE INDEX run_details_by_correlation ON run_details (correlation_id) WHERE correlation_id IS NOT NULL;

CREATE TABLE submissions (
    namespace   text NOT NULL,
    key         text NOT NULL,
    run_id      uuid NOT NULL,
    created_at  bigint NOT NULL,
    PRIMARY KEY (namespace, key)
);
CREATE INDEX submissions_by_run ON submissions (run_id);

-- Runs that begin at a time of day to come. Until then they are pending and being made, without task runs or a slot.
CREATE TABLE starts (
    run_id uuid PRIMARY KEY,
    due_at bigint NOT NULL
);
CREATE INDEX starts_due ON starts (due_at);

-- The numbered events of a run. Ended task runs, attempts that did not end theirs and the actions of people carry their
-- numbers already; what a run itself goes through has its rows here. The end of an ended run has none: it is the one number
-- that no row carries, and `runs` says when it was and how. So a plain run costs nothing.
-- `ended` is an end that a reopening took back, `cancelled` came with what waited for the run.
CREATE TABLE run_transitions (
    run_id      uuid NOT NULL,
    seq         bigint NOT NULL,
    kind        smallint NOT NULL CHECK (kind BETWEEN {transition.admitted} AND {transition.cancelled}),
    state       smallint NOT NULL CHECK (state BETWEEN {run.pending} AND {run.cancelled}),
    stage       smallint NOT NULL CHECK (stage BETWEEN {stage.main} AND {stage.finally}),
    created_at  bigint NOT NULL,
    PRIMARY KEY (run_id, seq)
);

-- Live task runs: exactly those that are not terminal. Narrow, no JSON, deleted when they end.
CREATE TABLE task_runs (
    run_id       uuid NOT NULL,
    idx          integer NOT NULL,
    item         integer NOT NULL DEFAULT -1,
    state        smallint NOT NULL CHECK (state BETWEEN {task.pending} AND {task.waiting}),
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
    CHECK (state <> {task.running} OR (session IS NOT NULL AND attempt > 0))
) WITH (fillfactor = 100, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0);
-- The ready index holds claimable rows only; the other partial indexes hold what is due, gated, undecided or claimed.
CREATE INDEX task_runs_ready ON task_runs (route, rank, due_at) WHERE state = {task.ready};
CREATE INDEX task_runs_due ON task_runs (due_at) WHERE state IN ({task.retrying}, {task.waiting});
CREATE INDEX task_runs_gated ON task_runs (pool, rank, due_at) WHERE state = {task.gated};
CREATE INDEX task_runs_undecided ON task_runs (due_at) WHERE state = {task.deciding} AND session IS NULL;
CREATE INDEX task_runs_claimed ON task_runs (session) WHERE session IS NOT NULL;

-- One row per waiting task run. Whatever happens sets `outcome` and makes the
-- task run `deciding`; a node then concludes it.
CREATE TABLE waits (
    run_id      uuid NOT NULL,
    idx         integer NOT NULL,
    item        integer NOT NULL,
    kind        smallint NOT NULL CHECK (kind BETWEEN {wait.timer} AND {wait.items}),
    attempt     integer NOT NULL,
    namespace   text,
    event       text,
    key         text,
    child       uuid,
    body        text,
    due_at      bigint,
    created_at  bigint NOT NULL,
    outcome     smallint CHECK (outcome BETWEEN {waited.badly} AND {waited.moot}),
    output      text,
    actor       text,
    reason      text,
    happened_at bigint,
    PRIMARY KEY (run_id, idx, item)
);
CREATE INDEX waits_for_event ON waits (namespace, event) WHERE event IS NOT NULL AND outcome IS NULL;
CREATE UNIQUE INDEX waits_for_child ON waits (child) WHERE child IS NOT NULL;

-- The values of an expansion, written once when it happens.
CREATE TABLE items (
    run_id      uuid NOT NULL,
    idx         integer NOT NULL,
    item        integer NOT NULL,
    value       text NOT NULL,
    PRIMARY KEY (run_id, idx, item)
);

-- Ended task runs. A run's id is its time of creation, so lookups by run touch one partition, and what retention deletes lies together.
CREATE TABLE history (
    run_id       uuid NOT NULL,
    idx          integer NOT NULL,
    item         integer NOT NULL,
    state        smallint NOT NULL CHECK (state BETWEEN {task.success} AND {task.resolved_manually}),
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
-- Subscribers read a run from a number on. The first thousand tasks are looked up by their key; only what a run may
-- have more of is indexed, so that small runs pay nothing.
CREATE INDEX history_by_seq ON history (run_id, seq) WHERE item >= 0 OR idx >= 1000;

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
CREATE INDEX history_superseded_by_seq ON history_superseded (run_id, seq);

-- Attempts that did not end their task run. The last attempt is in the history row.
CREATE TABLE attempts (
    run_id       uuid NOT NULL,
    idx          integer NOT NULL,
    item         integer NOT NULL,
    attempt      integer NOT NULL,
    outcome      smallint NOT NULL CHECK (outcome BETWEEN {attempt.failed} AND {attempt.released}),
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
CREATE INDEX attempts_by_seq ON attempts (run_id, seq);

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

-- Files that attempts left to be kept.
CREATE TABLE artifacts (
    run_id      uuid NOT NULL,
    idx         integer NOT NULL,
    item        integer NOT NULL,
    attempt     integer NOT NULL,
    name        text NOT NULL,
    bytes       bigint NOT NULL,
    sha256      text NOT NULL,
    executable  boolean NOT NULL,
    -- Either the content, or the key of the object that has it.
    content     bytea,
    object      text,
    PRIMARY KEY (run_id, idx, item, attempt, name),
    CHECK ((content IS NULL) <> (object IS NULL))
);

-- Objects that no artifact names: those being written, until a time by which that has ended, and those to be deleted.
CREATE TABLE unused_objects (
    object      text PRIMARY KEY,
    due_at      bigint NOT NULL
);
CREATE INDEX unused_objects_by_due ON unused_objects (due_at);

-- Results and files of tasks that later runs take over: the attempt that is to make them. Its success in the history makes them
-- valid; when its run is forgotten, what is valid is kept here.
CREATE TABLE cache_entries (
    kind        smallint NOT NULL CHECK (kind IN ({cache.result}, {cache.files})),
    -- Of results the namespace, workflow and task; of files the namespace.
    scope       text NOT NULL,
    key         text NOT NULL,
    run_id      uuid NOT NULL,
    idx         integer NOT NULL,
    item        integer NOT NULL,
    attempt     integer NOT NULL,
    begun_at    bigint NOT NULL,
    expires_at  bigint NOT NULL,
    -- Its run is forgotten; the output was copied here.
    kept        boolean NOT NULL DEFAULT false,
    output      text,
    PRIMARY KEY (run_id, idx, item, attempt, kind)
);
CREATE INDEX cache_entries_by_key ON cache_entries (kind, scope, key, begun_at);
CREATE INDEX cache_entries_by_expiry ON cache_entries (expires_at);

-- Files of entries. An entry is whole when it has as many as each of them says.
CREATE TABLE cached_files (
    run_id      uuid NOT NULL,
    idx         integer NOT NULL,
    item        integer NOT NULL,
    attempt     integer NOT NULL,
    name        text NOT NULL,
    files       integer NOT NULL,
    bytes       bigint NOT NULL,
    sha256      text NOT NULL,
    executable  boolean NOT NULL,
    content     bytea,
    object      text,
    PRIMARY KEY (run_id, idx, item, attempt, name),
    CHECK ((content IS NULL) <> (object IS NULL))
);

-- What attempts looked for by a key, and the attempt whose result or files they got.
CREATE TABLE cache_uses (
    run_id          uuid NOT NULL,
    idx             integer NOT NULL,
    item            integer NOT NULL,
    attempt         integer NOT NULL,
    kind            smallint NOT NULL CHECK (kind IN ({cache.result}, {cache.files})),
    key             text NOT NULL,
    source_run      uuid,
    source_idx      integer,
    source_item     integer,
    source_attempt  integer,
    PRIMARY KEY (run_id, idx, item, attempt, kind)
);

-- Big units go on in chunks: what is still to be done for a run.
CREATE TABLE continuations (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id      uuid NOT NULL,
    kind        smallint NOT NULL CHECK (kind BETWEEN {continuation.create} AND {continuation.cancel_child}),
    idx         integer NOT NULL DEFAULT 0,
    counts      smallint NOT NULL DEFAULT 0,
    position    integer NOT NULL DEFAULT 0,
    created_at  bigint NOT NULL
);
CREATE INDEX continuations_of_run ON continuations (run_id);

-- What the unit that ends a task does not know is captured by a duty right after it; `captured_at` is null until then.
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
    updated_at        bigint NOT NULL,
    namespace         text,
    workflow_id       uuid,
    workflow          text,
    task_name         text,
    fingerprint       text,
    task_config       text,
    execution_context text,
    task_snapshot     text,
    acted_by          text,
    captured_at       bigint
);
CREATE UNIQUE INDEX dead_letters_one_pending_task ON dead_letters (run_id, idx, item) WHERE status = {letter.pending} AND idx IS NOT NULL;
CREATE UNIQUE INDEX dead_letters_one_pending_run ON dead_letters (run_id) WHERE status = {letter.pending} AND idx IS NULL;
CREATE INDEX dead_letters_by_status ON dead_letters (status, created_at);
CREATE INDEX dead_letters_uncaptured ON dead_letters (id) WHERE captured_at IS NULL;
CREATE INDEX dead_letters_by_run ON dead_letters (run_id, id);
CREATE INDEX dead_letters_by_fingerprint ON dead_letters (status, fingerprint, created_at);
CREATE INDEX dead_letters_closed ON dead_letters (resolved_at) WHERE status <> {letter.pending};

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
    created_at  bigint NOT NULL,
    token       text,
    metadata    text
);
CREATE INDEX operator_actions_by_run ON operator_actions (run_id, seq);
