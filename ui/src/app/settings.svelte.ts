// What a person chose for this browser: theme, time zone, namespace.
import { serverNow } from "../api/client";
import type { Zone } from "../lib/format";

const read = (name: string, usual: string): string => {
  try {
    return localStorage.getItem(`mainspring.${name}`) ?? usual;
  } catch {
    return usual;
  }
};

class Settings {
  theme = $state(read("theme", "system"));
  zone = $state<Zone>(read("zone", "local"));
  namespace = $state(read("namespace", ""));
  /** The zone of the schedule that is shown, for the third choice of the switch. */
  scheduleZone = $state<string | null>(null);
  /** Ticks once a second while the page is visible, by the server's clock. */
  now = $state(serverNow());
  private dark = matchMedia("(prefers-color-scheme: dark)");

  constructor() {
    this.dark.addEventListener("change", () => this.paint());
    setInterval(() => {
      if (!document.hidden) this.now = serverNow();
    }, 1000);
    this.paint();
  }

  get shownZone(): Zone {
    return this.zone === "schedule" ? (this.scheduleZone ?? "local") : this.zone;
  }

  set(name: "theme" | "zone" | "namespace", value: string): void {
    this[name] = value;
    localStorage.setItem(`mainspring.${name}`, value);
    if (name === "theme") this.paint();
  }

  get isDark(): boolean {
    return this.theme === "dark" || (this.theme === "system" && this.dark.matches);
  }

  private paint(): void {
    document.documentElement.dataset.theme = this.isDark ? "dark" : "light";
  }
}

export const settings = new Settings();
