import { SwitchgearError } from "../errors.js";

/** The gateway answered with an error, or not at all. */
export class GatewayError extends SwitchgearError {
  override name = "GatewayError";

  constructor(
    message: string,
    /** The HTTP status; 0 without an answer. */
    readonly status: number,
    options?: ErrorOptions,
  ) {
    super(message, "", options);
  }
}

export interface GatewayRequest {
  readonly method: "GET" | "POST";
  readonly headers?: Record<string, string>;
  readonly body?: string;
  /** The longest wait for the whole response, in seconds. */
  readonly timeoutS: number;
  /** Let the request outlive the page. Browsers allow 64 KiB in total. */
  readonly keepalive?: boolean;
  readonly signal?: AbortSignal;
}

/** A response that was read to its end. */
export interface GatewayResponse {
  readonly ok: boolean;
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Requests to one gateway, with the token. */
export class GatewayHttp {
  readonly base: string;
  readonly #token: string | undefined;
  readonly #fetch: Fetch;

  /**
   * @throws SwitchgearError The address or the token is impossible.
   */
  constructor(url: string, token: string | undefined, fetchFunction?: Fetch) {
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
    if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) {
      throw new SwitchgearError(
        "token has spaces or other characters that no header can hold.",
        "Give the token alone.",
      );
    }
    this.base = `${parsed.origin}${parsed.pathname.replace(/\/+$/, "")}`;
    this.#token = token;
    this.#fetch = fetchFunction ?? ((address, init) => globalThis.fetch(address, init));
  }

  /**
   * Send a request, and read its response.
   *
   * @throws GatewayError There was no whole answer within the time limit.
   */
  async request(path: string, request: GatewayRequest): Promise<GatewayResponse> {
    return this.#within(request.timeoutS, request.signal, async (signal) => {
      const response = await this.#send(path, request.method, request.headers ?? {}, {
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
  async open(
    path: string,
    headers: Record<string, string>,
    timeoutS: number,
    stop: AbortController,
  ): Promise<Response> {
    return this.#within(timeoutS, stop.signal, (signal) => {
      signal.addEventListener("abort", () => stop.abort(signal.reason), { once: true });
      return this.#send(path, "GET", headers, { signal: stop.signal });
    });
  }

  #send(path: string, method: string, headers: Record<string, string>, rest: RequestInit): Promise<Response> {
    const authorization = this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` };
    // A redirect would take the token elsewhere.
    return this.#fetch(`${this.base}${path}`, {
      method,
      headers: { ...headers, ...authorization },
      redirect: "error",
      ...rest,
    });
  }

  async #within<T>(
    timeoutS: number,
    signal: AbortSignal | undefined,
    act: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const limit = new AbortController();
    const abort = (): void => limit.abort(signal?.reason);
    if (signal?.aborted) {
      abort();
    }
    signal?.addEventListener("abort", abort, { once: true });
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
      signal?.removeEventListener("abort", abort);
    }
  }
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
