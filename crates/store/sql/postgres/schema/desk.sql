-- The operator's desk: staleness, batches of actions on dead letters, overrides, notifications, and the views over them.

-- How long runs may go without progress, in microseconds: of versions that say so, and of all others.
CREATE TABLE version_thresholds (
    version                  bigint PRIMARY KEY REFERENCES versions (id) ON DELETE CASCADE,
    waiting_for_dependencies bigint,
    waiting_for_retry        bigint,
    steps_in_process         bigint,
    lifetime                 bigint,
    longest_timeout          bigint,
    run_timeout              bigint
);
CREATE TABLE staleness_defaults (
    id                       smallint PRIMARY KEY CHECK (id = 1),
    waiting_for_dependencies bigint NOT NULL,
    waiting_for_retry        bigint NOT NULL,
    steps_in_process         bigint NOT NULL,
    lifetime                 bigint NOT NULL
);
INSERT INTO staleness_defaults VALUES (1, 3600000000, 1800000000, 1800000000, 86400000000);

-- One action on every entry that a filter finds. `position` is the last entry that was acted on: a batch goes on from there.
-- Status: 0 going on, 1 done, 2 called off.
CREATE TABLE dlq_batches (
    id          uuid PRIMARY KEY,
    namespaces  text,
    filter      text NOT NULL,
    action      text NOT NULL,
    actor       text NOT NULL,
    token       text,
    reason      text,
    status      smallint NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 2),
    matched     bigint NOT NULL,
    done        bigint NOT NULL DEFAULT 0,
    failed      bigint NOT NULL DEFAULT 0,
    position    uuid,
    error       text,
    created_at  bigint NOT NULL,
    updated_at  bigint NOT NULL,
    finished_at bigint
);
CREATE INDEX dlq_batches_open ON dlq_batches (id) WHERE status = 0;

-- What an operator allows one task run besides its workflow.
CREATE TABLE task_overrides (
    run_id      uuid NOT NULL,
    idx         integer NOT NULL,
    item        integer NOT NULL,
    timeout_ms  bigint NOT NULL,
    PRIMARY KEY (run_id, idx, item)
);

-- Messages that go out, once per cause and target. Kinds: 0 run failed, 1 deadline missed, 2 stale warning, 3 dead letter.
-- Status: 0 waiting, 1 sent, 2 given up, 3 told in a digest.
CREATE TABLE notifications (
    id          uuid PRIMARY KEY,
    namespace   text NOT NULL,
    workflow    text NOT NULL,
    kind        smallint NOT NULL CHECK (kind BETWEEN 0 AND 3),
    cause       text NOT NULL,
    run_id      uuid,
    target      text NOT NULL,
    target_key  text NOT NULL,
    body        text NOT NULL,
    status      smallint NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 3),
    attempts    integer NOT NULL DEFAULT 0,
    due_at      bigint NOT NULL,
    error       text,
    created_at  bigint NOT NULL,
    sent_at     bigint,
    UNIQUE (cause, target_key)
);
CREATE INDEX notifications_due ON notifications (due_at) WHERE status = 0;
CREATE INDEX notifications_by_age ON notifications (created_at);

-- Open runs with what staleness goes by, without a clock. Phases: 0 waiting for dependencies, 1 waiting for a
-- retry, 2 steps in process. A claim does not touch its run: what runs has moved it when it started. 9223372036854775807 is never.
CREATE VIEW v_open_runs AS
SELECT l.run_id, w.namespace, w.name AS workflow, r.workflow_id, r.version, r.state, r.rank, r.created_at, l.phase,
       greatest(r.progress_at, l.moved_at, coalesce((SELECT max(b.resumed_at) FROM pauses b WHERE b.namespace IN ('', w.namespace)), 0)) AS moved_at,
       coalesce(r.reopened_at, r.started_at, r.created_at) AS begun_at,
       CASE WHEN r.state <> {run.running} OR (l.busy = 0 AND l.waiting = 1 AND l.unbounded = 0) OR (l.stopped = 1 AND l.phase <> 2) THEN 1 ELSE 0 END AS exempt,
       CASE l.phase WHEN 0 THEN coalesce(v.waiting_for_dependencies, d.waiting_for_dependencies)
                    WHEN 1 THEN coalesce(v.waiting_for_retry, d.waiting_for_retry)
                    ELSE coalesce(v.steps_in_process, greatest(d.steps_in_process, coalesce(v.longest_timeout, 0))) END AS threshold,
       coalesce(v.lifetime, greatest(d.lifetime, coalesce(v.run_timeout, 0))) AS lifetime
FROM (SELECT t.run_id,
             CASE WHEN max(CASE WHEN t.state = {task.running} THEN 1 ELSE 0 END) = 1 THEN 2 WHEN max(CASE WHEN t.state = {task.retrying} THEN 1 ELSE 0 END) = 1 THEN 1 ELSE 0 END AS phase,
             max(CASE WHEN t.state IN ({task.pending}, {task.waiting}) THEN 0 ELSE 1 END) AS busy,
             max(CASE WHEN t.state = {task.waiting} THEN 1 ELSE 0 END) AS waiting,
             max(CASE WHEN t.state = {task.ready} AND t.route IN (SELECT o.id FROM routes o JOIN pauses b ON b.namespace IN ('', o.namespace)
                 AND b.queue IN ('', o.queue) AND b.resumed_at IS NULL) THEN 1 ELSE 0 END) AS stopped,
             max(CASE WHEN t.state = {task.waiting} AND t.due_at = 9223372036854775807 AND t.flags & {task_flag.expanded} = 0 AND NOT EXISTS (
                 SELECT 1 FROM waits x WHERE x.run_id = t.run_id AND x.idx = t.idx AND x.item = t.item AND x.child IS NOT NULL) THEN 1 ELSE 0 END) AS unbounded,
             max(CASE WHEN t.state = {task.running} THEN t.started_at WHEN t.state IN ({task.ready}, {task.gated}) THEN t.due_at ELSE 0 END) AS moved_at
      FROM task_runs t GROUP BY t.run_id) l
JOIN runs r ON r.id = l.run_id
JOIN workflows w ON w.id = r.workflow_id
JOIN staleness_defaults d ON d.id = 1
LEFT JOIN version_thresholds v ON v.version = r.version
WHERE r.state < {run.success};

CREATE VIEW v_task_staleness_monitoring AS
SELECT m.run_id, m.namespace, m.workflow,
       CASE m.phase WHEN 0 THEN 'waiting_for_dependencies' WHEN 1 THEN 'waiting_for_retry' ELSE 'steps_in_process' END AS current_state,
       round((CASE WHEN m.by_lifetime THEN m.alive ELSE m.in_phase END / 60000000.0)::numeric, 2)::double precision AS time_in_state_minutes,
       round((CASE WHEN m.by_lifetime THEN m.lifetime ELSE m.threshold END / 60000000.0)::numeric, 2)::double precision AS staleness_threshold_minutes,
       round((CASE WHEN m.by_lifetime THEN m.by_life ELSE m.by_phase END)::numeric, 2)::double precision AS threshold_percentage,
       CASE WHEN greatest(m.by_phase, m.by_life) >= 100 THEN 'stale' WHEN greatest(m.by_phase, m.by_life) >= 80 THEN 'warning' ELSE 'healthy' END AS health_status,
       1000 - m.rank AS priority
FROM (SELECT p.*, p.exempt = 1 OR (p.by_life >= 100 AND p.by_phase < 100) OR (p.by_life >= 80 AND p.by_phase < 80) AS by_lifetime
      FROM (SELECT o.*, c.now - o.moved_at AS in_phase, c.now - o.begun_at AS alive,
                   CASE WHEN o.exempt = 1 THEN 0 ELSE (c.now - o.moved_at) * 100.0 / o.threshold END AS by_phase,
                   (c.now - o.begun_at) * 100.0 / o.lifetime AS by_life
            FROM v_open_runs o CROSS JOIN (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) c) p) m
ORDER BY threshold_percentage DESC;

CREATE VIEW v_dlq_dashboard AS
SELECT CASE e.reason WHEN {letter_reason.staleness_timeout} THEN 'staleness_timeout' WHEN {letter_reason.max_retries_exceeded} THEN 'max_retries_exceeded' WHEN {letter_reason.dependency_cycle_detected} THEN 'dependency_cycle_detected'
                     WHEN {letter_reason.worker_unavailable} THEN 'worker_unavailable' WHEN {letter_reason.poison_pill} THEN 'poison_pill' ELSE 'manual_dlq' END AS dlq_reason,
       count(*) AS total_entries,
       count(*) FILTER (WHERE e.status = {letter.pending}) AS pending,
       count(*) FILTER (WHERE e.status = {letter.retried}) AS retried,
       count(*) FILTER (WHERE e.status = {letter.skipped}) AS skipped,
       count(*) FILTER (WHERE e.status = {letter.resolved}) AS manually_resolved,
       count(*) FILTER (WHERE e.status = {letter.permanent_failure}) AS permanent_failures,
       count(*) FILTER (WHERE e.status = {letter.cancelled}) AS cancelled,
       to_timestamp(min(e.created_at) / 1000000.0) AS oldest_entry,
       to_timestamp(max(e.created_at) / 1000000.0) AS newest_entry,
       round((avg(e.resolved_at - e.created_at) FILTER (WHERE e.status <> {letter.pending}) / 60000000.0)::numeric, 2)::double precision AS avg_resolution_time_minutes
FROM dead_letters e GROUP BY e.reason;

-- The base of the reason plus the hours that an entry has waited.
CREATE VIEW v_dlq_investigation_queue AS
SELECT e.id AS dlq_entry_id, e.run_id,
       CASE WHEN e.idx IS NOT NULL THEN e.run_id::text || '.' || e.idx || CASE WHEN e.item >= 0 THEN '.' || e.item ELSE '' END END AS task_run_id,
       CASE e.reason WHEN {letter_reason.staleness_timeout} THEN 'staleness_timeout' WHEN {letter_reason.max_retries_exceeded} THEN 'max_retries_exceeded' WHEN {letter_reason.dependency_cycle_detected} THEN 'dependency_cycle_detected'
                     WHEN {letter_reason.worker_unavailable} THEN 'worker_unavailable' WHEN {letter_reason.poison_pill} THEN 'poison_pill' ELSE 'manual_dlq' END AS dlq_reason,
       round((CASE e.reason WHEN {letter_reason.staleness_timeout} THEN 10 WHEN {letter_reason.max_retries_exceeded} THEN 20 WHEN {letter_reason.worker_unavailable} THEN 30
            WHEN {letter_reason.manual_dlq} THEN 50 ELSE 40 END + (c.now - e.created_at) / 3600000000.0)::numeric, 2)::double precision AS priority_score,
       round(((c.now - e.created_at) / 60000000.0)::numeric, 2)::double precision AS minutes_in_dlq,
       coalesce(e.namespace, w.namespace) AS namespace, coalesce(e.workflow, w.name) AS workflow, e.task_name
FROM dead_letters e LEFT JOIN versions v ON v.id = e.version LEFT JOIN workflows w ON w.id = v.workflow_id
CROSS JOIN (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) c
WHERE e.status = {letter.pending} ORDER BY priority_score DESC;
