// The walk: what a person does from the printed address on, in a real browser against the real program.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { APPROVAL, BROKEN, GOOD, GROWING, HOSTILE, large } from "./fixtures.js";
import { DATABASES, Server, images, openBrowser, openPage, serious } from "./harness.js";

const shots = process.env.MAINSPRING_UPDATE_SCREENSHOTS === "1";

for (const kind of DATABASES) {
  describe(`the interface on ${kind}`, { concurrency: false }, () => {
    let server;
    let browser;
    let page;
    let failed;

    const open = (path) => page.goto(`${server.address}/ui${path}`);
    const dialog = () => page.locator("dialog[open]");
    const shot = async (name) => {
      if (!shots || kind !== "sqlite") return;
      mkdirSync(images, { recursive: true });
      await page.waitForTimeout(300);
      await page.screenshot({ path: `${images}/${name}.png` });
    };

    before(async () => {
      server = await Server.start(kind);
      browser = await openBrowser();
      page = await openPage(browser);
      for (const text of [BROKEN, GOOD, GROWING, APPROVAL, HOSTILE, large(200)]) await server.store(text);
      for (let i = 0; i < 8; i++) await server.start("heartbeat");
      for (const region of ["us", "us", "eu", "us"]) await server.start("nightly-etl", { inputs: { region } });
      failed = await server.start("nightly-etl", { inputs: { region: "eu", rows: 4242 } });
      await server.ends(failed.id, "failed");
    });
    after(async () => {
      await browser?.close();
      await server?.stop();
    });

    it("signs in by the printed address, once", async () => {
      assert.match(server.printed, /\/ui\/#code=/);
      await page.goto(server.printed);
      await page.getByRole("heading", { name: "Now", exact: true }).waitFor();
      assert.equal(new URL(page.url()).hash, "", "the code leaves the address");
      const storage = await page.evaluate(() => JSON.stringify([localStorage, sessionStorage]));
      assert.ok(!storage.includes(server.token) && !(await page.evaluate(() => document.cookie)), "no script can read a credential");
      const second = await openPage(browser);
      await second.goto(server.printed);
      await second.getByText("was used before").waitFor();
      await second.context().close();
    });

    it("leads from Now to the first failure in two clicks", async () => {
      await open("/");
      await shot("now");
      await page.locator("a.item", { hasText: "transform" }).first().click();
      await page.getByRole("complementary", { name: "Task transform" }).getByText("exited with code 3").first().waitFor();
      await page.getByText("column amount is missing in row 17").first().waitFor();
      await shot("run");
      await open(`/r/${failed.id}`);
      await page.getByRole("complementary", { name: "Task transform" }).waitFor();
      assert.match(page.url(), /task=transform/, "a run opens on its first failure");
      await page.keyboard.press("3");
      await page.locator(".gantt canvas").waitFor();
      await shot("gantt");
    });

    it("reads a log while it grows", async () => {
      const run = await server.start("importer");
      await open(`/r/${run.id}/log?task=import`);
      await page.getByText("line 5 of the import").waitFor();
      const count = () => page.locator(".log .line").last().locator(".number").innerText().then(Number);
      const first = await count();
      await server.until("more lines are there", async () => (await count()) > first + 5);
      await shot("log");
      await page.getByPlaceholder("Search the whole log").fill("line 7 ");
      await page.keyboard.press("Enter");
      await page.getByText(/1 lines with/).waitFor();
      await server.api("POST", `/workflow-runs/${run.id}/cancel`, {});
    });

    it("retries with changed inputs and sees it live", async () => {
      await open(`/r/${failed.id}?task=transform`);
      await page.getByRole("button", { name: "Retry", exact: true }).click();
      await dialog().getByLabel("Reason").fill("try once more");
      await dialog().getByRole("button", { name: "Retry" }).click();
      await page.getByText("is tried again").first().waitFor();
      await server.ends(failed.id, "failed");
      await page.getByRole("link", { name: "Actions" }).click();
      await page.getByText("try once more").waitFor();
    });

    it("skips, and the run goes on", async () => {
      await open(`/r/${failed.id}?task=transform`);
      await page.getByRole("button", { name: "Skip", exact: true }).click();
      await dialog().getByRole("button", { name: "Skip" }).click();
      await server.ends(failed.id, "success");
      await page.locator("header .status", { hasText: "success" }).first().waitFor();
    });

    it("reruns from a task", async () => {
      const run = await server.start("nightly-etl", { inputs: { region: "eu" } });
      await server.ends(run.id, "failed");
      await open(`/r/${run.id}?task=extract`);
      await page.getByRole("button", { name: "Rerun from here" }).click();
      await dialog().getByRole("button", { name: "Rerun" }).click();
      await page.getByText("reopened 1×").waitFor();
      await server.ends(run.id, "failed");
    });

    it("approves", async () => {
      const run = await server.start("release");
      await server.until("it waits", async () => (await server.api("GET", "/approvals")).items.some((one) => one.workflow_run_id === run.id));
      await open("/");
      await page.locator("a.item", { hasText: "Release to production?" }).click();
      await page.getByRole("button", { name: "Approve", exact: true }).click();
      await dialog().getByRole("button", { name: "Approve" }).click();
      await server.ends(run.id, "success");
    });

    it("starts a run by form, also wrongly", async () => {
      await open("/w/default/nightly-etl/start");
      await page.getByLabel("rows").fill("900000");
      await page.getByRole("button", { name: "Start", exact: true }).click();
      await page.getByRole("alert").waitFor();
      await shot("start");
      await page.getByLabel("rows").fill("77");
      await page.getByLabel("region").selectOption("us");
      await page.getByRole("button", { name: "Start", exact: true }).click();
      await page.waitForURL(/\/ui\/r\//);
      const id = page.url().match(/\/r\/([0-9a-f-]+)/)[1];
      const run = await server.ends(id, "success");
      assert.equal(run.inputs.rows, 77);
    });

    it("cancels all that match, after a look", async () => {
      for (let i = 0; i < 3; i++) await server.start("importer");
      await open("/runs?workflow=importer&status=running");
      await page.getByRole("button", { name: "Cancel…" }).click();
      await dialog().getByText(/would cancel 3 runs/).waitFor();
      const open_runs = await server.api("GET", "/workflow-runs?workflow=importer&status=running");
      assert.equal(open_runs.items.length, 3, "a look does nothing");
      await shot("bulk");
      await dialog().getByRole("button", { name: "Cancel 3" }).click();
      await dialog().locator(".results li", { hasText: "is being cancelled" }).nth(2).waitFor();
    });

    it("pauses a schedule and sees it in the calendar", async () => {
      await open("/w/default/heartbeat?tab=schedule");
      await page.locator("tr", { hasText: "morning" }).getByRole("button", { name: "Pause" }).click();
      await dialog().getByRole("button", { name: "Pause" }).click();
      await page.locator("tr", { hasText: "morning" }).getByText("paused").waitFor();
      await open("/calendar");
      await page.locator("tr", { hasText: "morning" }).getByRole("cell", { name: "paused", exact: true }).waitFor();
      await shot("calendar");
    });

    it("edits a workflow, is told what is wrong, and sees the difference", async () => {
      await open("/w/default/heartbeat?tab=yaml");
      const editor = page.locator("code-editor .cm-content");
      await editor.waitFor();
      await editor.click();
      await page.keyboard.press("Control+End");
      await page.keyboard.type("  nonsense: {rum: echo}\n");
      await page.getByText(/wrong\./).waitFor();
      await page.getByRole("button", { name: "Undo all" }).click();
      await page.locator("code-editor .cm-content", { hasText: "nonsense" }).waitFor({ state: "detached" });
      await editor.click();
      await page.keyboard.press("Control+End");
      await page.keyboard.type("  extra: {needs: record, run: echo more}\n");
      await page.getByText("the server finds nothing wrong").waitFor();
      await page.getByRole("button", { name: "Look and save…" }).click();
      await dialog().locator(".added", { hasText: "extra" }).waitFor();
      await shot("diff");
      await dialog().getByRole("button", { name: "Save" }).click();
      await page.getByText("Version 2 is stored").first().waitFor();
      await page.getByText("v2", { exact: true }).waitFor();
    });

    it("finds by words with the keyboard alone", async () => {
      await open("/");
      await page.getByRole("heading", { name: "Now", exact: true }).waitFor();
      await page.keyboard.press("Control+k");
      await page.keyboard.type("nightly");
      await page.locator("[role=option]", { hasText: "nightly-etl" }).first().waitFor();
      await shot("search");
      await page.keyboard.press("Enter");
      await page.waitForURL(/nightly-etl|\/r\//);
      await page.keyboard.press("g");
      await page.keyboard.press("r");
      await page.getByRole("heading", { name: /^Runs/ }).waitFor();
      await page.locator("[data-row]").first().waitFor();
      await page.keyboard.press("j");
      await page.keyboard.press("j");
      await page.keyboard.press("Enter");
      await page.waitForURL(/\/ui\/r\//);
    });

    it("shows hostile lines as text", async () => {
      const run = await server.start("hostile");
      await server.ends(run.id, "success");
      await open(`/r/${run.id}/log?task=print`);
      await page.getByText("<script>alert(1)</script>").waitFor();
      await page.locator(".fg1", { hasText: "red" }).waitFor();
      await page.getByText("⟨U+202E⟩").waitFor();
      assert.equal(await page.locator(".log img, .log script").count(), 0);
    });

    it("makes at most two requests per page before it is live", async () => {
      const pages = ["/", "/workflows", "/runs", `/r/${failed.id}?view=list`, "/w/default/nightly-etl", "/w/default/nightly-etl?tab=graph", "/w/default/nightly-etl?tab=yaml", "/w/default/nightly-etl?tab=schedule", "/w/default/nightly-etl/start", "/calendar", "/jobs", "/events", "/workers", "/admin"];
      for (const path of pages) {
        page.requests.length = 0;
        await open(path);
        await page.waitForLoadState("networkidle");
        assert.ok(page.requests.length <= 2, `${path}: ${page.requests.join(", ")}`);
      }
    });

    it("is accessible in both themes and has no violation of its policy", async () => {
      const pages = { "/": "now", "/workflows": "workflows", "/runs": "runs", [`/r/${failed.id}?task=transform`]: null, "/w/default/nightly-etl": "grid", "/w/default/nightly-etl/start": null, "/calendar": null, "/jobs": "jobs", "/events": "events", "/workers": "workers", "/admin": "admin", "/dlq": null };
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        for (const [path, name] of Object.entries(pages)) {
          await open(path);
          await page.locator("main h1, main h2").first().waitFor();
          await page.waitForTimeout(400);
          const found = await serious(page);
          assert.deepEqual(found, [], `${path} ${colorScheme}`);
          if (name) await shot(`${name}${colorScheme === "dark" ? "-dark" : ""}`);
        }
      }
      await page.emulateMedia({ colorScheme: "light" });
    });

    it("works at 360 pixels", async () => {
      const narrow = await openPage(browser, { viewport: { width: 360, height: 740 } });
      await narrow.goto(await server.address_for());
      await narrow.getByRole("heading", { name: "Now", exact: true }).waitFor();
      for (const path of ["/", `/r/${failed.id}`, `/r/${failed.id}/log`, "/runs"]) {
        await narrow.goto(`${server.address}/ui${path}`);
        await narrow.locator("main h1, main h2").first().waitFor();
        await narrow.waitForTimeout(300);
        const width = await narrow.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(width <= 360, `${path} is ${width} pixels wide`);
      }
      const run = await server.start("nightly-etl", { inputs: { region: "eu" } });
      await server.ends(run.id, "failed");
      await narrow.goto(`${server.address}/ui/r/${run.id}`);
      await narrow.getByRole("button", { name: "Retry", exact: true }).click();
      await narrow.locator("dialog[open]").getByRole("button", { name: "Retry" }).click();
      await narrow.getByText("is tried again").first().waitFor();
      if (shots && kind === "sqlite") await narrow.screenshot({ path: `${images}/narrow.png` });
      assert.deepEqual(narrow.troubles, []);
      await narrow.context().close();
    });

    it("offers a viewer nothing that would be refused", async () => {
      const token = await server.newToken("looker", "viewer");
      const looker = await openPage(browser);
      await looker.goto(await server.address_for(token));
      await looker.getByRole("heading", { name: "Now", exact: true }).waitFor();
      for (const path of ["/runs", `/r/${failed.id}?task=transform`, "/w/default/heartbeat?tab=schedule", "/w/default/heartbeat?tab=yaml", "/w/default/nightly-etl/start", "/calendar", "/workers", "/events", "/jobs", "/workflows"]) {
        await looker.goto(`${server.address}/ui${path}`);
        await looker.locator("main h1, main h2").first().waitFor();
        await looker.waitForTimeout(300);
        for (const name of ["Cancel", "Retry", "Rerun from here", "Skip", "Resolve", "Pause", "Resume", "Drain", "Start", "Look and save…", "Announce an event…"]) {
          assert.equal(await looker.locator("main").getByRole("button", { name, exact: true }).count(), 0, `${path} offers ${name}`);
        }
      }
      assert.equal(await looker.getByRole("link", { name: "Admin" }).count(), 0);
      assert.deepEqual(looker.troubles, []);
      await looker.context().close();
    });

    it("goes on after a session that ended in the middle of an action", async () => {
      const run = await server.start("nightly-etl", { inputs: { region: "eu" } });
      await server.ends(run.id, "failed");
      await open(`/r/${run.id}?task=transform`);
      await page.getByRole("button", { name: "Retry", exact: true }).click();
      await page.context().clearCookies();
      await dialog().getByRole("button", { name: "Retry" }).click();
      await page.getByText("Your session is over").waitFor();
      await page.getByLabel("Token").fill(server.token);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByText("is tried again").first().waitFor();
    });

    it("keeps what it shows while the server is away, and goes on when it is back", async () => {
      await open("/");
      await page.getByRole("heading", { name: "Now", exact: true }).waitFor();
      await page.waitForTimeout(300);
      const listen = new URL(server.address).host;
      await server.kill();
      await page.getByText("Not connected").waitFor();
      assert.ok(await page.getByRole("heading", { name: "Next fires" }).isVisible());
      await server.launch(listen);
      await page.getByText("Not connected").waitFor({ state: "detached", timeout: 60_000 });
    });

    it("saw no violation and no error on any page", () => {
      assert.deepEqual(page.troubles, []);
    });
  });
}
