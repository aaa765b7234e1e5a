/**
 * What a call is about, read from its arguments as a policy's `target` says.
 *
 * The Python client reads the same, so all processes keep the same circuits. That is why the host of a URL is read by an expression of its
 * own: the URL parsers of languages differ.
 */
import { isRecord } from "../classify/tool-failure.js";

/** Characters of a URL that are looked at. */
const MOST_READ = 2_048;
/** Characters of a target. A longer one is none. */
const MOST_TARGET = 200;
const HOST = "host";

const SCHEME = /^(?:[a-z][a-z0-9+.-]{0,30}:\/\/|\/\/)/i;
/** The first group is the host. What comes before it are credentials, also several of them. */
const AUTHORITY =
  /^(?:[^/?#\\]*@)?(\[[0-9a-f:.]{2,45}\]|[a-z0-9](?:[a-z0-9._-]{0,251}[a-z0-9])?)\.?(?::[0-9]{1,5})?(?:[/?#\\]|$)/i;
const UNSEEN = /[\t\r\n]/g;
// eslint-disable-next-line no-control-regex -- as browsers do
const AROUND = /^[\x00-\x20]+|[\x00-\x20]+$/g;
// eslint-disable-next-line no-control-regex -- a target is one line
const UNREADABLE = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\ud800-\udfff]/u;

/**
 * Return what a call is about. Empty if its arguments don't say. It never throws.
 *
 * @param rule The `target` of a policy: names with dots between them. If the last one is `host`, the value before it may be a URL.
 * @param named The call's arguments by name.
 */
export function targetOf(rule: string, named: Readonly<Record<string, unknown>>): string {
  try {
    const path = rule.split(".");
    let value: unknown = named;
    for (const [place, name] of path.entries()) {
      if (isRecord(value)) {
        value = Object.hasOwn(value, name) ? value[name] : undefined;
      } else {
        return typeof value === "string" && name === HOST && place === path.length - 1 ? hostOf(value) : "";
      }
    }
    return plain(value);
  } catch {
    return ""; // a getter of the user's
  }
}

/** Return what a call of a function is about: the first argument that knows the rule's first name says so, or its `arguments`. */
export function targetOfCall(rule: string, args: readonly unknown[]): string {
  const [first] = rule.split(".") as [string];
  try {
    const records = args.filter(isRecord);
    const inner = records.map((each) => each["arguments"]).filter(isRecord);
    const found = [...records, ...inner].find((each) => Object.hasOwn(each, first));
    return found === undefined ? "" : targetOf(rule, found);
  } catch {
    return "";
  }
}

/** Return the host of a URL in lower case, without its port. Empty if it has none in ASCII. */
export function hostOf(url: string): string {
  const cut = url.length > MOST_READ ? " " : ""; // no host ends where the text was cut
  const text = url.slice(0, MOST_READ).replace(UNSEEN, "").replace(AROUND, "") + cut;
  const host = AUTHORITY.exec(text.replace(SCHEME, ""))?.[1]?.toLowerCase() ?? "";
  return host.length <= MOST_TARGET ? host : "";
}

/** Return a text of one line, or a whole number, as the target that it names. Empty for everything else. */
export function plain(value: unknown): string {
  if (typeof value === "number") {
    return Number.isSafeInteger(value) ? String(value) : "";
  }
  return typeof value === "string" && [...value].length <= MOST_TARGET && !UNREADABLE.test(value) ? value : "";
}
