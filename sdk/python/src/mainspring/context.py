"""What a handler knows about the attempt it executes."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Dict, Optional


@dataclass(frozen=True)
class TaskContext:
    """Passed to handlers that take an argument named `context`."""

    task_run_id: str
    attempt: int
    namespace: str
    workflow: str
    task: str
    #: Rises with every attempt: a sink that keeps the highest refuses the writes of an attempt that was given up.
    fencing_token: str
    #: The same for every attempt: a sink that remembers it recognises a repetition.
    idempotency_key: str
    env: Dict[str, str] = field(default_factory=dict)
    deadline: Optional[str] = None
    _cancelled: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)

    @property
    def run_id(self) -> str:
        return self.task_run_id.split(".", 1)[0]

    @property
    def cancelled(self) -> bool:
        """True once the attempt was cancelled. The process is killed some seconds later."""
        return self._cancelled.is_set()

    def wait_cancelled(self, seconds: float) -> bool:
        """Sleeps, at most so long; True if the attempt was cancelled meanwhile."""
        return self._cancelled.wait(seconds)
