// JSON without losing digits: integers beyond 2^53 stay as they were written.
const LONG = /-?\d{16,}/;

/** A number that a double cannot hold, kept as its digits. */
export class Exact {
  constructor(readonly digits: string) {}
  toString(): string {
    return this.digits;
  }
}

/** Parses JSON; long integers become `Exact`. */
export function parseExact(text: string): unknown {
  if (!LONG.test(text)) return JSON.parse(text);
  const marked = text.replace(/("(?:[^"\\]|\\.)*")|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g, (whole, quoted, number) => {
    if (quoted !== undefined) return whole;
    const isExact = !/^-?\d{16,}$/.test(number) || Number.isSafeInteger(Number(number));
    return isExact ? number : `{"\\u0000exact":"${number}"}`;
  });
  return JSON.parse(marked, (_, value) =>
    value && typeof value === "object" && "\u0000exact" in value ? new Exact((value as never)["\u0000exact"]) : value,
  );
}

/** Pretty JSON for people, digits as they were. */
export function pretty(value: unknown, indent = "  ", at = ""): string {
  if (value instanceof Exact) return value.digits;
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    const inner = value.map((one) => `${at}${indent}${pretty(one, indent, at + indent)}`);
    return `[\n${inner.join(",\n")}\n${at}]`;
  }
  if (value && typeof value === "object") {
    const entries = Object.entries(value);
    if (entries.length === 0) return "{}";
    const inner = entries.map(([key, one]) => `${at}${indent}${JSON.stringify(key)}: ${pretty(one, indent, at + indent)}`);
    return `{\n${inner.join(",\n")}\n${at}}`;
  }
  return JSON.stringify(value) ?? "null";
}

/** The item of a list in one line: `Oslo`, or `os=linux version=2` for a combination. */
export function named(item: unknown): string {
  if (item && typeof item === "object" && !Array.isArray(item) && !(item instanceof Exact)) {
    return Object.entries(item).map(([key, value]) => `${key}=${named(value)}`).join(" ");
  }
  return typeof item === "string" ? item : pretty(item, "", "").replaceAll("\n", "");
}
