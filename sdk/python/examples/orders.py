"""A worker with two handlers. Start it, then: mainspring submit orders.yaml --wait

    MAINSPRING_SERVER=http://127.0.0.1:8080 MAINSPRING_TOKEN=… python3 orders.py
"""

import asyncio

from mainspring import PermanentError, TaskContext, Worker

worker = Worker(slots=4)


@worker.task("orders:price", timeout=60)
def price(payload, context: TaskContext):
    print(f"pricing order {payload['order']} (attempt {context.attempt})")
    if payload["quantity"] <= 0:
        raise PermanentError(f"quantity must be positive, not {payload['quantity']}")
    return {"total": payload["quantity"] * payload["price"]}


@worker.task("orders:ship")
async def ship(payload):
    await asyncio.sleep(0.1)
    print("shipped")
    return {"shipped": True}


if __name__ == "__main__":
    worker.run()
