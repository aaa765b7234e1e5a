import { Ending } from "../wire/ending.js";
import type { GatewayHttp } from "../wire/http.js";
import { mintEmitterId, mintId } from "../wire/ids.js";
import { withMetadataToJson } from "../wire/json.js";
import type { LastRequest } from "../wire/last-requests.js";
import { atMost, Backoff, later, pause, poll, type Clock } from "../wire/timing.js";
import type { Warnings } from "../wire/warnings.js";
import { BatchSender, bodyOf, FLIGHT_S, headersOf, type Batch } from "./batch-sender.js";
import type { Execution, ExecutionInput } from "./execution.js";

/** Events that go to the gateway in one request. */
export const MOST_IN_BATCH = 200;
/** The most characters of a batch. The gateway's limit of a body is larger. */
const MOST_CHARACTERS = 500_000;
/** Browsers let this many bytes outlive the page. */
const MOST_KEPT_ALIVE = 60_000;
const LINGER_S = 0.5;

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

/**
 * Sends events to the gateway in batches. `emit` never waits, and never throws.
 *
 * The buffer is bounded: when it is full, the oldest events are dropped and counted. A batch that fails is sent again, with growing
 * waits, and marked if the gateway may have it already.
 *
 * With a background, batches leave one after the other. Without one (`waits` is given), only `flush` sends: each request sends what it
 * finds, by itself. A batch whose request seems to have ended is sent again by another one.
 */
export class Emitter {
  readonly #sender: BatchSender;
  #emitterId: string | null = null;
  #waiting: string[] = [];
  /** What is to be sent before all that waits. */
  #again: Batch[] = [];
  /** When each batch under way is given up, in monotonic seconds. */
  readonly #flights = new Map<Batch, number>();
  #running: Promise<void> | null = null;
  #cancelTimer: (() => void) | null = null;
  #hurry = new Ending();
  readonly #closed = new Ending();
  readonly #backoff = new Backoff(0.5, 30);
  /** Without a background: no request sends before, in monotonic seconds. */
  #notBefore = -Infinity;

  constructor(
    http: GatewayHttp,
    private readonly service: string,
    private readonly limit: number,
    private readonly clock: Clock,
    private readonly warnings: Warnings,
    /** Called with the number of events that wait, after each one, where there is no background. */
    private readonly waits: ((count: number) => void) | null = null,
  ) {
    this.#sender = new BatchSender(http, warnings, this.#closed);
  }

  /** The identifier of this process. It is made when it is first needed: a module of a Worker may make none. */
  get emitterId(): string {
    this.#emitterId ??= mintEmitterId(this.service);
    return this.#emitterId;
  }

  /** Put an event into the buffer. */
  emit(given: ExecutionInput): void {
    const line = this.warnings.attempt("an event could not be encoded", () => this.#encoded(given));
    if (line === null || this.#closed.ended) {
      this.#sender.dropped += 1;
      return;
    }
    if (this.#waiting.length >= this.limit) {
      this.#waiting.shift();
      this.#sender.dropped += 1;
      this.warnings.warn("the buffer of events is full; the oldest are dropped", this.#sender.lastError);
    }
    this.#waiting.push(line);
    if (this.waits !== null) {
      this.waits(this.#waiting.length);
    } else if (this.#waiting.length >= MOST_IN_BATCH) {
      this.#start();
    } else if (this.#running === null && this.#cancelTimer === null) {
      this.#cancelTimer = later(LINGER_S, () => this.#start());
    }
  }

  /** Send everything now. Return whether the gateway has acknowledged all of it within `timeoutS`. */
  async flush(timeoutS: number): Promise<boolean> {
    const before = this.#sender.dropped;
    const end = this.clock.now() + timeoutS;
    if (this.waits !== null) {
      await atMost(timeoutS, this.#drain(end));
      await poll(end - this.clock.now(), () => this.#flights.size === 0);
      return this.#buffered === 0 && this.#sender.dropped === before;
    }
    while (this.#buffered > 0) {
      this.#start();
      const left = end - this.clock.now();
      if (left <= 0 || this.#closed.ended) {
        return false;
      }
      this.#hurry.end(); // don't wait for the end of a back-off
      await atMost(Math.min(left, 1), this.#running ?? Promise.resolve());
    }
    return this.#sender.dropped === before;
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
      this.#sender.sendKeepalive({ lines, resent: false }).then(
        (taken) => (taken ? (this.#sender.sent += lines.length) : this.#waiting.unshift(...lines)),
        () => (this.#sender.dropped += lines.length),
      );
    }
  }

  /** Take all that is not acknowledged, because the process ends. What is under way may arrive twice, so it is marked. */
  takeLast(): LastRequest[] {
    const batches: Batch[] = [...this.#flights.keys()].map(({ lines }) => ({ lines, resent: true }));
    this.#flights.clear();
    for (let batch = this.#next(); batch !== null; batch = this.#next()) {
      batches.push(batch);
    }
    return batches.map((batch) => ({
      path: "/v1/executions",
      headers: headersOf(batch),
      body: bodyOf(batch),
      count: batch.lines.length,
      ended: (taken) => {
        this.#sender[taken ? "sent" : "dropped"] += batch.lines.length;
      },
    }));
  }

  /** Stop. Events that still wait are dropped. */
  close(): void {
    this.#closed.end();
    this.#cancelTimer?.();
    this.#sender.dropped += this.#waiting.length + eventsIn(this.#again);
    this.#waiting = [];
    this.#again = [];
  }

  status(): EmitterStatus {
    const { sent, dropped, lastError } = this.#sender;
    return { buffered: this.#buffered, sent, dropped, lastError };
  }

  get #buffered(): number {
    return this.#waiting.length + eventsIn([...this.#again, ...this.#flights.keys()]);
  }

  #encoded(given: ExecutionInput): string {
    const event: Execution = {
      metric_id: mintId(),
      emitter_id: this.emitterId,
      ...(this.service === "" ? {} : { service: this.service }),
      ...given,
      recorded_at: given.recorded_at ?? new Date(this.clock.wall() * 1000).toISOString(),
    };
    return withMetadataToJson(event);
  }

  #start(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    this.#running ??= this.#run().finally(() => {
      this.#running = null;
      if (this.#waiting.length > 0 && !this.#closed.ended) {
        this.#cancelTimer ??= later(LINGER_S, () => this.#start());
      }
    });
  }

  /** Send batches, one after the other, until nothing waits. */
  async #run(): Promise<void> {
    for (let batch = this.#next(); batch !== null && !this.#closed.ended; batch = this.#next()) {
      const retryAfterS = await this.#sendOne(batch);
      if (retryAfterS !== "done") {
        this.#hurry = new Ending();
        await pause(this.#backoff.next(retryAfterS), this.#closed, this.#hurry);
      }
    }
  }

  /** Send batches until nothing waits, or one fails. It is the work of one request, which may end at any time. */
  async #drain(end: number): Promise<void> {
    for (const [batch, givenUpAt] of [...this.#flights]) {
      if (this.clock.now() >= givenUpAt) {
        this.#flights.delete(batch);
        this.#again.push({ lines: batch.lines, resent: true });
      }
    }
    while (this.clock.now() < end && this.clock.now() >= this.#notBefore) {
      const batch = this.#next();
      if (batch === null) {
        return;
      }
      const retryAfterS = await this.#sendOne(batch);
      if (retryAfterS !== "done") {
        this.#notBefore = this.clock.now() + this.#backoff.next(retryAfterS);
      }
    }
  }

  /** Send a batch. Return `done`, or how long the gateway asks to wait before another try. */
  async #sendOne(batch: Batch): Promise<"done" | number | null> {
    this.#flights.set(batch, this.clock.now() + FLIGHT_S);
    const { again, retryAfterS } = await this.#sender.send(batch);
    if (!this.#flights.delete(batch)) {
      return "done"; // it was taken over: it seemed dead
    }
    if (this.#closed.ended) {
      this.#sender.dropped += eventsIn(again);
      return "done";
    }
    if (again.length === 0) {
      this.#backoff.reset();
      return "done";
    }
    this.#again.unshift(...again);
    return retryAfterS;
  }

  /** Take the next batch out of what waits. */
  #next(): Batch | null {
    const first = this.#again.shift();
    if (first !== undefined || this.#waiting.length === 0) {
      return first ?? null;
    }
    let count = 0;
    let characters = 0;
    while (count < this.#waiting.length && count < MOST_IN_BATCH) {
      characters += this.#waiting[count]!.length;
      if (count > 0 && characters > MOST_CHARACTERS) {
        break;
      }
      count += 1;
    }
    return { lines: this.#waiting.splice(0, count), resent: false };
  }
}

function eventsIn(batches: readonly Batch[]): number {
  return batches.reduce((sum, { lines }) => sum + lines.length, 0);
}
