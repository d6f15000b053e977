//! Invariants as texts that find what breaks them. Each returns one column, the subject. `ID(x)` is the text of an id.
//!
//! Run flags: 4 cancelling, 8 timed out, 16 finalisers called off, 32 being made, 64 admitted while being made.
//! A run that still has a continuation is excused from what the continuation will bring about.

/// (what holds at any time, what finds where it does not).
pub(super) const ALWAYS: &[(&str, &str)] = &[
    (
        "an ended run has no live task run",
        "SELECT ID(t.run_id) || '.' || t.idx || ' state ' || t.state || ' in run state ' || r.state FROM task_runs t JOIN runs r ON r.id = t.run_id WHERE r.state >= 3",
    ),
    (
        "a live task run belongs to a run",
        "SELECT ID(t.run_id) || '.' || t.idx FROM task_runs t LEFT JOIN runs r ON r.id = t.run_id WHERE r.id IS NULL",
    ),
    (
        "runs.open counts the live task runs",
        "SELECT ID(r.id) || ' open ' || r.open || ' live ' || count(t.run_id) FROM runs r LEFT JOIN task_runs t ON t.run_id = r.id \
         WHERE r.flags & 32 = 0 GROUP BY r.id, r.open HAVING r.open <> count(t.run_id)",
    ),
    (
        "live task runs are of the run's stage",
        "SELECT ID(t.run_id) || '.' || t.idx || ' of stage ' || vt.stage || ' in stage ' || r.stage FROM task_runs t JOIN runs r ON r.id = t.run_id \
         JOIN version_tasks vt ON vt.version = r.version AND vt.idx = t.idx WHERE vt.stage <> r.stage",
    ),
    (
        "a task run is live or ended, never both",
        "SELECT ID(t.run_id) || '.' || t.idx FROM task_runs t JOIN history h ON h.run_id = t.run_id AND h.idx = t.idx AND h.item = t.item",
    ),
    (
        "every task of a stage that began is live or ended",
        "SELECT ID(r.id) || '.' || vt.idx FROM runs r JOIN version_tasks vt ON vt.version = r.version AND vt.stage <= r.stage \
         LEFT JOIN task_runs t ON t.run_id = r.id AND t.idx = vt.idx AND t.item = -1 \
         LEFT JOIN history h ON h.run_id = r.id AND h.idx = vt.idx AND h.item = -1 \
         WHERE r.flags & 32 = 0 AND t.run_id IS NULL AND h.run_id IS NULL",
    ),
    (
        "every task of an ended run has ended",
        "SELECT ID(r.id) || '.' || vt.idx FROM runs r JOIN version_tasks vt ON vt.version = r.version \
         LEFT JOIN history h ON h.run_id = r.id AND h.idx = vt.idx AND h.item = -1 WHERE r.state >= 3 AND h.run_id IS NULL",
    ),
    (
        "runs.failed counts what the run answers for",
        "SELECT ID(r.id) || ' failed ' || r.failed || ' counted ' || count(h.run_id) FROM runs r \
         LEFT JOIN history h ON h.run_id = r.id AND h.item = -1 AND (h.state = 13 OR (h.state = 11 AND h.flags & 8 = 0)) \
         GROUP BY r.id, r.failed HAVING r.failed <> count(h.run_id)",
    ),
    (
        "a task that was expanded counts its items",
        "SELECT ID(t.run_id) || '.' || t.idx || ' open ' || t.open || ' counted ' || count(i.run_id) FROM task_runs t \
         LEFT JOIN task_runs i ON i.run_id = t.run_id AND i.idx = t.idx AND i.item >= 0 \
         WHERE t.item = -1 AND t.flags & 128 <> 0 GROUP BY t.run_id, t.idx, t.open HAVING t.open <> count(i.run_id)",
    ),
    (
        "whoever waits is written down, and nobody waits for a child that has ended",
        "SELECT ID(t.run_id) || '.' || t.idx || ' waits' FROM task_runs t LEFT JOIN waits w ON w.run_id = t.run_id AND w.idx = t.idx AND w.item = t.item \
         LEFT JOIN runs c ON c.id = w.child WHERE t.state = 8 AND (w.run_id IS NULL OR c.state >= 3)",
    ),
    (
        "a wait that is open has a live task run",
        "SELECT ID(w.run_id) || '.' || w.idx || ' kind ' || w.kind FROM waits w \
         LEFT JOIN task_runs t ON t.run_id = w.run_id AND t.idx = w.idx AND t.item = w.item WHERE w.outcome IS NULL AND t.run_id IS NULL",
    ),
    (
        "lost counts the attempts that were lost, and the last one if that ended it",
        "SELECT ID(c.run_id) || '.' || c.idx || ' lost ' || c.lost || ' counted ' || c.counted FROM \
         (SELECT x.run_id, x.idx, x.item, x.lost, x.ended, (SELECT count(*) FROM attempts a WHERE a.run_id = x.run_id AND a.idx = x.idx \
           AND a.item = x.item AND a.outcome = 1) AS counted FROM \
          (SELECT run_id, idx, item, lost, generation, 0 AS ended FROM task_runs UNION ALL SELECT run_id, idx, item, lost, generation, 1 FROM history) x \
          WHERE x.generation = 0 AND NOT EXISTS (SELECT 1 FROM operator_actions o WHERE o.run_id = x.run_id AND o.action = 'reset_attempts')) c \
         WHERE c.lost < c.counted OR c.lost > c.counted + c.ended",
    ),
    (
        "a run ends as its tasks and its flags say",
        "SELECT ID(id) || ' state ' || state || ' failed ' || failed || ' flags ' || flags FROM runs WHERE state >= 3 AND state <> \
         CASE WHEN flags & 4 <> 0 THEN 5 WHEN failed > 0 OR flags & 8 <> 0 THEN 4 ELSE 3 END",
    ),
    (
        "what fired has its run",
        "SELECT ID(f.trigger_id) || ' at ' || f.nominal_at FROM fires f LEFT JOIN runs r ON r.id = f.run_id WHERE f.outcome = 0 AND r.id IS NULL",
    ),
    (
        "a run was fired once",
        "SELECT ID(run_id) || ' ' || count(*) FROM fires WHERE run_id IS NOT NULL GROUP BY run_id HAVING count(*) > 1",
    ),
    (
        "a run that the clock started has its fire",
        "SELECT ID(d.run_id) FROM run_details d LEFT JOIN fires f ON f.run_id = d.run_id WHERE f.run_id IS NULL \
         AND (d.trigger LIKE '{\"kind\":\"cron\"%' OR d.trigger LIKE '{\"kind\":\"every\"%' OR d.trigger LIKE '{\"kind\":\"at\"%')",
    ),
    (
        "exactly ended runs have an end",
        "SELECT ID(id) || ' state ' || state FROM runs WHERE (state >= 3) <> (finished_at IS NOT NULL)",
    ),
    (
        "event numbers are unique within a run",
        "SELECT ID(e.run_id) || ' seq ' || e.seq FROM (SELECT run_id, seq FROM history UNION ALL SELECT run_id, seq FROM history_superseded \
         UNION ALL SELECT run_id, seq FROM attempts UNION ALL SELECT run_id, seq FROM operator_actions UNION ALL SELECT run_id, seq FROM run_transitions) e GROUP BY e.run_id, e.seq HAVING count(*) > 1",
    ),
    (
        "event numbers lie within 1 and runs.seq",
        "SELECT ID(r.id) || ' seq ' || e.seq || ' of ' || r.seq FROM runs r JOIN (SELECT run_id, seq FROM history UNION ALL SELECT run_id, seq FROM history_superseded \
         UNION ALL SELECT run_id, seq FROM attempts UNION ALL SELECT run_id, seq FROM operator_actions UNION ALL SELECT run_id, seq FROM run_transitions) e ON e.run_id = r.id WHERE e.seq < 1 OR e.seq > r.seq",
    ),
    (
        "every event number has its row, but the end of an ended run",
        "SELECT ID(r.id) || ' seq ' || r.seq || ' state ' || r.state || ' rows ' || count(e.seq) FROM runs r LEFT JOIN (SELECT run_id, seq FROM history UNION ALL SELECT run_id, seq FROM history_superseded \
         UNION ALL SELECT run_id, seq FROM attempts UNION ALL SELECT run_id, seq FROM operator_actions UNION ALL SELECT run_id, seq FROM run_transitions) e ON e.run_id = r.id \
         GROUP BY r.id, r.seq, r.state HAVING r.seq <> count(e.seq) + CASE WHEN r.state >= 3 THEN 1 ELSE 0 END",
    ),
    (
        "attempts are 1, 2, 3 … without gaps",
        "SELECT ID(a.run_id) || '.' || a.idx || ' has ' || count(DISTINCT a.attempt) || ' attempts up to ' || max(a.attempt) FROM \
         (SELECT run_id, idx, item, attempt FROM attempts UNION ALL SELECT run_id, idx, item, attempt FROM history \
          UNION ALL SELECT run_id, idx, item, attempt FROM history_superseded UNION ALL SELECT run_id, idx, item, attempt FROM task_runs) a \
         WHERE a.attempt > 0 GROUP BY a.run_id, a.idx, a.item HAVING count(DISTINCT a.attempt) <> max(a.attempt)",
    ),
    (
        "the latest attempt belongs to the live or ended row",
        "SELECT ID(a.run_id) || '.' || a.idx || ' attempt ' || a.attempt FROM attempts a \
         JOIN (SELECT run_id, idx, item, attempt FROM task_runs UNION ALL SELECT run_id, idx, item, attempt FROM history) c \
           ON c.run_id = a.run_id AND c.idx = a.idx AND c.item = a.item WHERE a.attempt > c.attempt",
    ),
    (
        "an attempt ends once",
        "SELECT ID(h.run_id) || '.' || h.idx || ' attempt ' || h.attempt FROM \
         (SELECT run_id, idx, item, attempt, session FROM history UNION ALL SELECT run_id, idx, item, attempt, session FROM history_superseded \
          UNION ALL SELECT run_id, idx, item, attempt, session FROM task_runs WHERE state = 2) h \
         JOIN attempts a ON a.run_id = h.run_id AND a.idx = h.idx AND a.item = h.item AND a.attempt = h.attempt WHERE h.session IS NOT NULL",
    ),
    (
        "failures stay within the budget of a generation",
        "SELECT ID(f.run_id) || '.' || f.idx || ' failed ' || f.failures || ' of ' || vt.max_failures FROM \
         (SELECT run_id, idx, failures FROM history UNION ALL SELECT run_id, idx, failures FROM history_superseded \
          UNION ALL SELECT run_id, idx, failures + CASE WHEN state = 2 THEN 1 ELSE 0 END FROM task_runs) f \
         JOIN runs r ON r.id = f.run_id JOIN version_tasks vt ON vt.version = r.version AND vt.idx = f.idx WHERE f.failures > vt.max_failures",
    ),
    (
        "lost attempts stay within their bound",
        "SELECT ID(t.run_id) || '.' || t.idx || ' lost ' || t.lost FROM task_runs t WHERE t.lost > t.max_lost",
    ),
    // Entries outlive their run: closed ones are forgotten by their own age.
    (
        "an exhausted task with a dead letter queue has exactly one entry per generation",
        "SELECT ID(e.run_id) || '.' || e.idx || ' ended ' || e.ends || ' times with ' || e.letters || ' entries' FROM \
         (SELECT x.run_id, x.idx, x.item, sum(x.ended) AS ends, sum(x.letter) AS letters FROM \
          (SELECT run_id, idx, item, 1 AS ended, 0 AS letter FROM history WHERE state = 11 AND flags & 4 <> 0 \
           UNION ALL SELECT run_id, idx, item, 1, 0 FROM history_superseded WHERE state = 11 AND flags & 4 <> 0 \
           UNION ALL SELECT d.run_id, d.idx, d.item, 0, 1 FROM dead_letters d JOIN runs r ON r.id = d.run_id \
           WHERE d.idx IS NOT NULL AND d.reason IN (1, 2, 3, 4) AND d.original_state <> 'ready') x \
          GROUP BY x.run_id, x.idx, x.item) e WHERE e.ends <> e.letters",
    ),
    (
        "a pending entry of an exhausted task is of a task that is failed",
        "SELECT ID(d.run_id) || '.' || d.idx || ' reason ' || d.reason FROM dead_letters d \
         WHERE d.status = 0 AND d.idx IS NOT NULL AND d.reason IN (1, 2, 4) AND NOT EXISTS (SELECT 1 FROM history h \
         WHERE h.run_id = d.run_id AND h.idx = d.idx AND h.item = d.item AND h.state = 11)",
    ),
    (
        "a run that was given up as stale has failed, or is about to",
        "SELECT ID(d.run_id) || ' state ' || r.state || ' flags ' || r.flags FROM dead_letters d JOIN runs r ON r.id = d.run_id \
         WHERE d.status = 0 AND d.idx IS NULL AND d.reason = 0 AND r.state <> 5 AND r.flags & 12 = 0",
    ),
    (
        "only claimed rows name a session, and those one that exists",
        "SELECT ID(t.run_id) || '.' || t.idx || ' state ' || t.state || ' session ' || coalesce(t.session, 0) FROM task_runs t \
         LEFT JOIN sessions s ON s.id = t.session \
         WHERE (t.session IS NOT NULL AND (s.id IS NULL OR t.state NOT IN (2, 4) OR t.claim IS NULL)) OR (t.state = 2 AND t.session IS NULL)",
    ),
    (
        "a pool's held counts its ready and running rows",
        "SELECT l.key || ' held ' || l.held || ' counted ' || count(t.run_id) FROM limits l LEFT JOIN task_runs t ON t.pool = l.id AND t.state IN (1, 2) \
         WHERE l.kind = 0 GROUP BY l.id, l.key, l.held HAVING l.held <> count(t.run_id)",
    ),
    (
        "a concurrency limit's held counts its admitted runs",
        "SELECT l.key || ' held ' || l.held || ' counted ' || count(r.id) FROM limits l \
         LEFT JOIN runs r ON r.limit_id = l.id AND (r.state IN (1, 2) OR (r.state = 0 AND r.flags & 96 = 96)) \
         WHERE l.kind = 1 GROUP BY l.id, l.key, l.held HAVING l.held <> count(r.id)",
    ),
    (
        "a run names the limit it holds or waits for, and no other time",
        "SELECT ID(id) || ' state ' || state || ' holds ' || coalesce(holds, 0) || ' waits for ' || coalesce(waits_for, 0) FROM runs \
         WHERE coalesce(holds, 0) <> CASE WHEN state IN (1, 2) OR (state = 0 AND flags & 96 = 96) THEN coalesce(limit_id, 0) ELSE 0 END \
            OR coalesce(waits_for, 0) <> CASE WHEN state = 0 AND flags & 64 = 0 THEN coalesce(limit_id, 0) ELSE 0 END",
    ),
    (
        "exactly the runs that failed or were cancelled are listed as unsuccessful",
        "SELECT ID(r.id) || ' state ' || r.state FROM runs r LEFT JOIN unsuccessful_runs u ON u.run_id = r.id \
         WHERE coalesce(u.state, 0) <> CASE WHEN r.state IN (4, 5) THEN r.state ELSE 0 END",
    ),
    (
        "a limit is not exceeded",
        "SELECT l.key || ' held ' || l.held || ' of ' || l.capacity FROM limits l WHERE l.held > l.capacity AND NOT EXISTS \
         (SELECT 1 FROM runs r JOIN versions v ON v.id = r.version WHERE r.limit_id = l.id AND v.spec LIKE '%\"overlap\":\"allow\"%')",
    ),
    (
        "a run that does not run holds its rows back",
        "SELECT ID(t.run_id) || '.' || t.idx || ' state ' || t.state || ' in run state ' || r.state FROM task_runs t JOIN runs r ON r.id = t.run_id \
         WHERE r.state IN (0, 2) AND (t.state IN (1, 5) OR (t.state = 4 AND t.session IS NULL AND r.flags & 32 = 0))",
    ),
    (
        "a run that runs holds no row back",
        "SELECT ID(t.run_id) || '.' || t.idx FROM task_runs t JOIN runs r ON r.id = t.run_id WHERE r.state = 1 AND t.state = 6 \
         AND NOT EXISTS (SELECT 1 FROM continuations c WHERE c.run_id = r.id)",
    ),
    (
        "a cancelled stage starts nothing",
        "SELECT ID(t.run_id) || '.' || t.idx || ' state ' || t.state FROM task_runs t JOIN runs r ON r.id = t.run_id \
         WHERE (r.flags & 16 <> 0 OR (r.flags & 4 <> 0 AND r.stage < 3) OR (r.flags & 8 <> 0 AND r.stage = 0)) \
         AND t.state NOT IN (2, 4) AND NOT EXISTS (SELECT 1 FROM continuations c WHERE c.run_id = r.id)",
    ),
    (
        "somebody is asked to stop only while he runs it",
        "SELECT ID(c.run_id) || '.' || c.idx || ' attempt ' || c.attempt FROM cancel_requests c LEFT JOIN task_runs t \
         ON t.run_id = c.run_id AND t.idx = c.idx AND t.item = c.item AND t.attempt = c.attempt AND t.session = c.session AND t.state = 2 \
         WHERE t.run_id IS NULL",
    ),
    (
        "an acknowledged submission exists",
        "SELECT s.namespace || '/' || s.key FROM submissions s LEFT JOIN runs r ON r.id = s.run_id WHERE r.id IS NULL",
    ),
    (
        "no row is of a generation to come",
        "SELECT ID(g.run_id) || '.' || g.idx FROM (SELECT run_id, idx, generation FROM task_runs UNION ALL SELECT run_id, idx, generation FROM history) g \
         JOIN runs r ON r.id = g.run_id WHERE g.generation > r.generation",
    ),
    (
        "something is left to do only for runs that exist",
        "SELECT ID(c.run_id) || ' kind ' || c.kind FROM continuations c LEFT JOIN runs r ON r.id = c.run_id WHERE r.id IS NULL",
    ),
    (
        "only runs that have not begun start later",
        "SELECT ID(s.run_id) FROM starts s LEFT JOIN runs r ON r.id = s.run_id WHERE r.id IS NULL OR r.state <> 0 OR r.flags & 32 = 0",
    ),
];

/// What holds besides once every run was driven to its end.
pub(super) const AT_REST: &[(&str, &str)] = &[
    ("every run has ended", "SELECT ID(id) || ' state ' || state FROM runs WHERE state < 3"),
    ("no task run is live", "SELECT ID(run_id) || '.' || idx || ' state ' || state FROM task_runs"),
    ("no limit is held", "SELECT key || ' held ' || held FROM limits WHERE held <> 0"),
    ("nobody is asked to stop", "SELECT ID(run_id) || '.' || idx || ' session ' || session FROM cancel_requests"),
    ("nothing is left to do", "SELECT ID(run_id) || ' kind ' || kind FROM continuations"),
];
