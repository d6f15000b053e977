// Times, durations and numbers for people. Every time carries its offset.
export type Zone = "local" | "utc" | string;

/** "850 ms", "4.2 s", "3 m 07 s", "2 h 05 m", "3 d 4 h". */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "";
  if (ms < 0) ms = 0;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const seconds = Math.floor(ms / 1000);
  const two = (value: number) => String(value).padStart(2, "0");
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${two(seconds % 60)} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${two(Math.floor((seconds % 3600) / 60))} m`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
}

/** "12 s ago", "in 3 m", "now". */
export function relative(at: number, now: number): string {
  const ms = at - now;
  const size = Math.abs(ms);
  if (size < 1500) return "now";
  const units: [number, string][] = [
    [86_400_000, "d"],
    [3_600_000, "h"],
    [60_000, "m"],
    [1000, "s"],
  ];
  const [unit, letter] = units.find(([length]) => size >= length) ?? [1000, "s"];
  const text = `${Math.floor(size / unit)} ${letter}`;
  return ms < 0 ? `${text} ago` : `in ${text}`;
}

// Making one costs more than a hundred uses, and a page of rows uses several a second.
const formatters = new Map<string, Intl.DateTimeFormat>();
function formatter(timeZone: string | undefined, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = `${timeZone ?? ""} ${Object.keys(options).join(" ")}`;
  let known = formatters.get(key);
  if (!known) formatters.set(key, (known = new Intl.DateTimeFormat("en-GB", { hourCycle: "h23", ...options, timeZone })));
  return known;
}

function parts(at: number, zone: Zone, options: Intl.DateTimeFormatOptions): Record<string, string> {
  const timeZone = zone === "local" ? undefined : zone === "utc" ? "UTC" : zone;
  const format = formatter(timeZone, options);
  return Object.fromEntries(format.formatToParts(at).map((part) => [part.type, part.value]));
}

/** How many minutes the clock of a zone is ahead of UTC at a time. */
function ahead(at: number, zone: Zone): number {
  if (zone === "utc") return 0;
  if (zone === "local") return -new Date(at).getTimezoneOffset();
  return Math.round((Date.parse(wall(at, zone).replace(" ", "T") + "Z") - Math.floor(at / 1000) * 1000) / 60_000);
}

/** The first instant of a day ("2026-03-29") on the clock of a zone. */
export function midnight(day: string, zone: Zone): number {
  const utc = Date.parse(`${day}T00:00:00Z`);
  // The offset is that of the instant itself, which is known by it only: once more with the better guess.
  return utc - ahead(utc - ahead(utc, zone) * 60_000, zone) * 60_000;
}

/** The day so many days later, whatever clocks do meanwhile. */
export function daysLater(day: string, days: number): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) + days * 86_400_000).toISOString().slice(0, 10);
}

/** The offset of a zone at a time: "Z", "+02:00". */
export function offset(at: number, zone: Zone): string {
  if (zone === "utc") return "Z";
  const minutes = ahead(at, zone);
  if (minutes === 0) return "+00:00";
  const size = Math.abs(minutes);
  return `${minutes < 0 ? "-" : "+"}${String(Math.floor(size / 60)).padStart(2, "0")}:${String(size % 60).padStart(2, "0")}`;
}

/** "2026-01-31 08:00:00" on the clock of the zone. */
export function wall(at: number, zone: Zone): string {
  const p = parts(at, zone, { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" });
  return `${p.year}-${p.month}-${p.day} ${p.hour}:${p.minute}:${p.second}`;
}

/** "08:00:00+01:00" today, "31 Jan 08:00+01:00" this year, with the year before. */
export function instant(at: number, now: number, zone: Zone): string {
  const then = wall(at, zone);
  const today = wall(now, zone);
  const end = offset(at, zone);
  if (then.slice(0, 10) === today.slice(0, 10)) return then.slice(11) + end;
  const p = parts(at, zone, { day: "numeric", month: "short" });
  const day = `${p.day} ${p.month}`;
  return then.slice(0, 4) === today.slice(0, 4) ? `${day} ${then.slice(11, 16)}${end}` : `${day} ${then.slice(0, 4)} ${then.slice(11, 16)}${end}`;
}

/** What the server says begins small and ends without a full stop: the sentence that is made of it. */
export const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? "" : ".");

export function count(value: number): string {
  return value.toLocaleString("en-GB").replaceAll(",", "\u202f");
}

export function percent(rate: number | null | undefined): string {
  if (rate === null || rate === undefined) return "";
  const value = rate * 100;
  return value === 100 || value === 0 ? `${value} %` : `${value.toFixed(value > 99 || value < 1 ? 1 : 0)} %`;
}

/** The first characters of an id, enough to tell runs of one day apart. */
export const shortId = (id: string): string => (id.length > 12 ? id.slice(-8) : id);
