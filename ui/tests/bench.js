// What the interface takes, reported and never asserted: the machine decides. MAINSPRING_BENCH_RUNS chooses how many runs are
// in the store, MAINSPRING_BENCH_MINUTES how long the heap is watched.
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { large } from "./fixtures.js";
import { DATABASES, Server, openBrowser, openPage } from "./harness.js";

const RUNS = Number(process.env.MAINSPRING_BENCH_RUNS ?? 1_000_000);
const MINUTES = Number(process.env.MAINSPRING_BENCH_MINUTES ?? 1);
const kind = DATABASES.at(-1);
const rows = [];
const report = (name, value, wanted) => {
  rows.push([name, value, wanted]);
  console.log(`| ${name} | ${value} | ${wanted} |`);
};
const ms = (value) => `${value.toFixed(value < 10 ? 1 : 0)} ms`;
const kB = (bytes) => `${(bytes / 1000).toFixed(0)} kB`;

/** The 95th percentile of frame times while something is done for three seconds. */
async function frames(page, act) {
  await page.evaluate(() => {
    globalThis.frameTimes = [];
    let last = performance.now();
    const tick = (now) => {
      globalThis.frameTimes.push(now - last);
      last = now;
      globalThis.ticking = requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  });
  const end = Date.now() + 3000;
  while (Date.now() < end) await act();
  const times = await page.evaluate(() => (cancelAnimationFrame(globalThis.ticking), globalThis.frameTimes));
  times.sort((a, b) => a - b);
  return `p95 ${times[Math.floor(times.length * 0.95)].toFixed(1)} ms`;
}

function sizes() {
  const dist = new URL("../dist/", import.meta.url);
  const html = readFileSync(new URL("index.html", dist), "utf8");
  const gzip = (name) => gzipSync(readFileSync(new URL(name, dist)), { level: 9 }).length;
  const entry = [...html.matchAll(/(?:src|href)="\/ui\/(assets\/[^"]+)"/g)].reduce((sum, [, name]) => sum + gzip(name), gzip("index.html"));
  const all = readdirSync(new URL("assets/", dist)).filter((name) => !/\.(gz|br)$/.test(name)).reduce((sum, name) => sum + gzip(`assets/${name}`), gzip("index.html"));
  report("entry, gzip", kB(entry), "≤ 100 kB");
  report("everything, gzip", kB(all), "≤ 300 kB");
}

/** The best of five: a look at what the server needs, not at what else the machine does. */
async function timed(server, path) {
  let best = Infinity;
  let text = "";
  for (let i = 0; i < 5; i++) {
    const began = performance.now();
    text = await (await fetch(`${server.address}/api/v1${path}`, { headers: { authorization: `Bearer ${server.token}` } })).text();
    best = Math.min(best, performance.now() - began);
  }
  return [best, text];
}

/** Copies ended runs until there are as many as wanted; only on PostgreSQL, whose rows can be written from outside. */
function multiply(server) {
  const psql = (sql) => execFileSync("psql", [server.made.url, "-qAtc", sql], { encoding: "utf8" }).trim();
  const columns = psql("SELECT string_agg(quote_ident(column_name), ', ') FROM information_schema.columns WHERE table_schema = 'public' AND table_name = 'runs' AND column_name <> 'id' AND is_generated = 'NEVER'");
  psql(`INSERT INTO runs (id, ${columns}) SELECT CAST('0180' || substr(md5(n::text), 1, 28) AS uuid), ${columns} FROM (SELECT * FROM runs WHERE finished_at IS NOT NULL LIMIT 1) r, generate_series(1, ${RUNS}) n; ANALYZE`);
}

const server = await Server.start(kind);
const browser = await openBrowser();
console.log(`on ${kind}, program ${process.env.MAINSPRING_TEST_BINARY ?? "of target/debug"}\n\n| what | measured | wanted |\n| --- | --- | --- |`);
try {
  sizes();
  const page = await openPage(browser);
  const open = (path) => page.goto(`${server.address}/ui${path}`);
  await page.goto(server.printed);
  await page.getByRole("heading", { name: "Now", exact: true }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "Now", exact: true }).waitFor();
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0);
  report("first paint", ms(paint), "≤ 500 ms");

  await server.store("name: quick\ntasks: {one: {function: noop}}\n");
  const first = await server.start("quick");
  await server.ends(first.id, "success");
  if (kind === "postgres") multiply(server);
  // The server has closed what was idle meanwhile.
  await fetch(`${server.address}/ready`).catch(() => null);
  const [overview] = await timed(server, "/overview");
  report(`overview with ${kind === "postgres" ? RUNS.toLocaleString("en-GB") : "few"} runs`, ms(overview), "≤ 50 ms with 1,000,000");

  await server.store(large(1000));
  for (let i = 0; i < 50; i++) await server.start("large-1000");
  const [grid, text] = await timed(server, "/workflows/large-1000/grid?runs=50");
  report("grid of 1,000 tasks × 50 runs", `${ms(grid)}, ${kB(gzipSync(text).length)} gzip of ${kB(text.length)}`, "≤ 150 ms, ≤ 40 kB");

  await server.store(large(10_000));
  const [graph] = await timed(server, "/workflows/large-10000/graph?layout=true");
  report("graph of 10,000 tasks with its layout", ms(graph), "");
  const before = performance.now();
  await open("/w/default/large-10000?tab=graph");
  await page.locator("canvas").waitFor();
  while (!(await page.evaluate(() => document.querySelector("canvas").width > 0))) await new Promise((done) => setTimeout(done, 5));
  report("graph of 10,000 tasks drawn, from the address on", ms(performance.now() - before), "≤ 500 ms");
  const box = await page.locator("canvas").boundingBox();
  let step = 0;
  report("frames while it is moved", await frames(page, async () => {
    await page.mouse.move(box.x + 200, box.y + 200);
    await page.mouse.wheel(Math.sin(step++ / 5) * 60, 40);
  }), "p95 ≤ 17 ms");

  await server.store("name: chatty\ntasks:\n  talk: {run: 'seq 1 100000'}\n");
  const chatty = await server.start("chatty");
  await server.ends(chatty.id, "success");
  await open(`/r/${chatty.id}/log?task=talk`);
  await page.locator(".log .line").first().waitFor();
  report("frames while a log of 100,000 lines is scrolled", await frames(page, async () => {
    await page.mouse.move(700, 400);
    await page.mouse.wheel(0, -400);
  }), "p95 ≤ 17 ms");

  await open("/runs");
  await page.locator("[data-row]").first().waitFor();
  await page.evaluate(() => {
    globalThis.longest = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((one) => (globalThis.longest = Math.max(globalThis.longest, one.duration)))).observe({ type: "longtask" });
  });
  let heard = 0;
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Network.enable");
  devtools.on("Network.webSocketFrameReceived", () => heard++);
  const began = performance.now();
  const many = Array.from({ length: 1000 }, () => ({ workflow: "quick" }));
  for (let i = 0; i < 5; i++) await server.api("POST", "/workflow-runs/bulk", { runs: many });
  await server.until("all have ended", async () => (await server.api("GET", "/workflow-runs?status=running,pending&workflow=quick&limit=1")).items.length === 0, 300);
  const seconds = (performance.now() - began) / 1000;
  report("longest task of the page while 5,000 runs pass", `${ms(await page.evaluate(() => globalThis.longest))} (${Math.round(heard / seconds)} frames/s)`, "≤ 50 ms at 1,000 events/s");

  const heap = async () => {
    await devtools.send("HeapProfiler.collectGarbage");
    return (await devtools.send("Runtime.getHeapUsage")).usedSize;
  };
  const at = await heap();
  const end = Date.now() + MINUTES * 60_000;
  while (Date.now() < end) await server.api("POST", "/workflow-runs/bulk", { runs: many.slice(0, 50) }).then(() => new Promise((done) => setTimeout(done, 500)));
  const grown = (await heap()) - at;
  report(`heap of the page after ${MINUTES} min of events`, `${kB(at)} ${grown >= 0 ? "+" : "−"} ${kB(Math.abs(grown))}`, "flat over an hour");
} finally {
  await browser.close();
  await server.stop();
}
