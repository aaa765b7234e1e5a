/** The class of a failure by its HTTP status. */
import type { ErrorClass } from "./breaker/policy.js";

const BY_STATUS: Record<number, ErrorClass> = {
  401: "auth",
  402: "auth",
  403: "auth",
  407: "auth",
  408: "timeout",
  429: "rate_limited",
  499: "cancelled",
  504: "timeout",
};

/** Return the class of an HTTP status of 300 or more. A redirect that a client throws as an error is `tool`: the server answered. */
export function classOfStatus(status: number): ErrorClass {
  if (status < 400) {
    return "tool";
  }
  return BY_STATUS[status] ?? (status >= 500 ? "server" : "invalid_input");
}
