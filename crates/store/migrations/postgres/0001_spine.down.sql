DROP TABLE operator_actions, logs, dead_letters, terms, cancel_requests, lanes, sessions, nodes, continuations, attempts,
    history_superseded, history, task_runs, submissions, run_details, unsuccessful_runs, runs, version_tasks, limits, routes, versions, workflows;
