"""Requests over keep-alive connections to the first server that answers."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import urllib.parse
from typing import Any, Dict, List, Optional, Sequence, Union

from .errors import ApiError, Unreachable

#: Nothing of the request reached a server that could act on it, or the server said "ask again".
_TRY_ELSEWHERE = (500, 502, 503, 504)


class Transport:
    """One per thread that talks; a request goes to the server that answered last, then to the others."""

    def __init__(self, servers: Union[str, Sequence[str]], token: str, timeout: float = 10.0) -> None:
        urls = servers.split(",") if isinstance(servers, str) else list(servers)
        self._servers = [urllib.parse.urlsplit(url.strip()) for url in urls if url.strip()]
        if not self._servers or any(url.scheme not in ("http", "https") or not url.hostname for url in self._servers):
            raise ValueError(f"servers must be http:// or https:// addresses, not {servers!r}")
        self._token = token
        self._timeout = timeout
        self._current = 0
        self._connection: Optional[http.client.HTTPConnection] = None
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            self._drop()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Optional[Dict[str, Any]] = None,
        headers: Optional[Dict[str, str]] = None,
        content_type: str = "application/json",
        timeout: Optional[float] = None,
    ) -> Any:
        """The answer as JSON (or text). Raises ApiError for a refusal, Unreachable if no server answers."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        if query:
            given = {key: value for key, value in query.items() if value is not None}
            path = f"{path}?{urllib.parse.urlencode(given, doseq=True)}" if given else path
        sent = {"Authorization": f"Bearer {self._token}", "Accept": "application/json", **(headers or {})}
        if data is not None:
            sent["Content-Type"] = content_type
        with self._lock:
            problems: List[str] = []
            for _ in range(len(self._servers)):
                try:
                    status, kind, text = self._ask(method, path, data, sent, timeout or self._timeout)
                except (OSError, http.client.HTTPException) as error:
                    problems.append(f"{self._servers[self._current].netloc}: {error or type(error).__name__}")
                    self._move_on()
                    continue
                if status in _TRY_ELSEWHERE:
                    problems.append(f"{self._servers[self._current].netloc}: {status}")
                    self._move_on()
                    continue
                return _answer(status, kind, text)
        raise Unreachable(f"{method} {path}: " + "; ".join(problems))

    def _ask(self, method: str, path: str, data: Optional[bytes], headers: Dict[str, str], timeout: float) -> Any:
        server = self._servers[self._current]
        fresh = self._connection is None
        if self._connection is None:
            if server.scheme == "https":
                self._connection = http.client.HTTPSConnection(
                    server.hostname or "", server.port, timeout=timeout, context=ssl.create_default_context()
                )
            else:
                self._connection = http.client.HTTPConnection(server.hostname or "", server.port, timeout=timeout)
        if self._connection.sock is not None:
            self._connection.sock.settimeout(timeout)
        try:
            self._connection.request(method, server.path.rstrip("/") + "/api/v1" + path, data, headers)
            response = self._connection.getresponse()
            text = response.read()
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            # A connection that the server closed while it was idle; the request was not read from it.
            self._drop()
            if fresh:
                raise
            return self._ask(method, path, data, headers, timeout)
        except BaseException:
            self._drop()
            raise
        if response.will_close:
            self._drop()
        return response.status, response.headers.get("Content-Type", ""), text

    def _move_on(self) -> None:
        self._drop()
        self._current = (self._current + 1) % len(self._servers)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _answer(status: int, kind: str, text: bytes) -> Any:
    is_json = "json" in kind
    value: Any = None
    if text:
        try:
            value = json.loads(text) if is_json else text.decode("utf-8", "replace")
        except ValueError:
            value = {"detail": text[:500].decode("utf-8", "replace")}
    if status >= 400:
        raise ApiError(status, value if isinstance(value, dict) else {"detail": str(value)[:500]})
    return value
