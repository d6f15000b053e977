"""Celery on the same workloads, with Redis as broker and no result backend: it keeps no history, and Redis writes
nothing to disk before it answers (`appendfsync everysec`). Usage: python bench.py N

- enqueue: N tasks sent one after the other, over one connection.
- drain: those tasks executed; from the moment the worker (two processes, acknowledged late, 100 fetched ahead per process) takes
  its first ones until the last is acknowledged.
"""

import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

import celery
import redis

PROCESSES = 2
FETCHED_AHEAD = 100
PATIENCE_SECONDS = 300

app = celery.Celery("bench")
app.conf.update(
    task_ignore_result=True, task_acks_late=True, worker_prefetch_multiplier=FETCHED_AHEAD, broker_connection_retry_on_startup=True
)


@app.task(name="noop")
def noop():
    return None


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def report(workload, n, seconds):
    print(json.dumps({"workload": workload, "n": n, "seconds": seconds, "rate": n / seconds}), flush=True)


def drain(url, client, n):
    begin = time.monotonic()
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "bench", "-b", url, "worker", "-c", str(PROCESSES), "--without-gossip",
         "--without-mingle", "--without-heartbeat", "-l", "ERROR"],
        cwd=pathlib.Path(__file__).parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        while client.llen("celery") == n and time.monotonic() - begin < PATIENCE_SECONDS:
            time.sleep(0.001)
        begin = time.monotonic()
        # What is fetched and not acknowledged stays in a hash of its own.
        while client.llen("celery") + client.hlen("unacked") > 0:
            if time.monotonic() - begin > PATIENCE_SECONDS:
                sys.exit("celery does not come to an end")
            time.sleep(0.005)
        return time.monotonic() - begin
    finally:
        worker.terminate()
        worker.wait()


def main():
    n, port = int(sys.argv[1]), free_port()
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            ["redis-server", "--port", str(port), "--dir", folder, "--appendonly", "yes", "--save", ""],
            stdout=subprocess.DEVNULL,
        )
        try:
            url, client = f"redis://127.0.0.1:{port}/0", redis.Redis(port=port)
            for _ in range(200):
                try:
                    client.ping()
                    break
                except redis.ConnectionError:
                    time.sleep(0.02)
            app.conf.broker_url = url
            begin = time.monotonic()
            with app.producer_or_acquire() as producer:
                for _ in range(n):
                    noop.apply_async(producer=producer)
            report("enqueue", n, time.monotonic() - begin)
            report("drain", n, drain(url, client, n))
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
