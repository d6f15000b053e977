// States and their six families. A state is always colour, shape and word together.
export type Family = "success" | "running" | "failed" | "attention" | "waiting" | "cancelled";
export type Shape = "check" | "play" | "cross" | "hollow-cross" | "bang" | "ring" | "slash";

export interface State {
  word: string;
  family: Family;
  shape: Shape;
}

const state = (word: string, family: Family, shape: Shape): State => ({ word, family, shape });

const KNOWN: Record<string, State> = {
  success: state("success", "success", "check"),
  resolved_manually: state("resolved by hand", "success", "check"),
  running: state("running", "running", "play"),
  failed: state("failed", "failed", "cross"),
  upstream_failed: state("upstream failed", "failed", "hollow-cross"),
  retrying: state("retrying", "attention", "bang"),
  paused: state("paused", "attention", "bang"),
  missed: state("missed", "attention", "bang"),
  waiting: state("waiting", "waiting", "ring"),
  pending: state("pending", "waiting", "ring"),
  ready: state("ready", "waiting", "ring"),
  future: state("planned", "waiting", "ring"),
  skipped: state("skipped", "cancelled", "slash"),
  cancelled: state("cancelled", "cancelled", "slash"),
  blacked_out: state("closed", "cancelled", "slash"),
  fired: state("fired", "success", "check"),
  active: state("active", "success", "check"),
  completed: state("completed", "success", "check"),
  inactive: state("inactive", "cancelled", "slash"),
  draining: state("draining", "attention", "bang"),
};

export function stateOf(status: string): State {
  return KNOWN[status] ?? state(status.replaceAll("_", " "), "waiting", "ring");
}

const LETTERS: Record<string, string> = {
  p: "pending",
  y: "ready",
  r: "running",
  t: "retrying",
  w: "waiting",
  s: "success",
  f: "failed",
  k: "skipped",
  u: "upstream_failed",
  c: "cancelled",
  m: "resolved_manually",
};
const BY_STATUS = Object.fromEntries(Object.entries(LETTERS).map(([letter, status]) => [status, letter]));

/** The status of a packed letter; "" for a task that has no task run yet. */
export const unpack = (letter: string): string => LETTERS[letter] ?? "";
export const pack = (status: string): string => BY_STATUS[status] ?? ".";

/** Replaces one letter of a packed row. */
export function withLetter(states: string, index: number, status: string): string {
  if (index < 0 || index >= states.length) return states;
  return states.slice(0, index) + pack(status) + states.slice(index + 1);
}

export const isOver = (status: string): boolean =>
  ["success", "failed", "cancelled", "skipped", "upstream_failed", "resolved_manually"].includes(status);

/** How many of each status a packed row holds, in the order of urgency. */
export function counts(states: string): [string, number][] {
  const found = new Map<string, number>();
  for (const letter of states) {
    const status = unpack(letter);
    if (status) found.set(status, (found.get(status) ?? 0) + 1);
  }
  const order = ["failed", "upstream_failed", "retrying", "running", "waiting", "ready", "pending", "success", "resolved_manually", "skipped", "cancelled"];
  return order.filter((status) => found.has(status)).map((status) => [status, found.get(status)!]);
}
