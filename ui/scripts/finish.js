// After the build: compressed copies beside each file, and the sizes that pages may have.
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const dist = fileURLToPath(new URL("../dist", import.meta.url));
const assets = join(dist, "assets");
const LIMIT_ENTRY = 100_000;
const LIMIT_ALL = 300_000;

const sizes = new Map();
for (const file of [join(dist, "index.html"), ...readdirSync(assets).map((name) => join(assets, name))]) {
  if (file.endsWith(".gz") || file.endsWith(".br")) continue;
  const content = readFileSync(file);
  const gzip = gzipSync(content, { level: 9 });
  writeFileSync(`${file}.gz`, gzip);
  writeFileSync(`${file}.br`, brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
  sizes.set(file, gzip.length);
}

// What the document names is loaded before anything is shown.
const html = readFileSync(join(dist, "index.html"), "utf8");
const named = [...html.matchAll(/(?:src|href)="\/ui\/(assets\/[^"]+)"/g)].map((match) => join(dist, match[1]));
const entry = named.reduce((sum, file) => sum + (sizes.get(file) ?? 0), sizes.get(join(dist, "index.html")));
const all = [...sizes.values()].reduce((sum, size) => sum + size, 0);
console.log(`entry ${(entry / 1000).toFixed(1)} kB, all ${(all / 1000).toFixed(1)} kB (gzip)`);
if (entry > LIMIT_ENTRY || all > LIMIT_ALL) {
  console.error(`too large: at most ${LIMIT_ENTRY / 1000} kB for the entry and ${LIMIT_ALL / 1000} kB in all`);
  process.exit(1);
}
