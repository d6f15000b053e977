// Writes src/api/schema.ts from the committed openapi.json; with --check says whether it is up to date.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const source = fileURLToPath(new URL("../../openapi.json", import.meta.url));
const target = fileURLToPath(new URL("../src/api/schema.ts", import.meta.url));
const { components } = JSON.parse(readFileSync(source, "utf8"));

const isName = (text) => /^[A-Za-z_$][\w$]*$/.test(text);
const key = (text) => (isName(text) ? text : JSON.stringify(text));

/** The TypeScript of a schema of OpenAPI 3.1. */
function typeOf(schema) {
  if (schema === true || schema === undefined || Object.keys(schema).length === 0) return "unknown";
  if (schema.$ref) return `Schemas[${JSON.stringify(schema.$ref.split("/").at(-1))}]`;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (schema.allOf) return schema.allOf.map((one) => wrapped(typeOf(one))).join(" & ");
  const either = schema.oneOf ?? schema.anyOf;
  if (either) return [...new Set(either.map(typeOf))].join(" | ");
  const types = [schema.type].flat().filter(Boolean);
  if (types.length === 0) return "unknown";
  return types.map((type) => single(type, schema)).join(" | ");
}

function single(type, schema) {
  switch (type) {
    case "integer":
    case "number":
      return "number";
    case "string":
    case "boolean":
    case "null":
      return type;
    case "array":
      return schema.prefixItems ? `[${schema.prefixItems.map(typeOf).join(", ")}]` : `${wrapped(typeOf(schema.items))}[]`;
    default:
      return object(schema);
  }
}

function object(schema) {
  const required = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties ?? {}).map(([name, one]) => `${key(name)}${required.has(name) ? "" : "?"}: ${typeOf(one)}`);
  if (fields.length > 0) return `{ ${fields.join("; ")} }`;
  const values = schema.additionalProperties;
  return `Record<string, ${values && typeof values === "object" ? typeOf(values) : "unknown"}>`;
}

const wrapped = (text) => (/[|&]/.test(text) && !/^[{[]/.test(text) ? `(${text})` : text);

const lines = Object.entries(components.schemas)
  .sort(([one], [other]) => (one < other ? -1 : 1))
  .map(([name, schema]) => `  ${key(name)}: ${typeOf(schema)};`);
const text = `// Written by scripts/types.js from openapi.json: change that, not this.\nexport interface Schemas {\n${lines.join("\n")}\n}\n`;

if (process.argv.includes("--check")) {
  let known = "";
  try {
    known = readFileSync(target, "utf8");
  } catch {
    // There is none yet.
  }
  if (known !== text) {
    console.error("ui/src/api/schema.ts does not fit openapi.json: run `node ui/scripts/types.js`");
    process.exit(1);
  }
} else writeFileSync(target, text);
