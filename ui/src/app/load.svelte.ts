// What a page reads: once when it opens and again when asked; old answers never replace newer ones.
import { learnTime, Problem } from "../api/client";

export class Loaded<T> {
  data = $state.raw<T | null>(null);
  error = $state<Problem | null>(null);
  busy = $state(false);
  private turn = 0;
  private again = false;

  constructor(private read: () => Promise<T>) {}

  async load(): Promise<void> {
    const turn = ++this.turn;
    this.busy = true;
    try {
      const data = await this.read();
      if (turn !== this.turn) return;
      this.data = data;
      this.error = null;
      const now = (data as { now?: unknown } | null)?.now;
      if (typeof now === "string") learnTime(now);
    } catch (error) {
      if (turn === this.turn) this.error = error instanceof Problem ? error : new Problem(0, (error as Error).message);
    } finally {
      if (turn === this.turn) this.busy = false;
    }
  }

  /** Reads again soon: many calls within half a second are one request. */
  soon(): void {
    if (this.again) return;
    this.again = true;
    setTimeout(() => {
      this.again = false;
      void this.load();
    }, 500);
  }
}
