import { retryAfterIn } from "../classify/waits.js";
import { isRecord } from "../classify/tool-failure.js";
import { GatewayError, jsonIn, messageOf, problemIn, type GatewayHttp, type GatewayResponse } from "../wire/http.js";
import { mintEmitterId, mintId } from "../wire/ids.js";
import { withMetadataToJson } from "../wire/json.js";
import { atMost, Backoff, later, pause, type Clock } from "../wire/timing.js";
import type { Warnings } from "../wire/warnings.js";
import type { Execution, ExecutionInput } from "./execution.js";

const MOST_IN_BATCH = 200;
/** The most characters of a batch. The gateway's limit of a body is larger. */
const MOST_CHARACTERS = 500_000;
/** Browsers let this many bytes outlive the page. */
const MOST_KEPT_ALIVE = 60_000;
const LINGER_S = 0.5;
const TIMEOUT_S = 30;
const MOST_WARNINGS = 10;
const MOST_WARNING_LENGTH = 500;

export interface EmitterStatus {
  /** Events that wait to be sent. */
  readonly buffered: number;
  /** Events that the gateway has acknowledged. */
  readonly sent: number;
  /** Events that were dropped, because the buffer was full or the gateway refused them for good. */
  readonly dropped: number;
  /** Why the last batch failed. Null after a success. */
  readonly lastError: string | null;
}

interface Batch {
  readonly lines: readonly string[];
  /** The gateway may have it already. */
  readonly resent: boolean;
}

/**
 * Sends events to the gateway in batches, in the background. `emit` never waits.
 *
 * The buffer is bounded: when it is full, the oldest events are dropped and counted. A batch that fails is sent again, with growing
 * waits, and marked if the gateway may have it already.
 */
export class Emitter {
  readonly emitterId: string;
  #waiting: string[] = [];
  #sending: Batch | null = null;
  #sent = 0;
  #dropped = 0;
  #lastError: string | null = null;
  #running: Promise<void> | null = null;
  #cancelTimer: (() => void) | null = null;
  #hurry = new AbortController();
  readonly #closed = new AbortController();
  readonly #backoff = new Backoff(0.5, 30);

  constructor(
    private readonly http: GatewayHttp,
    private readonly service: string,
    private readonly limit: number,
    private readonly clock: Clock,
    private readonly warnings: Warnings,
  ) {
    this.emitterId = mintEmitterId(service);
  }

  /** Put an event into the buffer. */
  emit(given: ExecutionInput): void {
    const event: Execution = {
      metric_id: mintId(),
      emitter_id: this.emitterId,
      ...(this.service === "" ? {} : { service: this.service }),
      ...given,
      recorded_at: given.recorded_at ?? new Date(this.clock.wall() * 1000).toISOString(),
    };
    const line = this.warnings.attempt("an event could not be encoded", () => withMetadataToJson(event));
    if (line === null || this.#closed.signal.aborted) {
      this.#dropped += 1;
      return;
    }
    if (this.#waiting.length >= this.limit) {
      this.#waiting.shift();
      this.#dropped += 1;
      this.warnings.warn("the buffer of events is full; the oldest are dropped", this.#lastError);
    }
    this.#waiting.push(line);
    if (this.#waiting.length >= MOST_IN_BATCH) {
      this.#start();
    } else if (this.#running === null && this.#cancelTimer === null) {
      this.#cancelTimer = later(LINGER_S, () => this.#start());
    }
  }

  /** Send everything now. Return whether the gateway has acknowledged all of it within `timeoutS`. */
  async flush(timeoutS: number): Promise<boolean> {
    const before = this.#dropped;
    const end = this.clock.now() + timeoutS;
    while (this.#waiting.length > 0 || this.#sending !== null) {
      this.#start();
      const left = end - this.clock.now();
      if (left <= 0 || this.#closed.signal.aborted) {
        return false;
      }
      this.#hurry.abort(); // don't wait for the end of a back-off
      await atMost(Math.min(left, 1), this.#running ?? Promise.resolve());
    }
    return this.#dropped === before;
  }

  /** Hand what fits to the browser, because the page goes away. There is no answer to wait for. */
  flushKeepalive(): void {
    const lines: string[] = [];
    let characters = 0;
    while (this.#waiting.length > 0 && characters + this.#waiting[0]!.length < MOST_KEPT_ALIVE) {
      characters += this.#waiting[0]!.length + 1;
      lines.push(this.#waiting.shift()!);
    }
    if (lines.length > 0) {
      this.#post({ lines, resent: false }, true).then(
        (response) => (response.ok ? (this.#sent += lines.length) : this.#waiting.unshift(...lines)),
        () => (this.#dropped += lines.length),
      );
    }
  }

  /** Stop. Events that still wait are dropped. */
  close(): void {
    this.#closed.abort();
    this.#cancelTimer?.();
    this.#dropped += this.#waiting.length;
    this.#waiting = [];
  }

  status(): EmitterStatus {
    const buffered = this.#waiting.length + (this.#sending?.lines.length ?? 0);
    return { buffered, sent: this.#sent, dropped: this.#dropped, lastError: this.#lastError };
  }

  #start(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    this.#running ??= this.#run().finally(() => {
      this.#running = null;
      if (this.#waiting.length > 0 && !this.#closed.signal.aborted) {
        this.#cancelTimer ??= later(LINGER_S, () => this.#start());
      }
    });
  }

  /** Send batches until nothing waits. */
  async #run(): Promise<void> {
    while ((this.#waiting.length > 0 || this.#sending !== null) && !this.#closed.signal.aborted) {
      this.#sending ??= { lines: this.#take(), resent: false };
      const batch = this.#sending;
      let retryAfterS: number | null = null;
      try {
        const response = await this.#post(batch, false);
        retryAfterS = response.status === 429 || response.status === 503 ? retryAfterIn(response.headers) : null;
        this.#sending = this.#after(batch, response);
      } catch (error) {
        if (!this.#closed.signal.aborted) {
          this.#failed(messageOf(error), error);
        }
        this.#sending = { lines: batch.lines, resent: true };
      }
      if (this.#sending === null) {
        this.#backoff.reset();
        this.#lastError = null;
      } else {
        this.#hurry = new AbortController();
        await pause(this.#backoff.next(retryAfterS), AbortSignal.any([this.#closed.signal, this.#hurry.signal]));
      }
    }
    if (this.#closed.signal.aborted && this.#sending !== null) {
      this.#dropped += this.#sending.lines.length;
      this.#sending = null;
    }
  }

  #take(): string[] {
    let count = 0;
    let characters = 0;
    while (count < this.#waiting.length && count < MOST_IN_BATCH) {
      characters += this.#waiting[count]!.length;
      if (count > 0 && characters > MOST_CHARACTERS) {
        break;
      }
      count += 1;
    }
    return this.#waiting.splice(0, count);
  }

  #post(batch: Batch, keepalive: boolean): Promise<GatewayResponse> {
    return this.http.request("/v1/executions", {
      method: "POST",
      headers: { "content-type": "application/x-ndjson", ...(batch.resent ? { "switchgear-resent": "true" } : {}) },
      body: batch.lines.join("\n"),
      timeoutS: TIMEOUT_S,
      keepalive,
      signal: this.#closed.signal,
    });
  }

  /** Return what is to be sent again, or null. */
  #after(batch: Batch, response: GatewayResponse): Batch | null {
    const { lines } = batch;
    if (response.ok) {
      const answer = jsonIn(response);
      this.#tell(answer);
      const rejected = isRecord(answer) && Array.isArray(answer["rejected"]) ? answer["rejected"] : [];
      const accepted =
        isRecord(answer) && typeof answer["accepted"] === "number"
          ? answer["accepted"]
          : lines.length - rejected.length;
      this.#sent += Math.min(accepted, lines.length);
      if (rejected.length > 0) {
        this.#dropped += lines.length - Math.min(accepted, lines.length);
        this.warnings.warn(
          "the gateway rejected some events",
          (rejected[0] as { reason?: unknown } | undefined)?.reason,
        );
      }
      return null;
    }
    if (response.status === 503) {
      const answer = jsonIn(response);
      this.#tell(answer);
      const unknown = isRecord(answer) ? answer["unknown"] : null;
      this.#failed("The gateway doesn't know whether all events were stored.");
      const again = Array.isArray(unknown) ? lines.filter((_, index) => unknown.includes(index)) : lines;
      this.#sent += lines.length - again.length;
      return again.length === 0 ? null : { lines: again, resent: true };
    }
    const problem = `The gateway answered ${response.status}. ${problemIn(response.text)}`.trim();
    if (response.status === 429) {
      this.#failed(problem);
      return batch; // it took nothing
    }
    if (response.status >= 500 || response.status === 408) {
      this.#failed(problem);
      return { lines, resent: true };
    }
    if (response.status === 401 || response.status === 403) {
      this.#failed(problem, new GatewayError(problem, response.status));
      return batch; // a token may be renewed; the buffer is bounded meanwhile
    }
    if (response.status === 413 && lines.length > 1) {
      const half = Math.ceil(lines.length / 2);
      this.#waiting.unshift(...lines.slice(half));
      return { lines: lines.slice(0, half), resent: batch.resent };
    }
    this.#dropped += lines.length;
    this.warnings.warn(`the gateway refused a batch of events. ${problem}`);
    return null;
  }

  /** Warn about what the gateway says about this process, such as that its clock is wrong. It says so once. */
  #tell(answer: unknown): void {
    const warnings = isRecord(answer) ? answer["warnings"] : null;
    for (const warning of Array.isArray(warnings) ? warnings.slice(0, MOST_WARNINGS) : []) {
      if (typeof warning === "string") {
        this.warnings.warn(`the gateway says: ${warning.slice(0, MOST_WARNING_LENGTH)}`);
      }
    }
  }

  #failed(problem: string, error?: unknown): void {
    this.#lastError = problem;
    this.warnings.warn("events could not be sent to the gateway; they wait", error ?? problem);
  }
}
