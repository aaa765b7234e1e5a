import { retryAfterIn } from "../classify/waits.js";
import { isRecord } from "../classify/tool-failure.js";
import { GatewayError, jsonIn, messageOf, problemIn, type GatewayHttp, type GatewayResponse } from "../wire/http.js";
import type { Ending } from "../wire/ending.js";
import type { Warnings } from "../wire/warnings.js";

const TIMEOUT_S = 30;
const MOST_WARNINGS = 10;
const MOST_WARNING_LENGTH = 500;

/** Encoded events that go to the gateway together. */
export interface Batch {
  readonly lines: readonly string[];
  /** The gateway may have it already. */
  readonly resent: boolean;
}

/** What a batch has come to. */
export interface Sent {
  /** What is to be sent again. Empty: all of it is done. */
  readonly again: readonly Batch[];
  /** How long the gateway asks to wait, in seconds. */
  readonly retryAfterS: number | null;
}

/** The longest time that a batch is under way, in seconds. */
export const FLIGHT_S = TIMEOUT_S + 5;

/** Sends batches of events, and reads what the gateway's answers mean for each. */
export class BatchSender {
  /** Events that the gateway has acknowledged. */
  sent = 0;
  /** Events that were dropped. */
  dropped = 0;
  /** Why the last batch failed. Null after a success. */
  lastError: string | null = null;

  constructor(
    readonly http: GatewayHttp,
    private readonly warnings: Warnings,
    private readonly ending: Ending,
  ) {}

  /** Send a batch. It never throws. */
  async send(batch: Batch): Promise<Sent> {
    let retryAfterS: number | null = null;
    let again: readonly Batch[];
    try {
      const response = await this.#post(batch, false);
      retryAfterS = response.status === 429 || response.status === 503 ? retryAfterIn(response.headers) : null;
      again = this.#after(batch, response);
    } catch (error) {
      if (!this.ending.ended) {
        this.#failed(messageOf(error), error);
      }
      again = [{ lines: batch.lines, resent: true }];
    }
    if (again.length === 0) {
      this.lastError = null;
    }
    return { again, retryAfterS };
  }

  /** Hand a batch to the browser, because the page goes away. Return whether it was taken while somebody waits for the answer. */
  async sendKeepalive(batch: Batch): Promise<boolean> {
    return (await this.#post(batch, true)).ok;
  }

  #post(batch: Batch, keepalive: boolean): Promise<GatewayResponse> {
    return this.http.request("/v1/executions", {
      method: "POST",
      headers: headersOf(batch),
      body: bodyOf(batch),
      timeoutS: TIMEOUT_S,
      keepalive,
      ending: this.ending,
    });
  }

  /** Return what is to be sent again. */
  #after(batch: Batch, response: GatewayResponse): readonly Batch[] {
    const { lines } = batch;
    if (response.ok) {
      const answer = jsonIn(response);
      this.#tell(answer);
      const rejected = isRecord(answer) && Array.isArray(answer["rejected"]) ? answer["rejected"] : [];
      const accepted =
        isRecord(answer) && typeof answer["accepted"] === "number"
          ? answer["accepted"]
          : lines.length - rejected.length;
      this.sent += Math.min(accepted, lines.length);
      if (rejected.length > 0) {
        this.dropped += lines.length - Math.min(accepted, lines.length);
        this.warnings.warn(
          "the gateway rejected some events",
          (rejected[0] as { reason?: unknown } | undefined)?.reason,
        );
      }
      return [];
    }
    if (response.status === 503) {
      const answer = jsonIn(response);
      this.#tell(answer);
      const unknown = isRecord(answer) ? answer["unknown"] : null;
      this.#failed("The gateway doesn't know whether all events were stored.");
      const again = Array.isArray(unknown) ? lines.filter((_, index) => unknown.includes(index)) : lines;
      this.sent += lines.length - again.length;
      return again.length === 0 ? [] : [{ lines: again, resent: true }];
    }
    const problem = `The gateway answered ${response.status}. ${problemIn(response.text)}`.trim();
    if (response.status === 429) {
      this.#failed(problem);
      return [batch]; // it took nothing
    }
    if (response.status >= 500 || response.status === 408) {
      this.#failed(problem);
      return [{ lines, resent: true }];
    }
    if (response.status === 401 || response.status === 403) {
      this.#failed(problem, new GatewayError(problem, response.status));
      return [batch]; // a token may be renewed; the buffer is bounded meanwhile
    }
    if (response.status === 413 && lines.length > 1) {
      const half = Math.ceil(lines.length / 2);
      return [lines.slice(0, half), lines.slice(half)].map((part) => ({ lines: part, resent: batch.resent }));
    }
    this.dropped += lines.length;
    this.warnings.warn(`the gateway refused a batch of events. ${problem}`);
    return [];
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
    this.lastError = problem;
    this.warnings.warn("events could not be sent to the gateway; they wait", error ?? problem);
  }
}

/** Return the headers of a request with a batch, besides the token. */
export function headersOf(batch: Batch): Record<string, string> {
  return { "content-type": "application/x-ndjson", ...(batch.resent ? { "switchgear-resent": "true" } : {}) };
}

/** Return the body of a request with a batch. */
export function bodyOf(batch: Batch): string {
  return batch.lines.join("\n");
}
