// The pictures of docs/ui.md: every page in both themes, on a narrow screen, and as people see them whose eyes tell colours
// apart differently. MAINSPRING_UPDATE_SCREENSHOTS=1 writes them; otherwise they only have to come about.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { Server, images, openBrowser, openPage } from "./harness.js";
import { seed } from "./seed.js";

const keeps = process.env.MAINSPRING_UPDATE_SCREENSHOTS === "1";

describe("the pictures of the manual", { concurrency: false }, () => {
  const folder = keeps ? images : mkdtempSync(join(tmpdir(), "mainspring-pictures-"));
  const taken = new Set();
  let server;
  let browser;
  let page;
  let runs;

  const open = async (path) => {
    await page.goto(`${server.address}/ui${path}`);
    await page.locator("main h1:visible, main h2:visible").first().waitFor();
    await page.getByText("Reading…").waitFor({ state: "detached" });
    // What is drawn on a canvas says nothing of when it is done.
    await page.waitForTimeout(600);
  };
  const take = async (name) => {
    const path = join(folder, `${name}.png`);
    await page.screenshot({ path });
    assert.ok(statSync(path).size > 10_000, `${name} is empty`);
    taken.add(`${name}.png`);
  };
  const dialog = () => page.locator("dialog[open]");

  before(async () => {
    mkdirSync(folder, { recursive: true });
    server = await Server.start("sqlite");
    browser = await openBrowser();
    page = await openPage(browser);
    runs = await seed(server);
    await page.goto(server.printed);
    await page.getByRole("heading", { name: "Now", exact: true }).waitFor();
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  it("shows every page", async () => {
    const [group] = (await server.api("GET", "/dlq/groups?workflow=nightly-etl")).items;
    const pages = {
      now: "/", workflows: "/workflows", grid: "/w/default/nightly-etl", graph: "/w/default/nightly-etl?tab=graph", schedule: "/w/default/invoice-export?tab=schedule", yaml: "/w/default/nightly-etl?tab=yaml", statistics: "/w/default/nightly-etl?tab=statistics",
      run: `/r/${runs.failed.id}`, gantt: `/r/${runs.failed.id}?view=gantt`, approval: `/r/${runs.release.id}?task=approve`, log: `/r/${runs.failed.id}/log?task=join`, runs: "/runs", "dead-letters": "/dlq", group: `/dlq/${group.fingerprint}`, calendar: "/calendar", jobs: "/jobs", events: "/events", workers: "/workers", admin: "/admin",
    };
    for (const [name, path] of Object.entries(pages)) {
      await open(path);
      await take(name);
    }
    await page.emulateMedia({ colorScheme: "dark" });
    for (const name of ["now", "run", "workflows", "workers"]) {
      await open(pages[name]);
      await take(`${name}-dark`);
    }
    await page.emulateMedia({ colorScheme: "light" });
  });

  it("shows dialogs and forms", async () => {
    await open("/w/default/nightly-etl/start");
    await page.getByLabel("rows").fill("900000");
    await page.getByText(/at most|100000|100 000/).last().waitFor();
    await take("start");
    await open("/runs?workflow=train-model&status=running");
    await page.getByRole("button", { name: "Cancel…" }).click();
    await dialog().getByText(/would cancel 2 runs/).waitFor();
    await take("bulk");
    await open("/w/default/invoice-export?tab=yaml");
    const editor = page.locator("code-editor .cm-content");
    await editor.click();
    await page.keyboard.press("Control+End");
    await page.keyboard.type("  archive: {needs: upload, run: echo archived}\n");
    await page.getByText("the server finds no problems").waitFor();
    await page.getByRole("button", { name: "Review and save…" }).click();
    await dialog().locator(".added").first().waitFor();
    await take("diff");
    await open("/");
    await page.keyboard.press("Control+k");
    await page.keyboard.type("nightly");
    await page.locator("[role=option]", { hasText: "nightly-etl" }).first().waitFor();
    await take("search");
  });

  it("is read with every kind of colour vision", async () => {
    const devtools = await page.context().newCDPSession(page);
    for (const type of ["protanopia", "deuteranopia", "tritanopia"]) {
      await open("/w/default/nightly-etl");
      await devtools.send("Emulation.setEmulatedVisionDeficiency", { type });
      await take(`vision-${type}`);
    }
    await devtools.send("Emulation.setEmulatedVisionDeficiency", { type: "none" });
    await devtools.detach();
  });

  it("fits a telephone", async () => {
    await page.setViewportSize({ width: 360, height: 740 });
    for (const [name, path] of [["narrow-now", "/"], ["narrow-run", `/r/${runs.failed.id}`], ["narrow-log", `/r/${runs.failed.id}/log?task=join`]]) {
      await open(path);
      await take(name);
    }
  });

  it("has every picture that the manual and the README show", () => {
    for (const file of ["../../docs/ui.md", "../../README.md"]) {
      const text = readFileSync(new URL(file, import.meta.url), "utf8");
      for (const [, name] of text.matchAll(/images\/ui\/([\w-]+\.png)/g)) {
        assert.ok(taken.has(name), `${file} shows ${name}, which this test does not make`);
        assert.ok(existsSync(join(images, name)), `${name} is not there: run MAINSPRING_UPDATE_SCREENSHOTS=1 make ui-test`);
      }
    }
    assert.deepEqual(page.troubles, []);
  });
});
