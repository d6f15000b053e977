// Where we are: path and query are the whole state of a view, so every view is a link.
import { matchPath, query, type Params } from "../lib/match";
import { ROUTES, type PageRoute } from "./routes";

const BASE = "/ui";

function currentPath(): string {
  const path = location.pathname.startsWith(BASE) ? location.pathname.slice(BASE.length) : location.pathname;
  return path === "" ? "/" : path;
}

class Router {
  path = $state(currentPath());
  search = $state(location.search);

  /** The parameters of the query. */
  query = $derived(new URLSearchParams(this.search));
  found: { route: PageRoute; params: Params } | null = $derived.by(() => {
    for (const route of ROUTES) {
      const params = matchPath(route.pattern, this.path);
      if (params) return { route, params };
    }
    return null;
  });

  private held = "";

  constructor() {
    addEventListener("popstate", () => {
      if (this.mayLeave(currentPath())) this.read();
      else history.pushState(null, "", BASE + this.path + this.search);
    });
    addEventListener("beforeunload", (event) => {
      if (this.held) event.preventDefault();
    });
    document.addEventListener("click", (event) => this.click(event));
  }

  /** Goes to a page of the interface, named without the base. */
  go(target: string, replace = false): void {
    const url = BASE + target;
    if (url === location.pathname + location.search || !this.mayLeave(target.split("?")[0]!)) return;
    if (replace) history.replaceState(null, "", url);
    else history.pushState(null, "", url);
    const moved = this.path !== currentPath();
    this.read();
    if (moved) document.getElementById("main")?.scrollTo(0, 0);
  }

  /** Changes parts of the query; null removes one. */
  set(values: Record<string, string | number | null>, replace = true): void {
    const all: Record<string, string | number | null> = Object.fromEntries(this.query);
    this.go(this.path + query({ ...all, ...values }), replace);
  }

  /** Asks before another page is shown, until the returned function is called. */
  hold(question: string): () => void {
    this.held = question;
    return () => (this.held = "");
  }

  private mayLeave(path: string): boolean {
    if (!this.held || path === this.path) return true;
    const leaves = confirm(this.held);
    if (leaves) this.held = "";
    return leaves;
  }

  private read(): void {
    this.path = currentPath();
    this.search = location.search;
  }

  private click(event: MouseEvent): void {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest?.("a");
    if (!link || link.target || link.hasAttribute("download")) return;
    const url = new URL(link.href, location.href);
    if (url.origin !== location.origin || !(url.pathname === BASE || url.pathname.startsWith(BASE + "/"))) return;
    event.preventDefault();
    this.go(url.pathname.slice(BASE.length) + url.search);
  }
}

export const router = new Router();
/** The address of a page of the interface. */
export const to = (target: string): string => BASE + target;

/** Brings the tab that is shown into sight, where the tabs are wider than the screen. */
export function currentTab(tabs: HTMLElement): void {
  void router.search;
  requestAnimationFrame(() => {
    const tab = tabs.querySelector<HTMLElement>("[aria-current=page]");
    if (tab) tabs.scrollLeft = tab.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - tab.offsetWidth) / 2;
  });
}
