/** The player of `local` scenarios: it plays the steps on one Breaker, and compares the results with the expected ones. */
import assert from "node:assert/strict";
import { Breaker } from "../../src/breaker/breaker.js";
import type { Policy } from "../../src/breaker/policy.js";
import { IllegalTransitionError } from "../../src/breaker/states.js";
import type {
  BreakerPermit,
  BreakerRejection,
  CircuitState,
  Counts,
  Result,
  ResultKind,
  Transition,
} from "../../src/breaker/values.js";
import { scenarioPolicy } from "./scenario-policy.js";
import type { Step } from "./scenarios.js";

const OUTCOMES: Record<string, ResultKind> = {
  success: "success",
  ok: "success",
  failure: "failure",
  error: "failure",
  timeout: "failure",
  excluded: "ignored",
  ignored: "ignored",
  overdue: "overdue",
};
/** Outcomes of `calls`. */
const LETTERS: Record<string, string> = { F: "failure", S: "success", I: "ignored" };
const COUNTS: Record<string, (counts: Counts) => number> = {
  failed: (counts) => counts.failed,
  ok: (counts) => counts.calls - counts.failed,
  total: (counts) => counts.calls,
  slow: (counts) => counts.slow,
  excluded: (counts) => counts.ignored,
  ignored: (counts) => counts.ignored,
  not_permitted: (counts) => counts.rejected,
  streak: (counts) => counts.consecutiveFailures,
  wasted_tokens: (counts) => counts.wastedTokens,
};
const EVENT_OF_STATE: Partial<Record<CircuitState, string>> = {
  open: "opened",
  closed: "closed",
  half_open: "half_opened",
};
export const ACTION_KEYS = new Set([
  "t",
  "op",
  "id",
  "outcome",
  "outcomes",
  "times",
  "every_s",
  "ms",
  "overdue_ms",
  "to",
  "for_s",
  "by",
  "tokens",
  "retry_after_s",
  "until",
  "note",
]);

interface Seen {
  permit?: boolean;
  permitted?: number;
  retry_after?: number | null;
  error?: string;
}

export class LocalPlayer {
  readonly #classify: Record<string, string>;
  readonly #policy: Policy;
  readonly #breaker: Breaker;
  readonly #permits = new Map<string, BreakerPermit | BreakerRejection>();
  readonly #events: Record<string, number> = {};

  constructor(config: Record<string, unknown>) {
    this.#classify = (config["classify"] as Record<string, string> | undefined) ?? {};
    this.#policy = scenarioPolicy(config);
    this.#breaker = new Breaker("scenario", this.#policy, 0);
  }

  play(step: Step): void {
    const now = step.t;
    this.#noted(() => this.#breaker.advance(now));
    if (step.op === "calls") {
      this.#calls(step);
      return;
    }
    this.#compare(now, step, this.#operate(now, step));
  }

  /** Make one call after the other, `every_s` apart. */
  #calls(step: Step): void {
    const outcomes = (step["outcomes"] as string).repeat((step["times"] as number | undefined) ?? 1);
    const seen: Seen = { permitted: 0 };
    let at = step.t;
    for (const [number, letter] of [...outcomes].entries()) {
      at = step.t + number * ((step["every_s"] as number | undefined) ?? 0);
      this.#noted(() => this.#breaker.advance(at));
      const { permit } = this.#operate(at, { ...step, op: "call", outcome: LETTERS[letter] });
      seen.permitted! += permit === true ? 1 : 0;
    }
    this.#compare(at, step, seen);
  }

  #operate(now: number, step: Step): Seen {
    const seen: Seen = {};
    const id = (step["id"] as string | undefined) ?? "";
    const forS = (step["for_s"] as number | undefined) ?? ("until" in step ? (step["until"] as number) - now : null);
    switch (step.op) {
      case "call": {
        const permit = this.#acquire(now, seen);
        if (permit.ok) {
          this.#noted(() => this.#breaker.record(now, this.#result(step), permit));
        }
        return seen;
      }
      case "acquire":
      case "allow":
        this.#permits.set(id, this.#acquire(now, seen));
        return seen;
      case "record": {
        const permit = this.#begun(id);
        this.#permits.delete(id);
        this.#noted(() => this.#breaker.record(now, this.#result(step), permit));
        return seen;
      }
      case "overdue":
        this.#noted(() => this.#breaker.record(now, this.#result(step), this.#begun(id)));
        return seen;
      case "release": {
        const permit = this.#permits.get(id);
        this.#permits.delete(id);
        assert.ok(permit?.ok, "a refused call has nothing to release");
        this.#breaker.release(permit, now);
        return seen;
      }
      case "set":
        return this.#set(step["to"] as CircuitState, now, forS, seen);
      case "trip":
      case "open":
        return this.#set("open", now, forS, seen);
      case "close":
        return this.#set("closed", now, null, seen);
      case "reset":
        this.#event("reset");
        this.#noted(() => this.#breaker.reset(now, "scenario"));
        return seen;
      case "check":
        return seen;
      default:
        throw new assert.AssertionError({ message: `the adapter does not know the operation ${step.op}` });
    }
  }

  #begun(id: string): BreakerPermit | null {
    const permit = this.#permits.get(id) ?? null;
    if (permit !== null && !permit.ok) {
      throw new assert.AssertionError({ message: "a refused call has no result" });
    }
    return permit;
  }

  #set(state: CircuitState, now: number, openForS: number | null, seen: Seen): Seen {
    try {
      this.#noted(() => this.#breaker.transitionTo(state, now, "scenario", openForS));
    } catch (error) {
      assert.ok(error instanceof IllegalTransitionError);
      seen.error = "illegal_transition";
    }
    return seen;
  }

  #acquire(now: number, seen: Seen): BreakerPermit | BreakerRejection {
    const answer = this.#noted(() => this.#breaker.tryAcquire(now));
    seen.permit = answer.ok;
    if (!answer.ok) {
      this.#event("not_permitted");
      seen.retry_after = answer.retryAfterS;
    }
    return answer;
  }

  #result(step: Step): Result {
    const named = (step["outcome"] as string | undefined) ?? step.op;
    return {
      kind: OUTCOMES[this.#classify[named] ?? named]!,
      durationMs: (step["ms"] as number | undefined) ?? 0,
      tokens: (step["tokens"] as number | undefined) ?? 0,
      reporter: (step["by"] as string | undefined) ?? "",
      retryAfterS: (step["retry_after_s"] as number | undefined) ?? null,
      overdueMs: (step["overdue_ms"] as number | undefined) ?? null,
      tool: "",
    };
  }

  #noted<T>(act: () => T): T {
    const generation = this.#breaker.generation;
    const answer = act();
    const changes = this.#breaker.generation - generation;
    assert.ok(changes <= 1);
    const state = this.#breaker.state;
    if (changes === 1) {
      this.#event("state_change");
      this.#event(EVENT_OF_STATE[state] ?? state);
    } else if (
      answer !== null &&
      typeof answer === "object" &&
      "cause" in answer &&
      "at" in answer &&
      state === "metrics_only"
    ) {
      this.#event("would_open");
      this.#event(`${(answer as unknown as Transition).cause.rule}_exceeded`);
    }
    return answer;
  }

  #event(name: string): void {
    this.#events[name] = (this.#events[name] ?? 0) + 1;
  }

  #compare(now: number, step: Step, seen: Seen): void {
    const counts = this.#breaker.counts(now);
    for (const [key, expected] of Object.entries(step)) {
      if (ACTION_KEYS.has(key)) {
        continue;
      }
      if (key === "state") {
        this.#compareState(now, step.op, expected as CircuitState);
      } else if (key === "rate" || key === "slow_rate") {
        this.#compareRate(key === "rate" ? counts.failed : counts.slow, counts.calls, expected as number | null);
      } else if (key === "counts") {
        const named = expected as Record<string, number>;
        assert.deepEqual(Object.fromEntries(Object.keys(named).map((name) => [name, COUNTS[name]?.(counts)])), named);
      } else if (key === "events") {
        const named = expected as Record<string, number>;
        assert.deepEqual(Object.fromEntries(Object.keys(named).map((name) => [name, this.#events[name] ?? 0])), named);
      } else if (key === "retry_after") {
        assert.ok(Math.abs((seen.retry_after ?? NaN) - (expected as number)) < 1e-6, `retry_after ${seen.retry_after}`);
      } else if (key === "permit" || key === "permitted" || key === "error") {
        assert.equal(seen[key], expected, key);
      } else {
        assert.equal(this.#field(key), expected, key);
      }
    }
    assert.ok(seen.error === undefined || "error" in step, seen.error);
  }

  #field(key: string): unknown {
    const breaker = this.#breaker;
    switch (key) {
      case "remaining":
        return breaker.remainingProbes;
      case "share":
        return breaker.admittedShare;
      case "attempt":
        return breaker.attempt;
      case "cause":
        return breaker.cause?.rule;
      default:
        throw new assert.AssertionError({ message: `the adapter does not know the expectation ${key}` });
    }
  }

  #compareRate(number: number, calls: number, expected: number | null): void {
    if (expected === null) {
      assert.ok(calls < this.#policy.minimum_number_of_calls);
    } else {
      assert.ok(Math.abs((calls > 0 ? number / calls : 0) - expected) < 1e-6);
    }
  }

  #compareState(now: number, operation: string, expected: CircuitState): void {
    const { state, openUntil } = this.#breaker;
    if (operation === "check" && expected === "half_open" && state === "open") {
      assert.ok(openUntil !== null && now >= openUntil); // half-open in waiting: the next caller is let through
      return;
    }
    assert.equal(state, expected);
  }
}
