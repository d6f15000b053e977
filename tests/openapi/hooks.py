"""What schemathesis cannot know of the API: which things there are, what it must leave alone, and what is made up in vain."""

import json
import os
import time
import urllib.request
import uuid
from pathlib import Path

import schemathesis

SERVER = os.environ["MAINSPRING_TEST_URL"]
TOKEN = os.environ["MAINSPRING_TEST_TOKEN"]
# The id of a token stands in it: ms_ID_SECRET.
OWN = uuid.UUID(TOKEN.split("_")[1])


def ask(method, path, body=None, kind="application/json"):
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind}
    request = urllib.request.Request(f"{SERVER}/api/v1{path}", data=data, headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def items(path):
    return ask("GET", path)["items"]


def worked_off(run):
    """Waits until the run waits for nothing but its approval."""
    for _ in range(600):
        tasks = items(f"/workflow-runs/{run}/tasks?limit=500")
        if len(tasks) >= 6 and not any(task["status"] in ("ready", "running", "retrying") for task in tasks):
            return tasks
        time.sleep(0.1)
    raise RuntimeError(f"the run to look at is not worked off after 60 s: {tasks}")


ask("POST", "/workflows", Path(__file__).with_name("seed.yaml").read_bytes(), "application/yaml")
RUNS = [ask("POST", "/workflows/seed/trigger", {"correlation_id": "seed"})["id"] for _ in range(4)]
TASKS = [(run, task["task_id"], task["id"]) for run in RUNS for task in worked_off(run)]
SCHEDULES = [schedule["id"] for schedule in items("/schedules")]
JOB = {"name": "Seed", "handler_name": "metrics:collect", "schedule": "0 4 * * *", "created_by": "seed", "priority": 7}
# A name is taken once, and this file is read more than once.
JOBS = [ask("POST", "/scheduler/jobs/cron", {**JOB, "name": f"seed-{uuid.uuid4()}"})["id"] for _ in range(2)]
EXECUTIONS = [ask("POST", f"/scheduler/jobs/{job}/trigger")["id"] for job in JOBS]
HANDLER = {"event_name": "seed", "handler_name": "seed", "action_type": "trigger_workflow"}
HANDLERS = [ask("POST", "/scheduler/event-handlers", HANDLER)["id"]]
SPAN = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-03T00:00:00Z"}
BACKFILLS = [ask("POST", "/workflows/seed/backfill", SPAN)["id"]]
WORKERS = [worker["id"] for worker in items("/workers")]
ask("PUT", "/secrets/SEED", {"value": "a value"})
ask("PUT", "/pools/seed", {"slots": 1})
ask("PUT", "/calendars/seed", {"days": ["2026-12-25"]})
calls = 0


def there(path, number):
    """Parameters of a path that name what is there."""

    def one(known):
        return known[number % len(known)]

    run, task, task_run = one(TASKS)
    if "/workflow-runs/{id}/artifacts/" in path:
        return {"id": one(RUNS), "name": "left.txt"}
    if "/workflow-runs/{id}" in path or "/v1/tasks/{id}" in path:
        return {"id": run, "task": task}
    for begin, known in (
        ("/task-runs/{id}", [task_run]),
        ("/schedules/{id}", SCHEDULES),
        ("/scheduler/jobs/{id}", JOBS),
        ("/scheduler/executions/{id}", EXECUTIONS),
        ("/scheduler/event-handlers/{id}", HANDLERS),
        ("/backfills/{id}", BACKFILLS),
        ("/workers/{id}", WORKERS),
    ):
        if begin in path:
            return {"id": one(known)}
    if "/workflows/{workflow}" in path:
        return {"workflow": "seed", "version": 1}
    if "/webhooks/" in path:
        return {"namespace": "default", "name": "seed"}
    return {}


@schemathesis.hook
def before_call(context, case, kwargs):
    global calls
    calls += 1
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    # A cursor is what a list said before; one that is made up is refused.
    if case.query and "cursor" in case.query:
        case.query.pop("cursor")
    # Three of four go to what is there, unless they take it away or follow from what an earlier one made.
    follows = case.meta.phase.name == "stateful"
    if calls % 4 and case.method != "DELETE" and not follows and case.path_parameters:
        for name, value in there(case.operation.path, calls).items():
            if name in case.path_parameters:
                case.path_parameters[name] = value
        if case.query and "namespace" in case.query:
            case.query["namespace"] = "default"


@schemathesis.hook
def filter_case(context, case):
    """The tests must not take away the token with which they ask."""
    if case.method != "DELETE" or "/auth/tokens/" not in case.operation.path:
        return True
    try:
        return uuid.UUID(str(case.path_parameters["id"])) != OWN
    except (KeyError, TypeError, ValueError):
        return True
