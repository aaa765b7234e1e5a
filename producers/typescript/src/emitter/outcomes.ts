import type { GatewayHttp } from "../wire/http.js";
import { withMetadataToJson } from "../wire/json.js";
import { atMost, Backoff, pause, type Clock } from "../wire/timing.js";
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

/** Delivers the outcomes of probes to the gateway, in the background, until their permits expire. */
export class Outcomes {
  #pending = new Set<Promise<void>>();
  readonly #closed = new AbortController();

  constructor(
    private readonly http: GatewayHttp,
    private readonly clock: Clock,
    private readonly warnings: Warnings,
  ) {}

  /**
   * Deliver an outcome.
   *
   * @param expiresAt When the permit expires, in monotonic seconds.
   * @param undelivered Called if no gateway takes the outcome, so that the call is recorded in another way.
   */
  send(outcome: Outcome, expiresAt: number, undelivered: () => void): void {
    if (this.#pending.size >= MOST_WAITING) {
      this.warnings.warn("too many outcomes wait for the gateway; one is recorded as an event");
      undelivered();
      return;
    }
    const sent = this.#deliver(outcome, expiresAt, undelivered).finally(() => this.#pending.delete(sent));
    this.#pending.add(sent);
  }

  /** Wait for the outcomes that are under way. Return whether none is left after `timeoutS`. */
  async flush(timeoutS: number): Promise<boolean> {
    const end = this.clock.now() + timeoutS;
    while (this.#pending.size > 0 && this.clock.now() < end) {
      await atMost(end - this.clock.now(), Promise.all(this.#pending));
    }
    return this.#pending.size === 0;
  }

  /** Stop trying. */
  close(): void {
    this.#closed.abort();
  }

  async #deliver(outcome: Outcome, expiresAt: number, undelivered: () => void): Promise<void> {
    const backoff = new Backoff(0.2, 5);
    const body = withMetadataToJson(outcome);
    for (let attempt = 1; ; attempt += 1) {
      try {
        const response = await this.http.request("/v1/outcome", {
          method: "POST",
          // a gateway that doesn't know the first attempt marks the event, so that readers look for the first copy
          headers: { "content-type": "application/json", ...(attempt > 1 ? { "switchgear-resent": "true" } : {}) },
          body,
          timeoutS: TIMEOUT_S,
          signal: this.#closed.signal,
        });
        if (response.ok) {
          return;
        }
        if (response.status < 500 && response.status !== 429) {
          undelivered();
          return;
        }
      } catch (error) {
        if (!this.#closed.signal.aborted) {
          this.warnings.warn("the outcome of a probe could not be sent to the gateway", error);
        }
      }
      await pause(backoff.next(), this.#closed.signal);
      if (this.#closed.signal.aborted || this.clock.now() >= expiresAt) {
        undelivered();
        return;
      }
    }
  }
}
