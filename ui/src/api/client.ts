// The one way to the server: same-origin requests with the session cookie, problems as errors, one sign-in at a time.
import { parseExact } from "../lib/json";
import { query } from "../lib/match";

export interface Fault {
  detail: string;
  pointer?: string | null;
  line?: number | null;
  column?: number | null;
  help?: string | null;
}

/** What the server said is wrong. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly detail: string,
    readonly errors: Fault[] = [],
  ) {
    super(detail);
  }
}

type Values = Record<string, string | number | boolean | null | undefined>;

/** Asks the person to sign in again and resolves when that is done; set by the session. */
let signInAgain: () => Promise<void> = () => Promise.reject(new Problem(401, "sign in first"));
/** How far the server's clock is ahead of the browser's, in milliseconds. */
let skew = 0;

export function onExpired(handler: () => Promise<void>): void {
  signInAgain = handler;
}

/** The server's time, whatever the browser's clock says. */
export function serverNow(): number {
  return Date.now() + skew;
}

export function learnTime(now: string): void {
  const at = Date.parse(now);
  if (!Number.isNaN(at)) skew = at - Date.now();
}

export interface Options {
  body?: unknown;
  /** A text with its media type instead of JSON. */
  text?: { type: string; value: string };
  headers?: Record<string, string>;
  /** Fail with 401 instead of asking for a sign-in. */
  quiet?: boolean;
  signal?: AbortSignal;
}

async function send(method: string, target: string, options: Options): Promise<Response> {
  const headers: Record<string, string> = { accept: "application/json", ...options.headers };
  let body: string | undefined;
  if (options.text) {
    headers["content-type"] = options.text.type;
    body = options.text.value;
  } else if (options.body !== undefined) {
    headers["content-type"] = "application/json";
    body = JSON.stringify(options.body);
  }
  if (method !== "GET") headers["x-mainspring-ui"] = "1";
  try {
    return await fetch(target, { method, headers, body, credentials: "same-origin", signal: options.signal });
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new Problem(0, "the server does not answer: look whether it runs, then try again");
  }
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    const said = (await response.json()) as { detail?: string; title?: string; errors?: Fault[] };
    return new Problem(response.status, said.detail ?? said.title ?? "the request failed", said.errors ?? []);
  } catch {
    return new Problem(response.status, `the server answered ${response.status}`);
  }
}

/** Sends a request; if the session is over, the person signs in and the request goes on. */
export async function request<T>(method: string, target: string, options: Options = {}): Promise<T> {
  let response = await send(method, target, options);
  if (response.status === 401 && !options.quiet) {
    await signInAgain();
    response = await send(method, target, options);
  }
  if (!response.ok) throw await problemOf(response);
  if (response.status === 204) return undefined as T;
  const text = await response.text();
  return (text === "" ? undefined : parseExact(text)) as T;
}

export const get = <T>(path: string, values: Values = {}, options: Options = {}): Promise<T> =>
  request<T>("GET", `/api/v1${path}${query(values)}`, options);
export const post = <T>(path: string, body: unknown = {}, values: Values = {}): Promise<T> =>
  request<T>("POST", `/api/v1${path}${query(values)}`, { body });
export const patch = <T>(path: string, body: unknown, values: Values = {}): Promise<T> =>
  request<T>("PATCH", `/api/v1${path}${query(values)}`, { body });
export const remove = <T>(path: string, values: Values = {}): Promise<T> => request<T>("DELETE", `/api/v1${path}${query(values)}`);
