/** The states of a circuit, and the wait in the open state. Times are in seconds. */
import { SwitchgearError } from "../errors.js";
import { crc32 } from "../text/crc32.js";
import type { Mode, Policy } from "./policy.js";
import type { CircuitState } from "./values.js";

/** States in which every call is permitted. */
export const PASSING: readonly CircuitState[] = ["closed", "disabled", "metrics_only"];
/** States in which every result is evidence. */
export const COUNTING: readonly CircuitState[] = ["closed", "metrics_only"];
/** The state in which a policy's mode starts a circuit. */
export const STATE_OF_MODE: Readonly<Record<Mode, CircuitState>> = {
  enforce: "closed",
  metrics_only: "metrics_only",
  forced_open: "forced_open",
  disabled: "disabled",
};

/** Seconds without a result after which a closed circuit without evidence may be forgotten. */
export const IDLE_S = 3_600;
/** The same for a closed circuit with a CUSUM above zero. That long a sum lasts without calls, and a run of failures in a count window. */
export const STALE_S = 86_400;
/** How long before a circuit opened its outage began, if its policy counts calls and not seconds. */
export const COUNTED_S = 60;

/** Return when the outage began that opened a circuit: at the earliest, as its window is. */
export function outageBegan(policy: Policy, openedAt: number): number {
  return openedAt - (policy.sliding_window_type === "time" ? policy.sliding_window_size : COUNTED_S);
}

/** A closed circuit cannot become half-open. Every other change of state is legal. */
export class IllegalTransitionError extends SwitchgearError {
  override name = "IllegalTransitionError";

  constructor(circuitId: string) {
    super(
      `${circuitId} is closed and cannot become half_open.`,
      "From closed: disabled, forced_open, metrics_only, open.",
    );
  }
}

/** Return a number in [0, 1) that looks random and is the same in every process. */
export function spread(circuitId: string, attempt: number): number {
  return crc32(`${circuitId}#${attempt}`) / 2 ** 32;
}

/** Return the seconds from open to the first probe. `attempt` counts from 1. Jitter only shortens the wait. */
export function waitS(circuitId: string, attempt: number, policy: Policy): number {
  const grown = policy.wait_duration_in_open_state_s * policy.backoff_multiplier ** (attempt - 1);
  return Math.min(grown, policy.max_wait_duration_in_open_state_s) * (1 - policy.jitter * spread(circuitId, attempt));
}

/**
 * Return the instant of the first probe.
 *
 * @param retryAt The end of the longest Retry-After that the tool asked for. It lengthens the wait up to the cap.
 */
export function endOfWait(
  circuitId: string,
  attempt: number,
  policy: Policy,
  now: number,
  retryAt: number | null,
): number {
  const until = now + waitS(circuitId, attempt, policy);
  if (retryAt === null || !policy.honor_retry_after) {
    return until;
  }
  return Math.max(until, Math.min(retryAt, now + policy.max_wait_duration_in_open_state_s));
}
