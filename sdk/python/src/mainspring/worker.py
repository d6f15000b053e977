"""A worker: executes tasks of kind `remote` with functions of this program.

The thread that talks to the server never runs a handler: handlers run in processes of their own, so that neither a busy
interpreter nor a crash of one of them stops the heartbeat, and a cancelled or lost attempt can really be killed.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import random
import signal
import socket
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from ._http import Transport
from ._logs import LogShipper
from ._processes import Execution, Processes
from ._zygote import Zygote
from .errors import ApiError, MainspringError, Unreachable

Handler = TypeVar("Handler", bound=Callable[..., Any])
Key = Tuple[str, int]

_LOG = logging.getLogger("mainspring")
_PROTOCOL = 1
_SESSION_LOST = "urn:mainspring:session-lost"
_BEAT = 0.5
# A worker that was asked to stop and holds nothing waits so many seconds for a server to answer.
_SILENCE_PATIENCE = 5.0
# The same while it has results that no server has acknowledged.
_RESULTS_PATIENCE = 15.0
# Results of about so many bytes go into one request.
_BYTES_AT_ONCE = 512 * 1024
# A server answers so when it does not take the content of a request.
_ABOUT_CONTENT = (400, 413, 422)
_REFUSED = "result_refused"
# A session that is lost sooner was perhaps never known to the server that answered: servers may be on two databases.
_SHORT_LIFE = 1.0
_LONGEST_LOST_PAUSE = 5.0
# How long the only free slot waits for tasks of one class before it is the turn of the other.
_TURN_MS = 100
# So many attempts that were begun are remembered.
_REMEMBERED = 10_000


class _Attempt:
    def __init__(self, assignment: Dict[str, Any], execution: Execution) -> None:
        self.assignment = assignment
        self.execution = execution
        self.result: Optional[Dict[str, Any]] = None


class Worker:
    """Registers handlers with `@worker.task()` and serves until SIGTERM, SIGINT, `stop()` or a drain."""

    def __init__(
        self,
        server: Union[None, str, Sequence[str]] = None,
        token: Optional[str] = None,
        *,
        queues: Optional[Sequence[str]] = None,
        labels: Optional[Mapping[str, str]] = None,
        slots: int = 8,
        worker_id: Optional[str] = None,
        functions: bool = False,
        grace: float = 5.0,
    ) -> None:
        server = server or os.environ.get("MAINSPRING_SERVER", "http://127.0.0.1:8080")
        token = token or os.environ.get("MAINSPRING_TOKEN", "")
        if not token:
            raise ValueError("a worker needs a token with the role worker: pass token=, or set MAINSPRING_TOKEN")
        if slots < 1:
            raise ValueError(f"slots must be at least 1, not {slots}")
        if queues is None:
            queues = [name for name in os.environ.get("MAINSPRING_WORKER_QUEUES", "").split(",") if name]
        self._transport = Transport(server, token)
        self._log_transport = Transport(server, token)
        self._queues = list(queues)
        self._labels = dict(labels or {})
        self._slots = slots
        self._functions = functions
        self._worker_id = worker_id or os.environ.get("WORKER_ID") or socket.gethostname()
        self._grace = grace
        self._handlers: Dict[str, Callable[..., Any]] = {}
        self._timeouts: Dict[str, float] = {}
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._attempts: Dict[Key, _Attempt] = {}
        # What was begun in this session, the oldest first: an assignment may come so late that its result is taken already.
        self._begun: Dict[Key, None] = {}
        self._released: List[Key] = []
        # The server refused a request with several results: they go one by one, which finds the one that it does not take.
        self._one_by_one = False
        self._session: Dict[str, Any] = {}
        self._seq = 0
        self._registered = 0.0
        # Sessions in a row that were lost as soon as they were registered.
        self._short_lives = 0

    def task(self, name: Optional[str] = None, *, timeout: Optional[float] = None) -> Callable[[Handler], Handler]:
        """Makes a function, sync or async, the handler of this name. It takes the payload and, if it has an argument of that
        name, the `context`; what it returns is the output of the task."""

        def register(function: Handler) -> Handler:
            known = name or function.__name__
            if known in self._handlers:
                raise ValueError(f"there is a handler {known} already")
            inspect.signature(function)
            self._handlers[known] = function
            if timeout is not None:
                self._timeouts[known] = timeout
            return function

        return register

    def stop(self) -> None:
        """Takes no more tasks; `run` returns when those that run have ended."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()

    def run(self, *, handle_signals: bool = True) -> None:
        """Serves. Raises ApiError if the server refuses this worker for good."""
        if not self._handlers:
            raise MainspringError("this worker has no handlers: decorate at least one function with @worker.task()")
        zygote = Zygote(self._handlers)
        self._processes = Processes(zygote)
        if handle_signals:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: self.stop())
        self._register()
        self._logs = LogShipper(self._send_logs)
        try:
            self._serve()
        finally:
            self._logs.close()
            self._leave()
            self._processes.kill_idle()
            zygote.close()

    # The conversation with the server.

    def _register(self) -> None:
        remote = {"process": 0, "function": self._slots if self._functions else 0, "remote": self._slots}
        body = {
            "protocol": _PROTOCOL,
            "worker_id": self._worker_id,
            "hostname": socket.gethostname(),
            "queues": self._queues,
            "labels": self._labels,
            "slots": remote,
            "handlers": sorted(self._handlers),
            "version": f"python-{_version()}",
        }
        pause = 0.2
        warned = False
        while True:
            try:
                self._session = self._transport.request("POST", "/worker/sessions", body)
                self._seq = 0
                self._begun.clear()
                self._released.clear()
                self._heard = self._registered = time.monotonic()
                queues = ", ".join(self._queues) or "all"
                _LOG.info("worker %s is registered: queues %s, %d slots, handlers %s", self._worker_id, queues, self._slots, ", ".join(sorted(self._handlers)))
                return
            except ApiError as error:
                if error.status != 401:
                    raise
                said = "the server does not accept the token of this worker: it may be mistyped, revoked, expired or of another server; `mainspring tokens create --role worker` makes one"
                raise ApiError(error.status, {**error.problem, "detail": said}) from None
            except Unreachable as error:
                if not warned:
                    _LOG.warning("no server answers, trying again until one does: %s", error)
                    warned = True
                if self._stopping.wait(pause):
                    raise
                pause = min(pause * 2, 5.0)

    def _serve(self) -> None:
        request: Optional[Dict[str, Any]] = None
        while True:
            now = time.monotonic()
            for attempt in list(self._attempts.values()):
                attempt.execution.tick(now)
            if request is None:
                if self._stopping.is_set() and not self._attempts and not self._released:
                    return
                self._await_news()
                self._seq += 1
                request = self._next_request()
            try:
                headers = {"Mainspring-Session": self._session["session_token"]}
                answer = self._transport.request("POST", "/worker/exchange", request, headers=headers, timeout=5.0)
            except Unreachable:
                self._out_of_reach()
                patience = _RESULTS_PATIENCE if self._attempts else _SILENCE_PATIENCE
                if self._stopping.is_set() and not self._unfinished() and self._silence() > patience:
                    return
                continue
            except ApiError as error:
                if error.status in _ABOUT_CONTENT and self._refused(request, error):
                    self._seq -= 1
                    request = None
                    continue
                if error.kind != _SESSION_LOST and error.status not in (404, 429):
                    raise
                if error.status == 429:
                    time.sleep(0.2)
                    continue
                self._lose_everything()
                self._pause_after_loss()
                if self._stopping.is_set():
                    return
                self._register()
                request = None
                continue
            self._heard = time.monotonic()
            if not request["finished"]:
                self._one_by_one = False
            request = None
            self._take(answer)

    def _pause_after_loss(self) -> None:
        if time.monotonic() - self._registered >= _SHORT_LIFE:
            self._short_lives = 0
            return
        pause = min(0.5 * 2 ** min(self._short_lives, 10), _LONGEST_LOST_PAUSE) * random.uniform(0.5, 1.0)
        self._short_lives += 1
        _LOG.warning("the session was lost at once, registering again in %.1f s: do all servers of this worker have the same database?", pause)
        self._stopping.wait(pause)

    def _await_news(self) -> None:
        """With every slot taken there is nothing to ask for: wait for a result, but not longer than a heartbeat."""
        with self._changed:
            full = len(self._attempts) >= self._slots or self._stopping.is_set()
            if full and not any(attempt.result for attempt in self._attempts.values()):
                self._changed.wait(_BEAT)

    def _next_request(self) -> Dict[str, Any]:
        with self._changed:
            finished: List[Dict[str, Any]] = []
            holding = []
            running = size = 0
            for key, attempt in self._attempts.items():
                running += attempt.result is None
                fits = not finished or (size < _BYTES_AT_ONCE and not self._one_by_one)
                if attempt.result is not None and fits:
                    finished.append(attempt.result)
                    size += len(json.dumps(attempt.result))
                else:
                    holding.append({"task_run_id": key[0], "attempt": key[1], "started": attempt.execution.started})
            released = [{"task_run_id": key[0], "attempt": key[1]} for key in self._released]
            self._released.clear()
            free = 0 if self._stopping.is_set() else max(0, self._slots - running)
        busy = bool(holding) or bool(finished)
        wait_ms = 0 if free == 0 or finished else (50 if busy else int(self._session["exchange_wait_ms"]))
        # The server fills each class by itself: together they are what is free, and the odd slot goes to each in turn.
        functions = (free + self._seq % 2) // 2 if self._functions else 0
        if self._functions and free == 1:
            wait_ms = min(wait_ms, _TURN_MS)
        want = {"process": 0, "function": functions, "remote": free - functions}
        return {
            "session_id": self._session["session_id"],
            "seq": self._seq,
            "finished": finished,
            "released": released,
            "holding": holding,
            "want": want,
            "wait_ms": wait_ms,
        }

    def _refused(self, request: Dict[str, Any], error: ApiError) -> bool:
        """The server does not take the content of a request. A result that is refused alone becomes a failure of its attempt; the
        other attempts and the worker go on. False if there is nothing to replace."""
        finished = request["finished"]
        with self._changed:
            self._released[:0] = [(entry["task_run_id"], entry["attempt"]) for entry in request["released"]]
            if len(finished) > 1:
                self._one_by_one = True
                return True
            for result in finished:
                key = (result["task_run_id"], result["attempt"])
                attempt = self._attempts.get(key)
                if attempt is None or result.get("error", {}).get("kind") == _REFUSED:
                    return False
                said = {"kind": _REFUSED, "message": f"the server refused the result: {error}"[:2_000], "permanent": False}
                times = {name: result[name] for name in ("started_at", "finished_at") if name in result}
                attempt.result = {"task_run_id": key[0], "attempt": key[1], "outcome": "failed", "error": said, **times}
                _LOG.error("the server refuses the result of %s: %s", key[0], error)
                return True
        return False

    def _take(self, answer: Dict[str, Any]) -> None:
        for entry in answer["acknowledged"] + answer["fenced"]:
            key = (entry["task_run_id"], entry["attempt"])
            with self._changed:
                attempt = self._attempts.get(key)
                if attempt is None or attempt.result is None:
                    continue
                del self._attempts[key]
            self._logs.forget(key)
        for entry in answer["cancel"]:
            attempt = self._attempts.get((entry["task_run_id"], entry["attempt"]))
            if attempt is not None:
                attempt.execution.cancel(entry["reason"])
        if answer["drain"]:
            self._stopping.set()
        for assignment in answer["assignments"]:
            key = (assignment["task_run_id"], assignment["attempt"])
            if self._stopping.is_set() and key not in self._attempts:
                # Assigned before the server knew that this worker takes no more: it is handed back.
                self._released.append(key)
            else:
                self._begin(assignment)

    def _out_of_reach(self) -> None:
        """No server answers. After the lease others run what this worker holds: stop it. If the session turns out to be alive,
        what was stopped is handed back, and what had ended is handed in."""
        if self._silence() > self._session["lease_ttl_ms"] / 1_000:
            self._released.extend(self._lose(self._unfinished()))
        time.sleep(0.1)

    def _unfinished(self) -> List[Key]:
        with self._changed:
            return [key for key, attempt in self._attempts.items() if attempt.result is None and not attempt.execution.ended()]

    def _silence(self) -> float:
        return time.monotonic() - self._heard

    def _lose_everything(self) -> List[Key]:
        return self._lose(list(self._attempts))

    def _lose(self, keys: List[Key]) -> List[Key]:
        with self._changed:
            attempts = {key: self._attempts.pop(key) for key in keys}
        for key, attempt in attempts.items():
            attempt.execution.lose()
            self._logs.forget(key)
        return keys

    def _leave(self) -> None:
        headers = {"Mainspring-Session": self._session["session_token"]}
        try:
            self._transport.request("DELETE", f"/worker/sessions/{self._session['session_id']}", headers=headers)
        except MainspringError:
            pass  # The session is found dead.

    def _send_logs(self, chunks: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
        headers = {"Mainspring-Session": self._session["session_token"]}
        body = {"session_id": self._session["session_id"], "chunks": chunks}
        answer = self._log_transport.request("POST", "/worker/logs", body, headers=headers)
        chunks_answered: List[Dict[str, Any]] = answer["chunks"]
        return chunks_answered

    # The execution of attempts.

    def _begin(self, assignment: Dict[str, Any]) -> None:
        key = (assignment["task_run_id"], assignment["attempt"])
        order = assignment["order"]
        timeouts = [order["timeout_ms"] / 1_000] if order.get("timeout_ms") else []
        timeouts += [self._timeouts[name] for name in [order["action"].get("handler")] if name in self._timeouts]
        with self._changed:
            if key in self._attempts or key in self._begun:
                return
            self._begun[key] = None
            if len(self._begun) > _REMEMBERED:
                del self._begun[next(iter(self._begun))]
            execution = Execution(self._grace, min(timeouts) if timeouts else None)
            self._attempts[key] = _Attempt(assignment, execution)
        threading.Thread(target=self._execute, args=(key, self._attempts[key]), daemon=True).start()

    def _execute(self, key: Key, attempt: _Attempt) -> None:
        started = _now()
        assignment = attempt.assignment
        secrets = sorted((value for value in assignment.get("secrets", []) if value), key=len, reverse=True)
        action = assignment["order"]["action"]
        handler = action.get("handler")
        if handler not in self._handlers:
            known = ", ".join(sorted(self._handlers))
            message = f"this worker has no handler {handler!r}; it has {known}"
            outcome: Dict[str, Any] = {"error": {"kind": "unknown_handler", "message": message, "permanent": True}}
        else:
            order = {"handler": handler, "payload": action.get("payload"), "context": _context(assignment)}
            outcome = self._processes.execute(
                order, attempt.execution, lambda text, stream: self._logs.add(key, _mask(text, secrets), stream)
            )
        if "lost" in outcome:
            return
        self._logs.flush(key, 30)
        result = _result(key, outcome, attempt.execution.cancel_reason, secrets)
        result["started_at"], result["finished_at"] = started, _now()
        with self._changed:
            attempt.result = result
            self._changed.notify_all()


def _context(assignment: Dict[str, Any]) -> Dict[str, Any]:
    order = assignment["order"]
    return {
        "task_run_id": assignment["task_run_id"],
        "attempt": assignment["attempt"],
        "namespace": order["namespace"],
        "workflow": order["workflow"],
        "task": order["task"],
        "fencing_token": assignment["fencing_token"],
        "idempotency_key": assignment["idempotency_key"],
        "env": dict(assignment.get("env", [])),
        "deadline": assignment.get("deadline"),
    }


def _result(key: Key, outcome: Dict[str, Any], reason: Optional[str], secrets: List[str]) -> Dict[str, Any]:
    result: Dict[str, Any] = {"task_run_id": key[0], "attempt": key[1]}
    if "done" in outcome:
        result.update(outcome="success", output=_mask(outcome["done"], secrets))
    elif "cancelled" in outcome:
        error = {"kind": "cancelled", "message": reason or "cancelled"}
        result.update(outcome="cancelled", error=error)
    else:
        result.update(outcome="failed", error=_mask(outcome["error"], secrets))
    return result


def _mask(value: Any, secrets: List[str]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, "***")
        return value
    if isinstance(value, list):
        return [_mask(item, secrets) for item in value]
    if isinstance(value, dict):
        return {key: _mask(item, secrets) for key, item in value.items()}
    return value


def _now() -> str:
    import datetime

    return datetime.datetime.now(datetime.timezone.utc).isoformat().replace("+00:00", "Z")


def _version() -> str:
    from . import __version__

    return __version__
