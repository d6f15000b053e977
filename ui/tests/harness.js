// A real server on a throwaway database, and a browser that notices what it should not have to.
import { spawn, execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const root = resolve(fileURLToPath(new URL("../..", import.meta.url)));
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
export const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

function binary() {
  return process.env.MAINSPRING_TEST_BINARY ?? join(process.env.CARGO_TARGET_DIR ?? join(root, "target"), "debug/mainspring");
}

/** Databases to test on: SQLite always, PostgreSQL where a server is named. */
export const DATABASES = process.env.MAINSPRING_TEST_POSTGRES ? ["sqlite", "postgres"] : ["sqlite"];

function database(kind, folder) {
  if (kind === "sqlite") return { url: `sqlite://${join(folder, "mainspring.db")}`, remove: () => undefined };
  const server = process.env.MAINSPRING_TEST_POSTGRES;
  const name = `ui_${process.pid}_${Math.random().toString(36).slice(2, 8)}`;
  execFileSync("psql", [server, "-qc", `CREATE DATABASE ${name}`]);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return { url: url.toString(), remove: () => execFileSync("psql", [server, "-qc", `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`]) };
}

export class Server {
  static async start(kind, more = {}) {
    const folder = mkdtempSync(join(tmpdir(), "mainspring-ui-"));
    const made = database(kind, folder);
    const server = new Server();
    Object.assign(server, { folder, made, kind, more });
    await server.launch("127.0.0.1:0");
    return server;
  }

  async launch(listen) {
    // What is meant for the tests is no configuration of the server.
    const own = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^MAINSPRING_(TEST|UPDATE|BENCH)_/.test(name)));
    const env = { ...own, MAINSPRING_HTTP_ALLOW: "127.0.0.1", MAINSPRING_WORKER_SERVES_REMOTE: "true", ...this.more };
    this.process = spawn(binary(), ["server", "--database", this.made.url, "--listen", listen], { env, cwd: this.folder });
    let text = "";
    this.process.stderr.resume();
    const seen = (pattern) =>
      new Promise((done, fail) => {
        const look = () => {
          const match = text.match(pattern);
          if (match) done(match[1]);
        };
        this.process.stdout.on("data", (data) => {
          text += data;
          look();
        });
        this.process.on("exit", (code) => fail(new Error(`the server ended with ${code}: ${text}`)));
        look();
      });
    if (!this.token) {
      this.token = await seen(/admin token, shown this once: (\S+)/);
      this.printed = await seen(/open (\S+)/);
    }
    this.address = await seen(/listening on (\S+)/);
    for (let i = 0; i < 400; i++) {
      const ready = await fetch(`${this.address}/ready`).catch(() => null);
      if (ready?.ok) return;
      await new Promise((done) => setTimeout(done, 50));
    }
    throw new Error("the server is not ready");
  }

  async api(method, path, body, token = this.token, type = "application/json") {
    const response = await fetch(`${this.address}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, ...(body === undefined ? {} : { "content-type": type }) },
      body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === "" ? null : JSON.parse(text);
  }

  store(yaml) {
    return this.api("POST", "/workflows", yaml, this.token, "application/yaml");
  }

  start(workflow, body = {}) {
    return this.api("POST", `/workflows/${workflow}/trigger`, body);
  }

  async until(what, look, seconds = 60) {
    const end = Date.now() + seconds * 1000;
    for (;;) {
      const found = await look();
      if (found) return found;
      if (Date.now() > end) throw new Error(`waited in vain until ${what}`);
      await new Promise((done) => setTimeout(done, 100));
    }
  }

  ends(run, status) {
    return this.until(`${run} is ${status}`, async () => {
      const shown = await this.api("GET", `/workflow-runs/${run}`);
      return shown.status === status ? shown : null;
    });
  }

  /** A fresh address that signs in as the holder of a token. */
  async address_for(token = this.token) {
    const { code } = await this.api("POST", "/auth/codes", undefined, token);
    return `${this.address}/ui/#code=${code}`;
  }

  async newToken(name, role, namespace = "*") {
    return (await this.api("POST", "/auth/tokens", { name, grants: [{ namespace, role }] })).token;
  }

  kill() {
    return new Promise((done) => {
      if (this.process.exitCode !== null) return done();
      this.process.on("exit", done);
      this.process.kill("SIGKILL");
    });
  }

  async stop() {
    await new Promise((done) => {
      if (this.process.exitCode !== null) return done();
      this.process.on("exit", done);
      this.process.kill("SIGTERM");
      setTimeout(() => this.process.kill("SIGKILL"), 8000).unref();
    });
    this.made.remove();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export async function openBrowser() {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
}

/** A page that collects violations of the policy, errors of scripts and requests. */
export async function openPage(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, timezoneId: "Europe/Berlin", locale: "en-GB", ...options });
  const page = await context.newPage();
  page.troubles = [];
  page.requests = [];
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => console.error(`CSP ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile ?? ""}:${event.lineNumber}`));
  });
  page.on("console", (message) => {
    const text = message.text();
    if (message.type() === "error" && !/Failed to load resource|WebSocket connection/.test(text)) page.troubles.push(text);
  });
  page.on("pageerror", (error) => page.troubles.push(`${error.message}\n${error.stack}`));
  page.on("request", (request) => {
    const path = new URL(request.url()).pathname;
    if (path.startsWith("/api/") || path === "/ui/session") page.requests.push(`${request.method()} ${path}`);
  });
  page.setDefaultTimeout(20_000);
  return page;
}

/** What axe finds that is serious or worse. */
export async function serious(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations.filter((one) => ["serious", "critical"].includes(one.impact)).map((one) => `${one.id}: ${one.help} (${one.nodes.slice(0, 3).map((node) => node.target.join(" ")).join("; ")})`);
}

export const images = join(root, "docs/images/ui");
