"""The process that executes handlers, one attempt at a time.

Everything it prints, and everything that programs it starts print, goes line by line to the worker. It is a session leader, so
that the worker can kill it with all its children, and dies with the process that made it.
"""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import json
import logging
import os
import signal
import sys
import threading
import traceback
import uuid
from typing import Any, Callable, Dict, Mapping, Optional

from ._frames import Channel
from .context import TaskContext
from .errors import TaskError

_PR_SET_PDEATHSIG = 1
_LONGEST_LINE = 64 * 1024


def die_with_parent() -> None:
    """Linux kills this process when the one that made it ends, however that ends."""
    try:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        pass


def main(channel: Channel, handlers: Mapping[str, Callable[..., Any]]) -> None:
    os.setsid()
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    output = _Output(channel)
    _Executor(channel, handlers, output).run()


class _Output:
    """Standard output and error as pipes whose lines become messages."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._marks: Dict[str, threading.Event] = {}
        for number, name in ((1, "stdout"), (2, "stderr")):
            reading, writing = os.pipe()
            os.dup2(writing, number)
            os.close(writing)
            threading.Thread(target=self._read, args=(reading, name), daemon=True).start()
        sys.stdout = os.fdopen(1, "w", buffering=1, errors="replace", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, errors="replace", closefd=False)
        logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", force=True)

    def flush(self) -> None:
        """Returns when everything that was printed has been sent: a mark goes through each pipe."""
        sys.stdout.flush()
        sys.stderr.flush()
        for number in (1, 2):
            mark = f"\0{uuid.uuid4().hex}"
            seen = self._marks[mark] = threading.Event()
            os.write(number, f"{mark}\n".encode())
            seen.wait(5)
            self._marks.pop(mark, None)

    def _read(self, reading: int, name: str) -> None:
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            rest = b""
            while True:
                part = pipe.read(65536)
                if not part:
                    return
                lines = (rest + part).split(b"\n")
                rest = lines.pop()
                if len(rest) > _LONGEST_LINE:
                    lines.append(rest)
                    rest = b""
                for line in lines:
                    self._line(name, line)

    def _line(self, name: str, line: bytes) -> None:
        # A mark ends the line before it, even one without an end.
        text = line.decode("utf-8", "replace")
        before, mark, key = text.rpartition("\0")
        if mark and mark + key in self._marks:
            self._marks[mark + key].set()
            text = before
            if not text:
                return
        try:
            self._channel.send({"log": text.rstrip("\r").replace("\0", ""), "stream": name})
        except OSError:
            os._exit(1)


class _Executor:
    def __init__(self, channel: Channel, handlers: Mapping[str, Callable[..., Any]], output: _Output) -> None:
        self._channel = channel
        self._handlers = handlers
        self._output = output
        self._orders: "list[Dict[str, Any]]" = []
        self._arrived = threading.Condition()
        self._cancelled = threading.Event()
        self._stop_async: Optional[Callable[[], None]] = None

    def run(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            with self._arrived:
                while not self._orders:
                    self._arrived.wait()
                order = self._orders.pop(0)
            self._channel.send(self._execute(order))

    def _listen(self) -> None:
        while True:
            message = self._channel.receive()
            if message is None:
                os.killpg(os.getpgid(0), signal.SIGKILL)
                os._exit(1)
            if "cancel" in message:
                self._cancelled.set()
                stop = self._stop_async
                if stop is not None:
                    stop()
                continue
            with self._arrived:
                self._cancelled = threading.Event()
                self._orders.append(message)
                self._arrived.notify()

    def _execute(self, order: Dict[str, Any]) -> Dict[str, Any]:
        context = TaskContext(**order["context"], _cancelled=self._cancelled)
        os.environ.update(context.env)
        try:
            result = self._call(self._handlers[order["handler"]], order["payload"], context)
            answer: Dict[str, Any] = {"done": json.loads(json.dumps(result, allow_nan=False))}
        except asyncio.CancelledError:
            answer = {"cancelled": True}
        except TaskError as error:
            answer = {"error": _error(error.kind, error, error.permanent, error.detail)}
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises fails its attempt and nothing else
            answer = {"error": _error(type(error).__name__, error, False, None)}
        for name in context.env:
            os.environ.pop(name, None)
        self._output.flush()
        if context.cancelled and "done" not in answer:
            return {"cancelled": True}
        return answer

    def _call(self, handler: Callable[..., Any], payload: Any, context: TaskContext) -> Any:
        parameters = inspect.signature(handler).parameters
        takes_context = "context" in parameters
        positional = [name for name, p in parameters.items() if name != "context" and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        arguments = [payload] if positional else []
        keywords = {"context": context} if takes_context else {}
        if not inspect.iscoroutinefunction(handler):
            return handler(*arguments, **keywords)
        return asyncio.run(self._cancellable(handler(*arguments, **keywords)))

    async def _cancellable(self, work: Any) -> Any:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        self._stop_async = lambda: loop.call_soon_threadsafe(task.cancel)
        if self._cancelled.is_set():
            task.cancel()
        try:
            return await task
        finally:
            self._stop_async = None


def _error(kind: str, error: BaseException, permanent: bool, detail: Optional[str]) -> Dict[str, Any]:
    trace = detail or "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return {"kind": kind, "message": str(error) or kind, "permanent": permanent, "detail": trace[-10_000:]}
