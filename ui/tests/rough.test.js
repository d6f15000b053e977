// What pages meet in rough hours: long names, huge runs, two people at once, a wrong clock, a server that is gone.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { BROKEN, ITEMS, LONG_NAME, LONG_NAMES, large } from "./fixtures.js";
import { DATABASES, Server, openBrowser, openPage } from "./harness.js";

for (const kind of DATABASES) {
  describe(`rough hours on ${kind}`, { concurrency: false }, () => {
    let server;
    let browser;
    let page;

    const open = (path) => page.goto(`${server.address}/ui${path}`);
    before(async () => {
      server = await Server.start(kind);
      browser = await openBrowser();
      page = await openPage(browser);
      for (const text of [BROKEN, LONG_NAMES]) await server.store(text);
      await page.goto(server.printed);
      await page.getByRole("heading", { name: "Now", exact: true }).waitFor();
    });
    after(async () => {
      await browser?.close();
      await server?.stop();
    });

    it("fits names at their limit, on a wide and on a narrow screen", async () => {
      const run = await server.start(LONG_NAME);
      await server.ends(run.id, "failed");
      for (const width of [1280, 360]) {
        await page.setViewportSize({ width, height: 800 });
        for (const path of ["/", "/workflows", "/runs", `/r/${run.id}`, `/r/${run.id}?view=list`, `/r/${run.id}/log`, `/w/default/${LONG_NAME}`, `/w/default/${LONG_NAME}/start`, "/dlq"]) {
          await open(path);
          await page.locator("main h1:visible, main h2:visible").first().waitFor();
          await page.waitForTimeout(300);
          const wide = await page.evaluate(() => [document.documentElement.scrollWidth, document.querySelector("main").scrollWidth - document.querySelector("main").clientWidth]);
          assert.ok(wide[0] <= width && wide[1] <= 0, `${path} is too wide at ${width}: ${wide}`);
        }
      }
      await page.setViewportSize({ width: 1280, height: 800 });
    });

    it("tells the second of two people what the first one did", async () => {
      const run = await server.start("nightly-etl", { inputs: { region: "eu" } });
      await server.ends(run.id, "failed");
      const second = await openPage(browser);
      await second.goto(await server.address_for());
      await second.getByRole("heading", { name: "Now", exact: true }).waitFor();
      for (const one of [page, second]) {
        await one.goto(`${server.address}/ui/r/${run.id}?task=transform`);
        await one.getByRole("button", { name: "Skip", exact: true }).click();
        await one.locator("dialog[open]").waitFor();
      }
      await page.locator("dialog[open]").getByRole("button", { name: "Skip" }).click();
      await server.ends(run.id, "success");
      await second.locator("dialog[open]").getByRole("button", { name: "Skip" }).click();
      await second.locator("dialog[open]").getByRole("alert").waitFor();
      // The page behind the dialog has followed.
      await second.locator("header .status", { hasText: "success" }).first().waitFor();
      assert.deepEqual(second.troubles, []);
      await second.context().close();
    });

    it("counts by the server's clock if the browser's is an hour off", async () => {
      const run = await server.start("nightly-etl", { inputs: { region: "eu" } });
      await server.ends(run.id, "failed");
      for (const hours of [-1, 1]) {
        const wrong = await openPage(browser);
        await wrong.addInitScript((by) => {
          const right = Date.now.bind(Date);
          Date.now = () => right() + by * 3_600_000;
        }, hours);
        await wrong.goto(await server.address_for());
        const item = wrong.locator(".item", { hasText: "transform" }).first();
        await item.waitFor();
        await item.locator("time", { hasText: /^(now|\d+ [sm] ago)$/ }).waitFor();
        await wrong.goto(`${server.address}/ui/r/${run.id}`);
        await wrong.getByRole("complementary", { name: "Task transform" }).waitFor();
        assert.deepEqual(wrong.troubles, []);
        await wrong.context().close();
      }
    });

    // The largest things once: what they show does not depend on the database.
    if (kind === DATABASES[0]) {
      it("opens a workflow of 10 000 tasks and a run of it", async () => {
        await server.store(large(10_000));
        await open("/w/default/large-10000?tab=graph");
        await page.locator("canvas").waitFor({ timeout: 60_000 });
        // Something is in sight: the beginning of the graph, not an empty corner of it.
        const painted = () => page.evaluate(() => {
          const canvas = document.querySelector("canvas");
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          return data.filter((value, i) => i % 4 === 3 && value > 0).length;
        });
        await server.until("it is drawn", async () => (await painted()) > 5000);
        const run = await server.start("large-10000");
        await server.api("POST", `/workflow-runs/${run.id}/cancel`, {});
        await open(`/r/${run.id}?view=list`);
        await page.locator(".task").first().waitFor({ timeout: 60_000 });
        assert.ok((await page.locator(".task").count()) < 200, "only what is in view is drawn");
        await page.getByLabel("Filter tasks").fill("t9999");
        await page.locator(".task", { hasText: "t9999" }).waitFor();
      });

      it("shows a run of 100 000 items by their counts", async () => {
        await server.store(ITEMS);
        const run = await server.start("items", { inputs: { items: Array.from({ length: 10_000 }, (_, i) => i) } });
        await server.until("the items are there", async () => {
          const shown = await server.api("GET", `/workflow-runs/${run.id}/overview`);
          return shown.items.flatMap((one) => one.counts).reduce((sum, [, n]) => sum + n, 0) >= 100_000;
        }, 300);
        page.requests.length = 0;
        await open(`/r/${run.id}?view=list`);
        await page.locator(".task", { hasText: "part-9" }).getByText(/10.000 ready/).waitFor({ timeout: 60_000 });
        assert.ok((await page.locator(".task").count()) < 100, "items are grouped");
        await server.api("POST", `/workflow-runs/${run.id}/cancel`, {});
      });
    }

    it("saw no violation and no error on any page", () => {
      assert.deepEqual(page.troubles, []);
    });
  });
}
