// Keyboard: j/k and Enter in lists, "g r" to go somewhere, "/" for the filter, "?" for help.
import { router } from "./router.svelte";

const PLACES: Record<string, string> = { n: "/", w: "/workflows", r: "/runs", d: "/dlq", c: "/calendar", j: "/jobs", e: "/events", k: "/workers", a: "/admin" };

const isTyping = (target: EventTarget | null): boolean => {
  const element = target as HTMLElement | null;
  return !!element && (/^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName) || element.isContentEditable || element.tagName === "CODE-EDITOR");
};

/** Moves the focus along the rows of the list on the page. */
function moveRow(step: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>("main [data-row]")];
  if (rows.length === 0) return;
  const active = document.activeElement as HTMLElement | null;
  const at = rows.findIndex((row) => row === active || row.contains(active));
  rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + step))]?.focus();
}

export function installKeys(actions: { palette: () => void; help: () => void }): void {
  let prefix = 0;
  addEventListener("keydown", (event) => {
    if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      return actions.palette();
    }
    if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
    if (prefix && Date.now() - prefix < 1500) {
      prefix = 0;
      const place = PLACES[event.key];
      if (place) {
        event.preventDefault();
        router.go(place);
      }
      return;
    }
    switch (event.key) {
      case "g":
        prefix = Date.now();
        break;
      case "j":
        moveRow(1);
        break;
      case "k":
        moveRow(-1);
        break;
      case "/": {
        const filter = document.querySelector<HTMLElement>("main [data-filter]");
        event.preventDefault();
        if (filter) filter.focus();
        else actions.palette();
        break;
      }
      case "?":
        actions.help();
        break;
      default: {
        // An action key presses the button that carries it, and that opens a dialog.
        const button = document.querySelector<HTMLButtonElement>(`main [data-key="${CSS.escape(event.key)}"]:not(:disabled)`);
        if (button) {
          event.preventDefault();
          button.click();
        }
      }
    }
  });
}
