// graphile-worker on the same workloads, tuned for throughput: two processes of 24 concurrent jobs, a local queue of
// 2,000 and completions gathered for 1 ms. Usage: node bench.mjs postgres://… N
//
// - enqueue: N jobs added 1,000 at a time, on one connection.
// - drain: those jobs emptied; from the moment the connected workers are let go until the last job is gone from the table.
import { fork } from "node:child_process";
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

const PROCESSES = 2;
const BATCH = 1000;
const logger = new Logger(() => () => {});

async function enqueue(url, n) {
  const utils = await makeWorkerUtils({ connectionString: url, maxPoolSize: 1, logger });
  await utils.migrate();
  const start = performance.now();
  for (let first = 0; first < n; first += BATCH) {
    const size = Math.min(BATCH, n - first);
    await utils.addJobs(Array.from({ length: size }, () => ({ identifier: "noop", payload: {} })));
  }
  const seconds = (performance.now() - start) / 1000;
  await utils.release();
  return seconds;
}

function startWorker(url) {
  const child = fork(import.meta.filename, ["--worker", url]);
  const ready = new Promise((resolve, reject) => {
    child.once("message", resolve);
    child.once("exit", () => reject(new Error("a worker process ended early")));
  });
  return { child, ready };
}

async function drain(url, n) {
  const client = new pg.Client(url);
  await client.connect();
  const workers = Array.from({ length: PROCESSES }, () => startWorker(url));
  await Promise.all(workers.map((worker) => worker.ready));
  const start = performance.now();
  workers.forEach(({ child }) => child.send("go"));
  // The table is asked only when every handler has ended: looking past its dead rows would slow the workers down.
  const handled = workers.map(() => 0);
  workers.forEach(({ child }, index) => child.on("message", (count) => (handled[index] = count)));
  let left = true;
  while (left) {
    await new Promise((resolve) => setTimeout(resolve, 2));
    if (handled.reduce((sum, count) => sum + count, 0) < n) continue;
    left = (await client.query("SELECT EXISTS (SELECT FROM graphile_worker._private_jobs) AS left")).rows[0].left;
  }
  const seconds = (performance.now() - start) / 1000;
  workers.forEach(({ child }) => child.kill());
  await client.end();
  return seconds;
}

async function work(url) {
  let handled = 0;
  process.once("message", () => {
    setInterval(() => process.send(handled), 5);
    run({
      preset: {
        worker: {
          connectionString: url,
          concurrentJobs: 24,
          maxPoolSize: 10,
          localQueue: { size: 2000 },
          completeJobBatchDelay: 1,
          failJobBatchDelay: 1,
          logger,
        },
      },
      noHandleSignals: true,
      taskList: {
        noop: () => {
          handled += 1;
        },
      },
    });
  });
  process.send("ready");
}

function report(workload, n, seconds) {
  console.log(JSON.stringify({ workload, n, seconds, rate: n / seconds }));
}

if (process.argv[2] === "--worker") {
  await work(process.argv[3]);
} else {
  const [url, n] = [process.argv[2], Number(process.argv[3])];
  report("enqueue", n, await enqueue(url, n));
  report("drain", n, await drain(url, n));
}
