// Live updates: one WebSocket per tab for what the page shows. What arrives is handed on once per frame.
import { query } from "../lib/match";

export interface Update {
  type: string;
  payload: Record<string, any>;
  run: string | null;
  seq: number | null;
}

export interface Wanted {
  run?: string;
  seq?: number;
  namespace?: string;
  workflow?: string;
  types?: string;
}

const HIDDEN_FOR = 60_000;
const LONGEST_WAIT = 20_000;

class Live {
  status = $state<"off" | "live" | "away">("off");
  /** When the last message or connection was seen, for the age of what is shown. */
  lastSeen = $state(0);
  private socket: WebSocket | null = null;
  private wanted: Wanted | null = null;
  private take: (updates: Update[]) => void = () => undefined;
  private again: () => void = () => undefined;
  private queue: Update[] = [];
  private frame = 0;
  private tries = 0;
  private retry = 0;
  private hidden = 0;

  constructor() {
    document.addEventListener("visibilitychange", () => {
      clearTimeout(this.hidden);
      if (document.hidden) this.hidden = window.setTimeout(() => this.close(), HIDDEN_FOR);
      else if (this.wanted && !this.socket) this.resume();
    });
    addEventListener("online", () => this.wanted && !this.socket && this.resume());
  }

  /** Follows what a page shows until it calls the returned function. `again` reads the page anew after a gap. */
  follow(wanted: Wanted, take: (updates: Update[]) => void, again: () => void): () => void {
    this.close();
    this.wanted = wanted;
    this.take = take;
    this.again = again;
    this.tries = 0;
    this.open();
    return () => {
      if (this.wanted !== wanted) return;
      this.wanted = null;
      this.close();
      this.status = "off";
    };
  }

  private resume(): void {
    this.open();
    this.again();
  }

  private open(): void {
    if (!this.wanted) return;
    clearTimeout(this.retry);
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/ws/updates${query(this.wanted as never)}`);
    this.socket = socket;
    socket.onopen = () => {
      const wasAway = this.status === "away";
      this.status = "live";
      this.lastSeen = Date.now();
      if (wasAway) this.again();
      this.tries = 0;
    };
    socket.onmessage = (event) => this.heard(event.data as string);
    socket.onclose = () => {
      if (this.socket !== socket) return;
      this.socket = null;
      if (!this.wanted || document.hidden) return;
      this.status = "away";
      const wait = Math.min(LONGEST_WAIT, 500 * 2 ** this.tries++) * (0.7 + Math.random() * 0.6);
      this.retry = window.setTimeout(() => this.open(), wait);
    };
  }

  private heard(text: string): void {
    this.lastSeen = Date.now();
    let update: Update;
    try {
      update = JSON.parse(text) as Update;
    } catch {
      return;
    }
    if (update.type === "resync") return this.again();
    if (this.wanted?.run && update.seq !== null) this.wanted.seq = update.seq;
    this.queue.push(update);
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.take(this.queue.splice(0));
    });
  }

  private close(): void {
    clearTimeout(this.retry);
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.queue = [];
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }
}

export const live = new Live();
