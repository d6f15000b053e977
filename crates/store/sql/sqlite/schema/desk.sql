-- The operator's desk: staleness, batches of actions on dead letters, overrides, notifications, and the views over them.

-- How long runs may go without progress, in microseconds: of versions that say so, and of all others.
CREATE TABLE version_thresholds (
    version                  INTEGER PRIMARY KEY REFERENCES versions (id) ON DELETE CASCADE,
    waiting_for_dependencies INTEGER,
    waiting_for_retry        INTEGER,
    steps_in_process         INTEGER,
    lifetime                 INTEGER,
    longest_timeout          INTEGER,
    run_timeout              INTEGER
);
CREATE TABLE staleness_defaults (
    id                       INTEGER PRIMARY KEY CHECK (id = 1),
    waiting_for_dependencies INTEGER NOT NULL,
    waiting_for_retry        INTEGER NOT NULL,
    steps_in_process         INTEGER NOT NULL,
    lifetime                 INTEGER NOT NULL
);
INSERT INTO staleness_defaults VALUES (1, 3600000000, 1800000000, 1800000000, 86400000000);

-- One action on every entry that a filter finds. `position` is the last entry that was acted on: a batch goes on from there.
-- Status: 0 going on, 1 done, 2 called off.
CREATE TABLE dlq_batches (
    id          BLOB PRIMARY KEY,
    namespaces  TEXT,
    filter      TEXT NOT NULL,
    action      TEXT NOT NULL,
    actor       TEXT NOT NULL,
    token       TEXT,
    reason      TEXT,
    status      INTEGER NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 2),
    matched     INTEGER NOT NULL,
    done        INTEGER NOT NULL DEFAULT 0,
    failed      INTEGER NOT NULL DEFAULT 0,
    position    BLOB,
    error       TEXT,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    finished_at INTEGER
);
CREATE INDEX dlq_batches_open ON dlq_batches (id) WHERE status = 0;

-- What an operator allows one task run besides its workflow.
CREATE TABLE task_overrides (
    run_id      BLOB NOT NULL,
    idx         INTEGER NOT NULL,
    item        INTEGER NOT NULL,
    timeout_ms  INTEGER NOT NULL,
    PRIMARY KEY (run_id, idx, item)
);

-- Messages that go out, once per cause and target. Kinds: 0 run failed, 1 deadline missed, 2 stale warning, 3 dead letter.
-- Status: 0 waiting, 1 sent, 2 given up, 3 told in a digest.
CREATE TABLE notifications (
    id          BLOB PRIMARY KEY,
    namespace   TEXT NOT NULL,
    workflow    TEXT NOT NULL,
    kind        INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 3),
    cause       TEXT NOT NULL,
    run_id      BLOB,
    target      TEXT NOT NULL,
    target_key  TEXT NOT NULL,
    body        TEXT NOT NULL,
    status      INTEGER NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 3),
    attempts    INTEGER NOT NULL DEFAULT 0,
    due_at      INTEGER NOT NULL,
    error       TEXT,
    created_at  INTEGER NOT NULL,
    sent_at     INTEGER,
    UNIQUE (cause, target_key)
);
CREATE INDEX notifications_due ON notifications (due_at) WHERE status = 0;
CREATE INDEX notifications_by_age ON notifications (created_at);

-- Open runs with what staleness goes by, without a clock. Phases: 0 waiting for dependencies, 1 waiting for a
-- retry, 2 steps in process. A claim does not touch its run: what runs has moved it when it started. 9223372036854775807 is never.
CREATE VIEW v_open_runs AS
SELECT l.run_id, w.namespace, w.name AS workflow, r.workflow_id, r.version, r.state, r.rank, r.created_at, l.phase,
       max(r.progress_at, l.moved_at, coalesce((SELECT max(b.resumed_at) FROM pauses b WHERE b.namespace IN ('', w.namespace)), 0)) AS moved_at,
       coalesce(r.reopened_at, r.started_at, r.created_at) AS begun_at,
       CASE WHEN r.state <> {run.running} OR (l.busy = 0 AND l.waiting = 1 AND l.unbounded = 0) OR (l.stopped = 1 AND l.phase <> 2) THEN 1 ELSE 0 END AS exempt,
       CASE l.phase WHEN 0 THEN coalesce(v.waiting_for_dependencies, d.waiting_for_dependencies)
                    WHEN 1 THEN coalesce(v.waiting_for_retry, d.waiting_for_retry)
                    ELSE coalesce(v.steps_in_process, max(d.steps_in_process, coalesce(v.longest_timeout, 0))) END AS threshold,
       coalesce(v.lifetime, max(d.lifetime, coalesce(v.run_timeout, 0))) AS lifetime
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
       round(CASE WHEN m.by_lifetime THEN m.alive ELSE m.in_phase END / 60000000.0, 2) AS time_in_state_minutes,
       round(CASE WHEN m.by_lifetime THEN m.lifetime ELSE m.threshold END / 60000000.0, 2) AS staleness_threshold_minutes,
       round(CASE WHEN m.by_lifetime THEN m.by_life ELSE m.by_phase END, 2) AS threshold_percentage,
       CASE WHEN max(m.by_phase, m.by_life) >= 100 THEN 'stale' WHEN max(m.by_phase, m.by_life) >= 80 THEN 'warning' ELSE 'healthy' END AS health_status,
       1000 - m.rank AS priority
FROM (SELECT p.*, p.exempt = 1 OR (p.by_life >= 100 AND p.by_phase < 100) OR (p.by_life >= 80 AND p.by_phase < 80) AS by_lifetime
      FROM (SELECT o.*, c.now - o.moved_at AS in_phase, c.now - o.begun_at AS alive,
                   CASE WHEN o.exempt = 1 THEN 0 ELSE (c.now - o.moved_at) * 100.0 / o.threshold END AS by_phase,
                   (c.now - o.begun_at) * 100.0 / o.lifetime AS by_life
            FROM v_open_runs o CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) AS now) c) p) m
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
       strftime('%Y-%m-%dT%H:%M:%fZ', min(e.created_at) / 1000000.0, 'unixepoch') AS oldest_entry,
       strftime('%Y-%m-%dT%H:%M:%fZ', max(e.created_at) / 1000000.0, 'unixepoch') AS newest_entry,
       round(avg(e.resolved_at - e.created_at) FILTER (WHERE e.status <> {letter.pending}) / 60000000.0, 2) AS avg_resolution_time_minutes
FROM dead_letters e GROUP BY e.reason;

-- The base of the reason plus the hours that an entry has waited.
CREATE VIEW v_dlq_investigation_queue AS
SELECT e.id AS dlq_entry_id, e.run_id,
       CASE WHEN e.idx IS NOT NULL THEN lower(substr(hex(e.run_id), 1, 8) || '-' || substr(hex(e.run_id), 9, 4) || '-' || substr(hex(e.run_id), 13, 4) || '-' || substr(hex(e.run_id), 17, 4) || '-' || substr(hex(e.run_id), 21)) || '.' || e.idx || CASE WHEN e.item >= 0 THEN '.' || e.item ELSE '' END END AS task_run_id,
       CASE e.reason WHEN {letter_reason.staleness_timeout} THEN 'staleness_timeout' WHEN {letter_reason.max_retries_exceeded} THEN 'max_retries_exceeded' WHEN {letter_reason.dependency_cycle_detected} THEN 'dependency_cycle_detected'
                     WHEN {letter_reason.worker_unavailable} THEN 'worker_unavailable' WHEN {letter_reason.poison_pill} THEN 'poison_pill' ELSE 'manual_dlq' END AS dlq_reason,
       round(CASE e.reason WHEN {letter_reason.staleness_timeout} THEN 10 WHEN {letter_reason.max_retries_exceeded} THEN 20 WHEN {letter_reason.worker_unavailable} THEN 30
            WHEN {letter_reason.manual_dlq} THEN 50 ELSE 40 END + (c.now - e.created_at) / 3600000000.0, 2) AS priority_score,
       round((c.now - e.created_at) / 60000000.0, 2) AS minutes_in_dlq,
       coalesce(e.namespace, w.namespace) AS namespace, coalesce(e.workflow, w.name) AS workflow, e.task_name
FROM dead_letters e LEFT JOIN versions v ON v.id = e.version LEFT JOIN workflows w ON w.id = v.workflow_id
CROSS JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) AS now) c
WHERE e.status = {letter.pending} ORDER BY priority_score DESC;
