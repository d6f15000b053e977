table api_tokens
    id uuid not null
    name text not null
    hash bytea not null
    grants text not null
    created_by text not null
    created_at bigint not null
    expires_at bigint
    last_used_at bigint
    revoked_at bigint
    CHECK ((octet_length(hash) = 32))
    PRIMARY KEY (id)

table artifacts
    run_id uuid not null
    idx integer not null
    item integer not null
    attempt integer not null
    name text not null
    bytes bigint not null
    sha256 text not null
    executable boolean not null
    content bytea
    object text
    CHECK (((content IS NULL) <> (object IS NULL)))
    PRIMARY KEY (run_id, idx, item, attempt, name)

table attempts
    run_id uuid not null
    idx integer not null
    item integer not null
    attempt integer not null
    outcome smallint not null
    session bigint
    seq bigint not null
    started_at bigint
    finished_at bigint not null
    exit_code integer
    error_kind text
    error text
    detail text
    CHECK (((outcome >= 0) AND (outcome <= 2)))
    PRIMARY KEY (run_id, idx, item, attempt)
    CREATE INDEX attempts_by_seq ON public.attempts USING btree (run_id, seq)

table audit_log
    id uuid not null
    at bigint not null
    actor text not null
    address text
    method text not null
    path text not null
    namespace text
    status smallint not null
    request_id text not null
    detail text
    PRIMARY KEY (id)
    CREATE INDEX audit_log_by_actor ON public.audit_log USING btree (actor, id)
    CREATE INDEX audit_log_by_namespace ON public.audit_log USING btree (namespace, id)

table backfills
    id uuid not null
    trigger_id uuid not null
    from_at bigint not null
    to_at bigint not null
    position_at bigint not null
    max_parallel integer not null
    priority smallint not null
    status smallint not null default 0
    created_by text not null
    created_at bigint not null
    finished_at bigint
    CHECK ((max_parallel > 0))
    PRIMARY KEY (id)
    CHECK (((status >= 0) AND (status <= 2)))
    FOREIGN KEY (trigger_id) REFERENCES triggers(id) ON DELETE CASCADE
    CREATE INDEX backfills_active ON public.backfills USING btree (created_at) WHERE (status = 0)

table cache_entries
    kind smallint not null
    scope text not null
    key text not null
    run_id uuid not null
    idx integer not null
    item integer not null
    attempt integer not null
    begun_at bigint not null
    expires_at bigint not null
    kept boolean not null default false
    output text
    CHECK ((kind = ANY (ARRAY[0, 1])))
    PRIMARY KEY (run_id, idx, item, attempt, kind)
    CREATE INDEX cache_entries_by_expiry ON public.cache_entries USING btree (expires_at)
    CREATE INDEX cache_entries_by_key ON public.cache_entries USING btree (kind, scope, key, begun_at)

table cache_uses
    run_id uuid not null
    idx integer not null
    item integer not null
    attempt integer not null
    kind smallint not null
    key text not null
    source_run uuid
    source_idx integer
    source_item integer
    source_attempt integer
    CHECK ((kind = ANY (ARRAY[0, 1])))
    PRIMARY KEY (run_id, idx, item, attempt, kind)

table cached_files
    run_id uuid not null
    idx integer not null
    item integer not null
    attempt integer not null
    name text not null
    files integer not null
    bytes bigint not null
    sha256 text not null
    executable boolean not null
    content bytea
    object text
    CHECK (((content IS NULL) <> (object IS NULL)))
    PRIMARY KEY (run_id, idx, item, attempt, name)

table calendars
    namespace text not null
    name text not null
    spec text not null
    created_at bigint not null
    updated_at bigint not null
    PRIMARY KEY (namespace, name)

table cancel_requests
    session bigint not null
    run_id uuid not null
    idx integer not null
    item integer not null
    attempt integer not null
    reason text not null
    PRIMARY KEY (session, run_id, idx, item, attempt)

table continuations
    id bigint not null generated always as identity
    run_id uuid not null
    kind smallint not null
    idx integer not null default 0
    counts smallint not null default 0
    position integer not null default 0
    created_at bigint not null
    CHECK (((kind >= 0) AND (kind <= 4)))
    PRIMARY KEY (id)
    CREATE INDEX continuations_of_run ON public.continuations USING btree (run_id)

table dead_letters
    id uuid not null
    run_id uuid not null
    idx integer
    item integer
    version bigint not null
    reason smallint not null
    original_state text not null
    error_type text
    error_message text
    stack_trace text
    total_attempts integer not null
    last_attempt_at bigint
    status smallint not null default 0
    notes text
    resolved_by text
    resolved_at bigint
    metadata text
    created_at bigint not null
    updated_at bigint not null
    namespace text
    workflow_id uuid
    workflow text
    task_name text
    fingerprint text
    task_config text
    execution_context text
    task_snapshot text
    acted_by text
    captured_at bigint
    PRIMARY KEY (id)
    CHECK (((reason >= 0) AND (reason <= 5)))
    CHECK (((status >= 0) AND (status <= 5)))
    CREATE INDEX dead_letters_by_fingerprint ON public.dead_letters USING btree (status, fingerprint, created_at)
    CREATE INDEX dead_letters_by_run ON public.dead_letters USING btree (run_id, id)
    CREATE INDEX dead_letters_by_status ON public.dead_letters USING btree (status, created_at)
    CREATE INDEX dead_letters_closed ON public.dead_letters USING btree (resolved_at) WHERE (status <> 0)
    CREATE UNIQUE INDEX dead_letters_one_pending_run ON public.dead_letters USING btree (run_id) WHERE ((status = 0) AND (idx IS NULL))
    CREATE UNIQUE INDEX dead_letters_one_pending_task ON public.dead_letters USING btree (run_id, idx, item) WHERE ((status = 0) AND (idx IS NOT NULL))
    CREATE INDEX dead_letters_uncaptured ON public.dead_letters USING btree (id) WHERE (captured_at IS NULL)

table debounces
    trigger_id uuid not null
    key text not null
    event_id uuid not null
    due_at bigint not null
    PRIMARY KEY (trigger_id, key)
    CREATE INDEX debounces_due ON public.debounces USING btree (due_at)

table dlq_batches
    id uuid not null
    namespaces text
    filter text not null
    action text not null
    actor text not null
    token text
    reason text
    status smallint not null default 0
    matched bigint not null
    done bigint not null default 0
    failed bigint not null default 0
    position uuid
    error text
    created_at bigint not null
    updated_at bigint not null
    finished_at bigint
    PRIMARY KEY (id)
    CHECK (((status >= 0) AND (status <= 2)))
    CREATE INDEX dlq_batches_open ON public.dlq_batches USING btree (id) WHERE (status = 0)

table event_causes
    cause uuid not null
    since bigint not null
    started bigint not null
    PRIMARY KEY (cause)
    CREATE INDEX event_causes_by_age ON public.event_causes USING btree (since)

table event_deliveries
    event_id uuid not null
    listener uuid not null
    outcome smallint not null
    run_id uuid
    job_id uuid
    reason text
    created_at bigint not null
    CHECK (((outcome >= 0) AND (outcome <= 4)))
    PRIMARY KEY (event_id, listener)

table event_handlers
    id uuid not null
    namespace text
    event_name text not null
    handler_name text not null
    handler_type text not null
    enabled boolean not null default true
    priority integer not null default 0
    action smallint not null
    config text not null
    trigger_count bigint not null default 0
    success_count bigint not null default 0
    failure_count bigint not null default 0
    last_triggered bigint
    created_by text not null
    created_at bigint not null
    updated_at bigint not null
    CHECK (((action >= 0) AND (action <= 2)))
    PRIMARY KEY (id)
    CREATE INDEX event_handlers_by_event ON public.event_handlers USING btree (event_name) WHERE enabled

table events
    id uuid not null
    namespace text not null
    name text not null
    key text
    data text not null
    source text not null
    created_at bigint not null
    matched boolean not null default false
    run_id uuid
    depth integer not null default 0
    cause uuid
    traceparent text
    handled boolean not null default false
    PRIMARY KEY (id)
    CREATE INDEX events_by_age ON public.events USING btree (created_at) WHERE matched
    CREATE INDEX events_by_name ON public.events USING btree (namespace, name, created_at)
    CREATE INDEX events_unhandled ON public.events USING btree (created_at) WHERE (NOT handled)
    CREATE INDEX events_unmatched ON public.events USING btree (created_at) WHERE (NOT matched)

table fires
    trigger_id uuid not null
    nominal_at bigint not null
    backfill uuid not null
    outcome smallint not null
    until_at bigint
    count bigint not null default 1
    run_id uuid
    reason text
    fired_at bigint not null
    CHECK (((outcome = 0) = (run_id IS NOT NULL)))
    CHECK (((outcome >= 0) AND (outcome <= 4)))
    PRIMARY KEY (trigger_id, nominal_at, backfill)
    CREATE INDEX fires_of_backfills ON public.fires USING btree (backfill, nominal_at) WHERE (backfill <> '00000000-0000-0000-0000-000000000000'::uuid)

partitioned table history RANGE (run_id)
    run_id uuid not null
    idx integer not null
    item integer not null
    state smallint not null
    flags smallint not null
    generation smallint not null
    attempt integer not null
    failures smallint not null
    lost smallint not null
    session bigint
    seq bigint not null
    started_at bigint
    finished_at bigint not null
    exit_code integer
    error_kind text
    error text
    detail text
    output text
    PRIMARY KEY (run_id, idx, item)
    CHECK (((state >= 10) AND (state <= 15)))
    CREATE INDEX history_by_seq ON ONLY public.history USING btree (run_id, seq) WHERE ((item >= 0) OR (idx >= 1000))

table history_2026_05 FOR VALUES FROM ('019de0d5-c800-0000-0000-000000000000') TO ('019e807a-ec00-0000-0000-000000000000')
    run_id uuid not null
    idx integer not null
    item integer not null
    state smallint not null
    flags smallint not null
    generation smallint not null
    attempt integer not null
    failures smallint not null
    lost smallint not null
    session bigint
    seq bigint not null
    started_at bigint
    finished_at bigint not null
    exit_code integer
    error_kind text
    error text
    detail text
    output text
    PRIMARY KEY (run_id, idx, item)
    CHECK (((state >= 10) AND (state <= 15)))
    CREATE INDEX history_2026_05_run_id_seq_idx ON public.history_2026_05 USING btree (run_id, seq) WHERE ((item >= 0) OR (idx >= 1000))

table history_2026_06 FOR VALUES FROM ('019e807a-ec00-0000-0000-000000000000') TO ('019f1af9-b400-0000-0000-000000000000')
    run_id uuid not null
    idx integer not null
    item integer not null
    state smallint not null
    flags smallint not null
    generation smallint not null
    attempt integer not null
    failures smallint not null
    lost smallint not null
    session bigint
    seq bigint not null
    started_at bigint
    finished_at bigint not null
    exit_code integer
    error_kind text
    error text
    detail text
    output text
    PRIMARY KEY (run_id, idx, item)
    CHECK (((state >= 10) AND (state <= 15)))
    CREATE INDEX history_2026_06_run_id_seq_idx ON public.history_2026_06 USING btree (run_id, seq) WHERE ((item >= 0) OR (idx >= 1000))

table history_2026_07 FOR VALUES FROM ('019f1af9-b400-0000-0000-000000000000') TO ('019fba9e-d800-0000-0000-000000000000')
    run_id uuid not null
    idx integer not null
    item integer not null
    state smallint not null
    flags smallint not null
    generation smallint not null
    attempt integer not null
    failures smallint not null
    lost smallint not null
    session bigint
    seq bigint not null
    started_at bigint
    finished_at bigint not null
    exit_code integer
    error_kind text
    error text
    detail text
    output text
    PRIMARY KEY (run_id, idx, item)
    CHECK (((state >= 10) AND (state <= 15)))
    CREATE INDEX history_2026_07_run_id_seq_idx ON public.history_2026_07 USING btree (run_id, seq) WHERE ((item >= 0) OR (idx >= 1000))

table history_other DEFAULT
    run_id uuid not null
    idx integer not null
    item integer not null
    state smallint not null
    flags smallint not null
    generation smallint not null
    attempt integer not null
    failures smallint not null
    lost smallint not null
    session bigint
    seq bigint not null
    started_at bigint
    finished_at bigint not null
    exit_code integer
    error_kind text
    error text
    detail text
    output text
    PRIMARY KEY (run_id, idx, item)
    CHECK (((state >= 10) AND (state <= 15)))
    CREATE INDEX history_other_run_id_seq_idx ON public.history_other USING btree (run_id, seq) WHERE ((item >= 0) OR (idx >= 1000))

table history_superseded
    run_id uuid not null
    idx integer not null
    item integer not null
    state smallint not null
    flags smallint not null
    generation smallint not null
    attempt integer not null
    failures smallint not null
    lost smallint not null
    session bigint
    seq bigint not null
    started_at bigint
    finished_at bigint not null
    exit_code integer
    error_kind text
    error text
    detail text
    output text
    PRIMARY KEY (run_id, idx, item, generation)
    CREATE INDEX history_superseded_by_seq ON public.history_superseded USING btree (run_id, seq)

table idempotent_requests
    actor text not null
    key text not null
    request_hash bytea not null
    claim uuid not null
    status smallint
    content_type text
    body bytea
    created_at bigint not null
    PRIMARY KEY (actor, key)
    CHECK ((octet_length(request_hash) = 32))
    CREATE INDEX idempotent_requests_by_age ON public.idempotent_requests USING btree (created_at)

table items
    run_id uuid not null
    idx integer not null
    item integer not null
    value text not null
    PRIMARY KEY (run_id, idx, item)

table job_tags
    tag text not null
    job_id uuid not null
    FOREIGN KEY (job_id) REFERENCES jobs(id) ON DELETE CASCADE
    PRIMARY KEY (tag, job_id)

table jobs with (fillfactor=80)
    id uuid not null
    namespace text not null
    name text not null
    kind smallint not null
    workflow_id uuid not null
    spec text not null
    max_executions bigint
    depth integer not null default 0
    cause uuid
    created_by text not null
    created_at bigint not null
    updated_at bigint not null
    cancelled_at bigint
    executions bigint not null default 0
    successes bigint not null default 0
    failures bigint not null default 0
    measured bigint not null default 0
    duration bigint not null default 0
    last_run_at bigint
    CHECK (((kind >= 0) AND (kind <= 3)))
    PRIMARY KEY (id)
    FOREIGN KEY (workflow_id) REFERENCES workflows(id) ON DELETE CASCADE
    UNIQUE (workflow_id)
    CREATE INDEX jobs_by_namespace ON public.jobs USING btree (namespace, id)
    CREATE UNIQUE INDEX jobs_workflow_id_key ON public.jobs USING btree (workflow_id)

table lanes with (fillfactor=50)
    id bigint not null generated always as identity
    node uuid not null
    seq bigint not null default 0
    voided bigint not null default 0
    created_at bigint not null
    PRIMARY KEY (id)

table limits with (fillfactor=50)
    id integer not null generated always as identity
    kind smallint not null
    key text not null
    capacity integer
    held integer not null default 0
    rate integer
    period bigint
    used integer not null default 0
    window_began bigint
    CHECK ((capacity >= 0))
    CHECK (((rate IS NULL) = (period IS NULL)))
    CHECK ((held >= 0))
    CHECK ((kind = ANY (ARRAY[0, 1])))
    UNIQUE (kind, key)
    CHECK (((period >= 1000000) AND (period <= '86400000000'::bigint)))
    PRIMARY KEY (id)
    CHECK (((rate >= 1) AND (rate <= 1000000)))
    CHECK ((used >= 0))
    CREATE UNIQUE INDEX limits_kind_key_key ON public.limits USING btree (kind, key)
    CREATE INDEX limits_with_rate ON public.limits USING btree (id) WHERE (rate IS NOT NULL)

table locks with (fillfactor=50)
    name text not null
    fence bigint not null
    holder uuid not null
    holder_name text not null
    ttl_ms bigint not null
    beat bigint not null
    released boolean not null
    PRIMARY KEY (name)
    CHECK ((ttl_ms > 0))

table logs
    run_id uuid not null
    idx integer not null
    item integer not null
    attempt integer not null
    chunk integer not null
    lines text not null
    PRIMARY KEY (run_id, idx, item, attempt, chunk)

table members with (fillfactor=50)
    node uuid not null
    name text not null
    address text
    roles text not null
    version text not null
    started_at bigint not null
    beat bigint not null
    beat_at bigint not null
    PRIMARY KEY (node)

table namespaces
    name text not null
    description text
    max_open_runs integer
    max_workflows integer
    created_at bigint not null
    updated_at bigint not null
    notifications text
    CHECK ((max_open_runs >= 0))
    CHECK ((max_workflows >= 0))
    PRIMARY KEY (name)

table notifications
    id uuid not null
    namespace text not null
    workflow text not null
    kind smallint not null
    cause text not null
    run_id uuid
    target text not null
    target_key text not null
    body text not null
    status smallint not null default 0
    attempts integer not null default 0
    due_at bigint not null
    error text
    created_at bigint not null
    sent_at bigint
    UNIQUE (cause, target_key)
    CHECK (((kind >= 0) AND (kind <= 3)))
    PRIMARY KEY (id)
    CHECK (((status >= 0) AND (status <= 3)))
    CREATE INDEX notifications_by_age ON public.notifications USING btree (created_at)
    CREATE UNIQUE INDEX notifications_cause_target_key_key ON public.notifications USING btree (cause, target_key)
    CREATE INDEX notifications_due ON public.notifications USING btree (due_at) WHERE (status = 0)

table operator_actions
    id uuid not null
    run_id uuid not null
    idx integer
    item integer
    seq bigint not null
    action text not null
    actor text not null
    reason text
    created_at bigint not null
    token text
    metadata text
    PRIMARY KEY (id)
    CREATE INDEX operator_actions_by_run ON public.operator_actions USING btree (run_id, seq)

table pauses
    namespace text not null
    queue text not null
    paused_by text not null
    reason text
    paused_at bigint not null
    resumed_at bigint
    PRIMARY KEY (namespace, queue)

table poll_keys
    trigger_id uuid not null
    key text not null
    run_id uuid not null
    seen_at bigint not null
    PRIMARY KEY (trigger_id, key)
    FOREIGN KEY (trigger_id) REFERENCES triggers(id) ON DELETE CASCADE
    CREATE INDEX poll_keys_by_age ON public.poll_keys USING btree (trigger_id, seen_at)

table polls
    trigger_id uuid not null
    checks bigint not null default 0
    checked_at bigint
    check_run uuid
    started bigint not null default 0
    last_key text
    last_run uuid
    failures bigint not null default 0
    error text
    PRIMARY KEY (trigger_id)
    FOREIGN KEY (trigger_id) REFERENCES triggers(id) ON DELETE CASCADE

table routes
    id integer not null generated always as identity
    namespace text not null
    queue text not null
    labels text not null
    class smallint not null
    CHECK (((class >= 0) AND (class <= 2)))
    UNIQUE (namespace, queue, labels, class)
    PRIMARY KEY (id)
    CREATE UNIQUE INDEX routes_namespace_queue_labels_class_key ON public.routes USING btree (namespace, queue, labels, class)

table run_details
    run_id uuid not null
    inputs text
    outputs text
    correlation_id text
    trigger text
    reason text
    began_at bigint
    PRIMARY KEY (run_id)
    CREATE INDEX run_details_by_correlation ON public.run_details USING btree (correlation_id) WHERE (correlation_id IS NOT NULL)

table run_ends
    run_id uuid not null
    generation smallint not null
    workflow_id uuid not null
    state smallint not null
    finished_at bigint not null
    PRIMARY KEY (run_id, generation)
    CHECK (((state >= 3) AND (state <= 5)))

table run_transitions
    run_id uuid not null
    seq bigint not null
    kind smallint not null
    state smallint not null
    stage smallint not null
    created_at bigint not null
    CHECK (((kind >= 0) AND (kind <= 4)))
    PRIMARY KEY (run_id, seq)
    CHECK (((stage >= 0) AND (stage <= 3)))
    CHECK (((state >= 0) AND (state <= 5)))

table runs with (fillfactor=50)
    id uuid not null
    version bigint not null
    workflow_id uuid not null
    state smallint not null
    stage smallint not null default 0
    flags smallint not null default 0
    rank smallint not null
    generation smallint not null default 0
    open integer not null
    failed integer not null default 0
    limit_id integer
    waits_for integer
    holds integer
    seq bigint not null default 0
    created_at bigint not null
    started_at bigint
    finished_at bigint
    progress_at bigint not null
    deadline_at bigint
    reopened_at bigint
    CHECK ((open >= 0))
    PRIMARY KEY (id)
    CHECK (((stage >= 0) AND (stage <= 3)))
    CHECK (((state >= 0) AND (state <= 5)))
    CREATE INDEX runs_by_deadline ON public.runs USING btree (deadline_at) WHERE (deadline_at IS NOT NULL)
    CREATE INDEX runs_by_workflow ON public.runs USING btree (workflow_id, id)
    CREATE INDEX runs_holding ON public.runs USING btree (holds) WHERE (holds IS NOT NULL)
    CREATE INDEX runs_queued ON public.runs USING btree (waits_for, rank, id) WHERE (waits_for IS NOT NULL)

table search_documents
    namespace text not null
    kind smallint not null
    id text not null
    title text not null
    body text not null
    words tsvector default to_tsvector('simple'::regconfig, "left"(((title || ' '::text) || body), 100000))
    CHECK (((kind >= 0) AND (kind <= 2)))
    PRIMARY KEY (namespace, kind, id)
    CREATE INDEX search_documents_words ON public.search_documents USING gin (words)

table secrets
    namespace text not null
    name text not null
    sealed bytea not null
    key_id text not null
    updated_by text not null
    created_at bigint not null
    updated_at bigint not null
    PRIMARY KEY (namespace, name)

table sessions with (fillfactor=50)
    id bigint not null generated always as identity
    node uuid not null
    worker text not null
    hostname text not null
    queues text not null
    labels text not null
    slots integer not null
    remote boolean not null default false
    draining boolean not null default false
    beat bigint not null default 0
    dead boolean not null default false
    created_at bigint not null
    beat_at bigint not null
    ended_at bigint
    seq bigint not null default 0
    namespaces text
    function_slots integer not null default 0
    remote_slots integer not null default 0
    handlers text not null default ''::text
    version text not null default ''::text
    token_hash bytea
    backlog integer not null default 0
    PRIMARY KEY (id)
    CREATE INDEX sessions_live ON public.sessions USING btree (id) WHERE (NOT dead)

table staleness_defaults
    id smallint not null
    waiting_for_dependencies bigint not null
    waiting_for_retry bigint not null
    steps_in_process bigint not null
    lifetime bigint not null
    CHECK ((id = 1))
    PRIMARY KEY (id)

table starts
    run_id uuid not null
    due_at bigint not null
    PRIMARY KEY (run_id)
    CREATE INDEX starts_due ON public.starts USING btree (due_at)

table steal_requests
    victim bigint not null
    thief bigint not null
    wanted integer not null
    created_at bigint not null
    PRIMARY KEY (victim)

table submissions
    namespace text not null
    key text not null
    run_id uuid not null
    created_at bigint not null
    PRIMARY KEY (namespace, key)
    CREATE INDEX submissions_by_run ON public.submissions USING btree (run_id)

table task_overrides
    run_id uuid not null
    idx integer not null
    item integer not null
    timeout_ms bigint not null
    PRIMARY KEY (run_id, idx, item)

table task_runs with (fillfactor=100, autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=2000, autovacuum_vacuum_insert_scale_factor=0.2, autovacuum_vacuum_cost_delay=0)
    run_id uuid not null
    idx integer not null
    item integer not null default '-1'::integer
    state smallint not null
    rule smallint not null
    rank smallint not null
    flags smallint not null
    route integer not null
    pool integer
    attempt integer not null default 0
    failures smallint not null default 0
    max_failures smallint not null
    lost smallint not null default 0
    max_lost smallint not null
    generation smallint not null default 0
    open integer not null
    succeeded integer not null default 0
    failed integer not null default 0
    skipped integer not null default 0
    version bigint not null
    due_at bigint not null
    session bigint
    claim bigint
    started_at bigint
    CHECK (((state <> 2) OR ((session IS NOT NULL) AND (attempt > 0))))
    PRIMARY KEY (run_id, idx, item)
    CHECK (((state >= 0) AND (state <= 8)))
    CREATE INDEX task_runs_claimed ON public.task_runs USING btree (session) WHERE (session IS NOT NULL)
    CREATE INDEX task_runs_due ON public.task_runs USING btree (due_at) WHERE (state = ANY (ARRAY[3, 8]))
    CREATE INDEX task_runs_gated ON public.task_runs USING btree (pool, rank, due_at) WHERE (state = 5)
    CREATE INDEX task_runs_ready ON public.task_runs USING btree (route, rank, due_at) WHERE (state = 1)
    CREATE INDEX task_runs_undecided ON public.task_runs USING btree (due_at) WHERE ((state = 4) AND (session IS NULL))

table terms with (fillfactor=50)
    name text not null
    epoch bigint not null
    term_id uuid not null
    node uuid not null
    beat bigint not null
    released boolean not null default false
    PRIMARY KEY (name)

table triggers with (fillfactor=80)
    id uuid not null
    workflow_id uuid not null
    namespace text not null
    name text not null
    kind smallint not null
    listens text
    calendar text
    spec text not null
    check_version bigint
    revision bigint not null default 1
    present boolean not null default true
    active boolean not null default true
    paused boolean not null default false
    anchor_at bigint not null
    covered_at bigint not null
    next_nominal bigint
    next_fire_at bigint
    fired bigint not null default 0
    last_fire_at bigint
    problem text
    created_at bigint not null
    updated_at bigint not null
    CHECK (((next_fire_at IS NULL) = (next_nominal IS NULL)))
    CHECK (((kind >= 0) AND (kind <= 6)))
    PRIMARY KEY (id)
    FOREIGN KEY (workflow_id) REFERENCES workflows(id) ON DELETE CASCADE
    UNIQUE (workflow_id, name)
    CREATE INDEX triggers_by_calendar ON public.triggers USING btree (namespace, calendar) WHERE ((calendar IS NOT NULL) AND present)
    CREATE INDEX triggers_due ON public.triggers USING btree (next_fire_at) WHERE ((next_fire_at IS NOT NULL) AND (NOT paused) AND present AND active)
    CREATE INDEX triggers_following ON public.triggers USING btree (listens) WHERE ((kind >= 5) AND present)
    CREATE INDEX triggers_listening ON public.triggers USING btree (namespace, kind, listens) WHERE ((listens IS NOT NULL) AND present)
    CREATE UNIQUE INDEX triggers_workflow_id_name_key ON public.triggers USING btree (workflow_id, name)

table ui_codes
    hash bytea not null
    token_id uuid not null
    expires_at bigint not null
    CHECK ((octet_length(hash) = 32))
    PRIMARY KEY (hash)
    FOREIGN KEY (token_id) REFERENCES api_tokens(id) ON DELETE CASCADE
    CREATE INDEX ui_codes_by_age ON public.ui_codes USING btree (expires_at)

table ui_sessions
    hash bytea not null
    token_id uuid not null
    created_at bigint not null
    used_at bigint not null
    CHECK ((octet_length(hash) = 32))
    PRIMARY KEY (hash)
    FOREIGN KEY (token_id) REFERENCES api_tokens(id) ON DELETE CASCADE
    CREATE INDEX ui_sessions_by_age ON public.ui_sessions USING btree (created_at)
    CREATE INDEX ui_sessions_of_token ON public.ui_sessions USING btree (token_id)

table unsuccessful_runs
    run_id uuid not null
    state smallint not null
    noticed boolean not null default false
    PRIMARY KEY (run_id)
    CHECK ((state = ANY (ARRAY[4, 5])))
    CREATE INDEX unsuccessful_runs_unnoticed ON public.unsuccessful_runs USING btree (run_id) WHERE (NOT noticed)

table unused_objects
    object text not null
    due_at bigint not null
    PRIMARY KEY (object)
    CREATE INDEX unused_objects_by_due ON public.unused_objects USING btree (due_at)

table version_files
    version bigint not null
    path text not null
    executable boolean not null
    content bytea not null
    PRIMARY KEY (version, path)
    FOREIGN KEY (version) REFERENCES versions(id) ON DELETE CASCADE

table version_tasks
    version bigint not null
    idx integer not null
    stage smallint not null
    needs integer not null
    rule smallint not null
    rank smallint
    flags smallint not null
    route integer not null
    pool integer
    max_failures smallint not null
    max_lost smallint not null
    dependents integer[] not null
    PRIMARY KEY (version, idx)
    FOREIGN KEY (pool) REFERENCES limits(id)
    FOREIGN KEY (route) REFERENCES routes(id)
    FOREIGN KEY (version) REFERENCES versions(id) ON DELETE CASCADE

table version_thresholds
    version bigint not null
    waiting_for_dependencies bigint
    waiting_for_retry bigint
    steps_in_process bigint
    lifetime bigint
    longest_timeout bigint
    run_timeout bigint
    PRIMARY KEY (version)
    FOREIGN KEY (version) REFERENCES versions(id) ON DELETE CASCADE

table versions
    id bigint not null generated always as identity
    workflow_id uuid not null
    number integer not null
    hash text not null
    spec text not null
    source text not null
    created_at bigint not null
    PRIMARY KEY (id)
    FOREIGN KEY (workflow_id) REFERENCES workflows(id) ON DELETE CASCADE
    UNIQUE (workflow_id, hash)
    UNIQUE (workflow_id, number)
    CREATE UNIQUE INDEX versions_workflow_id_hash_key ON public.versions USING btree (workflow_id, hash)
    CREATE UNIQUE INDEX versions_workflow_id_number_key ON public.versions USING btree (workflow_id, number)

table waits
    run_id uuid not null
    idx integer not null
    item integer not null
    kind smallint not null
    attempt integer not null
    namespace text
    event text
    key text
    child uuid
    body text
    due_at bigint
    created_at bigint not null
    outcome smallint
    output text
    actor text
    reason text
    happened_at bigint
    CHECK (((kind >= 0) AND (kind <= 5)))
    CHECK (((outcome >= 0) AND (outcome <= 2)))
    PRIMARY KEY (run_id, idx, item)
    CREATE UNIQUE INDEX waits_for_child ON public.waits USING btree (child) WHERE (child IS NOT NULL)
    CREATE INDEX waits_for_event ON public.waits USING btree (namespace, event) WHERE ((event IS NOT NULL) AND (outcome IS NULL))

table workflows
    id uuid not null
    namespace text not null
    name text not null
    active boolean not null default true
    latest bigint
    created_at bigint not null
    updated_at bigint not null
    created_by text
    followed boolean not null default false
    check_of uuid
    UNIQUE (namespace, name)
    PRIMARY KEY (id)
    CREATE INDEX workflows_followed ON public.workflows USING btree (id) WHERE followed
    CREATE UNIQUE INDEX workflows_namespace_name_key ON public.workflows USING btree (namespace, name)
    CREATE INDEX workflows_of_checks ON public.workflows USING btree (check_of) WHERE (check_of IS NOT NULL)

function child_ended_v1(
    p_now bigint,
    p_child uuid)
    returns void set plan_cache_mode=force_generic_plan, enable_seqscan=off, enable_bitmapscan=off body d120af62960f63a22a8ab9a223467f3e

function counts_v1(
    state smallint,
    flags smallint)
    returns smallint body 762ddaaaf75e1cf172edec950077a1bb

function create_runs_v1(
    p_now bigint,
    p_run uuid[],
    p_version bigint[],
    p_workflow uuid[],
    p_state smallint[],
    p_flags smallint[],
    p_rank smallint[],
    p_open integer[],
    p_limit integer[],
    p_deadline bigint[],
    p_pools integer[])
    returns void set plan_cache_mode=force_generic_plan, enable_seqscan=off, enable_hashjoin=off, enable_mergejoin=off body 95e77f565ac342f18ed38f039c3fad2f

function enter_stage_v1(
    p_now bigint,
    p_run uuid,
    p_stage smallint)
    returns integer set plan_cache_mode=force_generic_plan, enable_seqscan=off body 54b506b102834395b5dde53e64f1a797

function exchange_v1(
    p_lane bigint,
    p_seq bigint,
    p_now bigint,
    p_sessions bigint[],
    f_run uuid[],
    f_idx integer[],
    f_item integer[],
    f_session bigint[],
    f_attempt integer[],
    f_from smallint[],
    f_state smallint[],
    f_started bigint[],
    f_finished bigint[],
    f_exit integer[],
    f_kind text[],
    f_error text[],
    f_detail text[],
    f_output text[],
    x_run uuid[],
    x_idx integer[],
    x_item integer[],
    x_session bigint[],
    x_attempt integer[],
    x_outcome smallint[],
    x_due bigint[],
    x_started bigint[],
    x_finished bigint[],
    x_exit integer[],
    x_kind text[],
    x_error text[],
    x_detail text[],
    d_run uuid[],
    d_idx integer[],
    d_item integer[],
    d_session bigint[],
    w_session bigint[],
    w_route integer[],
    w_slots integer[],
    w_rank smallint[],
    w_floor_rank smallint[],
    w_floor_due bigint[],
    p_decide_session bigint,
    p_decide integer,
    p_look boolean)
    returns TABLE(kind smallint, run_id uuid, idx integer, item integer, attempt integer, failures smallint, generation smallint, version bigint, session bigint, route integer, rank smallint, due_at bigint) set plan_cache_mode=force_generic_plan, enable_seqscan=off, enable_hashjoin=off, enable_mergejoin=off, enable_bitmapscan=off body 820055e087b84d7bfe4facb4f6e07a1f

function followed_flags_v1(
    p_workflow uuid[],
    p_flags smallint[])
    returns smallint[] set plan_cache_mode=force_generic_plan, enable_seqscan=off body 4f8f95f8d48f1e2decc27e02fdcbad87

function items_v1(
    p_now bigint,
    g_run uuid[],
    g_idx integer[],
    g_item integer[],
    g_state smallint[],
    g_flags smallint[])
    returns integer[] set plan_cache_mode=force_generic_plan, enable_seqscan=off, enable_bitmapscan=off body 4574cdb820b3880a76daaefe15207151

function limits_v1(
    p_now bigint,
    p_released integer[],
    p_ended integer[],
    p_touched integer[])
    returns void set plan_cache_mode=force_generic_plan, enable_seqscan=off, enable_hashjoin=off, enable_mergejoin=off body 213c1e5d0623ccea8e664ee61e387c68

function next_stage_v1(
    p_now bigint,
    p_run uuid)
    returns void set plan_cache_mode=force_generic_plan body 3aca7a998400808c5ee9800605c8b88c

function runs_ended_v1(
    p_runs uuid[])
    returns void set plan_cache_mode=force_generic_plan, enable_seqscan=off body 0c0f1712efc3e709b72ea929d3a6250a

function settle_one_v1(
    p_now bigint,
    p_claim bigint,
    p_run uuid,
    p_idx integer,
    p_version bigint,
    p_flags smallint,
    p_generation smallint,
    p_attempt integer,
    p_failures smallint,
    p_lost smallint,
    p_session bigint,
    p_started bigint,
    p_finished bigint,
    p_output text,
    w_session bigint[],
    w_route integer[],
    w_slots integer[],
    w_rank smallint[],
    OUT applied boolean,
    OUT ended boolean,
    OUT others integer[],
    OUT w integer,
    OUT idx integer,
    OUT attempt integer,
    OUT failures smallint,
    OUT generation smallint,
    OUT version bigint,
    OUT rank smallint,
    OUT due_at bigint)
    returns record body 52770e9c9d078e76dd82cb82d4c635c6

function settle_v1(
    p_now bigint,
    p_claim bigint,
    g_run uuid[],
    g_idx integer[],
    g_item integer[],
    g_version bigint[],
    g_state smallint[],
    g_flags smallint[],
    g_generation smallint[],
    g_attempt integer[],
    g_failures smallint[],
    g_lost smallint[],
    g_session bigint[],
    g_started bigint[],
    g_finished bigint[],
    g_exit integer[],
    g_kind text[],
    g_error text[],
    g_detail text[],
    g_output text[],
    g_pool integer[],
    a_run uuid[],
    a_dep integer[],
    a_counts smallint[],
    w_session bigint[],
    w_route integer[],
    w_slots integer[],
    w_rank smallint[],
    p_decide_session bigint,
    p_decide integer)
    returns TABLE(kind smallint, run_id uuid, idx integer, item integer, attempt integer, failures smallint, generation smallint, version bigint, session bigint, route integer, rank smallint, due_at bigint) set plan_cache_mode=force_generic_plan, enable_seqscan=off, enable_hashjoin=off, enable_mergejoin=off, enable_bitmapscan=off body bd8b5e7960a2ffd52aa699c828d352e9

function start_runs_v1(
    p_now bigint,
    p_run uuid[],
    p_version bigint[],
    p_workflow uuid[],
    p_only_latest boolean[],
    p_flags smallint[],
    p_rank smallint[],
    p_open integer[],
    p_deadline bigint[],
    p_pools integer[],
    p_lane bigint,
    p_seq bigint,
    p_session bigint,
    w_route integer[],
    w_slots integer[],
    w_rank smallint[])
    returns TABLE(kind smallint, run_id uuid, idx integer, item integer, attempt integer, failures smallint, generation smallint, version bigint, session bigint, route integer, rank smallint, due_at bigint) set plan_cache_mode=force_generic_plan, enable_seqscan=off, enable_hashjoin=off, enable_mergejoin=off body 3893d4c7de4e2b3db06969b345dc2705

function startable_v1(
    run_state smallint,
    flags smallint,
    pool integer)
    returns smallint body 7f5fd31764fc71d69b561ed792344889

function stopped_v1(
    flags smallint,
    stage smallint)
    returns boolean body 36976d48962d973052285d702ca90170

function swap_triggers_v1(
    p_at bigint,
    p_id uuid[],
    p_revision bigint[],
    p_expected bigint[],
    p_covered bigint[],
    p_nominal bigint[],
    p_fire bigint[],
    p_added bigint[])
    returns bigint set plan_cache_mode=force_generic_plan, enable_seqscan=off, enable_hashjoin=off, enable_mergejoin=off body 43997f7217fd3d21b8ff64f95f0e964b

function uuid_v7_v1(
    p_now bigint)
    returns uuid body ffeb4643dbcb5f44e73c0ac90cb91d88

function verdict_v1(
    rule smallint,
    o integer,
    s integer,
    f integer,
    k integer)
    returns smallint body 4a3560d89038117916c4e997f75738a3
