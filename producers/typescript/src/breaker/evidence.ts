/** What a circuit remembers of its calls, and whether it breaches a rule. Each rule compares by `>=`. */
import { OFF, solve, type Detector } from "./cusum.js";
import type { Policy } from "./policy.js";
import { STALE_S } from "./states.js";
import { LEAST_OVERDUE_MS, type Cause, type Counts, type Result } from "./values.js";
import { CountWindow, TimeWindow, type CallWindow } from "./windows.js";

/** The most credentials that a circuit remembers. A policy that asks for more opens none by this rule. */
const MOST_DENIED = 64;

/** The thresholds of a policy. The threshold of a rule that is off is infinite. */
interface Thresholds {
  readonly consecutive: number;
  readonly count: number;
  readonly rate: number;
  readonly slowMs: number;
  /** A call is overdue once it has run this long. With a rate of slow calls alone that is the least limit that the fleet learns. */
  readonly lateMs: number;
  readonly slowRate: number;
  readonly tokens: number;
  readonly cusum: Detector;
  /** Different credentials. 0: the rule is off. */
  readonly denied: number;
}

/** Window, run of failures, CUSUM, reporters and tools of one circuit. */
export class Evidence {
  readonly limits: Thresholds;
  readonly window: CallWindow;
  /** A run of failures ends if the next call begins later than this after the last one. */
  readonly runAgeS: number;
  /** Failures since the last success, without a gap longer than `runAgeS`. */
  streak = 0;
  /** In the detector's units, at most its height. */
  cusum = 0;
  readonly #policy: Policy;
  /** When the last call was counted, if there is a run or a sum. */
  #countedAt: number;
  #cusumCalls = 0;
  #cusumFailed = 0;
  readonly #callers: Reporters;
  readonly #failers: Reporters;
  /** Tools that were called since the evidence was cleared, up to the number that the policy asks for. */
  readonly #called = new Set<string>();
  readonly #failingTools: Reporters;
  /** Credentials that were rejected since the last success, each with the stamp and the process of the last time. */
  readonly #denied = new Map<string, { readonly stamp: number; readonly reporter: string }>();

  constructor(policy: Policy, now: number) {
    this.#policy = policy;
    this.runAgeS = policy.sliding_window_type === "count" ? STALE_S : policy.sliding_window_size;
    this.#countedAt = now;
    const denied = policy.consecutive_auth_failures ?? 0;
    this.limits = {
      consecutive: policy.consecutive_failures ?? Infinity,
      count: policy.failure_count ?? Infinity,
      rate: policy.failure_rate_threshold ?? Infinity,
      slowMs: policy.slow_call_duration_threshold_ms ?? Infinity,
      lateMs: lateMsOf(policy),
      slowRate: policy.slow_call_rate_threshold ?? Infinity,
      tokens: policy.wasted_tokens ?? Infinity,
      cusum: policy.cusum === null ? OFF : solve(policy.cusum),
      denied: denied > MOST_DENIED ? 0 : denied,
    };
    this.window =
      policy.sliding_window_type === "count"
        ? new CountWindow(policy.sliding_window_size)
        : new TimeWindow(policy.sliding_window_size, policy.sliding_window_panes, now);
    this.#callers = new Reporters(policy.minimum_reporters);
    this.#failers = new Reporters(policy.minimum_reporters);
    this.#failingTools = new Reporters(policy.minimum_tools);
  }

  /** Count tools among those that were called. */
  noteTools(names: Iterable<string>): void {
    for (const name of names) {
      if (this.#called.size >= this.#policy.minimum_tools) {
        return;
      }
      this.#called.add(name);
    }
  }

  /** Forget everything. */
  clear(): void {
    this.window.clear();
    this.streak = 0;
    this.cusum = 0;
    this.#called.clear();
    this.#denied.clear();
    for (const each of [this.#callers, this.#failers, this.#failingTools]) {
      each.clear();
    }
  }

  /** Return whether a call that ran so long before its end counts as slow by that alone. */
  late(overdueMs: number | null): boolean {
    return overdueMs !== null && overdueMs >= this.limits.lateMs;
  }

  /** Count a call that goes on as slow. Return whether it is. At its end, `add` only adds what is new. */
  addOverdue(now: number, result: Result): boolean {
    if (!this.late(result.durationMs)) {
      return false;
    }
    this.window.add(now, false, true, 0);
    this.#note(result, true);
    return true;
  }

  /** Add the end of a call that is not ignored. */
  add(now: number, result: Result): void {
    if (this.streak > 0 || this.cusum > 0) {
      this.#forgetOld(now - result.durationMs / 1000);
    }
    const detector = this.limits.cusum;
    const failed = result.kind === "failure";
    const slow = result.durationMs > this.limits.slowMs;
    const counted = this.late(result.overdueMs);
    if (!counted) {
      this.window.add(now, failed, slow, result.tokens);
    } else if (failed) {
      const leftMs = Math.max(0, result.durationMs - (result.overdueMs ?? 0));
      this.window.failSlow(now, now - leftMs / 1000, result.tokens);
    } else {
      this.window.roll(now);
    }
    if (failed) {
      this.#countedAt = now;
      this.streak += 1;
      if (detector.up > 0) {
        if (this.cusum === 0) {
          this.#cusumCalls = this.#cusumFailed = 0;
        }
        this.#cusumCalls += 1;
        this.#cusumFailed += 1;
        this.cusum = Math.min(this.cusum + detector.up, detector.height);
      }
    } else {
      this.streak = 0;
      this.#denied.clear();
      if (this.cusum > 0) {
        this.cusum = Math.max(0, this.cusum - detector.down);
        this.#cusumCalls += 1;
        this.#countedAt = now;
      }
    }
    if (failed || !counted) {
      this.#note(result, failed || slow);
    }
  }

  /** Count the process and the tool of a call among those that had calls, and bad ones. */
  #note(result: Result, bad: boolean): void {
    if (this.#policy.minimum_reporters > 1) {
      this.#callers.add(result.reporter, this.window.stamp);
      if (bad) {
        this.#failers.add(result.reporter, this.window.stamp);
      }
    }
    if (this.#policy.minimum_tools > 1) {
      this.noteTools([result.tool]);
      if (bad) {
        this.#failingTools.add(result.tool, this.window.stamp);
      }
    }
  }

  /**
   * Add an ignored call whose credential was rejected. Return whether so many different ones were that the tool is out. Any call that
   * the tool accepts ends the row: three people with old tokens among a thousand others are no outage.
   */
  addDenied(now: number, credential: string, reporter: string): boolean {
    this.window.addIgnored(now);
    this.#denied.delete(credential);
    this.#denied.set(credential, { stamp: this.window.stamp, reporter });
    if (this.#denied.size > this.limits.denied) {
      this.#denied.delete(this.#denied.keys().next().value!);
    }
    if (this.#policy.minimum_reporters > 1) {
      this.#callers.add(reporter, this.window.stamp);
    }
    return this.#deniedNow() >= this.limits.denied;
  }

  /** Forget the credentials that were rejected before the window, and return the number of the others. */
  #deniedNow(): number {
    for (const [credential, { stamp }] of this.#denied) {
      if (stamp >= this.window.oldest) {
        break;
      }
      this.#denied.delete(credential);
    }
    return this.#denied.size;
  }

  /** Before counting a call that began at `beganAt`, end the run and the sum if the last counted call is too long ago. */
  #forgetOld(beganAt: number): void {
    const idleS = beganAt - this.#countedAt;
    if (idleS > this.runAgeS) {
      this.streak = 0;
    }
    if (idleS > STALE_S) {
      this.cusum = 0;
    }
  }

  counts(now: number, rejected: number, totalCalls: number, totalFailed: number): Counts {
    this.window.roll(now);
    const { calls, failed, slow, ignored, tokens } = this.window;
    const consecutiveFailures = this.#run(now);
    return {
      calls,
      failed,
      slow,
      ignored,
      rejected,
      wastedTokens: tokens,
      consecutiveFailures,
      totalCalls,
      totalFailed,
    };
  }

  /** Return the length of the run at `now`: 0 if it is too old. Only calls that count in a run end an old one. */
  #run(now: number): number {
    return now - this.#countedAt > this.runAgeS ? 0 : this.streak;
  }

  /** Return the breached rule with what it measured. Null if no rule is breached at `now`, or too few agree. */
  breach(now: number): Cause | null {
    return this.confirmed(this.#firstBreach(now));
  }

  /** Return `cause` with the number of those that agree, or null if too few of the processes or tools had bad calls. */
  confirmed(cause: Cause | null): Cause | null {
    const { minimum_reporters: reporters, minimum_tools: tools } = this.#policy;
    const oldest = this.window.oldest;
    let found = cause;
    if (found !== null && reporters > 1) {
      const deniers = new Set([...this.#denied.values()].map((each) => each.reporter));
      const failing = found.rule === "auth_failures" ? deniers.size : this.#failers.count(oldest);
      if (failing < Math.min(reporters, this.#callers.count(oldest))) {
        return null;
      }
      found = { ...found, reporters: failing };
    }
    if (found !== null && tools > 1) {
      const failing = this.#failingTools.count(oldest);
      // An idle tool counts: one broken tool must not open the circuit of its server. Of a single tool, its own circuit decides.
      if (failing < Math.max(2, this.#called.size)) {
        return null;
      }
      found = { ...found, tools: failing };
    }
    return found;
  }

  /** Return the first breached rule, in the order of the documentation. */
  #firstBreach(now: number): Cause | null {
    const { limits, window } = this;
    const streak = this.#run(now);
    const { calls, failed, slow, tokens } = window;
    if (failed === 0 && slow === 0) {
      return this.#firstDenied();
    }
    if (streak >= limits.consecutive) {
      return {
        rule: "consecutive_failures",
        value: streak,
        threshold: limits.consecutive,
        sample: streak,
        failed: streak,
      };
    }
    if (failed >= limits.count) {
      return this.#inWindow("failure_count", failed, limits.count);
    }
    if (calls >= this.#policy.minimum_number_of_calls) {
      if (failed / calls >= limits.rate) {
        return this.#inWindow("failure_rate", failed / calls, limits.rate);
      }
      if (slow / calls >= limits.slowRate) {
        return {
          ...this.#inWindow("slow_call_rate", slow / calls, limits.slowRate),
          slow_call_duration_threshold_ms: limits.lateMs,
        };
      }
    }
    if (tokens >= limits.tokens) {
      return this.#inWindow("wasted_tokens", tokens, limits.tokens);
    }
    const cusum = this.#policy.cusum;
    if (cusum !== null && this.cusum >= limits.cusum.height && now - this.#countedAt <= STALE_S) {
      return {
        rule: "cusum",
        value: this.cusum * limits.cusum.unit,
        threshold: limits.cusum.height * limits.cusum.unit,
        sample: this.#cusumCalls,
        failed: this.#cusumFailed,
        tolerable_failure_rate: cusum.tolerable_failure_rate,
        calls_between_false_opens: cusum.calls_between_false_opens,
      };
    }
    return this.#firstDenied();
  }

  #firstDenied(): Cause | null {
    const limit = this.limits.denied;
    const denied = this.#denied.size === 0 ? 0 : this.#deniedNow();
    if (denied === 0 || denied < limit) {
      return null;
    }
    const found = { rule: "auth_failures", value: denied, threshold: limit, sample: denied };
    return this.#policy.sliding_window_type === "time" ? { ...found, window_s: this.window.size } : found;
  }

  #inWindow(rule: string, value: number, threshold: number): Cause {
    const { calls, failed, size } = this.window;
    const found = { rule, value, threshold, sample: calls, failed };
    return this.#policy.sliding_window_type === "time" ? { ...found, window_s: size } : found;
  }
}

function lateMsOf(policy: Policy): number {
  if (policy.slow_call_rate_threshold === null) {
    return Infinity; // no rule counts it
  }
  return policy.slow_call_duration_threshold_ms ?? LEAST_OVERDUE_MS;
}

/** The last `limit` distinct reporters (processes or tools), each with the stamp at which it last reported. */
class Reporters {
  /** The one that reported longest ago comes first. */
  readonly #seen = new Map<string, number>();

  constructor(readonly limit: number) {}

  /** Note that `name` reported at `stamp`. Stamps never go backwards. */
  add(name: string, stamp: number): void {
    const last = this.#seen.get(name);
    if (last === stamp) {
      return;
    }
    this.#seen.delete(name);
    if (last === undefined && this.#seen.size >= this.limit) {
      this.#seen.delete(this.#seen.keys().next().value!);
    }
    this.#seen.set(name, stamp);
  }

  /** Forget those before `oldest`, and return the number of the others. */
  count(oldest: number): number {
    for (const [name, stamp] of this.#seen) {
      if (stamp < oldest) {
        this.#seen.delete(name);
      }
    }
    return this.#seen.size;
  }

  clear(): void {
    this.#seen.clear();
  }
}
