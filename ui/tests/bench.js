// What the interface takes, reported and never asserted: the machine decides.
import { readFileSync, readdirSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { large } from "./fixtures.js";
import { Server, openBrowser, openPage } from "./harness.js";

const report = (name, value, wanted) => console.log(`${name.padEnd(52)} ${String(value).padStart(12)}   (${wanted})`);
const dist = new URL("../dist/assets/", import.meta.url);
const all = readdirSync(dist).filter((name) => !/\.(gz|br)$/.test(name)).reduce((sum, name) => sum + gzipSync(readFileSync(new URL(name, dist))).length, 0);
report("everything, gzip", `${(all / 1000).toFixed(0)} kB`, "at most 300 kB");

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
  return `${times[Math.floor(times.length * 0.95)].toFixed(1)} ms`;
}

const server = await Server.start("sqlite");
const browser = await openBrowser();
try {
  const page = await openPage(browser);
  await page.goto(server.printed);
  await page.getByRole("heading", { name: "Now", exact: true }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "Now", exact: true }).waitFor();
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0);
  report("first paint", `${paint.toFixed(0)} ms`, "at most 500 ms");
  const timed = async (path) => {
    const began = performance.now();
    const text = await (await fetch(`${server.address}/api/v1${path}`, { headers: { authorization: `Bearer ${server.token}` } })).text();
    return [performance.now() - began, text.length, JSON.parse(text)];
  };
  await server.store(large(10_000));
  const [graph, bytes] = await timed("/workflows/large-10000/graph?layout=true");
  report("graph of 10 000 tasks with its layout", `${graph.toFixed(0)} ms`, `${(bytes / 1000).toFixed(0)} kB`);
  const before = performance.now();
  await page.goto(`${server.address}/ui/w/default/large-10000?tab=graph`);
  await page.locator("canvas").waitFor();
  await page.waitForFunction(() => document.querySelector("canvas")?.width > 0);
  report("graph of 10 000 tasks drawn", `${(performance.now() - before).toFixed(0)} ms`, "interactive within 500 ms");
  const box = await page.locator("canvas").boundingBox();
  let step = 0;
  report("frames while it is moved, p95", await frames(page, async () => {
    await page.mouse.move(box.x + 200, box.y + 200);
    await page.mouse.wheel(Math.sin(step++ / 5) * 60, 40);
  }), "at most 17 ms");
  await server.store(large(1000));
  for (let i = 0; i < 10; i++) await server.start("large-1000");
  const [grid, size] = await timed("/workflows/large-1000/grid?runs=50");
  report("grid of 1000 tasks × 10 runs", `${grid.toFixed(0)} ms`, `${(size / 1000).toFixed(0)} kB before compression`);
  const [overview] = await timed("/overview");
  report("overview", `${overview.toFixed(0)} ms`, "at most 50 ms");
  await server.store("name: chatty\ntasks:\n  talk: {run: 'seq 1 100000'}\n");
  const run = await server.start("chatty");
  await server.ends(run.id, "success");
  await page.goto(`${server.address}/ui/r/${run.id}/log?task=talk`);
  await page.locator(".log .line").first().waitFor();
  report("frames while a long log is scrolled, p95", await frames(page, async () => {
    await page.mouse.move(700, 400);
    await page.mouse.wheel(0, -400);
  }), "at most 17 ms");
} finally {
  await browser.close();
  await server.stop();
}
