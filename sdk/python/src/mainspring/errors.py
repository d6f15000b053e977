"""What can go wrong."""

from __future__ import annotations

from typing import Any, Dict, List, Optional


class MainspringError(Exception):
    """The base of every error of this package."""


class Unreachable(MainspringError):
    """No server answered. Whether the request was carried out is unknown: repeat it with the same idempotency key."""


class ApiError(MainspringError):
    """The server refused a request (RFC 9457)."""

    def __init__(self, status: int, problem: Dict[str, Any]) -> None:
        self.status = status
        self.problem = problem
        self.kind: str = problem.get("type", "about:blank")
        self.errors: List[Dict[str, Any]] = problem.get("errors", [])
        detail = problem.get("detail") or problem.get("title") or "no details"
        lines = [f"{status}: {detail}"] + [f"  {e.get('pointer', '')}: {e.get('detail', e)}" for e in self.errors]
        super().__init__("\n".join(lines))


class RunFailed(MainspringError):
    """A run that was waited for did not succeed."""

    def __init__(self, run: Dict[str, Any]) -> None:
        self.run = run
        super().__init__(f"run {run.get('id')} ended as {run.get('status')}")


class TaskError(MainspringError):
    """Raised by a handler to fail its attempt with a word that `retry.on` can name."""

    def __init__(self, message: str, kind: str = "task_error", permanent: bool = False, detail: Optional[str] = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.permanent = permanent
        self.detail = detail


class PermanentError(TaskError):
    """Raised by a handler whose failure no further attempt can mend."""

    def __init__(self, message: str, kind: str = "permanent_error") -> None:
        super().__init__(message, kind, permanent=True)
