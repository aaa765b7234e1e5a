import { SwitchgearError } from "../errors.js";
import type { Ending } from "./ending.js";

/** The gateway answered with an error, or not at all. */
export class GatewayError extends SwitchgearError {
  override name = "GatewayError";

  constructor(
    message: string,
    /** The HTTP status; 0 without an answer. */
    readonly status: number,
    options?: { readonly cause?: unknown },
  ) {
    super(message, "", options);
  }
}

/** Returns the bearer token. It is called again when the gateway has answered 401. */
export type TokenSource = () => string | Promise<string>;

export interface GatewayRequest {
  readonly method: "GET" | "POST";
  readonly headers?: Record<string, string>;
  readonly body?: string;
  /** The longest wait for the whole response, in seconds. */
  readonly timeoutS: number;
  /** Let the request outlive the page. Browsers allow 64 KiB in total. */
  readonly keepalive?: boolean;
  readonly ending?: Ending;
}

/** Headers, as far as they are read here. */
export interface AnswerHeaders {
  get(name: string): string | null;
}

/** A response that was read to its end. */
export interface GatewayResponse {
  readonly ok: boolean;
  readonly status: number;
  readonly headers: AnswerHeaders;
  readonly text: string;
}

/** What this package gives to `fetch`. The types of both name no library, so that they hold without that of the DOM. */
export interface FetchRequest {
  readonly method: string;
  readonly headers: Record<string, string>;
  readonly body?: string;
  readonly redirect: "manual";
  readonly keepalive?: boolean;
  /** An AbortSignal. */
  readonly signal: any;
}

/** What this package reads of a Response. */
export interface FetchAnswer {
  readonly ok: boolean;
  readonly status: number;
  readonly type?: string;
  readonly headers: AnswerHeaders;
  /** A ReadableStream. */
  readonly body: any;
  text(): Promise<string>;
}

/** An AbortController. */
export interface Stop {
  readonly signal: any;
  abort(reason?: unknown): void;
}

export type Fetch = (url: string, request: FetchRequest) => Promise<FetchAnswer>;

const TOKEN = /^[\x21-\x7e]+$/;

/** Requests to one gateway, with the token. */
export class GatewayHttp {
  readonly base: string;
  readonly #source: TokenSource | null;
  /** The token of this moment. Undefined: there is none, or it is still to be asked for. */
  #token: string | undefined;
  readonly #fetch: Fetch;

  /**
   * @throws SwitchgearError The address or the token is impossible.
   */
  constructor(
    url: string,
    token: string | TokenSource | undefined,
    /** In place of `globalThis.fetch`. */
    readonly ownFetch?: Fetch,
  ) {
    let parsed: URL;
    try {
      parsed = new URL(url);
    } catch {
      throw new SwitchgearError(
        `url is ${JSON.stringify(url)}.`,
        'Use the gateway\'s address, such as "http://127.0.0.1:8622".',
      );
    }
    if (!/^https?:$/.test(parsed.protocol) || parsed.username !== "" || parsed.password !== "") {
      throw new SwitchgearError(
        `url begins with ${parsed.protocol} or has a password.`,
        "Use http or https, and give the token as token.",
      );
    }
    if (typeof token === "string" && !TOKEN.test(token)) {
      throw new SwitchgearError(
        "token has spaces or other characters that no header can hold.",
        "Give the token alone.",
      );
    }
    this.base = `${parsed.origin}${parsed.pathname.replace(/\/+$/, "")}`;
    this.#source = typeof token === "function" ? token : null;
    this.#token = typeof token === "function" ? undefined : token;
    this.#fetch = ownFetch ?? ((address, init) => globalThis.fetch(address, init as RequestInit));
  }

  /**
   * Send a request, and read its response.
   *
   * @throws GatewayError There was no whole answer within the time limit.
   */
  async request(path: string, request: GatewayRequest): Promise<GatewayResponse> {
    return this.#within(request.timeoutS, request.ending, async (signal) => {
      const response = await this.#send(path, request.method, request.headers ?? {}, signal, {
        signal,
        ...(request.body === undefined ? {} : { body: request.body }),
        ...(request.keepalive ? { keepalive: true } : {}),
      });
      return { ok: response.ok, status: response.status, headers: response.headers, text: await response.text() };
    });
  }

  /**
   * Open a stream. Its body is still to be read; `stop` ends that.
   *
   * @throws GatewayError There was no answer within the time limit.
   */
  async open(path: string, headers: Record<string, string>, timeoutS: number, stop: Stop): Promise<FetchAnswer> {
    return this.#within(timeoutS, undefined, (signal) => {
      signal.addEventListener("abort", () => stop.abort(signal.reason), { once: true });
      return this.#send(path, "GET", headers, stop.signal as AbortSignal, { signal: stop.signal });
    });
  }

  /** Return the headers of a request that can wait for nothing. A token that has to be waited for is left out. */
  headersNow(): Record<string, string> {
    if (this.#token === undefined && this.#source !== null) {
      try {
        const token = this.#source();
        this.#token = typeof token === "string" && TOKEN.test(token) ? token : undefined;
      } catch {
        // the user's function: the gateway refuses the request
      }
    }
    return authorization(this.#token);
  }

  async #send(
    path: string,
    method: string,
    headers: Record<string, string>,
    signal: AbortSignal,
    rest: Pick<FetchRequest, "signal" | "body" | "keepalive">,
  ): Promise<FetchAnswer> {
    for (let attempt = 1; ; attempt += 1) {
      const token = await this.#currentToken(signal);
      // A redirect would take the token elsewhere. Not every runtime knows "error".
      const response = await this.#fetch(`${this.base}${path}`, {
        method,
        headers: { ...headers, ...authorization(token) },
        redirect: "manual",
        ...rest,
      });
      if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
        throw new GatewayError("The gateway answered with a redirect. Give its own address as url.", response.status);
      }
      if (response.status !== 401 || this.#source === null || attempt > 1) {
        return response;
      }
      if (this.#token === token) {
        this.#token = undefined; // nobody has asked for another one meanwhile
      }
      await response.text();
    }
  }

  async #currentToken(signal: AbortSignal): Promise<string | undefined> {
    if (this.#token !== undefined || this.#source === null) {
      return this.#token;
    }
    let token: unknown;
    try {
      token = await unlessAborted(Promise.resolve(this.#source()), signal);
    } catch (error) {
      throw signal.aborted ? error : new GatewayError(`The token function failed: ${messageOf(error)}`, 0);
    }
    if (typeof token !== "string" || !TOKEN.test(token)) {
      throw new GatewayError("The token function returned no token, or one that no header can hold.", 0);
    }
    this.#token = token;
    return token;
  }

  async #within<T>(timeoutS: number, ending: Ending | undefined, act: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const limit = new AbortController();
    if (ending?.ended) {
      limit.abort();
    }
    const forget = ending?.listen(() => limit.abort());
    const timer = setTimeout(
      () => limit.abort(new GatewayError(`The gateway did not answer within ${timeoutS} s.`, 0)),
      timeoutS * 1000,
    );
    try {
      return await act(limit.signal);
    } catch (error) {
      if (error instanceof GatewayError) {
        throw error;
      }
      throw new GatewayError(`The gateway at ${this.base} can't be reached: ${messageOf(error)}.`, 0, { cause: error });
    } finally {
      clearTimeout(timer);
      forget?.();
    }
  }
}

function authorization(token: string | undefined): Record<string, string> {
  return token === undefined ? {} : { authorization: `Bearer ${token}` };
}

function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    if (signal.aborted) {
      abort();
    }
    signal.addEventListener("abort", abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

/** Return the JSON in a response, or null. */
export function jsonIn(response: GatewayResponse): unknown {
  try {
    return JSON.parse(response.text);
  } catch {
    return null;
  }
}

/** Return what a problem document of the gateway says. */
export function problemIn(text: string): string {
  try {
    const problem = JSON.parse(text) as Record<string, unknown>;
    return [problem["title"], problem["detail"], problem["hint"]].filter((part) => typeof part === "string").join(": ");
  } catch {
    return "";
  }
}

/** Return an error's message, with that of its cause if it says nothing itself. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) {
    return String(error);
  }
  const cause =
    error.cause instanceof Error
      ? ` (${error.cause.message || (error.cause as { code?: string }).code || error.cause.name})`
      : "";
  return `${error.message}${cause}`;
}
