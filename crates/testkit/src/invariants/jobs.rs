//! Statistics of jobs against a recount from history.

/// What should hold, and the query for what does not.
pub(super) const AT_REST: &[(&str, &str)] = &[
    ("every end of a followed run was counted", "SELECT 'a row of run_ends' FROM run_ends"),
    ("every event was delivered", "SELECT name FROM events WHERE NOT handled"),
    (
        "the statistics of a job equal a recount",
        "SELECT c.name || ' counts ' || c.executions || '/' || c.successes || '/' || c.failures || ' in ' || c.duration || ', but had ' \
                || c.ends || '/' || c.well || '/' || c.badly || ' in ' || c.took \
         FROM (SELECT j.name, j.executions, j.successes, j.failures, j.measured, j.duration, \
                   (SELECT count(*) FROM runs r WHERE r.workflow_id = j.workflow_id AND r.state >= 3) \
                 + (SELECT count(*) FROM runs r JOIN history_superseded s ON s.run_id = r.id AND s.idx = 0 AND s.item = -1 WHERE r.workflow_id = j.workflow_id) AS ends, \
                   (SELECT count(*) FROM runs r WHERE r.workflow_id = j.workflow_id AND r.state = 3) AS well, \
                   (SELECT count(*) FROM runs r WHERE r.workflow_id = j.workflow_id AND r.state = 4) \
                 + (SELECT count(*) FROM runs r JOIN history_superseded s ON s.run_id = r.id AND s.idx = 0 AND s.item = -1 \
                    WHERE r.workflow_id = j.workflow_id AND s.state = 11) AS badly, \
                   (SELECT count(*) FROM runs r JOIN history h ON h.run_id = r.id AND h.idx = 0 AND h.item = -1 \
                    WHERE r.workflow_id = j.workflow_id AND h.started_at IS NOT NULL) \
                 + (SELECT count(*) FROM runs r JOIN history_superseded s ON s.run_id = r.id AND s.idx = 0 AND s.item = -1 \
                    WHERE r.workflow_id = j.workflow_id AND s.started_at IS NOT NULL) AS timed, \
                   coalesce((SELECT sum(h.finished_at - h.started_at) FROM runs r JOIN history h ON h.run_id = r.id AND h.idx = 0 AND h.item = -1 \
                    WHERE r.workflow_id = j.workflow_id AND h.started_at IS NOT NULL), 0) \
                 + coalesce((SELECT sum(s.finished_at - s.started_at) FROM runs r JOIN history_superseded s ON s.run_id = r.id AND s.idx = 0 AND s.item = -1 \
                    WHERE r.workflow_id = j.workflow_id AND s.started_at IS NOT NULL), 0) AS took \
               FROM jobs j) c \
         WHERE c.executions <> c.ends OR c.successes <> c.well OR c.failures <> c.badly OR c.measured <> c.timed OR c.duration <> c.took",
    ),
];
