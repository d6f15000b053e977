"""What a program asks of a server: apply, trigger, wait, read logs, announce events, work on dead letters."""

from __future__ import annotations

import json
import os
import time
import urllib.parse
import uuid
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from ._http import Transport
from .errors import RunFailed, Unreachable

Run = Dict[str, Any]
_ENDED = ("success", "failed", "cancelled")


class Client:
    """Safe to use from several threads. Writes carry an idempotency key, so that repeating one does nothing twice."""

    def __init__(
        self,
        server: Union[None, str, Sequence[str]] = None,
        token: Optional[str] = None,
        *,
        namespace: str = "default",
        timeout: float = 30.0,
        attempts: int = 5,
    ) -> None:
        server = server or os.environ.get("MAINSPRING_SERVER", "http://127.0.0.1:8080")
        token = token or os.environ.get("MAINSPRING_TOKEN", "")
        if not token:
            raise ValueError("a client needs a token: pass token=, or set MAINSPRING_TOKEN")
        self._transport = Transport(server, token, timeout)
        self._namespace = namespace
        self._attempts = attempts

    # Workflows and runs.

    def apply(self, workflow: Union[str, Mapping[str, Any]]) -> Dict[str, Any]:
        """Stores a workflow given as YAML text or as a mapping; the same content again changes nothing."""
        if isinstance(workflow, str):
            return self._write("POST", "/workflows", workflow.encode(), content_type="application/yaml")
        return self._write("POST", "/workflows", dict(workflow))

    def trigger(
        self,
        workflow: str,
        inputs: Optional[Mapping[str, Any]] = None,
        *,
        idempotency_key: Optional[str] = None,
        correlation_id: Optional[str] = None,
        priority: Union[None, str, int] = None,
        at: Optional[str] = None,
    ) -> Run:
        """Starts a run. The same idempotency key gives the same run."""
        body: Dict[str, Any] = {"inputs": dict(inputs or {})}
        for name, value in (("correlation_id", correlation_id), ("priority", priority), ("at", at)):
            if value is not None:
                body[name] = value
        path = f"/workflows/{_part(workflow)}/trigger"
        return self._write("POST", path, body, query={"namespace": self._namespace}, key=idempotency_key)

    def run(self, run_id: str) -> Run:
        return self._read(f"/workflow-runs/{_part(run_id)}")

    def runs(self, **filters: Any) -> List[Run]:
        items: List[Run] = self._read("/workflow-runs", {"namespace": self._namespace, **filters})["items"]
        return items

    def tasks(self, run_id: str) -> List[Dict[str, Any]]:
        answer = self._read(f"/workflow-runs/{_part(run_id)}/tasks")
        items: List[Dict[str, Any]] = answer["items"] if isinstance(answer, dict) else answer
        return items

    def wait(self, run: Union[str, Run], timeout: Optional[float] = None, *, check: bool = True) -> Run:
        """Waits for the end of a run. Raises RunFailed unless it succeeded (or `check` is false), TimeoutError if it takes longer."""
        run_id = run if isinstance(run, str) else run["id"]
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.05
        while True:
            current = self.run(run_id)
            if current["status"] in _ENDED:
                if check and current["status"] != "success":
                    raise RunFailed(current)
                return current
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"run {run_id} is {current['status']} after {timeout:g} s")
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)

    def cancel(self, run_id: str, reason: Optional[str] = None) -> Run:
        return self._write("POST", f"/workflow-runs/{_part(run_id)}/cancel", {"reason": reason} if reason else {})

    def logs(self, run_id: str, task: str) -> Iterator[Dict[str, Any]]:
        """The log lines of a task, page by page."""
        query: Dict[str, Any] = {}
        while True:
            page = self._read(f"/workflow-runs/{_part(run_id)}/tasks/{_part(task)}/logs", query)
            yield from page["items"]
            if not page.get("next"):
                return
            query = {"after": page["next"]}

    # Events.

    def emit(self, event_name: str, data: Any = None, *, idempotency_key: Optional[str] = None) -> Dict[str, Any]:
        body = {"event_name": event_name, "data": data, "namespace": self._namespace}
        return self._write("POST", "/scheduler/events/trigger", body, key=idempotency_key)

    # Dead letters.

    def dead_letters(self, **filters: Any) -> List[Dict[str, Any]]:
        items: List[Dict[str, Any]] = self._read("/dlq", {"namespace": self._namespace, **filters})["items"]
        return items

    def dead_letter(self, entry_id: str) -> Dict[str, Any]:
        return self._read(f"/dlq/{_part(entry_id)}")

    def retry_dead_letter(self, entry_id: str, *, reason: Optional[str] = None) -> Dict[str, Any]:
        return self._write("POST", f"/dlq/{_part(entry_id)}/retry", {"reason": reason} if reason else {})

    def skip_dead_letter(self, entry_id: str, reason: str) -> None:
        self._write("POST", f"/dlq/{_part(entry_id)}/skip", {"reason": reason})

    def resolve_dead_letter(self, entry_id: str, notes: str, resolved_by: str) -> None:
        self._write("POST", f"/dlq/{_part(entry_id)}/resolve", {"notes": notes, "resolved_by": resolved_by})

    # Requests.

    def request(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Any other request of the API; `path` begins after /api/v1."""
        if method == "GET":
            return self._read(path, query)
        return self._write(method, path, body, query=query)

    def _read(self, path: str, query: Optional[Dict[str, Any]] = None) -> Any:
        return self._repeat(lambda: self._transport.request("GET", path, query=query))

    def _write(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Optional[Dict[str, Any]] = None,
        key: Optional[str] = None,
        content_type: str = "application/json",
    ) -> Any:
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        data = body if isinstance(body, bytes) else (json.dumps(body).encode() if body is not None else None)
        return self._repeat(
            lambda: self._transport.request(
                method, path, data, query=query, headers=headers, content_type=content_type
            )
        )

    def _repeat(self, ask: Any) -> Any:
        """Asks again while no server answers: the key makes a repetition harmless."""
        pause = 0.1
        for left in range(self._attempts - 1, -1, -1):
            try:
                return ask()
            except Unreachable:
                if left == 0:
                    raise
                time.sleep(pause)
                pause *= 2


def _part(text: str) -> str:
    return urllib.parse.quote(text, safe="")
