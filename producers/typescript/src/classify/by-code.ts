/** Classify errors by the HTTP status or error code that they carry. */
import type { ErrorClass } from "../breaker/policy.js";
import { classOfStatus } from "../http-status.js";
import type { Classification } from "./classification.js";
import { isRecord } from "./tool-failure.js";
import { waitInData, waitOf } from "./waits.js";

/** An error's fields, whatever its type. */
export type Fields = Record<string, unknown>;

const LIMITED = [403, 429];
/** 529 is Anthropic's `overloaded_error`. */
const OVERLOADED = [503, 529];

/**
 * Return the class of the error's HTTP status: of fetch wrappers, axios, got, model SDKs, the AI SDK, AWS.
 *
 * A 403 that asks to wait is `rate_limited`: so GitHub answers a client above its limits.
 */
export function byStatus(error: Fields): Classification | null {
  const status = httpStatus(error);
  if (status === null || status < 300) {
    return null;
  }
  const found = classOfStatus(status);
  const mayAsk = LIMITED.includes(status) || OVERLOADED.includes(status);
  const wait = mayAsk ? waitOf(error) : null;
  return { errorClass: status === 403 && wait !== null ? "rate_limited" : found, retryAfterS: wait };
}

function httpStatus(error: Fields): number | null {
  const holders = [error["response"], error, error["$metadata"]];
  for (const holder of holders) {
    if (!isRecord(holder)) {
      continue;
    }
    for (const name of ["status_code", "statusCode", "status", "code", "httpStatusCode"]) {
      const value = holder[name];
      if (Number.isInteger(value) && (value as number) >= 100 && (value as number) <= 599) {
        return value as number;
      }
    }
  }
  return null;
}

const STATUS_FIELDS = ["status", "statusCode", "status_code", "httpStatus", "http_status"];

/**
 * Return the class of what a server says about its failure in fields of its own, null if it says nothing: MCP's `error.data` and `_meta`.
 *
 * It is that of a `status` of 429, 503 or 529. Without one, it is `rate_limited` if the server asks to wait. Don't give it what a tool
 * returned as its content: that may be about something else.
 */
export function byData(data: unknown): Classification | null {
  if (!isRecord(data)) {
    return null;
  }
  const status = STATUS_FIELDS.map((name) => data[name]).find((value) => Number.isInteger(value)) as number | undefined;
  if (status === 429 || (status !== undefined && OVERLOADED.includes(status))) {
    return { errorClass: classOfStatus(status), retryAfterS: waitInData(data) };
  }
  const wait = waitInData(data, undefined, 1);
  return wait === null ? null : { errorClass: "rate_limited", retryAfterS: wait };
}

const SYSTEM_CODES: Record<string, ErrorClass> = {};
for (const [errorClass, codes] of Object.entries({
  transport:
    "ECONNREFUSED ECONNRESET ECONNABORTED ENOTFOUND EAI_AGAIN EAI_NODATA EAI_NONAME EPIPE EHOSTUNREACH EHOSTDOWN ENETUNREACH ENETDOWN" +
    " EADDRNOTAVAIL UND_ERR_SOCKET UND_ERR_CLOSED UND_ERR_DESTROYED UND_ERR_RES_CONTENT_LENGTH_MISMATCH ERR_NETWORK ERR_STREAM_PREMATURE_CLOSE" +
    " CERT_HAS_EXPIRED DEPTH_ZERO_SELF_SIGNED_CERT SELF_SIGNED_CERT_IN_CHAIN UNABLE_TO_VERIFY_LEAF_SIGNATURE ERR_TLS_CERT_ALTNAME_INVALID" +
    " ERR_SSL_WRONG_VERSION_NUMBER EPROTO ConnectionRefused ConnectionClosed FailedToOpenSocket",
  timeout:
    "ETIMEDOUT ESOCKETTIMEDOUT UND_ERR_CONNECT_TIMEOUT UND_ERR_HEADERS_TIMEOUT UND_ERR_BODY_TIMEOUT ERR_SOCKET_CONNECTION_TIMEOUT",
  cancelled: "ABORT_ERR ERR_CANCELED ERR_CANCELLED UND_ERR_ABORTED",
  auth: "EACCES EPERM",
  invalid_input:
    "ENOENT EEXIST EISDIR ENOTDIR ERR_INVALID_URL ERR_INVALID_ARG_TYPE ERR_INVALID_ARG_VALUE UND_ERR_INVALID_ARG",
} satisfies Partial<Record<ErrorClass, string>>)) {
  for (const code of codes.split(" ")) {
    SYSTEM_CODES[code] = errorClass as ErrorClass;
  }
}

/** Return the class of the code of Node, undici, axios or Bun, null for other codes. */
export function bySystemCode(error: Fields): Classification | null {
  const code = error["code"];
  const axiosTimeout = code === "ECONNABORTED" && /\btimeout of [0-9]+ ?ms exceeded\b/i.test(String(error["message"]));
  const found = axiosTimeout ? "timeout" : typeof code === "string" ? SYSTEM_CODES[code] : undefined;
  return found === undefined ? null : { errorClass: found };
}

const MCP: Record<number, ErrorClass> = {
  429: "rate_limited", // some servers use HTTP's number
  [-32000]: "transport", // connection closed
  [-32001]: "timeout", // request timeout
  [-32002]: "invalid_input", // resource not found
  [-32042]: "auth", // the user has to sign in first
  [-32600]: "invalid_input",
  [-32601]: "invalid_input", // no such method
  [-32602]: "invalid_input", // no such tool, or wrong arguments
  [-32603]: "server",
  [-32700]: "server",
};

/** What the codes say for which servers have no better one, as -32000 and -32603. */
const MAY_BE_LIMITED: readonly (ErrorClass | undefined)[] = [undefined, "rate_limited", "server", "transport"];

/**
 * Return the class of an MCP error, null for other errors. An unknown code is `tool`, because the server answered. If the code isn't
 * about the request, the error's `data` may say that the server is limited or overloaded.
 */
export function byMcpCode(error: Fields): Classification | null {
  const code = error["code"];
  if (error["name"] !== "McpError" || !Number.isInteger(code)) {
    return null;
  }
  const found = MCP[code as number];
  const said = MAY_BE_LIMITED.includes(found) ? byData(error["data"]) : null;
  return said ?? { errorClass: found ?? "tool" };
}

/** By number, from 0 (OK) to 16 (UNAUTHENTICATED). */
const GRPC: readonly (ErrorClass | null)[] = [
  null,
  "cancelled",
  "unknown",
  "invalid_input",
  "timeout",
  "invalid_input",
  "invalid_input",
  "auth",
  "rate_limited",
  "invalid_input",
  "tool",
  "invalid_input",
  "server",
  "server",
  "transport",
  "server",
  "auth",
];

/** Return the class of the status of grpc-js, which has `details` and `metadata`, null for other errors. */
export function byGrpcCode(error: Fields): Classification | null {
  const { code, details, metadata } = error;
  if (typeof code !== "number" || typeof details !== "string" || typeof metadata !== "object") {
    return null;
  }
  const found = GRPC[code];
  return found === null || found === undefined ? null : { errorClass: found };
}

/** Parts of AWS error names. The first that matches decides. */
const AWS: readonly (readonly [RegExp, ErrorClass])[] = [
  [/throttl|toomanyrequests|slowdown|(?:throughput|request|bandwidth)limit|throughputexceeded/i, "rate_limited"],
  [/^limitexceeded|modelnotready|priorrequestnotcomplete|transactioninprogress/i, "rate_limited"],
  [/timeout/i, "timeout"],
  [/accessdenied|authfailure|unauthorized|unrecognizedclient|optinrequired|accesskeyid|clienttokenid/i, "auth"],
  [/expiredtoken|requestexpired|authenticationtoken|signature/i, "auth"],
  [/^internal|badgateway|serviceunavailable|servicefailure|modelstreamerror/i, "server"],
  [/badrequest|conflict|invalidrequest|resourcenotfound|validation/i, "invalid_input"],
];

/** Return the class of an error of the AWS SDK, whose name says more than its status, null for other errors. */
export function byAwsName(error: Fields): Classification | null {
  if (!isRecord(error["$metadata"]) || typeof error["name"] !== "string") {
    return null;
  }
  const name = error["name"];
  const found = AWS.find(([pattern]) => pattern.test(name))?.[1];
  return found === undefined
    ? null
    : { errorClass: found, retryAfterS: found === "rate_limited" ? waitOf(error) : null };
}

const BY_STATE: Record<string, ErrorClass> = { "42501": "auth", "57014": "timeout" };
const BY_PREFIX: Record<string, ErrorClass> = {
  "08": "transport",
  "22": "invalid_input",
  "23": "invalid_input",
  "28": "auth",
  "3D": "invalid_input",
  "3F": "invalid_input",
  "40": "tool", // serialization failure or deadlock: the database works
  "42": "invalid_input",
  "53": "server", // out of connections, memory, disk
  "55": "tool", // the object is locked
  "57": "server", // shutting down
  "58": "server",
  XX: "server",
};

/** Return the class of an SQLSTATE: `code` of pg beside a `severity`, `sqlState` of MySQL. Null for an unknown one. */
export function bySqlState(error: Fields): Classification | null {
  const state = error["sqlState"] ?? (error["severity"] === undefined ? null : error["code"]);
  if (typeof state !== "string" || state.length !== 5) {
    return null;
  }
  const found = BY_STATE[state] ?? BY_PREFIX[state.slice(0, 2)];
  return found === undefined ? null : { errorClass: found };
}
