/** Ask the API. Errors are problem details (RFC 9457), and requests that change something carry the session's CSRF token. */
import { address } from "./address.js";
import { useCallback, useEffect, useRef, useState } from "./html.js";

export const UNAUTHORIZED = "switchgear:unauthorized";
const LIMIT_MS = 60_000;

/** An answer that isn't a success. */
export class ApiError extends Error {
  /** @param {number} status 0 without an answer @param {string} detail @param {string} hint @param {string} ways to log in */
  constructor(status, detail, hint = "", ways = "") {
    super(detail);
    this.status = status;
    this.hint = hint;
    this.ways = ways;
  }
}

let csrf = "";
/** @param {string | null | undefined} token */
export const setCsrf = (token) => {
  csrf = token ?? "";
};

/**
 * @param {string} method
 * @param {string} path
 * @param {{ params?: Record<string, unknown>, body?: unknown, signal?: AbortSignal, quiet?: boolean }} [options]
 * @returns {Promise<Response>}
 */
export async function request(method, path, options = {}) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json" };
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET" && csrf) headers["X-CSRF-Token"] = csrf;
  const limit = AbortSignal.timeout(LIMIT_MS);
  let answer;
  try {
    answer = await fetch(address(path, options.params), {
      method,
      headers,
      body: options.body === undefined ? null : JSON.stringify(options.body),
      signal: options.signal ? AbortSignal.any([options.signal, limit]) : limit,
      credentials: "same-origin",
      cache: "no-store",
    });
  } catch (error) {
    if (options.signal?.aborted && /** @type {Error} */ (error).name !== "TimeoutError") throw error;
    throw new ApiError(0, "The API does not answer.", "Check that the process of the API runs, and try again.");
  }
  if (answer.ok) return answer;
  if (answer.status === 401 && !options.quiet) dispatchEvent(new Event(UNAUTHORIZED));
  const problem = await answer.json().catch(() => ({}));
  throw new ApiError(
    answer.status,
    String(problem.detail ?? problem.error ?? `The API answered with status ${answer.status}.`),
    String(problem.hint ?? ""),
    answer.headers.get("X-Switchgear-Login") ?? "",
  );
}

/**
 * @template T
 * @param {string} path
 * @param {Record<string, unknown>} [params]
 * @param {AbortSignal} [signal]
 * @returns {Promise<T>}
 */
export async function get(path, params, signal) {
  return (await request("GET", path, { params, signal })).json();
}

/**
 * @template T
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<T>}
 */
export async function send(method, path, body) {
  const answer = await request(method, path, { body });
  const text = await answer.text();
  return JSON.parse(text || "{}");
}

/**
 * Load a resource again whenever its address changes. The last data stays while the next loads.
 * @template T
 * @param {string | null} path null loads nothing
 * @param {Record<string, unknown>} [params]
 * @param {number} [everyMs] load again this long after the last answer
 */
export function useResource(path, params = {}, everyMs = 0) {
  const [held, setHeld] = useState(
    /** @type {{ data: T | null, error: ApiError | null, loading: boolean, key: string }} */ ({
      data: null,
      error: null,
      loading: path !== null,
      key: "",
    }),
  );
  const [round, setRound] = useState(0);
  const key = path === null ? "" : address(path, params);
  const shown = useRef(path);
  useEffect(() => {
    if (path === null) return undefined;
    const aborter = new AbortController();
    const samePath = shown.current === path;
    shown.current = path;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    setHeld((before) => ({ ...before, data: samePath ? before.data : null, error: null, loading: true }));
    get(path, params, aborter.signal)
      .then(
        (data) => setHeld({ data: /** @type {T} */ (data), error: null, loading: false, key }),
        (error) => {
          if (!aborter.signal.aborted) setHeld((before) => ({ ...before, error, loading: false }));
        },
      )
      .finally(() => {
        if (everyMs && !aborter.signal.aborted) timer = setTimeout(() => setRound((value) => value + 1), everyMs);
      });
    return () => {
      aborter.abort();
      clearTimeout(timer);
    };
  }, [key, round]);
  const reload = useCallback(() => setRound((value) => value + 1), []);
  return { ...held, reload };
}
