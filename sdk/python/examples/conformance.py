"""The handlers that scripts/worker-conformance --kind remote asks for."""

from mainspring import TaskError, Worker

worker = Worker(slots=4, grace=1.0)


@worker.task("conformance:echo")
def echo(payload):
    print(payload["line"])
    return payload


@worker.task("conformance:fail")
def fail(payload):
    raise TaskError(payload["message"], kind="conformance")


@worker.task("conformance:sleep")
def sleep(payload, context):
    context.wait_cancelled(payload["seconds"])
    return {}


if __name__ == "__main__":
    worker.run()
