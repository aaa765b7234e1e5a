/**
 * How long a failed answer asks to wait, in seconds: in headers, in data, in what an error carries.
 *
 * Every function is bounded, never throws, and returns null where nothing can be read. The Python client has the same rules in
 * `switchgear/classify/waits.py`.
 */
import { isRecord } from "./tool-failure.js";

/** A year. */
const LONGEST_WAIT_S = 31_536_000;
const MOST_HEADERS = 200;
/** Characters of `RateLimit` to look at. */
const MOST_LIMITS = 1_000;
/** A longer text is no time. */
const LONGEST_VALUE = 100;
/** Characters of a body that is JSON as text. */
const MOST_BODY = 20_000;
/** Objects and arrays within data to look at, and members of each of them. */
const MOST_NODES = 200;
const MOST_MEMBERS = 20;
const DEPTH = 6;
/** From here on a number is an instant. As a wait it would be 31 years. */
const LEAST_INSTANT_S = 1e9;
const LEAST_INSTANT_MS = 1e12;
const MOST_NUMBER = 1e15;

const NUMBER = /^[0-9]{1,15}(?:\.[0-9]{1,15})?$/;
const PART = /([0-9]{1,12}(?:\.[0-9]{1,12})?)(ms|us|µs|ns|d|h|m|s)/g;
const DURATION = new RegExp(`^(?:${PART.source})+$`);
const UNITS: Record<string, number> = { d: 86_400, h: 3_600, m: 60, s: 1, ms: 1e-3, us: 1e-6, µs: 1e-6, ns: 1e-9 };
const RFC_3339 =
  /^([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?)([Zz]|[+-][0-9]{2}:[0-9]{2})?$/;
const MONTH = /\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)/i;

type Clock = () => number;

/**
 * Return the seconds that a value means, at most a year: seconds, a duration as Go writes it (`6m0s`), or the time until an instant
 * (since 1970 in seconds or milliseconds, RFC 3339, an HTTP date). One in the past is 0 seconds away.
 */
export function secondsIn(value: unknown, now: Clock): number | null {
  const number = plainNumber(value);
  if (number !== null) {
    if (number < LEAST_INSTANT_S) {
      return Math.min(number, LONGEST_WAIT_S);
    }
    return until(number >= LEAST_INSTANT_MS ? number / 1_000 : number, now);
  }
  if (typeof value !== "string") {
    return null;
  }
  const text = short(value);
  if (DURATION.test(text)) {
    const parts = [...text.matchAll(PART)].map(([, amount, unit]) => Number(amount) * UNITS[unit!]!);
    return Math.min(
      parts.reduce((sum, part) => sum + part, 0),
      LONGEST_WAIT_S,
    );
  }
  return until(instant(text), now);
}

/**
 * Return the seconds that the headers of an answer ask to wait, or null.
 *
 * An order comes first: `retry-after-ms` (OpenAI, Azure), then `Retry-After`. Then come the resets of limits: `x-ratelimit-reset` and
 * `-reset-requests` and the like, `anthropic-ratelimit-…-reset`, `ratelimit-reset`, and IETF's `RateLimit`. The longest reset of the
 * limits that are used up decides. If no limit says what is left, it is the shortest.
 *
 * @param headers A `Headers` object, or a plain object. At most 200 headers are read.
 * @param now The wall clock, in seconds since 1970, for dates of an answer without a `Date` of its own.
 */
export function retryAfterIn(headers: object, now: number = Date.now() / 1000): number | null {
  const fields = fieldsOf(headers);
  const milliseconds = plainNumber(fields.get("retry-after-ms"));
  if (milliseconds !== null) {
    return Math.min(milliseconds / 1_000, LONGEST_WAIT_S);
  }
  const clock = (): number => {
    const sent = fields.get("date");
    return (typeof sent === "string" ? instant(short(sent)) : null) ?? now;
  };
  const wait = secondsIn(fields.get("retry-after"), clock);
  if (wait !== null) {
    return wait;
  }
  const limits = limitsIn(fields, clock);
  const usedUp = limits.filter((limit) => limit.left === 0).map((limit) => limit.wait);
  if (usedUp.length > 0) {
    return Math.max(...usedUp);
  }
  const unsaid = limits.filter((limit) => limit.left === null).map((limit) => limit.wait);
  return unsaid.length > 0 ? Math.min(...unsaid) : null;
}

/**
 * Return the seconds that data of an answer asks to wait, or null. These are read: `retry_after`, `retryAfter` and the like, also with
 * `_ms` or `_seconds`; `headers` of an answer within; and Google's `RetryInfo`. What lies nearest to the outside decides.
 *
 * @param depth How deep to look: 1 is the outermost object alone.
 */
export function waitInData(data: unknown, now: number = Date.now() / 1000, depth: number = DEPTH): number | null {
  const queue: [unknown, number][] = [[data, 1]];
  try {
    for (let at = 0; at < queue.length && at < MOST_NODES; at++) {
      const [value, level] = queue[at]!;
      if (typeof value !== "object" || value === null) {
        continue;
      }
      const found = Array.isArray(value) ? null : waitInOne(value as Record<string, unknown>, now);
      if (found !== null) {
        return found;
      }
      if (level < depth) {
        const within: unknown[] = Array.isArray(value) ? value : Object.values(value);
        for (const member of within.slice(0, MOST_MEMBERS)) {
          if (typeof member === "object" && member !== null) {
            queue.push([member, level + 1]);
          }
        }
      }
    }
  } catch {
    return null; // a foreign object may fail in any way; the class of the failure is known all the same
  }
  return null;
}

/** Return the seconds that an error asks to wait, by its `retryAfter`, the headers of its response or its own, or its body; or null. */
export function waitOf(error: Record<string, unknown>): number | null {
  try {
    const now = Date.now() / 1000;
    const direct = secondsIn(error["retryAfter"] ?? error["retry_after"], () => now);
    if (direct !== null) {
      return direct;
    }
    const responses = [error["response"], error["$response"]].filter(isRecord); // the second is of the AWS SDK
    for (const headers of [
      ...responses.map((response) => response["headers"]),
      error["headers"],
      error["responseHeaders"],
    ]) {
      const found = isRecord(headers) ? retryAfterIn(headers, now) : null;
      if (found !== null) {
        return found;
      }
    }
    for (const body of [
      error["details"],
      error["error"],
      error["data"],
      error["responseBody"],
      responses[0]?.["data"],
    ]) {
      const found = waitInData(decoded(body), now);
      if (found !== null) {
        return found;
      }
    }
  } catch {
    return null;
  }
  return null;
}

function short(text: string): string {
  return text.length <= LONGEST_VALUE ? text.trim() : "";
}

/** Return a number from 0 that is written plainly, null for others. */
function plainNumber(value: unknown): number | null {
  const found = typeof value === "string" && NUMBER.test(short(value)) ? Number(value) : value;
  return typeof found === "number" && found >= 0 && found < MOST_NUMBER ? found : null;
}

function until(at: number | null, now: Clock): number | null {
  return at === null ? null : Math.min(Math.max(at - now(), 0), LONGEST_WAIT_S);
}

/** Return an instant in seconds since 1970. One without a zone is UTC. */
function instant(text: string): number | null {
  const found = RFC_3339.exec(text);
  let written: string | null = null;
  if (found !== null) {
    written = `${found[1]}T${found[2]}${(found[3] ?? "Z").toUpperCase()}`;
  } else if (MONTH.test(text)) {
    written = /[A-Z]{3}$|[+-]\d{4}$/.test(text) ? text : `${text} GMT`;
  }
  const at = written === null ? Number.NaN : Date.parse(written);
  return Number.isNaN(at) ? null : at / 1000;
}

/** Return the headers that are text or a number, by their names in lower case. Of several with one name it is the first. */
function fieldsOf(headers: object): Map<string, string | number> {
  const found = new Map<string, string | number>();
  try {
    const own = (headers as { entries?: unknown }).entries;
    const entries: Iterable<[string, unknown]> =
      typeof own === "function" ? (headers as Map<string, unknown>).entries() : Object.entries(headers);
    let seen = 0;
    for (const [name, value] of entries) {
      const key = name.toLowerCase();
      if ((typeof value === "string" || typeof value === "number") && !found.has(key)) {
        found.set(key, value);
      }
      if (++seen >= MOST_HEADERS) {
        break;
      }
    }
  } catch {
    return found; // a foreign object may fail in any way; what came before is good
  }
  return found;
}

const RESET =
  /^(?:(?:x-)?rate-?limit-(?:[a-z0-9-]{1,40}-)?reset(?:-[a-z0-9-]{1,40})?|anthropic-(?:ratelimit|priority)-[a-z0-9-]{1,40}-reset)$/;

interface Limit {
  /** Null if it isn't said. */
  readonly left: number | null;
  /** Seconds until the reset. */
  readonly wait: number;
}

function limitsIn(fields: Map<string, string | number>, now: Clock): Limit[] {
  const found: Limit[] = [];
  for (const [name, value] of fields) {
    if (name === "ratelimit" && typeof value === "string") {
      found.push(...ietfLimits(value.slice(0, MOST_LIMITS)));
    } else if (RESET.test(name)) {
      const wait = secondsIn(value, now);
      if (wait !== null) {
        const left = fields.get(name.replace(/-after$/, "").replace("reset", "remaining"));
        found.push({ left: plainNumber(left), wait });
      }
    }
  }
  return found;
}

/** Return the limits of the header `RateLimit`: `"default";r=0;t=30`, or in drafts up to 7 `limit=10, remaining=0, reset=30`. */
function ietfLimits(text: string): Limit[] {
  const earlier = new Map(
    [...text.matchAll(/\b(remaining|reset)=([0-9]{1,15})/g)].map(([, name, value]) => [name, value]),
  );
  const items = earlier.has("reset")
    ? [new Map([["r", earlier.get("remaining")], ["t", earlier.get("reset")]])] // prettier-ignore
    : text
        .split(",")
        .map(
          (item) =>
            new Map([...item.matchAll(/; *([a-z]{1,10})=([0-9]{1,15})/g)].map(([, name, value]) => [name, value])),
        );
  const found: Limit[] = [];
  for (const item of items) {
    const wait = plainNumber(item.get("t"));
    if (wait !== null) {
      found.push({ left: plainNumber(item.get("r")), wait: Math.min(wait, LONGEST_WAIT_S) });
    }
  }
  return found;
}

/** Names without `-` and `_`, in lower case. */
const ASKS = ["retryafter", "retryafters", "retryafterseconds"];
const HEADERS = ["headers", "responseheaders", "httpheaders"];

/** Return the wait that an object says itself, not one of those within. */
function waitInOne(value: Record<string, unknown>, now: number): number | null {
  const kind = value["@type"];
  if (typeof kind === "string" && kind.endsWith("google.rpc.RetryInfo")) {
    return secondsIn(value["retryDelay"], () => now);
  }
  for (const [name, member] of Object.entries(value).slice(0, MOST_MEMBERS)) {
    const plain = name.slice(0, 40).replace(/[-_]/g, "").toLowerCase();
    let found: number | null = null;
    if (ASKS.includes(plain)) {
      found = secondsIn(member, () => now);
    } else if (plain === "retryafterms") {
      const milliseconds = plainNumber(member);
      found = milliseconds === null ? null : Math.min(milliseconds / 1_000, LONGEST_WAIT_S);
    } else if (HEADERS.includes(plain) && isRecord(member)) {
      found = retryAfterIn(member, now);
    }
    if (found !== null) {
      return found;
    }
  }
  return null;
}

/** Return a body that is the text of a JSON object as the object. */
function decoded(data: unknown): unknown {
  if (typeof data !== "string") {
    return data;
  }
  try {
    return data.length <= MOST_BODY && data.trimStart().startsWith("{") ? (JSON.parse(data) as unknown) : null;
  } catch {
    return null;
  }
}
