"""The processes that execute attempts: taken, watched, killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from ._frames import Channel
from ._zygote import Zygote


class Process:
    def __init__(self, pid: int, channel: Channel) -> None:
        self.pid = pid
        self.channel = channel
        self.killed = False

    def kill(self) -> None:
        """Kills it and everything that it has started."""
        self.killed = True
        for kill in (os.killpg, os.kill):
            try:
                kill(self.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        self.channel.close()


class Processes:
    """Processes that are idle are used again; one that was killed is replaced when the next is needed."""

    def __init__(self, zygote: Zygote) -> None:
        self._zygote = zygote
        self._idle: List[Process] = []
        self._lock = threading.Lock()

    def execute(
        self,
        order: Dict[str, Any],
        attempt: "Execution",
        on_line: Callable[[str, str], None],
    ) -> Dict[str, Any]:
        """Runs one order to its end, whatever that is: {done}, {error}, {cancelled} or {lost}."""
        with self._lock:
            process = self._idle.pop() if self._idle else None
        if process is None:
            process = Process(*self._zygote.spawn())
        if not attempt.begin(process):
            process.kill()
            return {"cancelled": True}
        try:
            process.channel.send(order)
            while True:
                message = process.channel.receive()
                if message is None:
                    process.kill()
                    return attempt.why_dead()
                if "log" in message:
                    on_line(message["log"], message["stream"])
                    continue
                if not process.killed:
                    with self._lock:
                        self._idle.append(process)
                return message
        except OSError:
            process.kill()
            return attempt.why_dead()
        finally:
            attempt.over()

    def kill_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.kill()


class Execution:
    """One attempt and the process it runs in; cancels and time-outs arrive from other threads."""

    def __init__(self, grace: float, timeout: Optional[float]) -> None:
        self._grace = grace
        self._lock = threading.Lock()
        self._process: Optional[Process] = None
        self._over = False
        self._verdict: Optional[Dict[str, Any]] = None
        self._kill_at: Optional[float] = None
        self._timeout = timeout
        self._deadline: Optional[float] = None
        self.started = False
        self.cancel_reason: Optional[str] = None

    def begin(self, process: Process) -> bool:
        with self._lock:
            if self._over or self._verdict is not None or self.cancel_reason is not None:
                return False
            self._process = process
            self.started = True
            if self._timeout is not None:
                self._deadline = time.monotonic() + self._timeout
            return True

    def ended(self) -> bool:
        """Whether it ran to its end, whatever that was: its result is on its way."""
        with self._lock:
            return self._over and self._verdict != {"lost": True}

    def over(self) -> None:
        with self._lock:
            self._over = True
            self._process = None

    def cancel(self, reason: str) -> None:
        """Asks it to stop, and kills it when the grace is over."""
        with self._lock:
            if self._over or self.cancel_reason is not None:
                return
            self.cancel_reason = reason
            process = self._process
            self._kill_at = time.monotonic() + self._grace
        if process is not None:
            try:
                process.channel.send({"cancel": reason})
            except OSError:
                pass

    def lose(self) -> None:
        """Kills it at once; nothing of it is reported."""
        with self._lock:
            self._verdict = {"lost": True}
            process = self._process
        if process is not None:
            process.kill()

    def tick(self, now: float) -> None:
        """Kills it if its time is over."""
        with self._lock:
            process = self._process
            if process is None or self._over:
                return
            if self._kill_at is not None and now >= self._kill_at:
                self._verdict = self._verdict or {"cancelled": True}
            elif self._deadline is not None and now >= self._deadline:
                message = f"the handler did not end within {self._timeout:g} s"
                self._verdict = self._verdict or {"error": {"kind": "timeout", "message": message, "permanent": False}}
            else:
                return
        process.kill()

    def why_dead(self) -> Dict[str, Any]:
        with self._lock:
            if self._verdict is not None:
                return self._verdict
            if self.cancel_reason is not None:
                return {"cancelled": True}
        message = "the process of the handler ended without a result (killed, or out of memory)"
        return {"error": {"kind": "process_died", "message": message, "permanent": False}}
