import { SwitchgearError } from "../errors.js";

export type ErrorClass =
  | "transport"
  | "timeout"
  | "server"
  | "rate_limited"
  | "tool"
  | "invalid_input"
  | "auth"
  | "cancelled"
  | "policy"
  | "unknown";
export type Mode = "enforce" | "metrics_only" | "forced_open" | "disabled";
/** Whether the rate that a tool takes is ignored, learned and shown, or kept. */
export type PaceMode = "off" | "learn" | "enforce";
/** What a policy keeps a circuit for. */
export type Scope = "tool" | "user" | "session" | "tenant";

export const ERROR_CLASSES: readonly ErrorClass[] = [
  "transport",
  "timeout",
  "server",
  "rate_limited",
  "tool",
  "invalid_input",
  "auth",
  "cancelled",
  "policy",
  "unknown",
];

/** Failures that count by default. A tool that answers "bad argument" works. */
export const DEFAULT_COUNTED: readonly ErrorClass[] = ["transport", "timeout", "server", "rate_limited", "unknown"];
const DEFAULT_MAX_WAIT_S = 600;

/** Page's cumulative sum (1954), which detects a change of the failure rate. */
export interface Cusum {
  /** p0: a rate that is still healthy. */
  tolerable_failure_rate: number;
  /** p1: a rate that is broken. */
  broken_failure_rate: number;
  /** Wanted mean number of calls between opens at the tolerable rate. */
  calls_between_false_opens: number;
}

/**
 * The rules of a circuit, with the names of policy files. A rule that is null is off. Any rule that is breached opens the circuit.
 *
 * Rates are fractions, and thresholds compare with `>=`. A call is slow if it takes longer than the threshold.
 */
export interface Policy {
  /** Failures in a row. */
  readonly consecutive_failures: number | null;
  /** Different credentials that are rejected in a row. Also calls in a row of one credential. */
  readonly consecutive_auth_failures: number | null;
  /** Failures within the window. */
  readonly failure_count: number | null;
  /** Failed share of the window's calls. */
  readonly failure_rate_threshold: number | null;
  /** Calls in the window before a rate is judged. */
  readonly minimum_number_of_calls: number;
  /** Detector of a change, whatever the volume. */
  readonly cusum: Readonly<Cusum> | null;
  /** A call that takes longer is slow. Null with `slow_call_rate_threshold`: only overdue calls are, by what the fleet learns. */
  readonly slow_call_duration_threshold_ms: number | null;
  /** Slow share of the window's calls. */
  readonly slow_call_rate_threshold: number | null;
  /** Tokens of failed calls within the window. */
  readonly wasted_tokens: number | null;
  readonly sliding_window_type: "time" | "count";
  /** Seconds of a time window, calls of a count window. */
  readonly sliding_window_size: number;
  /** Panes in which a time window is counted. 1 makes it a fixed window that starts over. Null: chosen from the size. */
  readonly sliding_window_panes: number | null;
  /** From open until the first probe. */
  readonly wait_duration_in_open_state_s: number;
  /** Factor on the wait for each open in a row. */
  readonly backoff_multiplier: number;
  /** Cap of the grown wait. */
  readonly max_wait_duration_in_open_state_s: number;
  /** Share of the wait that is spread at random, per circuit and attempt. */
  readonly jitter: number;
  /** Probes in flight. */
  readonly permitted_number_of_calls_in_half_open_state: number;
  /** Successful probes that close. */
  readonly success_threshold_to_close: number;
  /** Open again at the first failed probe, or judge the rates over all permits. */
  readonly half_open_decision: "first_failure" | "rate";
  /** Longest stay without a verdict; then open again. */
  readonly max_wait_duration_in_half_open_state_s: number;
  /** Distinct processes the failures must come from. One process has no more than one. */
  readonly minimum_reporters: number;
  /** Families: distinct tools the failures must come from, or all that were called if fewer, but two at least. */
  readonly minimum_tools: number;
  /** After a close by probes: the share of calls of each step, rising. Then all calls go. */
  readonly recovery_ramp: readonly number[] | null;
  /** The same after an outage in which the tool sent Retry-After. `recovery_ramp` goes before it. */
  readonly retry_after_ramp: readonly number[] | null;
  /** Length of a step of either ramp. */
  readonly recovery_ramp_step_s: number;
  /** Failures of these classes count; others are ignored. */
  readonly counted_error_classes: readonly ErrorClass[];
  /** A rate-limited tool's Retry-After lengthens the wait. */
  readonly honor_retry_after: boolean;
  /** One circuit a tool, a tool and user, or a tool and session. */
  readonly scope: Scope;
  /** Argument that names what a call is about, such as `url.host`: one circuit a tool and target. */
  readonly target: string | null;
  readonly mode: Mode;
  /** Tools to use instead, in order. */
  readonly fallback: readonly string[];
  /** The rate that the tool takes. Only the fleet's policies keep it: a process alone has no pace. */
  readonly pace: PaceMode;
  /** That rate, if you know it: `100/min`, `10/s`, `5/10s`. Null: it is learned. */
  readonly pace_limit: string | null;
  /** Longest wait of a call for its turn. */
  readonly pace_wait_s: number;
}

/** Some of the rules. The defaults hold for the others. */
export type PolicyInput = Partial<Omit<Policy, "cusum">> & { readonly cusum?: Partial<Cusum> | null };

const DEFAULTS: Policy = {
  consecutive_failures: null,
  consecutive_auth_failures: 3,
  failure_count: null,
  failure_rate_threshold: null,
  minimum_number_of_calls: 20,
  cusum: null,
  slow_call_duration_threshold_ms: null,
  slow_call_rate_threshold: null,
  wasted_tokens: null,
  sliding_window_type: "time",
  sliding_window_size: 60,
  sliding_window_panes: null,
  wait_duration_in_open_state_s: 60,
  backoff_multiplier: 1,
  max_wait_duration_in_open_state_s: DEFAULT_MAX_WAIT_S,
  jitter: 0,
  permitted_number_of_calls_in_half_open_state: 1,
  success_threshold_to_close: 1,
  half_open_decision: "first_failure",
  max_wait_duration_in_half_open_state_s: 30,
  minimum_reporters: 1,
  minimum_tools: 1,
  recovery_ramp: null,
  retry_after_ramp: null,
  recovery_ramp_step_s: 10,
  counted_error_classes: DEFAULT_COUNTED,
  honor_retry_after: true,
  scope: "tool",
  target: null,
  mode: "enforce",
  fallback: [],
  pace: "learn",
  pace_limit: null,
  pace_wait_s: 5,
};
const CUSUM_DEFAULTS: Cusum = {
  tolerable_failure_rate: 0.1,
  broken_failure_rate: 0.5,
  calls_between_false_opens: 1_000_000,
};

/** The values that null turns off. */
const MAY_BE_OFF: readonly string[] = [
  "consecutive_auth_failures",
  ...Object.entries(DEFAULTS).flatMap(([key, value]) => (value === null ? [key] : [])),
];
const LIMIT = /^[1-9][0-9]{0,8}\/([1-9][0-9]{0,3})?(s|min|h)$/;
const UNITS: Record<string, number> = { s: 1, min: 60, h: 3600 };
const TARGET = /^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*){0,4}$/;

/** The limits of each number: whole or not, from, to. */
const NUMBERS: Record<string, readonly [whole: boolean, least: number, most: number]> = {
  consecutive_failures: [true, 1, 1e9],
  consecutive_auth_failures: [true, 1, 1e9],
  failure_count: [true, 1, 1e9],
  failure_rate_threshold: [false, Number.MIN_VALUE, 1],
  minimum_number_of_calls: [true, 1, 1e9],
  slow_call_duration_threshold_ms: [false, 1e-6, 86_400_000],
  slow_call_rate_threshold: [false, Number.MIN_VALUE, 1],
  wasted_tokens: [true, 1, 1e15],
  sliding_window_size: [false, 0.1, 86_400],
  sliding_window_panes: [true, 1, 120],
  wait_duration_in_open_state_s: [false, 1e-9, 31_536_000],
  backoff_multiplier: [false, 1, 1000],
  max_wait_duration_in_open_state_s: [false, 1e-9, 31_536_000],
  jitter: [false, 0, 1 - Number.EPSILON],
  permitted_number_of_calls_in_half_open_state: [true, 1, 1000],
  success_threshold_to_close: [true, 1, 1e9],
  max_wait_duration_in_half_open_state_s: [false, 1e-9, 31_536_000],
  minimum_reporters: [true, 1, 64],
  minimum_tools: [true, 1, 64],
  recovery_ramp_step_s: [false, 1e-9, 31_536_000],
  pace_wait_s: [false, 0, 600],
};
const CHOICES: Record<string, readonly unknown[]> = {
  sliding_window_type: ["time", "count"],
  half_open_decision: ["first_failure", "rate"],
  scope: ["tool", "user", "session", "tenant"],
  mode: ["enforce", "metrics_only", "forced_open", "disabled"],
  honor_retry_after: [true, false],
  pace: ["off", "learn", "enforce"],
};

/**
 * Return a whole policy.
 *
 * @param input Some of the rules.
 * @throws SwitchgearError A key is unknown, a value is out of range, or values contradict each other. The message names the key.
 */
export function policyOf(input: PolicyInput): Policy {
  for (const [key, value] of Object.entries(input)) {
    if (!(key in DEFAULTS)) {
      throw new SwitchgearError(`A policy has no key ${key}.`, `The keys are ${Object.keys(DEFAULTS).join(", ")}.`);
    }
    check(key, value);
  }
  const given = Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined));
  const policy: Policy = { ...DEFAULTS, ...given, cusum: input.cusum ? { ...CUSUM_DEFAULTS, ...input.cusum } : null };
  const wait = policy.wait_duration_in_open_state_s;
  const raised = input.max_wait_duration_in_open_state_s === undefined && wait > DEFAULT_MAX_WAIT_S;
  const found = raised ? { ...policy, max_wait_duration_in_open_state_s: wait } : policy;
  const problem = contradiction(found);
  if (problem !== null) {
    throw new SwitchgearError(`The policy is impossible: ${problem}.`);
  }
  return found;
}

function check(key: string, value: unknown): void {
  if (value === undefined || (value === null && MAY_BE_OFF.includes(key))) {
    return;
  }
  const limits = NUMBERS[key];
  if (limits !== undefined) {
    const [whole, least, most] = limits;
    const fits = typeof value === "number" && value >= least && value <= most && (!whole || Number.isInteger(value));
    if (!fits) {
      const kind = whole ? "a whole number" : "a number";
      throw new SwitchgearError(`${key} is ${String(value)}.`, `Use ${kind} from ${least} to ${most}.`);
    }
  }
  const choices = CHOICES[key];
  if (choices !== undefined && !choices.includes(value)) {
    throw new SwitchgearError(`${key} is ${String(value)}.`, `Use one of ${choices.join(", ")}.`);
  }
  if (
    key === "counted_error_classes" &&
    !(Array.isArray(value) && value.every((each) => ERROR_CLASSES.includes(each)))
  ) {
    throw new SwitchgearError(
      `counted_error_classes is ${String(value)}.`,
      `Use a list of ${ERROR_CLASSES.join(", ")}.`,
    );
  }
  if (key === "target" && !(typeof value === "string" && value.length <= 64 && TARGET.test(value))) {
    throw new SwitchgearError(
      `target is ${String(value)}.`,
      "Use the name of an argument, or up to 5 names with dots between them of which the last may be host, such as url.host.",
    );
  }
  if (key === "pace_limit" && !isLimit(value)) {
    throw new SwitchgearError(
      `pace_limit is ${String(value)}.`,
      "Use calls and a period of a day at most, such as 100/min, 10/s, 5/10s or 1000/h.",
    );
  }
  if (key === "fallback" && !(Array.isArray(value) && value.every((each) => typeof each === "string" && each !== ""))) {
    throw new SwitchgearError(`fallback is ${String(value)}.`, "Use a list of tools' names.");
  }
}

function isLimit(value: unknown): boolean {
  const [, count = "1", unit = ""] = LIMIT.exec(typeof value === "string" ? value : "") ?? [];
  return Number(count) * (UNITS[unit] ?? Infinity) <= 86_400;
}

function contradiction(policy: Policy): string | null {
  if (policy.slow_call_rate_threshold === null && policy.slow_call_duration_threshold_ms !== null) {
    return "slow_call_duration_threshold_ms needs slow_call_rate_threshold, the share that is too much";
  }
  for (const name of ["recovery_ramp", "retry_after_ramp"] as const) {
    const ramp = policy[name];
    if (
      ramp !== null &&
      !(ramp.length > 0 && ramp.length <= 20 && ramp.every((share, at) => share > (ramp[at - 1] ?? 0) && share < 1))
    ) {
      return `${name} takes shares between 0 and 1 that rise from step to step, such as [0.1, 0.25, 0.5]`;
    }
  }
  if (policy.max_wait_duration_in_open_state_s < policy.wait_duration_in_open_state_s) {
    return "max_wait_duration_in_open_state_s must not be less than wait_duration_in_open_state_s";
  }
  if (policy.target !== null && policy.scope !== "tool") {
    return `target and scope ${policy.scope} exclude each other: a circuit is for a target, a user, a session or a tenant`;
  }
  const judgesRates = policy.failure_rate_threshold !== null || policy.slow_call_rate_threshold !== null;
  if (policy.half_open_decision === "rate" && !judgesRates) {
    return "half_open_decision rate needs failure_rate_threshold or slow_call_rate_threshold to judge by";
  }
  const cusum = policy.cusum;
  if (cusum !== null) {
    const rates = [cusum.tolerable_failure_rate, cusum.broken_failure_rate];
    if (!rates.every((rate) => rate >= 0.0001 && rate <= 0.9999)) {
      return "the rates of cusum lie between 0.0001 and 0.9999";
    }
    if (!(cusum.broken_failure_rate >= cusum.tolerable_failure_rate * 1.05 && cusum.calls_between_false_opens >= 10)) {
      return "broken_failure_rate must be clearly greater than tolerable_failure_rate, and calls_between_false_opens at least 10";
    }
  }
  return policy.sliding_window_type === "count" ? contradictionInCountWindow(policy, judgesRates) : null;
}

function contradictionInCountWindow(policy: Policy, judgesRates: boolean): string | null {
  const size = policy.sliding_window_size;
  if (!Number.isInteger(size)) {
    return `sliding_window_size of a count window is a whole number of calls, not ${size}`;
  }
  if (policy.sliding_window_panes !== null) {
    return "sliding_window_panes belongs to a time window: leave it out, or set sliding_window_type time";
  }
  if (judgesRates && policy.minimum_number_of_calls > size) {
    return `minimum_number_of_calls (${policy.minimum_number_of_calls}) is more than a window of ${size} calls ever holds`;
  }
  if (policy.failure_count !== null && policy.failure_count > size) {
    return `failure_count (${policy.failure_count}) is more than a window of ${size} calls ever holds`;
  }
  return null;
}

/** Of one process's own circuits: frameworks hide a model's mistakes in errors of unknown kind, which the fleet's rates take for an outage. */
const LOCAL_CUSUM = { tolerable_failure_rate: 0.3, broken_failure_rate: 0.8 };
const LOCAL_RULES = { consecutive_failures: 5, cusum: LOCAL_CUSUM };

/** The default of one process's own circuits: open after five failures in a row, or by the CUSUM, wait 60 s, make one probe. */
export const LOCAL_DEFAULT: Policy = policyOf(LOCAL_RULES);

/** The default of one process's own circuits of families: the same rules, if more than one tool failed. */
export const LOCAL_FAMILY_DEFAULT: Policy = policyOf({
  ...LOCAL_RULES,
  minimum_tools: 2,
  counted_error_classes: ["transport", "timeout"],
});
