// Which lines of two texts differ. Lines, not words: what a version of a workflow is compared by.
export interface DiffLine {
  kind: "same" | "added" | "removed";
  text: string;
  left: number | null;
  right: number | null;
}

export function diffLines(before: string, after: string): DiffLine[] {
  const a = before.split("\n");
  const b = after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const middle = longest(a.slice(start, a.length - end), b.slice(start, b.length - end));
  const lines: DiffLine[] = [];
  let left = 0;
  let right = 0;
  const push = (kind: DiffLine["kind"], text: string): void => {
    if (kind !== "added") left++;
    if (kind !== "removed") right++;
    lines.push({ kind, text, left: kind === "added" ? null : left, right: kind === "removed" ? null : right });
  };
  a.slice(0, start).forEach((text) => push("same", text));
  middle.forEach(([kind, text]) => push(kind, text));
  a.slice(a.length - end).forEach((text) => push("same", text));
  return lines;
}

function longest(a: string[], b: string[]): [DiffLine["kind"], string][] {
  // A table of a few million cells is quick; beyond that everything counts as changed.
  if (a.length * b.length > 4_000_000) {
    return [...a.map((text): [DiffLine["kind"], string] => ["removed", text]), ...b.map((text): [DiffLine["kind"], string] => ["added", text])];
  }
  const width = b.length + 1;
  const table = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      table[i * width + j] = a[i] === b[j] ? table[(i + 1) * width + j + 1]! + 1 : Math.max(table[(i + 1) * width + j]!, table[i * width + j + 1]!);
    }
  }
  const found: [DiffLine["kind"], string][] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      found.push(["same", a[i]!]);
      i++;
      j++;
    } else if (i < a.length && (j === b.length || table[(i + 1) * width + j]! >= table[i * width + j + 1]!)) {
      found.push(["removed", a[i++]!]);
    } else {
      found.push(["added", b[j++]!]);
    }
  }
  return found;
}
