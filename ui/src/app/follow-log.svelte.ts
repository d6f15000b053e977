// The log of a task as it grows: what is there, then each line as it is written.
import { get } from "../api/client";
import type { LogEntry, Logs } from "../api/types";
import { path, query } from "../lib/match";

const MOST_KEPT = 200_000;

export class FollowedLog {
  lines = $state.raw<LogEntry[]>([]);
  before = $state<string | null>(null);
  ended = $state(false);
  private source: EventSource | null = null;
  private fresh: LogEntry[] = [];
  private frame = 0;
  private reading = false;

  constructor(
    readonly run: string,
    readonly task: string,
    readonly attempt: number | null,
  ) {}

  private get base(): string {
    return path`/workflow-runs/${this.run}/tasks/${this.task}/logs`;
  }

  /** Shows a tail that was read already and goes on behind it, if the task still runs. */
  begin(tail: Logs, goesOn: boolean): void {
    this.lines = tail.items;
    this.before = tail.before ?? null;
    if (goesOn) this.follow(tail.after);
    else this.ended = true;
  }

  async open(goesOn: boolean, lines = 1000): Promise<void> {
    const tail = await get<Logs>(this.base, { tail: lines, attempt: this.attempt });
    this.begin(tail, goesOn);
  }

  /** Reads what precedes the lines until line `number` of the log is among them, or the log is there as a whole. */
  async reach(): Promise<void> {
    while (this.before && this.lines.length < MOST_KEPT) await this.earlier();
  }

  async earlier(): Promise<void> {
    if (!this.before || this.reading) return;
    this.reading = true;
    try {
      const part = await get<Logs>(this.base, { before: this.before, attempt: this.attempt });
      this.lines = [...part.items, ...this.lines];
      this.before = part.before ?? null;
    } finally {
      this.reading = false;
    }
  }

  close(): void {
    this.source?.close();
    this.source = null;
    cancelAnimationFrame(this.frame);
  }

  private follow(after: string): void {
    const source = new EventSource(`/api/v1${this.base}${query({ follow: true, after: after === "0.0" ? null : after, attempt: this.attempt })}`);
    this.source = source;
    source.addEventListener("log", (event) => {
      this.fresh.push(JSON.parse((event as MessageEvent<string>).data) as LogEntry);
      this.frame ||= requestAnimationFrame(() => {
        this.frame = 0;
        const all = this.lines.concat(this.fresh.splice(0));
        this.lines = all.length > MOST_KEPT ? all.slice(-MOST_KEPT) : all;
      });
    });
    source.addEventListener("end", () => {
      this.ended = true;
      this.close();
    });
  }
}
