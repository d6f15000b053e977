"""Log lines on their way to the server, in order, each once."""

from __future__ import annotations

import datetime
import threading
from typing import Any, Callable, Dict, List, Tuple

_MOST_LINES = 500
_MOST_BYTES = 256 * 1024


class LogShipper:
    """A thread that sends what attempts print. `flush` returns when all of one attempt is stored or refused."""

    def __init__(self, send: Callable[[List[Dict[str, Any]]], List[Dict[str, Any]]]) -> None:
        self._send = send
        self._changed = threading.Condition()
        self._waiting: Dict[Tuple[str, int], List[Tuple[str, str, str]]] = {}
        self._offsets: Dict[Tuple[str, int], int] = {}
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="mainspring-logs", daemon=True)
        self._thread.start()

    def add(self, key: Tuple[str, int], text: str, stream: str) -> None:
        at = datetime.datetime.now(datetime.timezone.utc).isoformat().replace("+00:00", "Z")
        with self._changed:
            self._waiting.setdefault(key, []).append((stream, at, text))
            self._changed.notify_all()

    def flush(self, key: Tuple[str, int], timeout: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self._waiting.get(key), timeout)

    def forget(self, key: Tuple[str, int]) -> None:
        with self._changed:
            self._waiting.pop(key, None)
            self._offsets.pop(key, None)
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(5)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or any(self._waiting.values()))
                if self._closed and not any(self._waiting.values()):
                    return
                chunks = self._chunks()
            try:
                answers = self._send(chunks)
            except Exception:  # noqa: BLE001 - the lines stay and are sent again
                with self._changed:
                    if self._closed:
                        return
                    self._changed.wait(0.5)
                continue
            self._stored(chunks, answers)

    def _chunks(self) -> List[Dict[str, Any]]:
        chunks: List[Dict[str, Any]] = []
        lines = size = 0
        for key, waiting in self._waiting.items():
            offset = self._offsets.get(key, 0)
            for number, (stream, at, text) in enumerate(waiting):
                if lines >= _MOST_LINES or size >= _MOST_BYTES:
                    return chunks
                new = not chunks or chunks[-1]["stream"] != stream or (chunks[-1]["task_run_id"], chunks[-1]["attempt"]) != key
                if new:
                    chunks.append({"task_run_id": key[0], "attempt": key[1], "offset": offset + number, "stream": stream, "lines": []})
                chunks[-1]["lines"].append({"at": at, "text": text})
                lines += 1
                size += len(text) + 64
        return chunks

    def _stored(self, chunks: List[Dict[str, Any]], answers: List[Dict[str, Any]]) -> None:
        with self._changed:
            for answer in answers:
                key = (answer["task_run_id"], answer["attempt"])
                waiting = self._waiting.get(key)
                if waiting is None:
                    continue
                if answer.get("fenced"):
                    waiting.clear()
                    continue
                done = answer["next_offset"] - self._offsets.get(key, 0)
                if done > 0:
                    del waiting[:done]
                    self._offsets[key] = answer["next_offset"]
            self._changed.notify_all()
