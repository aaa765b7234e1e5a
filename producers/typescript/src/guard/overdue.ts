import type { Classification } from "../classify/classification.js";

/** After how many milliseconds a call is overdue if the policy has no `slow_call_duration_threshold_ms`. */
export const LEAST_OVERDUE_MS = 5_000;

/**
 * Return the class of a failed call. A cancelled one is a timeout if its caller had waited too long. A text comes from somebody
 * who was told that it was cancelled, such as a person.
 */
export function givenUp(error: unknown, found: Classification, waitedMs: number, limitMs: number): Classification {
  const late = found.errorClass === "cancelled" && typeof error !== "string" && waitedMs >= limitMs;
  return late ? { errorClass: "timeout" } : found;
}
