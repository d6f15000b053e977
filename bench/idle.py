"""What a server costs that has nothing to do: time to ready, resident memory, processor time."""

import http.client
import pathlib
import socket
import subprocess
import time

READY_LIMIT_SECONDS = 20
SETTLE_SECONDS = 2
WATCH_SECONDS = 10


class NotReady(Exception):
    pass


def measure(binary, database, folder):
    port = free_port()
    log = (folder / "server.log").open("w")
    begin = time.monotonic()
    server = subprocess.Popen(
        [binary, "server", "--database", database, "--listen", f"127.0.0.1:{port}"],
        cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
    )
    try:
        while not is_ready(port):
            if server.poll() is not None or time.monotonic() - begin > READY_LIMIT_SECONDS:
                lines = (folder / "server.log").read_text().strip().splitlines()
                raise NotReady(f"GET /ready did not answer 200; last words: {lines[-1] if lines else 'none'}")
            time.sleep(0.002)
        ready = time.monotonic() - begin
        time.sleep(SETTLE_SECONDS)
        before, watched = processor_seconds(server.pid), time.monotonic()
        time.sleep(WATCH_SECONDS)
        used = (processor_seconds(server.pid) - before) / (time.monotonic() - watched)
        return {"ready_seconds": ready, "resident_bytes": resident_bytes(server.pid), "core_percent": used * 100}
    finally:
        server.terminate()
        try:
            server.wait(timeout=70)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        log.close()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def is_ready(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def with_descendants(pid):
    """The server and the helpers that it started."""
    found = [pid]
    for each in found:
        for children in pathlib.Path(f"/proc/{each}/task").glob("*/children"):
            found += [int(child) for child in children.read_text().split()]
    return found


def processor_seconds(pid):
    """Exact time on a processor, in nanoseconds per thread: clock ticks are too coarse for an idle server."""
    threads = (task for each in with_descendants(pid) for task in pathlib.Path(f"/proc/{each}/task").iterdir())
    return sum(int((task / "schedstat").read_text().split()[0]) for task in threads) / 1e9


def resident_bytes(pid):
    total = 0
    for each in with_descendants(pid):
        for line in pathlib.Path(f"/proc/{each}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1]) * 1024
    return total
