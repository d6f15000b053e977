"""The conversation of a worker with a server, which is a script of the test's own."""

import threading
import time
import unittest

from mainspring import ApiError, Unreachable, Worker

PATIENCE = 20.0
SESSION_LOST = "urn:mainspring:session-lost"


def assignment(name, index=0):
    return {
        "task_run_id": f"r.{index}", "attempt": 1, "fencing_token": "f", "idempotency_key": "i",
        "order": {"namespace": "default", "workflow": "w", "task": "t", "action": {"handler": name, "payload": None}},
    }


class Server:
    """Assigns once, refuses or loses what a test says, acknowledges the rest, and then asks the worker to leave."""

    def __init__(self, assignments, refuses=lambda _request: None, expected=1):
        self.assignments = assignments
        self.refuses = refuses
        self.expected = expected
        self.requests = []
        self.results = {}
        self.released = []
        self.registered = []

    def request(self, method, path, body=None, **_):
        if path == "/worker/sessions":
            self.registered.append(time.monotonic())
            return {"session_id": 1, "session_token": "t", "lease_ttl_ms": 300, "exchange_wait_ms": 10}
        if path == "/worker/logs":
            raise Unreachable("no logs are taken")
        if method == "DELETE":
            return {}
        self.requests.append(body)
        error = self.refuses(body)
        if error is not None:
            raise error
        for result in body["finished"]:
            self.results[result["task_run_id"]] = result
        self.released += [entry["task_run_id"] for entry in body["released"]]
        assigned, self.assignments = self.assignments, []
        taken = [{"task_run_id": r["task_run_id"], "attempt": r["attempt"]} for r in body["finished"] + body["released"]]
        drain = len(self.results) + len(self.released) >= self.expected
        return {
            "seq": body["seq"], "assignments": assigned, "cancel": [], "acknowledged": taken, "fenced": [], "release": [],
            "drain": drain,
        }


def serve(server, functions=False, **handlers):
    worker = Worker("http://127.0.0.1:1", "token", slots=4, functions=functions)
    for name, handler in handlers.items():
        worker.task(name)(handler)
    worker._transport = worker._log_transport = server
    failures = []

    def run():
        try:
            worker.run(handle_signals=False)
        except BaseException as error:  # noqa: BLE001 - shown by the test
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return thread.is_alive(), failures


def good(_payload):
    return "good"


def bad(_payload):
    return "bad"


def not_a_number(_payload):
    return float("nan")


class WorkerTest(unittest.TestCase):
    def test_a_result_that_the_server_refuses_fails_its_attempt_and_no_other(self):
        def refuses(request):
            too_large = any(result.get("output") == "bad" for result in request["finished"])
            return ApiError(413, {"detail": "it is too large"}) if too_large else None

        server = Server([assignment("good", 0), assignment("bad", 1), assignment("good", 2)], refuses, expected=3)
        runs, failures = serve(server, good=good, bad=bad)
        self.assertEqual((runs, failures), (False, []))
        outcomes = {name: result["outcome"] for name, result in server.results.items()}
        self.assertEqual(outcomes, {"r.0": "success", "r.1": "failed", "r.2": "success"})
        self.assertEqual(server.results["r.1"]["error"]["kind"], "result_refused")
        numbers = [request["seq"] for request in server.requests]
        self.assertEqual(sorted(set(numbers)), list(range(1, max(numbers) + 1)), "no number is left out")

    def test_what_is_no_json_fails_its_attempt(self):
        server = Server([assignment("not_a_number")])
        runs, failures = serve(server, not_a_number=not_a_number)
        self.assertEqual((runs, failures), (False, []))
        self.assertEqual(server.results["r.0"]["outcome"], "failed")

    def test_what_has_ended_when_no_server_answers_is_handed_in_afterwards(self):
        away = [None]

        def refuses(request):
            if request["finished"] and away[0] is None:
                away[0] = time.monotonic() + 1.0
            return Unreachable("away") if away[0] is not None and time.monotonic() < away[0] else None

        server = Server([assignment("good")], refuses)
        runs, failures = serve(server, good=good)
        self.assertEqual((runs, failures), (False, []))
        self.assertEqual((list(server.results), server.released), (["r.0"], []), "it is not executed again")

    def test_functions_and_remote_tasks_share_the_slots(self):
        def serves(_payload):
            time.sleep(0.4)

        assignments = [assignment("serves", index) for index in range(3)]
        server = Server(assignments, expected=3)
        runs, failures = serve(server, functions=True, serves=serves)
        self.assertEqual((runs, failures), (False, []))
        wants = [request["want"] for request in server.requests]
        for request, want in zip(server.requests, wants):
            running = len(request["holding"])
            self.assertLessEqual(want["function"] + want["remote"] + running, 4, "never more than `slots`")
        self.assertEqual(wants[0], {"process": 0, "function": 2, "remote": 2})
        odd = {(want["function"], want["remote"]) for want in wants if want["function"] + want["remote"] == 1}
        self.assertEqual(odd, {(0, 1), (1, 0)}, "the odd slot goes to each in turn")

    def test_sessions_that_are_lost_at_once_are_replaced_ever_more_slowly(self):
        def refuses(_request):
            return ApiError(409, {"type": SESSION_LOST}) if len(server.registered) < 4 else None

        server = Server([assignment("good")], refuses)
        runs, failures = serve(server, good=good)
        self.assertEqual((runs, failures), (False, []))
        pauses = [later - before for before, later in zip(server.registered, server.registered[1:])]
        self.assertEqual(len(pauses), 3)
        for pause, least in zip(pauses, [0.25, 0.5, 1.0]):
            self.assertGreaterEqual(pause, least)
        self.assertEqual(list(server.results), ["r.0"])


if __name__ == "__main__":
    unittest.main()
