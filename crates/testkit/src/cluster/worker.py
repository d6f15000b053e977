"""The Python worker of a cluster under faults: its one handler leaves a line in the effect log."""

import os

from mainspring import Worker

worker = Worker(slots=4, grace=1.0)


@worker.task("chaos:effect")
def effect(payload, context):
    # The token ends with session and attempt, which is all that scripts are given.
    token = ".".join(context.fencing_token.rsplit(".", 2)[1:])
    line = f"{context.idempotency_key} {context.attempt} {token}\n"
    # One write of one short line to a file opened for appending is never torn.
    file = os.open(payload["file"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


if __name__ == "__main__":
    worker.run()
