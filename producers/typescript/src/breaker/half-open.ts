/** The probes of a half-open circuit, and the decision that they lead to. */
import type { Policy } from "./policy.js";
import type { Cause } from "./values.js";

/** Ignored probes per permit. A tool whose every call is ignored is not probed indefinitely (erpc/erpc#1118). */
const IGNORED_PER_PERMIT = 10;

/**
 * The probes that are out and those that came back.
 *
 * With `first_failure` one bad probe opens the circuit again, and `success_threshold_to_close` good ones close it. No more probes go
 * out than could still be needed. With `rate` the rates decide once as many probes came back as there are permits. A slow probe is
 * bad if the policy has a slow-call rule. An ignored probe gives its permit back and decides nothing.
 */
export class HalfOpen {
  ignored = 0;
  #serial = 0;
  #good = 0;
  #bad = 0;
  #failed = 0;
  #slow = 0;
  readonly #out = new Set<string>();

  /** Probes that came back with a result that counts. */
  get finished(): number {
    return this.#good + this.#bad;
  }

  /** Return how many more probes are permitted now. */
  room(policy: Policy): number {
    const permits = policy.permitted_number_of_calls_in_half_open_state;
    if (this.ignored >= permits * IGNORED_PER_PERMIT) {
      return 0;
    }
    if (policy.half_open_decision === "rate") {
      return permits - this.#out.size - this.finished;
    }
    const needed = Math.max(permits, policy.success_threshold_to_close) - this.#good;
    return Math.min(permits, needed) - this.#out.size;
  }

  /** Permit a probe. Return its id, which is unique in all generations of the circuit. */
  lease(generation: number): string {
    this.#serial += 1;
    const id = `${generation}.${this.#serial}`;
    this.#out.add(id);
    return id;
  }

  /** End a probe. Return false if there is no such probe. */
  giveBack(id: string | null): boolean {
    return id !== null && this.#out.delete(id);
  }

  /** Count a probe that came back. */
  add(failed: boolean, slow: boolean): void {
    this.#failed += failed ? 1 : 0;
    this.#slow += slow ? 1 : 0;
    if (failed || slow) {
      this.#bad += 1;
    } else {
      this.#good += 1;
    }
  }

  /** Return whether to close or to open again, and why. Return null while it is undecided. */
  verdict(policy: Policy): { closes: boolean; cause: Cause } | null {
    const permits = policy.permitted_number_of_calls_in_half_open_state;
    const slowMs = policy.slow_call_duration_threshold_ms;
    const ofSlow = slowMs === null ? {} : { slow_call_duration_threshold_ms: slowMs };
    const sample = this.finished;
    if (this.ignored >= permits * IGNORED_PER_PERMIT) {
      const threshold = permits * IGNORED_PER_PERMIT;
      return { closes: false, cause: { rule: "probes_ignored", value: this.ignored, threshold, sample: this.ignored } };
    }
    if (policy.half_open_decision === "rate") {
      return sample >= permits ? this.#verdictByRate(policy, ofSlow) : null;
    }
    if (this.#failed > 0) {
      return { closes: false, cause: { rule: "probe_failed", value: this.#bad, threshold: 1, sample } };
    }
    if (this.#slow > 0) {
      return { closes: false, cause: { rule: "probe_slow", value: this.#bad, threshold: 1, sample, ...ofSlow } };
    }
    const needed = policy.success_threshold_to_close;
    return this.#good >= needed
      ? { closes: true, cause: { rule: "probe_succeeded", value: this.#good, threshold: needed, sample } }
      : null;
  }

  #verdictByRate(policy: Policy, ofSlow: Partial<Cause>): { closes: boolean; cause: Cause } {
    const sample = this.finished;
    const rate = this.#failed / sample;
    const slow = this.#slow / sample;
    const { failure_rate_threshold: threshold, slow_call_rate_threshold: slowThreshold } = policy;
    const failing = threshold !== null && rate >= threshold;
    if (!failing && slowThreshold !== null && slow >= slowThreshold) {
      return {
        closes: false,
        cause: { rule: "probe_slow_call_rate", value: slow, threshold: slowThreshold, sample, ...ofSlow },
      };
    }
    return { closes: !failing, cause: { rule: "probe_failure_rate", value: rate, threshold, sample } };
  }
}
