// A small company's work, so that pictures show pages as they look in use.
export const WORKFLOWS = [
  `
name: nightly-etl
description: Loads the orders of the day into the warehouse
tags: [etl, finance]
inputs:
  day: {type: date, default: "2026-03-01", description: The day to load}
  rows: {type: integer, default: 1000, min: 1, max: 100000, description: At most this many rows}
  region: {type: string, enum: [eu, us, apac], default: us}
triggers:
  - {id: nightly, cron: "30 2 * * *", timezone: Europe/Berlin}
tasks:
  extract-orders:
    run: |
      echo "reading \${{ inputs.rows }} rows of \${{ inputs.day }}"
      sleep 0.4
  extract-rates: {run: "sleep 0.2; echo rates of \${{ inputs.day }}"}
  extract-customers: {run: "sleep 0.3; echo '18 204 customers'"}
  join:
    needs: [extract-orders, extract-rates, extract-customers]
    run: |
      echo "joining rates and customers"
      sleep 0.3
      printf '\\033[33mWARN\\033[0m  rates are 26 hours old\\n'
      test "\${{ inputs.region }}" = us || { echo "column amount is missing in row 17" >&2; exit 3; }
      echo "joined \${{ inputs.rows }} rows"
    retry: {attempts: 2, delay: 200ms}
    on_exhausted: dead_letter
  check-quality: {needs: join, run: "sleep 0.2; echo 0 rows are wrong"}
  load-warehouse: {needs: check-quality, run: "sleep 0.3; echo loaded"}
  report: {needs: load-warehouse, run: "echo sent"}
  clean-up: {needs: load-warehouse, run: "echo cleaned"}
`,
  `
name: web-checks
description: Asks every shop whether it is there
tags: [monitoring]
triggers:
  - {id: often, every: 6h}
tasks:
  probe: {foreach: [berlin, oslo, rome, lisbon, dublin, vienna], run: "sleep 0.05; echo \${{ item }} answers"}
  record: {needs: probe, run: echo recorded}
`,
  `
name: invoice-export
description: Writes invoices for the bookkeeping
tags: [finance]
triggers:
  - {id: morning, cron: "15 7 * * 1-5", timezone: Europe/Berlin}
  - {id: month-end, cron: "0 20 28 * *", timezone: Europe/Berlin}
tasks:
  collect: {run: "sleep 0.1; echo 214 invoices"}
  sign: {needs: collect, run: "sleep 0.2; echo signed"}
  upload: {needs: sign, run: "sleep 0.1; echo uploaded"}
`,
  `
name: train-model
description: Trains the forecast of next week
tags: [ml]
inputs: {days: {type: integer, default: 90}}
triggers:
  - {id: weekly, cron: "0 4 * * 0", timezone: UTC}
tasks:
  fetch: {run: "sleep 0.2; echo fetched"}
  features: {needs: fetch, run: "sleep 0.3; echo 48 features"}
  train: {needs: features, run: "for i in $(seq 1 600); do echo \\"epoch $i loss 0.$((900 - i))\\"; sleep 0.25; done"}
  evaluate: {needs: train, run: echo evaluated}
  publish: {needs: evaluate, run: echo published}
`,
  `
name: release
description: Builds and releases the shop
tags: [delivery]
tasks:
  build: {run: "sleep 0.2; echo built"}
  test: {needs: build, run: "sleep 0.3; echo 1 204 tests passed"}
  approve: {needs: test, approval: {message: "Release 4.12 to production?"}}
  deploy: {needs: approve, run: echo deployed}
  announce: {needs: deploy, run: echo announced}
`,
  `
name: sync-inventory
description: Brings stock of the warehouses together
tags: [etl]
triggers:
  - {id: hourly, cron: "5 * * * *", timezone: Europe/Berlin}
tasks:
  pull: {run: "sleep 0.1; echo pulled"}
  merge: {needs: pull, run: "echo 'connection to 10.2.0.17:5432 refused' >&2; exit 1", retry: {attempts: 1}, on_exhausted: dead_letter}
  push: {needs: merge, run: echo pushed}
`,
  `
name: backup
description: Keeps a copy of the databases elsewhere
triggers:
  - {id: nightly, cron: "0 1 * * *", timezone: UTC}
tasks:
  dump: {foreach: [orders, customers, stock], run: "sleep 0.1; echo dumped \${{ item }}"}
  upload: {needs: dump, run: "sleep 0.2; echo uploaded"}
  verify: {needs: upload, run: "echo verified"}
`,
];

/** Stores the workflows and lets runs of every kind come about. */
export async function seed(server) {
  for (const yaml of WORKFLOWS) await server.store(yaml.trimStart());
  const wait = [];
  const start = async (workflow, status, body) => {
    const run = await server.start(workflow, body);
    if (status) wait.push([run.id, status]);
    return run;
  };
  await server.start("train-model");
  await server.start("train-model", { inputs: { days: 30 } });
  for (let i = 0; i < 12; i++) await start("web-checks", "success");
  for (let i = 0; i < 6; i++) await start("invoice-export", "success");
  for (let i = 0; i < 5; i++) await start("backup", "success");
  for (let i = 0; i < 3; i++) await start("sync-inventory", "failed");
  for (const region of ["us", "us", "apac", "us", "us", "eu", "us", "us"]) await start("nightly-etl", region === "us" ? "success" : "failed", { inputs: { region } });
  const failed = await start("nightly-etl", "failed", { inputs: { region: "eu", rows: 4242 } });
  const release = await server.start("release");
  for (const [id, status] of wait) await server.ends(id, status);
  await server.until("the release waits", async () => (await server.api("GET", "/approvals")).items.length > 0);
  await server.api("POST", "/scheduler/jobs/cron", { name: "purge-carts", schedule: "20 6 * * *", handler_name: "sleep", payload: { ms: 10 } });
  await server.api("POST", "/scheduler/jobs/interval", { name: "warm-cache", every: "8h", handler_name: "sleep", payload: { ms: 20 } });
  await server.api("POST", "/scheduler/event-handlers", { event_name: "order.created", handler_name: "web-checks", action_type: "trigger_workflow" });
  await server.newToken("ci", "operator");
  await server.newToken("dashboards", "viewer");
  return { failed, release };
}
