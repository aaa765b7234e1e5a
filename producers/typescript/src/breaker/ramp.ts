/** The recovery by degrees: after a close by probes, a growing share of the calls goes, until all go. Times are in seconds. */
import { crc32 } from "../text/crc32.js";
import { shortNumber } from "../text/short-number.js";
import type { Policy } from "./policy.js";
import type { Cause } from "./values.js";

/** Calls of the ramp before their failure rate is judged. */
const FEWEST_CALLS = 5;
/** The failure rate that opens again, if the policy has no `failure_rate_threshold`. */
const FAILURE_RATE = 0.5;
/** The reason in the causes of a ramp after an outage in which the tool sent Retry-After. */
export const AFTER_RETRY_AFTER = "calls return by degrees, because the tool sent Retry-After";
/** How the reason of a refusal by a ramp begins. */
export const RECOVERY = "recovery: ";

/** Return the share of each step after a close by probes. Without a step, all calls go at once. */
function sharesOf(policy: Policy, rateLimited: boolean): readonly number[] {
  if (policy.recovery_ramp !== null) {
    return policy.recovery_ramp;
  }
  return (rateLimited && policy.honor_retry_after ? policy.retry_after_ramp : null) ?? [];
}

/**
 * Return whether call `n` of a process, counted from 1, is one of the `share` that goes.
 *
 * Of any calls in a row exactly the share goes, to within one call, and evenly. Processes with other phases pick other calls.
 */
export function admits(n: number, share: number, phase: number): boolean {
  return Math.floor(n * share + phase) > Math.floor((n - 1) * share + phase);
}

/** Return the phase of a process, a number in [0, 1). */
export function phaseOf(emitterId: string): number {
  return crc32(emitterId) / 2 ** 32;
}

/** Return why a call was refused that is not one of the share. `reason` is that of the circuit's cause. */
export function recoveryInWords(share: number, reason: string | undefined): string {
  const why = reason === AFTER_RETRY_AFTER ? ", because the tool sent Retry-After" : "";
  return `${RECOVERY}${shortNumber(share * 100, 4)} % of calls are admitted${why}`;
}

/** Return whether a reason is one of `recoveryInWords`. */
export function isRecovery(reason: string): boolean {
  return /^recovery: [0-9][0-9.e-]{0,11} % of calls are admitted(?:, because the tool sent Retry-After)?$/.test(reason);
}

/** How far a circuit has recovered. Steps begin when the clock says so, not when they are noticed. */
export class Ramp {
  share: number;
  #step = 0;
  #calls = 0;
  #failed = 0;
  #asked = 0;

  private constructor(
    readonly began: number,
    share: number,
    /** Whether there is a ramp only because the tool sent Retry-After. */
    readonly rateLimited: boolean,
  ) {
    this.share = share;
  }

  /** Return the ramp of a circuit that closes now. Null if its policy has none. */
  static begin(policy: Policy, now: number, rateLimited: boolean): Ramp | null {
    const limited = rateLimited && policy.recovery_ramp === null;
    const first = sharesOf(policy, limited)[0];
    return first === undefined ? null : new Ramp(now, first, limited);
  }

  /** Why there is a ramp, for the causes. Undefined if the policy has one after every outage. */
  get reason(): string | undefined {
    return this.rateLimited ? AFTER_RETRY_AFTER : undefined;
  }

  /** Go to the step that is due. Return the new share, which is 1 after the last step. Null: the share stays. */
  climb(policy: Policy, now: number): number | null {
    const shares = sharesOf(policy, this.rateLimited);
    while (now >= this.began + (this.#step + 1) * policy.recovery_ramp_step_s) {
      this.#step += 1;
      if (this.#step >= shares.length) {
        return 1;
      }
    }
    const share = Math.max(this.share, shares[this.#step]!);
    if (share === this.share) {
      return null;
    }
    this.share = share;
    return share;
  }

  /** Count a call of this process. Return whether it goes. */
  admitsNext(): boolean {
    this.#asked += 1;
    return admits(this.#asked, this.share, 0);
  }

  /** Return when the present step began. */
  beganStepAt(policy: Policy): number {
    return this.began + this.#step * policy.recovery_ramp_step_s;
  }

  /** Return the seconds until the next step. */
  restOfStepS(policy: Policy, now: number): number {
    return Math.max(0, this.beganStepAt(policy) + policy.recovery_ramp_step_s - now);
  }

  /** Return whether the last step has ended. */
  over(policy: Policy, now: number): boolean {
    return now >= this.began + sharesOf(policy, this.rateLimited).length * policy.recovery_ramp_step_s;
  }

  /** Count a call that counts. */
  add(failed: boolean): void {
    this.#calls += 1;
    this.#failed += failed ? 1 : 0;
  }

  /** Return why the circuit opens again, or null. */
  breach(policy: Policy): Cause | null {
    const threshold = policy.failure_rate_threshold ?? FAILURE_RATE;
    const rate = this.#failed / this.#calls;
    if (this.#calls < FEWEST_CALLS || rate < threshold) {
      return null;
    }
    return { rule: "recovery_failed", value: rate, threshold, sample: this.#calls, failed: this.#failed };
  }
}
