import type { ErrorClass } from "../breaker/policy.js";
import { byAwsName, byGrpcCode, byMcpCode, bySqlState, byStatus, bySystemCode, type Fields } from "./by-code.js";
import { MAX_TEXT } from "./by-text.js";
import type { Classification } from "./classification.js";
import { isRefusal } from "./tool-failure.js";
import { waitOf } from "./waits.js";

/** The first answer decides. What the error carries comes before its type. */
const RULES = [byAwsName, byGrpcCode, byMcpCode, byStatus, bySqlState, bySystemCode];
/** How many errors within one another to look at. */
const DEEPEST = 5;
/** The most errors of an AggregateError to look at. */
const MAX_MEMBERS = 100;
/** Outages come first, then what may be one, then the rest. */
const MOST_SIGNIFICANT: readonly ErrorClass[] = [
  "transport",
  "timeout",
  "server",
  "rate_limited",
  "unknown",
  "auth",
  "tool",
  "invalid_input",
  "policy",
  "cancelled",
];
const OUTAGES = MOST_SIGNIFICANT.slice(0, 4);

/** The classes of errors by their name: of JavaScript, browsers, model SDKs, the AI SDK and common libraries. */
const BY_NAME: Record<string, ErrorClass> = {};
for (const [errorClass, names] of Object.entries({
  cancelled: "AbortError APIUserAbortError CanceledError CancelledError",
  timeout:
    "TimeoutError CallTimeoutError APIConnectionTimeoutError ConnectTimeoutError HeadersTimeoutError BodyTimeoutError",
  transport: "NetworkError APIConnectionError SocketError FetchError ConnectionRefusedError MongoNetworkError",
  server:
    "SyntaxError AI_JSONParseError AI_InvalidResponseDataError AI_EmptyResponseBodyError AI_NoContentGeneratedError",
  invalid_input:
    "ZodError $ZodError ValidationError AI_InvalidToolInputError AI_InvalidToolArgumentsError AI_NoSuchToolError AI_InvalidArgumentError" +
    " AI_InvalidPromptError AI_TypeValidationError ToolInvocationError",
  auth: "AI_LoadAPIKeyError UnauthorizedError CredentialsProviderError",
  policy:
    "SwitchgearError CircuitOpenError SessionExhaustedError GraphInterrupt NodeInterrupt GraphDrained ParentCommand",
} satisfies Partial<Record<ErrorClass, string>>)) {
  for (const name of names.split(" ")) {
    BY_NAME[name] = errorClass as ErrorClass;
  }
}

/** What `fetch` says in Node, Chrome, Firefox, Safari, Bun and Deno if there was no answer. Its error is a TypeError. */
const NO_ANSWER =
  /^(?:fetch failed|failed to fetch|networkerror when attempting to fetch resource|load failed|network request failed|unable to connect\b|error sending request\b|terminated$|network error$)/i;

/**
 * Return the class of an error, by what it carries (a status, a code) and then by its name. Never throws.
 *
 * - An aborted call (`AbortError`) is `cancelled`. A guard makes a `timeout` of it if it was overdue. `TimeoutError` is `timeout`.
 * - 429 is `rate_limited` and 5xx is `server`. 429, 503 and 529 have the wait that was asked for. 408 and 504 are `timeout`. 401, 402, 403 and 407 are `auth`. 499
 *   is `cancelled`. Other 4xx are `invalid_input`.
 * - System codes and fetch's own errors are `transport` or `timeout`.
 * - `CircuitOpenError`, also only its text, is `policy`: another tool, which this one calls, is unavailable.
 * - Everything else is `unknown`, which counts. `TypeError` belongs here: the answer has an unexpected shape.
 *
 * The `cause` decides for an `unknown` error if it is an outage or carries a status or code. An AggregateError has the class of the
 * member that says most about the tool.
 */
export function classify(error: unknown): Classification {
  try {
    return seen(error, 0).found;
  } catch {
    return { errorClass: "unknown" }; // an error's property may throw; the call must not
  }
}

interface Seen {
  readonly found: Classification;
  /** Whether the error carries its class, in a status or code. */
  readonly carried: boolean;
}

function seen(error: unknown, depth: number): Seen {
  if (typeof error !== "object" || error === null) {
    const refused = typeof error === "string" && isRefusal(error.slice(0, MAX_TEXT));
    return { found: { errorClass: refused ? "policy" : "unknown" }, carried: refused };
  }
  const fields = error as Fields;
  const named = BY_NAME[String(fields["name"])];
  const message = typeof fields["message"] === "string" ? fields["message"].slice(0, MAX_TEXT) : "";
  if (named === "cancelled" || named === "policy") {
    return { found: { errorClass: named }, carried: true };
  }
  if (named === undefined && isRefusal(message)) {
    return { found: { errorClass: "policy" }, carried: true };
  }
  const members = fields["errors"];
  if (depth < DEEPEST && error instanceof AggregateError && Array.isArray(members) && members.length > 0) {
    return members
      .slice(0, MAX_MEMBERS)
      .map((member) => seen(member, depth + 1))
      .reduce((best, other) => (rank(other) < rank(best) ? other : best));
  }
  for (const rule of RULES) {
    const found = rule(fields);
    if (found !== null) {
      const wait = found.errorClass === "rate_limited" ? (found.retryAfterS ?? waitOf(fields)) : null;
      return { found: wait === null ? found : { ...found, retryAfterS: wait }, carried: true };
    }
  }
  if (named !== undefined && fields["name"] !== "FetchError") {
    return { found: { errorClass: named }, carried: false };
  }
  // The AI SDK's RetryError keeps the last attempt's error; others keep theirs as the cause.
  const cause = fields["cause"] ?? fields["lastError"];
  if (cause !== undefined && cause !== null && depth < DEEPEST) {
    const inner = seen(cause, depth + 1);
    if (inner.carried || OUTAGES.includes(inner.found.errorClass)) {
      return inner;
    }
  }
  const noAnswer =
    named === "transport" || ((error instanceof TypeError || named === undefined) && NO_ANSWER.test(message));
  return { found: { errorClass: noAnswer ? "transport" : "unknown" }, carried: false };
}

function rank(one: Seen): number {
  return MOST_SIGNIFICANT.indexOf(one.found.errorClass);
}
