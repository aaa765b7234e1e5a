/** The values that go into a breaker and come out of it. Times are in seconds. */
import { circuitId } from "../circuit-ids.js";
import type { ErrorClass, Policy } from "./policy.js";

export type CircuitState = "closed" | "open" | "half_open" | "forced_open" | "disabled" | "metrics_only";
export type Status = "success" | "error" | "timeout" | "cancelled" | "rejected" | "overdue";

/** Permission to make a call. Hand it back with the call's result, or release it. */
export interface BreakerPermit {
  readonly ok: true;
  /** The circuit's generation at that time. A result of an older generation is dropped. */
  readonly generation: number;
  /** Id of the probe, if the call is one. */
  readonly probe: string | null;
  /** When the call was permitted, if the window is fixed: in another window its result is dropped. */
  readonly startedAt: number | null;
}

/** Refusal of a call. */
export interface BreakerRejection {
  readonly ok: false;
  readonly state: CircuitState;
  readonly generation: number;
  /** Seconds until the first probe, or until the next step of a ramp. Null if that is not known. */
  readonly retryAfterS: number | null;
  readonly cause: Cause | null;
}

/** Why a circuit is in its state: a rule with its value, threshold and sample, or an actor with a reason. As in circuit records. */
export interface Cause {
  readonly rule: string;
  readonly value?: number;
  readonly threshold?: number | null;
  readonly sample?: number;
  readonly reporters?: number;
  readonly actor?: string;
  readonly reason?: string;
  readonly failed?: number;
  readonly window_s?: number;
  readonly slow_call_duration_threshold_ms?: number;
  readonly tolerable_failure_rate?: number;
  readonly calls_between_false_opens?: number;
  readonly tools?: number;
}

/** A change of a circuit. If `previous` equals `state`, something changed within the state, such as the step of a ramp. */
export interface Transition {
  readonly circuitId: string;
  readonly previous: CircuitState;
  readonly state: CircuitState;
  readonly generation: number;
  readonly at: number;
  readonly cause: Cause;
  readonly openUntil: number | null;
}

/** The counts of a circuit's window, and of its calls in total. */
export interface Counts {
  readonly calls: number;
  readonly failed: number;
  readonly slow: number;
  readonly ignored: number;
  readonly rejected: number;
  readonly wastedTokens: number;
  readonly consecutiveFailures: number;
  readonly totalCalls: number;
  readonly totalFailed: number;
}

/** No call is overdue earlier, unless the policy says from which duration on a call is slow. */
export const LEAST_OVERDUE_MS = 5_000;

/** What a result says about the tool's health. `ignored`: nothing. `overdue`: the call has not ended, and takes too long already. */
export type ResultKind = "success" | "failure" | "ignored" | "overdue";

/** A finished call, as a breaker counts it, or one that is overdue. */
export interface Result {
  readonly kind: ResultKind;
  /** How long it took. Of an overdue call: so far. */
  readonly durationMs: number;
  readonly tokens: number;
  /** Seconds that a rate-limited tool asked to wait. */
  readonly retryAfterS: number | null;
  /** The tool that was called, for the circuit of a family. */
  readonly tool: string;
  /** The process that called. One process needs none. */
  readonly reporter: string;
  /** How long a call that has ended had run when it was reported as overdue. Null if it wasn't. */
  readonly overdueMs: number | null;
  /** Hash of what the call signed in with, if the tool rejected that. */
  readonly credential?: string;
}

/** Errors in which the tool itself answered. If they don't count as failures, they prove that it works. */
const ANSWERED: readonly ErrorClass[] = ["tool", "invalid_input"];
/** Errors in which the server answered, whatever it said of the tool. */
const FROM_SERVER: readonly ErrorClass[] = [...ANSWERED, "server", "rate_limited", "auth"];

/** Return how a call with this status and error class counts under `policy`. */
export function resultKind(status: Status, errorClass: ErrorClass | null, policy: Policy): ResultKind {
  return kindOf(status, errorClass, policy, ANSWERED);
}

/** Return how a call of one of its tools counts for a family, under the family's `policy`: any answer of the server is a success. */
export function familyResultKind(status: Status, errorClass: ErrorClass | null, policy: Policy): ResultKind {
  return status === "cancelled" ? "ignored" : kindOf(status, errorClass, policy, FROM_SERVER);
}

function kindOf(
  status: Status,
  errorClass: ErrorClass | null,
  policy: Policy,
  answers: readonly ErrorClass[],
): ResultKind {
  if (status === "success") {
    return errorClass === "policy" ? "ignored" : "success";
  }
  if (status === "overdue") {
    return "overdue";
  }
  if (status === "rejected") {
    return "ignored";
  }
  const kind = status === "cancelled" ? "cancelled" : (errorClass ?? (status === "timeout" ? "timeout" : "unknown"));
  if (policy.counted_error_classes.includes(kind)) {
    return "failure";
  }
  return answers.includes(kind) ? "success" : "ignored";
}

/** Return the status of a call that failed with an error of this class. */
export function statusOf(errorClass: ErrorClass): Status {
  if (errorClass === "cancelled" || errorClass === "timeout") {
    return errorClass;
  }
  return "error";
}

/**
 * Return the id of the circuit that counts a call: the target's if there is one, else by the policy's scope. Without the user or session
 * that the scope needs, it is the tool's own.
 */
export function circuitIdOf(tool: string, policy: Policy, userId: string, sessionId: string, target = ""): string {
  if (target !== "") {
    return circuitId(tool, "target", target);
  }
  if (policy.scope === "user" && userId !== "") {
    return circuitId(tool, "user", userId);
  }
  if (policy.scope === "session" && sessionId !== "") {
    return circuitId(tool, "session", sessionId);
  }
  return circuitId(tool);
}
