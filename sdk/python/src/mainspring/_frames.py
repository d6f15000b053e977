"""Messages between the worker and the processes that execute handlers: JSON with its length before it."""

from __future__ import annotations

import json
import socket
import struct
import threading
from typing import Any, Dict, Optional

_LENGTH = struct.Struct("!I")


class Channel:
    """A socket that carries messages; sending is safe from several threads."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._sending = threading.Lock()

    def send(self, message: Dict[str, Any]) -> None:
        data = json.dumps(message).encode()
        with self._sending:
            self.socket.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self) -> Optional[Dict[str, Any]]:
        """The next message; None at the end."""
        head = self._exactly(_LENGTH.size)
        if head is None:
            return None
        body = self._exactly(_LENGTH.unpack(head)[0])
        return None if body is None else json.loads(body)

    def close(self) -> None:
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()

    def _exactly(self, count: int) -> Optional[bytes]:
        parts = bytearray()
        while len(parts) < count:
            try:
                part = self.socket.recv(count - len(parts))
            except OSError:
                return None
            if not part:
                return None
            parts += part
        return bytes(parts)
