import { Ending } from "../wire/ending.js";
import type { GatewayHttp } from "../wire/http.js";
import { withMetadataToJson } from "../wire/json.js";
import type { LastRequest } from "../wire/last-requests.js";
import { Backoff, pause, poll, type Clock } from "../wire/timing.js";
import type { Warnings } from "../wire/warnings.js";

/** The end of a call whose permit the gateway gave: the body of `POST /v1/outcome`. */
export interface Outcome {
  readonly permit: string;
  readonly status: "success" | "error" | "timeout" | "ignored";
  readonly error_class?: string;
  readonly error_type?: string;
  readonly error_message?: string;
  readonly retry_after_s?: number;
  readonly duration_ms?: number;
  readonly input_tokens?: number;
  readonly output_tokens?: number;
  readonly cost_usd?: number;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

const MOST_WAITING = 1_000;
const TIMEOUT_S = 10;

interface Waiting {
  readonly body: string;
  /** In monotonic seconds. */
  readonly expiresAt: number;
  readonly undelivered: () => void;
  attempts: number;
  /** Until when somebody tries, unless its request has ended. */
  triedUntil: number;
}

/**
 * Delivers the outcomes of probes to the gateway until their permits expire: in the background, or, where there is none, at once and in
 * each `flush`.
 */
export class Outcomes {
  readonly #waiting = new Set<Waiting>();
  readonly #closed = new Ending();

  constructor(
    private readonly http: GatewayHttp,
    private readonly clock: Clock,
    private readonly warnings: Warnings,
    private readonly background = true,
  ) {}

  /**
   * Deliver an outcome.
   *
   * @param expiresAt When the permit expires, in monotonic seconds.
   * @param undelivered Called if no gateway takes the outcome, so that the call is recorded in another way.
   */
  send(outcome: Outcome, expiresAt: number, undelivered: () => void): void {
    if (this.#waiting.size >= MOST_WAITING) {
      this.warnings.warn("too many outcomes wait for the gateway; one is recorded as an event");
      undelivered();
      return;
    }
    const body = withMetadataToJson(outcome);
    const waiting = { body, expiresAt, undelivered, attempts: 0, triedUntil: -Infinity };
    this.#waiting.add(waiting);
    void (this.background ? this.#deliver(waiting) : this.#try(waiting));
  }

  /** Wait for the outcomes that are under way. Return whether none is left after `timeoutS`. */
  async flush(timeoutS: number): Promise<boolean> {
    const end = this.clock.now() + timeoutS;
    if (!this.background) {
      this.#waiting.forEach((each) => this.clock.now() >= each.triedUntil && void this.#try(each));
    }
    return poll(end - this.clock.now(), () => this.#waiting.size === 0);
  }

  /** Take all that is not acknowledged, because the process ends. */
  takeLast(): LastRequest[] {
    const found = [...this.#waiting];
    this.#waiting.clear();
    return found.map((each) => ({
      path: "/v1/outcome",
      headers: headersOf(each.attempts > 0),
      body: each.body,
      count: 1,
      ended: () => {},
    }));
  }

  /** Stop trying. */
  close(): void {
    this.#closed.end();
  }

  async #deliver(waiting: Waiting): Promise<void> {
    const backoff = new Backoff(0.2, 5);
    while (!(await this.#try(waiting))) {
      await pause(backoff.next(), this.#closed);
    }
  }

  /** Try once. Return whether that was the last time. */
  async #try(waiting: Waiting): Promise<boolean> {
    if (!this.#waiting.has(waiting)) {
      return true;
    }
    if (waiting.attempts > 0 && (this.#closed.ended || this.clock.now() >= waiting.expiresAt)) {
      return this.#over(waiting, true);
    }
    waiting.attempts += 1;
    waiting.triedUntil = this.clock.now() + TIMEOUT_S + 1;
    try {
      const response = await this.http.request("/v1/outcome", {
        method: "POST",
        headers: headersOf(waiting.attempts > 1),
        body: waiting.body,
        timeoutS: TIMEOUT_S,
        ending: this.#closed,
      });
      if (response.ok) {
        return this.#over(waiting, false);
      }
      if (response.status < 500 && response.status !== 429) {
        return this.#over(waiting, true);
      }
    } catch (error) {
      if (!this.#closed.ended) {
        this.warnings.warn("the outcome of a probe could not be sent to the gateway", error);
      }
    }
    waiting.triedUntil = -Infinity;
    return false;
  }

  #over(waiting: Waiting, undelivered: boolean): true {
    if (this.#waiting.delete(waiting) && undelivered) {
      waiting.undelivered();
    }
    return true;
  }
}

/** A gateway that doesn't know the first attempt marks the event, so that readers look for the first copy. */
function headersOf(resent: boolean): Record<string, string> {
  return { "content-type": "application/json", ...(resent ? { "switchgear-resent": "true" } : {}) };
}
