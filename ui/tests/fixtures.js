// Workflows that the tests walk through.
export const BROKEN = `
name: nightly-etl
description: Loads the orders of the day into the warehouse
tags: [etl, finance]
inputs:
  day: {type: date, default: "2026-03-01", description: The day to load}
  rows: {type: integer, default: 1000, min: 1, max: 100000}
  region: {type: string, enum: [eu, us, apac], default: eu}
tasks:
  extract: {run: "echo reading \${{ inputs.rows }} rows"}
  rates: {run: "echo rates of \${{ inputs.day }}"}
  transform:
    needs: [extract, rates]
    run: |
      echo "joining rates"
      echo "column amount is missing in row 17" >&2
      test "\${{ inputs.region }}" = us || exit 3
    on_exhausted: dead_letter
  load: {needs: transform, run: echo loaded}
  report: {needs: load, run: echo done}
`;
export const GOOD = `
name: heartbeat
description: Asks the shop whether it is there
triggers:
  - {id: often, every: 6h}
  - {id: morning, cron: "30 7 * * 1-5", timezone: Europe/Berlin}
tasks:
  ping: {run: echo ok}
  record: {needs: ping, run: echo recorded}
`;
export const GROWING = `
name: importer
tasks:
  import:
    run: |
      for i in $(seq 1 400); do echo "line $i of the import"; sleep 0.05; done
  finish: {needs: import, run: echo finished}
`;
/** More lines than the tail that a log opens with. */
export const TALKING = `
name: talking
tasks:
  talk: {run: 'for i in $(seq 1 3000); do echo "word $i"; done'}
`;
export const APPROVAL = `
name: release
tasks:
  build: {run: echo built}
  approve: {needs: build, approval: {message: "Release to production?"}}
  publish: {needs: approve, run: echo published}
`;
export const HOSTILE = `
name: hostile
tasks:
  print:
    run: |
      echo '<script>alert(1)</script><img src=x onerror=alert(2)>'
      printf '\\033[31mred\\033[0m and \\033[1mbold\\033[0m\\n'
      printf 'user \\342\\200\\256gpj.exe\\n'
      head -c 1000000 /dev/zero | tr '\\0' x; echo
      echo end
`;
/** Fails until a file is there: a cause that somebody removes. */
export const healing = (file) => `
name: partner-export
tasks:
  send:
    run: |
      test -e ${file} && echo sent || { echo "the partner does not answer" >&2; exit 7; }
    retry: {attempts: 1}
    on_exhausted: dead_letter
  confirm: {needs: send, run: echo confirmed}
`;
const longest = (letter) => `${letter.repeat(60)}-${letter.repeat(67)}`;
/** Names as long as they may be. */
export const LONG_NAMES = `
name: ${longest("w")}
description: ${"long words everywhere ".repeat(8)}
tasks:
  ${longest("a")}: {run: "echo ${"y".repeat(300)}; exit 4", retry: {attempts: 1}, on_exhausted: dead_letter}
  ${longest("b")}: {needs: ${longest("a")}, run: echo never}
`;
export const LONG_NAME = longest("w");
/** Ten tasks of ten thousand items each, in a queue that no worker takes from. */
export const ITEMS = `
name: items
inputs: {items: {type: list}}
tasks:
${Array.from({ length: 10 }, (_, i) => `  part-${i}: {foreach: "\${{ inputs.items }}", queue: nowhere, function: noop}`).join("\n")}
`;
/** A fan of tasks: as many as wanted, in layers of twenty. */
export function large(count) {
  const tasks = Array.from({ length: count }, (_, i) => {
    const needs = i >= 20 ? `, needs: [t${i - 20}${i % 20 ? `, t${i - 21}` : ""}]` : "";
    return `  t${i}: {function: noop${needs}}`;
  });
  return `name: large-${count}\ntasks:\n${tasks.join("\n")}\n`;
}
