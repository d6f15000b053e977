// The walk: what a person does from the printed address on, in a real browser against the real program.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { APPROVAL, BROKEN, GOOD, GROWING, HOSTILE, TALKING, healing, large } from "./fixtures.js";
import { DATABASES, Server, openBrowser, openPage, serious } from "./harness.js";

for (const kind of DATABASES) {
  describe(`the interface on ${kind}`, { concurrency: false }, () => {
    let server;
    let browser;
    let page;
    let failed;

    const open = (path) => page.goto(`${server.address}/ui${path}`);
    const dialog = () => page.locator("dialog[open]");
    before(async () => {
      server = await Server.start(kind);
      browser = await openBrowser();
      page = await openPage(browser);
      for (const text of [BROKEN, GOOD, GROWING, APPROVAL, HOSTILE, TALKING, large(200)]) await server.store(text);
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
      await page.locator(".item a[data-row]", { hasText: "transform" }).first().click();
      await page.getByRole("complementary", { name: "Task transform" }).getByText("exited with code 3").first().waitFor();
      await page.getByText("column amount is missing in row 17").first().waitFor();
      await open(`/r/${failed.id}`);
      await page.getByRole("complementary", { name: "Task transform" }).waitFor();
      assert.match(page.url(), /task=transform/, "a run opens on its first failure");
      await page.keyboard.press("3");
      await page.locator(".gantt canvas").waitFor();
    });

    it("reads a log while it grows", async () => {
      const run = await server.start("importer");
      await open(`/r/${run.id}/log?task=import`);
      await page.getByText("line 5 of the import").waitFor();
      const count = () => page.locator(".log .line").last().locator(".number").innerText().then(Number);
      const first = await count();
      await server.until("more lines are there", async () => (await count()) > first + 5);
      await page.getByPlaceholder("Search the whole log").fill("line 7 ");
      await page.keyboard.press("Enter");
      await page.getByText(/1 line with/).waitFor();
      await server.api("POST", `/workflow-runs/${run.id}/cancel`, {});
    });

    it("numbers lines by their place in the whole log, and links to each", async () => {
      const run = await server.start("talking");
      await server.ends(run.id, "success");
      await open(`/r/${run.id}/log?task=talk`);
      await page.getByText("word 3000", { exact: true }).waitFor();
      assert.equal(await page.locator(".log .line").last().locator(".number").innerText(), "", "the number of a line is not known before the beginning is there");
      await page.getByPlaceholder("Search the whole log").fill("word 1500");
      await page.keyboard.press("Enter");
      await page.getByText(/1 line with/).waitFor();
      await page.locator(".log .line.hit a.number").click();
      await page.waitForURL(/line=1500/);
      await page.locator(".log .line.target", { hasText: "word 1500" }).locator(".number", { hasText: "1500" }).waitFor();
      assert.equal(await page.getByPlaceholder("Search the whole log").inputValue(), "");
      await page.reload();
      await page.locator(".log .line.target", { hasText: "word 1500" }).waitFor();
    });

    it("retries with a reason that the history keeps", async () => {
      await open(`/r/${failed.id}?task=transform`);
      await page.getByRole("button", { name: "Retry", exact: true }).click();
      await dialog().getByLabel("Reason").fill("try once more");
      await dialog().getByRole("button", { name: "Retry" }).click();
      await page.getByText("is retried").first().waitFor();
      await server.ends(failed.id, "failed");
      await page.getByRole("link", { name: "Actions" }).click();
      await page.getByText("try once more").waitFor();
    });

    it("repairs with changed inputs, also wrongly", async () => {
      const run = await server.start("nightly-etl", { inputs: { region: "eu" } });
      await server.ends(run.id, "failed");
      await open(`/r/${run.id}?task=transform`);
      await page.getByRole("button", { name: "Retry", exact: true }).click();
      await dialog().getByLabel(/Change the inputs/).check();
      const inputs = dialog().getByLabel("Inputs as JSON");
      await inputs.fill("{region: us}");
      await dialog().getByRole("button", { name: "Retry" }).click();
      await dialog().getByRole("alert").getByText("not JSON").waitFor();
      await inputs.fill('{"region": "mars"}');
      await dialog().getByRole("button", { name: "Retry" }).click();
      await dialog().getByRole("alert").getByText("region").first().waitFor();
      await inputs.fill('{"region": "us"}');
      await dialog().getByRole("button", { name: "Retry" }).click();
      await page.getByText("with changed inputs").first().waitFor();
      const done = await server.ends(run.id, "success");
      assert.equal(done.inputs.region, "us");
      await page.locator("header .status", { hasText: "success" }).first().waitFor();
    });

    it("heals one of a group of dead letters, then all", async () => {
      const file = join(server.folder, "partner-answers");
      await server.store(healing(file));
      const runs = [];
      for (let i = 0; i < 3; i++) runs.push(await server.start("partner-export"));
      for (const run of runs) await server.ends(run.id, "failed");
      await open("/");
      await page.getByRole("link", { name: "3 with this cause" }).first().click();
      await page.waitForURL(/\/dlq\//);
      await page.getByRole("heading", { name: /partner-export/ }).waitFor();
      writeFileSync(file, "");
      await page.getByRole("button", { name: "Retry…" }).click();
      await dialog().getByLabel("Reason").fill("the partner is back");
      await dialog().getByRole("button", { name: "Try one" }).click();
      await dialog().getByText("is retried").waitFor();
      await server.until("one is healed", async () => (await server.api("GET", "/workflow-runs?workflow=partner-export&status=success")).items.length === 1);
      await dialog().getByRole("button", { name: "Then all…" }).click();
      await dialog().getByRole("button", { name: "Look first" }).click();
      await dialog().getByText("would act on 2 dead letters").waitFor();
      await dialog().getByRole("button", { name: "All 2" }).click();
      await dialog().getByText("2 of 2 are retried").waitFor();
      for (const run of runs) await server.ends(run.id, "success");
      await dialog().getByRole("button", { name: "Close" }).last().click();
      await page.reload();
      await page.getByText("This group has no pending dead letters").waitFor();
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
      for (const other of ["trigger=cron", "longer=60", "status=success", "tag=none"]) {
        await open(`/runs?workflow=importer&${other}`);
        await page.getByRole("button", { name: "Cancel…" }).click();
        await dialog().getByText("No run matches").waitFor();
        await page.keyboard.press("Escape");
      }
      await open("/runs?workflow=importer&status=running");
      await page.getByRole("button", { name: "Cancel…" }).click();
      await dialog().getByText(/would cancel 3 runs/).waitFor();
      const open_runs = await server.api("GET", "/workflow-runs?workflow=importer&status=running");
      assert.equal(open_runs.items.length, 3, "a look does nothing");
      await dialog().getByRole("button", { name: "Cancel 3" }).click();
      await dialog().locator(".results li", { hasText: "is being cancelled" }).nth(2).waitFor();
    });

    it("runs again what was chosen, as new runs", async () => {
      await open("/runs?workflow=heartbeat&status=success");
      await page.getByRole("checkbox").first().check();
      await page.getByRole("button", { name: "Rerun…" }).click();
      await dialog().getByText("would rerun 1 run.").waitFor();
      await dialog().getByRole("button", { name: "Rerun 1" }).click();
      await dialog().locator(".results li", { hasText: "as a new run" }).waitFor();
      await server.until("there is one more", async () => (await server.api("GET", "/workflow-runs?workflow=heartbeat&status=success")).items.length === 9);
    });

    it("shows the same hour of the clock before and after it is changed", async () => {
      const year = new Date().getFullYear() + 1;
      const change = 31 - new Date(Date.UTC(year, 2, 31)).getUTCDay();
      await open(`/calendar?from=${year}-03-${change - 3}`);
      for (const day of [change - 2, change + 1]) await page.locator(`[data-hour="${year}-03-${day} 07"]`, { hasText: ":30 heartbeat" }).waitFor();
      await page.locator(".head", { hasText: "+02:00" }).waitFor();
      // What fires every minute from then on is counted, and hides nothing of what fires seldom.
      await server.store(`name: often\ntriggers: [{cron: "* * * * *", start: "${year}-03-${change - 3}T00:00:00Z"}]\ntasks: {a: {function: noop}}\n`);
      await page.reload();
      await page.getByText("those of schedules that fire often are counted by the hour").waitFor();
      for (const day of [change - 2, change + 1]) await page.locator(`[data-hour="${year}-03-${day} 07"]`, { hasText: /:30 heartbeat\s*\+6[01]/ }).waitFor();
      await page.locator(`[data-hour="${year}-03-${change + 1} 07"]`).click();
      await page.getByRole("dialog", { name: "Fires of the hour" }).waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("dialog", { name: "Fires of the hour" }).waitFor({ state: "detached" });
    });

    it("pauses a schedule and sees it in the calendar", async () => {
      await open("/w/default/heartbeat?tab=schedule");
      await page.locator("tr", { hasText: "morning" }).getByRole("button", { name: "Pause" }).click();
      await dialog().getByRole("button", { name: "Pause" }).click();
      await page.locator("tr", { hasText: "morning" }).getByText("paused").waitFor();
      await open("/calendar");
      await page.locator("tr", { hasText: "morning" }).getByRole("cell", { name: "paused", exact: true }).waitFor();
    });

    it("pauses a queue, says who did it and why, and resumes it", async () => {
      await server.store("name: training\ntasks: {train: {queue: gpu, run: echo trained}}\n");
      await open("/workers");
      await page.getByRole("button", { name: "Pause…" }).click();
      await dialog().getByText("No task is started in any namespace until it is resumed").waitFor();
      await dialog().getByLabel("Queue").fill("gpu");
      await dialog().getByLabel("Reason").fill("a new driver");
      await dialog().getByRole("button", { name: "Pause queue gpu" }).click();
      const banner = (on) => on.getByRole("region", { name: "Paused" });
      await banner(page).getByText("No task of queue gpu is started in any namespace").waitFor();
      const run = await server.start("training");
      await server.until("its task is ready", async () => (await server.api("GET", `/workflow-runs/${run.id}/tasks`)).items[0].status === "ready");
      for (const [path, heading] of [["/", "Now"], ["/workers", "Workers"]]) {
        for (const colorScheme of ["light", "dark"]) {
          await page.emulateMedia({ colorScheme });
          page.requests.length = 0;
          await open(path);
          await page.getByRole("heading", { name: heading, exact: true }).waitFor();
          await banner(page).getByText(/Paused by .*: a new driver\. What runs goes on\./).waitFor();
          await page.locator("tr", { hasText: "gpu" }).getByText("paused", { exact: true }).waitFor();
          assert.ok(page.requests.length <= 2, page.requests.join(", "));
          assert.deepEqual(await serious(page), [], `${path} ${colorScheme}`);
        }
      }
      await page.emulateMedia({ colorScheme: "light" });
      await page.setViewportSize({ width: 360, height: 740 });
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360);
      await page.setViewportSize({ width: 1280, height: 800 });

      // Whoever has a role in one namespace pauses there alone, and does not resume what holds everywhere; a viewer looks.
      const [sales, looker] = [await openPage(browser), await openPage(browser)];
      await sales.goto(await server.address_for(await server.newToken("sales-operator", "operator", "sales")));
      await banner(sales).getByText("a new driver").waitFor();
      assert.equal(await sales.getByRole("button", { name: "Resume queue gpu" }).count(), 0);
      await sales.getByRole("button", { name: "Pause…" }).click();
      await sales.locator("dialog[open]").getByRole("button", { name: "Pause namespace sales" }).click();
      await banner(sales).getByText("No task is started in namespace sales").waitFor();
      await banner(sales).getByRole("button", { name: "Resume namespace sales" }).click();
      await sales.locator("dialog[open]").getByRole("button", { name: "Resume" }).click();
      await banner(sales).getByText("No task is started in namespace sales").waitFor({ state: "detached" });
      await looker.goto(await server.address_for(await server.newToken("pause-looker", "viewer")));
      await banner(looker).getByText("a new driver").waitFor();
      assert.equal(await looker.getByRole("button", { name: /^(Pause|Resume)/ }).count(), 0);
      for (const other of [sales, looker]) {
        assert.deepEqual(other.troubles, []);
        await other.context().close();
      }

      await open("/");
      await page.getByRole("button", { name: "Resume queue gpu" }).click();
      await dialog().getByRole("button", { name: "Resume" }).click();
      await banner(page).waitFor({ state: "detached" });
      await server.ends(run.id, "success");
    });

    it("edits a workflow, is told what is wrong, and sees the difference", async () => {
      await open("/w/default/heartbeat?tab=yaml");
      const editor = page.locator("code-editor .cm-content");
      await editor.waitFor();
      await editor.click();
      await page.keyboard.press("Control+End");
      await page.keyboard.type("  nonsense: {rum: echo}\n");
      await page.getByText(/\d problems?\./).waitFor();
      await page.getByRole("button", { name: "Undo all" }).click();
      await page.locator("code-editor .cm-content", { hasText: "nonsense" }).waitFor({ state: "detached" });
      await editor.click();
      await page.keyboard.press("Control+End");
      await page.keyboard.type("  extra: {needs: record, run: echo more}\n");
      await page.getByText("the server finds no problems").waitFor();
      // Another tab keeps the text; another page would lose it, and is left only if the person says so.
      await page.getByRole("link", { name: "Statistics" }).click();
      await page.getByRole("link", { name: "YAML" }).click();
      await page.locator("code-editor .cm-content", { hasText: "extra" }).waitFor();
      const asked = page.waitForEvent("dialog");
      await Promise.all([asked.then((one) => one.dismiss()), page.getByRole("link", { name: "Runs", exact: true }).first().click()]);
      assert.match(page.url(), /heartbeat\?tab=yaml/);
      await page.getByRole("button", { name: "Review and save…" }).click();
      await dialog().locator(".added", { hasText: "extra" }).waitFor();
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

    it("does the whole by keyboard", async () => {
      const run = await server.start("nightly-etl", { inputs: { region: "eu" } });
      await server.ends(run.id, "failed");
      await open("/");
      await page.getByRole("heading", { name: "Now", exact: true }).waitFor();
      await page.locator("[data-row]").first().waitFor();
      const focused = () => page.evaluate(() => (document.activeElement?.matches("[data-row]") ? document.activeElement.textContent : ""));
      for (let i = 0; i < 40 && !(await focused()).includes("transform"); i++) await page.keyboard.press("j");
      assert.match(await focused(), /transform/);
      await page.keyboard.press("Enter");
      await page.getByRole("complementary", { name: "Task transform" }).getByText("exited with code 3").first().waitFor();
      // An action key opens a dialog and does nothing yet; Escape leaves it.
      await page.keyboard.press("t");
      await dialog().waitFor();
      await page.keyboard.press("Escape");
      await dialog().waitFor({ state: "detached" });
      await page.keyboard.press("t");
      await dialog().waitFor();
      await page.keyboard.press("Tab");
      await page.keyboard.type("by keyboard");
      await page.keyboard.press("Enter");
      await page.getByText("is retried").first().waitFor();
      for (const [key, name] of [["1", "List"], ["3", "Gantt"], ["5", "Actions"]]) {
        await page.keyboard.press(key);
        await page.locator(`.tabs a[aria-current=page]`, { hasText: name }).waitFor();
      }
      await page.getByText("by keyboard").first().waitFor();
      await page.keyboard.press("?");
      await dialog().getByText("Search and actions").waitFor();
      await page.keyboard.press("Escape");
      // A run is started without a pointer.
      await page.keyboard.press("g");
      await page.keyboard.press("w");
      await page.locator("[data-row]", { hasText: "nightly-etl" }).waitFor();
      await page.keyboard.press("/");
      await page.keyboard.type("nightly");
      await page.keyboard.press("Enter");
      await page.waitForURL(/q=nightly/);
      await page.locator("[data-row]").nth(1).waitFor({ state: "detached" });
      await page.keyboard.press("Tab");
      await page.locator("[data-row]").first().focus();
      await page.keyboard.press("Enter");
      await page.getByRole("link", { name: "Start…" }).waitFor();
      await page.keyboard.press("s");
      const rows = page.getByLabel("rows");
      await rows.waitFor();
      for (let i = 0; i < 40 && !(await rows.evaluate((one) => one === document.activeElement)); i++) await page.keyboard.press("Tab");
      await page.keyboard.press("Control+a");
      await page.keyboard.type("55");
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
      await page.getByText("more characters; download the log").waitFor();
    });

    it("makes at most two requests per page before it is live", async () => {
      const broken = await server.start("nightly-etl", { inputs: { region: "eu" } });
      await server.ends(broken.id, "failed");
      const pages = ["/", "/workflows", "/runs", `/r/${broken.id}`, `/r/${broken.id}?view=list`, `/r/${failed.id}?view=gantt`, "/dlq", "/dlq?tab=queue", "/dlq?tab=staleness", "/w/default/nightly-etl", "/w/default/nightly-etl?tab=graph", "/w/default/nightly-etl?tab=yaml", "/w/default/nightly-etl?tab=schedule", "/w/default/nightly-etl/start", "/calendar", "/jobs", "/events", "/workers", "/admin"];
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
      await narrow.getByText("is retried").first().waitFor();
      assert.deepEqual(narrow.troubles, []);
      await narrow.context().close();
    });

    it("offers a viewer nothing that would be refused", async () => {
      const token = await server.newToken("looker", "viewer");
      const looker = await openPage(browser);
      const waiting = await server.start("release");
      await server.until("it waits", async () => (await server.api("GET", "/approvals")).items.some((one) => one.workflow_run_id === waiting.id));
      const broken = await server.start("nightly-etl", { inputs: { region: "eu" } });
      await server.ends(broken.id, "failed");
      const [group] = (await server.api("GET", "/dlq/groups?workflow=nightly-etl")).items;
      await looker.goto(await server.address_for(token));
      await looker.getByRole("heading", { name: "Now", exact: true }).waitFor();
      for (const path of ["/", "/runs", "/runs?workflow=nightly-etl", `/r/${broken.id}`, `/r/${waiting.id}?task=approve`, "/dlq", `/dlq/${group.fingerprint}`, "/w/default/heartbeat", "/w/default/heartbeat?tab=schedule", "/w/default/heartbeat?tab=yaml", "/w/default/nightly-etl/start", "/calendar", "/workers", "/events", "/jobs", "/workflows"]) {
        await looker.goto(`${server.address}/ui${path}`);
        await looker.locator("main h1, main h2").first().waitFor();
        await looker.waitForTimeout(300);
        const offered = await looker.locator("main button, main a.button").allInnerTexts();
        const refused = /^(Cancel|Retry|Rerun|Skip|Resolve|Pause|Resume|Drain|Start|Approve|Reject|Review and save|Undo all|Announce|Run now|New token|Attempts|Revoke)/;
        assert.deepEqual(offered.filter((text) => refused.test(text.trim())), [], `${path} offers what would be refused`);
        assert.equal(await looker.locator("main input[type=checkbox][aria-label^=Choose]").count(), 0, path);
      }
      // The link of an action says what is missing instead of failing.
      await looker.goto(`${server.address}/ui/w/default/nightly-etl/start`);
      await looker.getByText("Starting needs the operator role").waitFor();
      await looker.goto(`${server.address}/ui/admin`);
      await looker.getByText("needs the role admin").waitFor();
      assert.equal(await looker.locator("main button").count(), 0);
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
      await page.getByText("is retried").first().waitFor();
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
