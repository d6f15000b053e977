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

  constructor() {
    addEventListener("popstate", () => this.read());
    document.addEventListener("click", (event) => this.click(event));
  }

  /** Goes to a page of the interface, named without the base. */
  go(target: string, replace = false): void {
    const url = BASE + target;
    if (url === location.pathname + location.search) return;
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
