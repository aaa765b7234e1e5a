import { SwitchgearError } from "../errors.js";
import { Rejection } from "../rejection.js";
import { nameForModel } from "../model-text.js";

/** What a call cost. */
export interface Usage {
  /** Tokens that the model read. */
  readonly inputTokens?: number | undefined;
  /** Tokens that the model wrote. */
  readonly outputTokens?: number | undefined;
  readonly cacheCreationTokens?: number | undefined;
  readonly costUsd?: number | undefined;
}

export function totalTokens(usage: Usage): number {
  return (usage.inputTokens ?? 0) + (usage.outputTokens ?? 0) + (usage.cacheCreationTokens ?? 0);
}

export interface SessionOptions {
  /** On every event. A generated one by default. */
  readonly sessionId?: string | undefined;
  /** On every event. */
  readonly userId?: string | undefined;
  /** What its calls sign in with, such as a token. Only a salted hash is kept, and never sent. The session stands for it by default. */
  readonly credential?: string | undefined;
  /** Refuse calls after this many tokens, reported by the tools or by `spend`. */
  readonly tokenBudget?: number | undefined;
  /** Refuse calls after this many failed calls. Cancelled calls and refusals by a policy don't count. */
  readonly maxFailures?: number | undefined;
  /** Refuse calls after this many calls. */
  readonly maxCalls?: number | undefined;
}

/** Counts of a session, as of now. What is left is null without a limit. */
export interface SessionStatus {
  readonly calls: number;
  readonly callsLeft: number | null;
  readonly failures: number;
  readonly failuresLeft: number | null;
  readonly tokens: number;
  readonly tokensLeft: number | null;
  /** Calls refused because a limit was reached. */
  readonly refused: number;
  readonly costUsd: number;
  /** Which limit was reached, in words. Null while calls are let through. */
  readonly exhausted: string | null;
}

/** The limits of one run of an agent. They are compared when a call begins: calls that run at that moment may exceed them. */
export class SessionLimits {
  #calls = 0;
  #failures = 0;
  #refused = 0;
  #tokens = 0;
  #costUsd = 0;

  /** @throws SwitchgearError A limit is impossible. */
  constructor(
    readonly sessionId: string,
    private readonly options: SessionOptions,
  ) {
    for (const name of ["tokenBudget", "maxFailures", "maxCalls"] as const) {
      const limit = options[name];
      if (limit !== undefined && !(Number.isInteger(limit) && limit >= 1)) {
        throw new SwitchgearError(`${name} is ${String(limit)}.`, "Use a whole number of at least 1, or leave it out.");
      }
    }
  }

  /** Which limit was reached, in words. */
  get exhausted(): string | null {
    const { tokenBudget, maxFailures, maxCalls } = this.options;
    if (tokenBudget !== undefined && this.#tokens >= tokenBudget) {
      return `the token budget of session ${nameForModel(this.sessionId)} is spent (${this.#tokens} of ${tokenBudget})`;
    }
    if (maxFailures !== undefined && this.#failures >= maxFailures) {
      return `${this.#failures} calls of session ${nameForModel(this.sessionId)} failed (the limit is ${maxFailures})`;
    }
    if (maxCalls !== undefined && this.#calls >= maxCalls) {
      return `session ${nameForModel(this.sessionId)} has made its ${maxCalls} calls`;
    }
    return null;
  }

  /** Return the refusal of a call if a limit is reached. */
  refusal(tool: string): Rejection | null {
    const reason = this.exhausted;
    if (reason === null) {
      return null;
    }
    this.#refused += 1;
    return new Rejection({ tool, state: "open", source: "session", reason });
  }

  /** Count a call that nothing refuses. */
  begin(): void {
    this.#calls += 1;
  }

  /** Take back a call that was never made. */
  takeBack(): void {
    this.#calls -= 1;
  }

  /** Count the end of a call. */
  ended(usage: Usage, failed: boolean): void {
    this.#failures += failed ? 1 : 0;
    this.#tokens += totalTokens(usage);
    this.#costUsd += usage.costUsd ?? 0;
  }

  status(): SessionStatus {
    const { tokenBudget, maxFailures, maxCalls } = this.options;
    return {
      calls: this.#calls,
      callsLeft: left(maxCalls, this.#calls),
      failures: this.#failures,
      failuresLeft: left(maxFailures, this.#failures),
      tokens: this.#tokens,
      tokensLeft: left(tokenBudget, this.#tokens),
      refused: this.#refused,
      costUsd: this.#costUsd,
      exhausted: this.exhausted,
    };
  }
}

function left(limit: number | undefined, used: number): number | null {
  return limit === undefined ? null : Math.max(0, limit - used);
}
