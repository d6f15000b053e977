// Patterns of paths: "/r/:id/log". A parameter is one segment, decoded; it is never empty.
export type Params = Record<string, string>;

export function matchPath(pattern: string, path: string): Params | null {
  const wanted = segments(pattern);
  const given = segments(path);
  if (wanted.length !== given.length) return null;
  const params: Params = {};
  for (let i = 0; i < wanted.length; i++) {
    const want = wanted[i]!;
    const have = given[i]!;
    if (want.startsWith(":")) {
      try {
        params[want.slice(1)] = decodeURIComponent(have);
      } catch {
        return null;
      }
    } else if (want !== have) return null;
  }
  return params;
}

function segments(path: string): string[] {
  return path.split("/").filter((part) => part !== "");
}

/** A path with encoded parts: path`/w/${namespace}/${name}`. */
export function path(parts: TemplateStringsArray, ...values: string[]): string {
  return parts.reduce((text, part, i) => text + part + (i < values.length ? encodeURIComponent(values[i]!) : ""), "");
}

/** A query string of what is set, in the order given. */
export function query(values: Record<string, string | number | boolean | null | undefined>): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== null && value !== undefined && value !== "" && value !== false) search.set(name, String(value));
  }
  const text = search.toString();
  return text === "" ? "" : `?${text}`;
}
