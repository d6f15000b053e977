// Short messages about what was done, and the polite voice for screen readers.
export interface Notice {
  id: number;
  text: string;
  bad: boolean;
}

class Notices {
  all = $state<Notice[]>([]);
  /** What a screen reader says next; at most every few seconds. */
  spoken = $state("");
  private next = 1;
  private saidAt = 0;

  say(text: string, bad = false): void {
    const notice = { id: this.next++, text, bad };
    this.all.push(notice);
    this.spoken = text;
    setTimeout(() => this.drop(notice.id), bad ? 12_000 : 5000);
  }

  fail(error: unknown): void {
    this.say(error instanceof Error ? error.message : String(error), true);
  }

  drop(id: number): void {
    this.all = this.all.filter((one) => one.id !== id);
  }

  /** Says something that happened by itself, not too often. */
  mention(text: string): void {
    if (Date.now() - this.saidAt < 4000) return;
    this.saidAt = Date.now();
    this.spoken = text;
  }
}

export const notices = new Notices();
