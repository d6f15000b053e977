"""A process without threads that forks the ones that execute handlers.

The worker itself has threads, and forking a process with threads can inherit a lock that is never released. So this one is
made before the first thread, knows the handlers, and forks on demand.
"""

from __future__ import annotations

import array
import os
import signal
import socket
import struct
import threading
from typing import Any, Callable, Mapping, Tuple

from . import _child
from ._frames import Channel

_PID = struct.Struct("!i")


class Zygote:
    def __init__(self, handlers: Mapping[str, Callable[..., Any]]) -> None:
        ours, theirs = socket.socketpair()
        self._lock = threading.Lock()
        pid = os.fork()
        if pid == 0:
            ours.close()
            try:
                _serve(theirs, handlers)
            finally:
                os._exit(0)
        theirs.close()
        self._socket = ours
        self.pid = pid

    def spawn(self) -> Tuple[int, Channel]:
        """A new process and the channel to it."""
        ours, theirs = socket.socketpair()
        with self._lock:
            fds = array.array("i", [theirs.fileno()])
            self._socket.sendmsg([b"f"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            answer = self._socket.recv(_PID.size, socket.MSG_WAITALL)
        theirs.close()
        if len(answer) < _PID.size:
            raise OSError("the process that makes others is gone")
        return _PID.unpack(answer)[0], Channel(ours)

    def close(self) -> None:
        self._socket.close()
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass


def _serve(sock: socket.socket, handlers: Mapping[str, Callable[..., Any]]) -> None:
    _child.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Children that end are not waited for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    size = array.array("i").itemsize
    while True:
        word, ancillary, _, _ = sock.recvmsg(1, socket.CMSG_LEN(size))
        if not word:
            return
        fds = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(data[:size])
        pid = os.fork()
        if pid == 0:
            sock.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                _child.main(Channel(socket.socket(fileno=fds[0])), handlers)
            finally:
                os._exit(1)
        os.close(fds[0])
        sock.sendall(_PID.pack(pid))
