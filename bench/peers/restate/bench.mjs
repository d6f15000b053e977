// Restate on the same workloads: one server in its default configuration on an empty folder, which syncs its log to disk before
// it acknowledges and keeps what ended for a day, and one service process without bidirectional streams. Usage: node bench.mjs N
//
// - enqueue: N one-way sends over HTTP/2, 256 at a time, each acknowledged.
// - drain: those invocations executed; from the moment the handlers are let go until no invocation is left that has not
//   completed. The server starts invocations as they come: until then the first 1,000 wait in the service.
import { fork, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import http2 from "node:http2";
import { createRequire } from "node:module";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import * as restate from "@restatedev/restate-sdk";

const AT_ONCE = 256;
const PATIENCE_MS = 300_000;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// However this process ends, the end of its pipe stops the server.
const GUARD = 'trap "" TERM INT; "$1" --no-logo & server=$!; cat; kill -9 $server; wait $server 2>/dev/null; rm -rf "$RESTATE_BASE_DIR"';

function binary() {
  const wrapper = createRequire(import.meta.url).resolve("@restatedev/restate-server/package.json");
  const name = `@restatedev/restate-server-${os.platform()}-${os.arch()}/bin/restate-server`;
  return createRequire(wrapper).resolve(name);
}

async function freePorts(count) {
  const listeners = Array.from({ length: count }, () => net.createServer().listen(0, "127.0.0.1"));
  await Promise.all(listeners.map((listener) => once(listener, "listening")));
  const ports = listeners.map((listener) => listener.address().port);
  await Promise.all(listeners.map((listener) => new Promise((resolve) => listener.close(resolve))));
  return ports;
}

function startServer(folder, [node, ingress, admin]) {
  const environment = {
    PATH: process.env.PATH,
    HOME: folder,
    RESTATE_BASE_DIR: folder,
    RESTATE_NODE_NAME: "bench",
    RESTATE_LISTEN_MODE: "tcp",
    RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`,
    RESTATE_ADVERTISED_ADDRESS: `http://127.0.0.1:${node}/`,
    RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
    RESTATE_INGRESS__ADVERTISED_ADDRESS: `http://127.0.0.1:${ingress}/`,
    RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
    RESTATE_ADMIN__ADVERTISED_ADDRESS: `http://127.0.0.1:${admin}/`,
    RESTATE_DISABLE_TELEMETRY: "true",
    RESTATE_LOG_FILTER: "error",
  };
  return spawn("sh", ["-c", GUARD, "sh", binary()], { env: environment, cwd: folder, stdio: ["pipe", "ignore", "inherit"] });
}

async function ask(admin, target, body) {
  const answer = await fetch(`http://127.0.0.1:${admin}${target}`, {
    method: body ? "POST" : "GET",
    headers: { "content-type": "application/json", accept: "application/json" },
    body: body && JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${target}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

async function until(what, isSo) {
  const start = performance.now();
  let last;
  while (performance.now() - start < PATIENCE_MS) {
    try {
      if (await isSo()) return;
    } catch (error) {
      last = error;
    }
    await sleep(5);
  }
  throw new Error(`${what}: not in time`, { cause: last });
}

function send(session) {
  return new Promise((resolve, reject) => {
    const stream = session.request({ ":method": "POST", ":path": "/noop/run/send" });
    let status;
    stream.on("response", (headers) => (status = headers[":status"]));
    stream.on("error", reject);
    stream.on("end", () => (status === 202 ? resolve() : reject(new Error(`a send was answered with ${status}`))));
    stream.resume();
    stream.end();
  });
}

async function enqueue(ingress, n) {
  const session = http2.connect(`http://127.0.0.1:${ingress}`);
  await once(session, "connect");
  let left = n;
  const start = performance.now();
  const sender = async () => {
    while (left-- > 0) await send(session);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, sender));
  const seconds = (performance.now() - start) / 1000;
  session.close();
  return seconds;
}

async function drain(admin, service, n) {
  let handled = 0;
  service.on("message", (count) => (handled = count));
  const query = "SELECT count(*) AS open FROM sys_invocation WHERE status <> 'completed'";
  const start = performance.now();
  service.send("go");
  // The server is asked only when every handler has ended: the answer costs it time.
  await until("the drain", async () => handled >= n && (await ask(admin, "/query", { query })).rows[0].open === 0);
  return (performance.now() - start) / 1000;
}

// The service: handlers wait until they are let go.
function serve() {
  let handled = 0;
  let letGo;
  const gate = new Promise((resolve) => (letGo = resolve));
  const noop = restate.service({
    name: "noop",
    handlers: {
      run: async () => {
        await gate;
        handled += 1;
      },
    },
  });
  const handler = restate.createEndpointHandler({ services: [noop], bidirectional: false });
  const server = http2.createServer(handler).listen(0, "127.0.0.1", () => process.send(server.address().port));
  process.once("message", () => {
    letGo();
    setInterval(() => process.send(handled), 5);
  });
  process.once("disconnect", () => process.exit());
}

function report(workload, n, seconds) {
  console.log(JSON.stringify({ workload, n, seconds, rate: n / seconds }));
}

async function main(n) {
  const folder = mkdtempSync(path.join(os.tmpdir(), "mainspring-bench-restate."));
  const ports = await freePorts(3);
  const [, ingress, admin] = ports;
  const server = startServer(folder, ports);
  const ended = once(server, "exit");
  const service = fork(import.meta.filename, ["--service"], { env: { ...process.env, RESTATE_LOGGING: "ERROR" } });
  try {
    const [port] = await once(service, "message");
    await until("the server is ready", async () => {
      await ask(admin, "/deployments", { uri: `http://127.0.0.1:${port}` });
      return (await fetch(`http://127.0.0.1:${ingress}/restate/health`)).ok;
    });
    report("enqueue", n, await enqueue(ingress, n));
    report("drain", n, await drain(admin, service, n));
  } finally {
    service.kill();
    server.stdin.end();
    await ended;
  }
}

if (process.argv[2] === "--service") serve();
else await main(Number(process.argv[2]));
