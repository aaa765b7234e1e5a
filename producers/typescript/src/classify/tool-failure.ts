/**
 * How a refused or failed MCP call says why: the `toolFailure` object in a result's `_meta`, and the texts of refusals.
 *
 * The object is that of a draft of MCP, SEP-3313 with the schema of pull request 3312. The draft may still change. A guard in front of a
 * server reads what a guard inside the server wrote, so a refusal behind it never opens its circuit.
 */
import type { ErrorClass } from "../breaker/policy.js";
import type { Rejection, RefusalSource } from "../rejection.js";
import { IGNORE, type Classification } from "./classification.js";

export const META_KEY = "io.modelcontextprotocol/toolFailure";

const BY_SOURCE: Record<RefusalSource, readonly [string, string]> = {
  local: ["reliability", "circuit_open"],
  fleet: ["reliability", "circuit_open"],
  session: ["governance", "session_exhausted"],
  credential: ["governance", "auth_required"],
  pace: ["reliability", "paced"],
};
const REFUSALS = ["circuit_open", "session_exhausted", "duplicate_call", "caller_errors", "paced"];
/** Codes that the draft recommends and that say more than their class. */
const BY_CODE: Record<string, ErrorClass> = {
  "capability invalid_input": "invalid_input",
  "capability resource_not_found": "invalid_input",
  "governance auth_required": "auth",
  "governance permission_denied": "auth",
};
const BY_CLASS: Record<string, ErrorClass> = {
  capability: "tool", // the server answered: it can't do this
  reliability: "server", // a passing fault
  governance: "policy", // refused by a rule, or a person has to act first
};

/**
 * Return a refusal as the value of `_meta["io.modelcontextprotocol/toolFailure"]`.
 *
 * @param correlationId The id of the call in the server's logs, without secrets. The draft requires it.
 * @param now The wall clock, in seconds since 1970.
 */
export function toolFailure(rejection: Rejection, correlationId: string, now: number): Record<string, unknown> {
  const [failureClass, code] = BY_SOURCE[rejection.source];
  const wait = rejection.retryAfterS;
  const retries = failureClass === "reliability" && wait !== null;
  return {
    class: failureClass,
    code,
    retryable: retries,
    ...(retries ? { retryNotBefore: Math.ceil((now + wait) * 1000) } : {}),
    correlationId,
    agentGuidance: rejection.text,
  };
}

/**
 * Return the class of a failed result by its `_meta`, null if it has no readable `toolFailure`.
 *
 * @param now The wall clock, in seconds since 1970.
 */
export function readToolFailure(meta: unknown, now: number = Date.now() / 1000): Classification | null {
  const given = isRecord(meta) ? meta[META_KEY] : null;
  if (!isRecord(given)) {
    return null;
  }
  const { class: failureClass, code } = given;
  if (typeof failureClass !== "string" || typeof code !== "string") {
    return null;
  }
  if (REFUSALS.includes(code)) {
    return IGNORE;
  }
  const found = BY_CODE[`${failureClass} ${code}`] ?? BY_CLASS[failureClass];
  if (found === undefined) {
    return null;
  }
  const notBefore = given["retryNotBefore"];
  const asks =
    found === "server" && given["retryable"] === true && typeof notBefore === "number" && Number.isFinite(notBefore);
  return { errorClass: found, retryAfterS: asks ? Math.max(0, notBefore / 1000 - now) : null };
}

/** The texts of refusals, in every language. Frameworks write their own words before and after. */
const REFUSAL = new RegExp(
  String.raw`\bThe tool [^\n]{1,100}? is unavailable` +
    String.raw`(?:: its server [^\n]{1,100}? (?:does not answer|must not be used)| for [^\n]{1,100}?)? ` +
    String.raw`\(circuit (?:open|half open|forced open)\)\. ` +
    String.raw`|\bThe (?:tool|server) [^\n]{1,200}? is recovering(?: for [^\n]{1,100}?)?, and only some calls are let through\. This one was not\b` +
    String.raw`|\bThe tool [^\n]{1,100}? was not called: [^\n]{0,420}?\. ` +
    String.raw`Do not (?:call any tool again in this session; finish|repeat this call; use|call it again now; go on without it|call it within the next)\b` +
    String.raw`|\bYour last (?:call|[0-9]{1,9} calls) of [^\n]{1,205}? (?:was|were) rejected[^\n]{0,320}?\. ` +
    String.raw`Change the arguments or use another tool\.` +
    String.raw`|\bYour credentials for (?:the server [^\n]{1,100}? of )?the tool [^\n]{1,100}? were rejected ` +
    String.raw`(?:once|[0-9]{1,9} times in a row), so it was not called\. Sign in again, or use another tool\.`,
);

/** Return whether a text has the words of a refusal by Switchgear. Look only at a bounded part of a text. */
export function isRefusal(text: string): boolean {
  return REFUSAL.test(text);
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
