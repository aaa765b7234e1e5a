import type { Emitter } from "../emitter/emitter.js";
import type { Rejection } from "../rejection.js";
import { MOST_OF_AN_ERROR } from "../model-text.js";
import { oneLine } from "../text/one-line.js";
import { later, type Clock } from "../wire/timing.js";
import type { Caller } from "./caller.js";

const INTERVAL_S = 1;
const MOST_KEPT = 10_000;

interface Sum {
  lastSent: number;
  count: number;
  latest: Refusal | null;
}

interface Refusal {
  readonly rejection: Rejection;
  readonly caller: Caller;
  readonly at: number;
  /** The tool that served the caller instead. */
  readonly fallbackTool: string | null;
}

/**
 * Sends at most one `rejected` event per second for each tool, target and source, with the number of refusals. A loop that calls an open
 * circuit costs one event per second.
 */
export class RefusalReporter {
  /** Returns how many calls of a tool were asked for, if its limit is kept, and with which credential. */
  asked: ((tool: string, caller: Caller) => { readonly asked: number; readonly credential: string } | null) | null =
    null;
  readonly #sums = new Map<string, Sum>();
  #cancel: (() => void) | null = null;

  constructor(
    private readonly emitter: Emitter,
    private readonly clock: Clock,
  ) {}

  /** Report one refused call. With `waits` it isn't refused, but waits for its turn. */
  refused(rejection: Rejection, caller: Caller, fallbackTool: string | null = null, waits = false): void {
    const at = this.clock.wall();
    const key = `${rejection.source} ${rejection.family ?? ""} ${rejection.target} ${rejection.tool}`;
    let sum = this.#sums.get(key);
    if (sum === undefined) {
      if (this.#sums.size >= MOST_KEPT) {
        this.sweep(true);
        this.#sums.clear();
      }
      sum = { lastSent: this.clock.now() - INTERVAL_S, count: 0, latest: null };
      this.#sums.set(key, sum);
    }
    sum.count += waits ? 0 : 1;
    sum.latest = { rejection, caller, at, fallbackTool };
    if (this.clock.now() >= sum.lastSent + INTERVAL_S) {
      this.#send(sum);
    } else {
      this.#cancel ??= later(INTERVAL_S, () => this.sweep(false));
    }
  }

  /** Send what has waited for its second, or everything. */
  sweep(everything: boolean): void {
    this.#cancel?.();
    this.#cancel = null;
    for (const sum of this.#sums.values()) {
      if (sum.latest !== null && (everything || this.clock.now() >= sum.lastSent + INTERVAL_S)) {
        this.#send(sum);
      } else if (sum.latest !== null) {
        this.#cancel ??= later(INTERVAL_S, () => this.sweep(false));
      }
    }
  }

  #send(sum: Sum): void {
    const { rejection, caller, at, fallbackTool } = sum.latest!;
    const { generation, family } = rejection;
    const ofCircuit = generation === null ? {} : family === null ? { generation } : { family_generation: generation };
    const said = rejection.source === "pace" ? (this.asked?.(rejection.tool, caller) ?? null) : null;
    this.emitter.emit({
      tool_name: rejection.tool,
      status: "rejected",
      ...ofCircuit,
      served_by: fallbackTool === null ? "none" : "fallback",
      ...(fallbackTool === null ? {} : { fallback_tool: fallbackTool }),
      ...caller.fields,
      ...(rejection.target === "" ? {} : { target: rejection.target }),
      metadata: {
        refused: sum.count,
        refused_by: rejection.source,
        ...(rejection.source === "local" ? ofLocalCircuit(rejection) : {}),
        ...(family === null ? {} : { family }),
        ...(said === null ? {} : { asked: said.asked }),
      },
      ...(said === null || said.credential === "" ? {} : { credential: said.credential }),
      recorded_at: new Date(at * 1000).toISOString(),
    });
    sum.lastSent = this.clock.now();
    sum.count = 0;
    sum.latest = null;
  }
}

/** Return what a record would say about a process's own circuit, which has none. */
function ofLocalCircuit(rejection: Rejection): Record<string, unknown> {
  return {
    state: rejection.state,
    scope: rejection.scope,
    ...(rejection.retryAfterS === null ? {} : { retry_after_s: Math.round(rejection.retryAfterS * 1000) / 1000 }),
    ...(rejection.cause === null ? {} : { cause: rejection.cause }),
    ...(rejection.lastError === null ? {} : { last_error: oneLine(rejection.lastError, MOST_OF_AN_ERROR) }),
  };
}
