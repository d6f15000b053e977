// Who is signed in. The session itself is a cookie that no script can read; here is only who it belongs to.
import { onExpired, Problem, request } from "../api/client";
import type { Grant, SessionInfo } from "../api/types";

const KEPT = "mainspring.me";
const ORDER = ["viewer", "operator", "author", "admin"];

function kept(): SessionInfo | null {
  try {
    const me = JSON.parse(localStorage.getItem(KEPT) ?? "null") as SessionInfo | null;
    return me && Array.isArray(me.grants) && Date.parse(me.expires_at) > Date.now() - 3_600_000 ? me : null;
  } catch {
    return null;
  }
}

class Session {
  me = $state<SessionInfo | null>(null);
  /** Whether the sign-in covers the page; what was under way waits for it. */
  asks = $state(false);
  ready = $state(false);
  wrong = $state<string | null>(null);
  private waiting: { resolve: () => void; reject: (error: unknown) => void }[] = [];

  constructor() {
    onExpired(() => this.expired());
  }

  /** Signs in with the code of the address, if there is one; else as who was signed in before. */
  async begin(): Promise<void> {
    const code = new URLSearchParams(location.hash.slice(1)).get("code");
    if (location.hash !== "") history.replaceState(null, "", location.pathname + location.search);
    if (code) {
      try {
        await this.signIn({ code });
      } catch (error) {
        this.wrong = error instanceof Problem && error.status === 401 ? "The code of this address was used before or is older than five minutes. Sign in with a token." : (error as Error).message;
        this.asks = true;
      }
    } else {
      this.me = kept();
      if (!this.me) {
        try {
          this.keep(await request<SessionInfo>("GET", "/ui/session", { quiet: true }));
        } catch (error) {
          if (error instanceof Problem && error.status === 401) this.asks = true;
          else this.wrong = (error as Error).message;
        }
      }
    }
    this.ready = true;
  }

  async signIn(given: { token?: string; code?: string }): Promise<void> {
    this.keep(await request<SessionInfo>("POST", "/ui/session", { body: given, quiet: true }));
    this.wrong = null;
    this.asks = false;
    this.waiting.splice(0).forEach((one) => one.resolve());
  }

  async signOut(everywhere: boolean): Promise<void> {
    await request("DELETE", `/ui/session${everywhere ? "?everywhere=true" : ""}`, { quiet: true }).catch(() => undefined);
    localStorage.removeItem(KEPT);
    location.assign("/ui/");
  }

  /** Whether the role is held in a namespace; without one, anywhere. */
  may(role: string, namespace?: string): boolean {
    const wanted = ORDER.indexOf(role);
    return (this.me?.grants ?? []).some(
      (grant: Grant) => ORDER.indexOf(grant.role) >= wanted && (grant.namespace === "*" || namespace === undefined || grant.namespace === namespace),
    );
  }

  mayEverywhere(role: string): boolean {
    const wanted = ORDER.indexOf(role);
    return (this.me?.grants ?? []).some((grant) => grant.namespace === "*" && ORDER.indexOf(grant.role) >= wanted);
  }

  private keep(me: SessionInfo): void {
    this.me = me;
    localStorage.setItem(KEPT, JSON.stringify(me));
  }

  private expired(): Promise<void> {
    localStorage.removeItem(KEPT);
    this.asks = true;
    return new Promise((resolve, reject) => this.waiting.push({ resolve, reject }));
  }
}

export const session = new Session();
