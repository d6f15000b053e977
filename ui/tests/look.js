// Development only: screenshots of every page of a running server. node tests/look.js ADDRESS TOKEN FOLDER [theme] [width]
import { openBrowser, openPage } from "./harness.js";
const [, , address, token, folder, theme = "light", width = "1280"] = process.argv;
const browser = await openBrowser();
const page = await openPage(browser, { viewport: { width: Number(width), height: Number(width) < 500 ? 740 : 800 }, colorScheme: theme });
const api = async (path) => (await fetch(`${address}/api/v1${path}`, { headers: { authorization: `Bearer ${token}` } })).json();
await page.goto(`${address}/ui/`); await page.fill("#token", token); await page.click("button.primary");
await page.waitForSelector("h1");
const runs = (await api("/workflow-runs?limit=100")).items;
const failed = runs.find((run) => run.status === "failed");
const pages = { now: "/", workflows: "/workflows", runs: "/runs", run: failed ? `/r/${failed.id}` : `/r/${runs[0].id}`, gantt: `/r/${(failed ?? runs[0]).id}?view=gantt`, list: `/r/${(failed ?? runs[0]).id}?view=list`, log: `/r/${(failed ?? runs[0]).id}/log`, workflow: `/w/default/${runs[0].workflow}`, graph: `/w/default/orders?tab=graph`, schedule: `/w/default/orders?tab=schedule`, yaml: `/w/default/orders?tab=yaml`, statistics: `/w/default/orders?tab=statistics`, start: "/w/default/inputs/start", dlq: "/dlq", calendar: "/calendar", jobs: "/jobs", events: "/events", workers: "/workers", admin: "/admin" };
const wanted = process.env.ONLY?.split(",");
for (const [name, path] of Object.entries(pages)) {
  if (wanted && !wanted.includes(name)) continue;
  page.requests.length = 0;
  await page.goto(`${address}/ui${path}`);
  await page.waitForTimeout(1500);
  await page.screenshot({ path: `${folder}/${name}-${theme}-${width}.png` });
  console.log(name, page.requests.join(" | "));
}
console.log(page.troubles.slice(0, 20).join("\n"));
await browser.close();
