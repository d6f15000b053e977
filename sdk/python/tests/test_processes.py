"""The processes that execute handlers, without a server."""

import asyncio
import os
import subprocess
import threading
import time
import unittest

from mainspring import PermanentError
from mainspring._processes import Execution, Processes
from mainspring._zygote import Zygote


def add(payload):
    print("adding")
    return payload["a"] + payload["b"]


def fail(_payload):
    raise PermanentError("no use", kind="hopeless")


def crash(_payload):
    os._exit(9)


def shout(_payload):
    subprocess.run(["sh", "-c", "echo from a child; printf 'without an end'; echo bad >&2"], check=True)


def hang(_payload):
    subprocess.Popen(["sleep", "300"])
    while True:
        time.sleep(0.01)


async def sleep_async(_payload):
    await asyncio.sleep(300)


HANDLERS = {f.__name__: f for f in (add, fail, crash, shout, hang, sleep_async)}
CONTEXT = {
    "task_run_id": "r.0", "attempt": 1, "namespace": "default", "workflow": "w", "task": "t",
    "fencing_token": "f", "idempotency_key": "i", "env": {"GREETING": "hello"}, "deadline": None,
}


class ProcessesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.zygote = Zygote(HANDLERS)
        cls.processes = Processes(cls.zygote)

    @classmethod
    def tearDownClass(cls):
        cls.processes.kill_idle()
        cls.zygote.close()

    def execute(self, handler, payload=None, execution=None):
        lines = []
        order = {"handler": handler, "payload": payload, "context": CONTEXT}
        execution = execution or Execution(grace=0.2, timeout=None)
        outcome = self.processes.execute(order, execution, lambda text, stream: lines.append((stream, text)))
        return outcome, lines

    def test_a_result_comes_after_its_lines(self):
        outcome, lines = self.execute("add", {"a": 2, "b": 3})
        self.assertEqual(outcome, {"done": 5})
        self.assertEqual(lines, [("stdout", "adding")])

    def test_children_print_into_the_log_even_without_a_line_end(self):
        outcome, lines = self.execute("shout")
        self.assertEqual(outcome, {"done": None})
        self.assertEqual(sorted(lines), [("stderr", "bad"), ("stdout", "from a child"), ("stdout", "without an end")])

    def test_an_exception_says_its_kind_and_trace(self):
        outcome, _ = self.execute("fail")
        self.assertEqual((outcome["error"]["kind"], outcome["error"]["message"]), ("hopeless", "no use"))
        self.assertTrue(outcome["error"]["permanent"])
        self.assertIn("PermanentError", outcome["error"]["detail"])

    def test_a_crash_fails_its_attempt_and_the_next_one_runs(self):
        outcome, _ = self.execute("crash")
        self.assertEqual(outcome["error"]["kind"], "process_died")
        self.assertEqual(self.execute("add", {"a": 1, "b": 1})[0], {"done": 2})

    def ticking(self, execution, stop):
        while not stop.wait(0.02):
            execution.tick(time.monotonic())

    def interrupted(self, handler, execution, interrupt):
        stop = threading.Event()
        ticker = threading.Thread(target=self.ticking, args=(execution, stop))
        ticker.start()
        timer = threading.Timer(0.3, interrupt)
        timer.start()
        began = time.monotonic()
        outcome, _ = self.execute(handler, execution=execution)
        stop.set()
        ticker.join()
        self.assertLess(time.monotonic() - began, 10)
        return outcome

    def test_a_cancelled_handler_that_does_not_listen_is_killed(self):
        execution = Execution(grace=0.2, timeout=None)
        self.assertEqual(self.interrupted("hang", execution, lambda: execution.cancel("enough")), {"cancelled": True})

    def test_an_async_handler_is_cancelled_without_being_killed(self):
        execution = Execution(grace=60, timeout=None)
        outcome = self.interrupted("sleep_async", execution, lambda: execution.cancel("enough"))
        self.assertEqual(outcome, {"cancelled": True})

    def test_a_handler_past_its_time_fails(self):
        execution = Execution(grace=0.2, timeout=0.3)
        outcome = self.interrupted("hang", execution, lambda: None)
        self.assertEqual(outcome["error"]["kind"], "timeout")


if __name__ == "__main__":
    unittest.main()
