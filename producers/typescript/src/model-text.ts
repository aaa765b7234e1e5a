/**
 * Text of strangers in what a model reads. A name is shown plainly only if it can hardly be a sentence, and an error is told in our own
 * words. Everything else is quoted, escaped and bounded, so that it can't end the quotation.
 */
import { classOfStatus } from "./http-status.js";

/** The most characters of a name in a text, with its quotation marks. */
const MOST_NAME = 80;
/** The most characters of a tool's error in a text. */
export const MOST_OF_AN_ERROR = 300;

/** Letters of other scripts need no spaces for a sentence. */
const PLAIN = /^[A-Za-z0-9_.:/@-]{1,64}$/;
const IN_DATA = /[<>`]/;
/** Braces too: a prompt may be a template. */
const IN_NAME = /[<>`{}[\]]/;
const SHORT: Readonly<Record<string, string>> = {
  "\\": "\\\\",
  '"': '\\"',
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
};
/** What can't be seen: control and format characters, separators, and characters without a meaning or a shape. */
const UNSEEN =
  /(?! )[\p{C}\p{Z}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/u;

const KINDS: Readonly<Record<string, string>> = {
  transport: "a broken connection",
  timeout: "a timeout",
  server: "a failure of the server",
  rate_limited: "a rate limit",
  tool: "an error that the tool answered",
  invalid_input: "a rejected input",
  auth: "a rejected login",
  cancelled: "a cancelled call",
  policy: "a refusal by a rule",
};
/** An HTTP status where clients write it. Only its three digits are taken from the text. */
const STATUS =
  /(?:^|(?:http|status|code|error)[ :=('"-]{1,3})([45][0-9]{2})(?![\p{L}\p{N}_.%]| ?m?s(?![\p{L}\p{N}_]))/iu;
const NUMBER = "-?[0-9][0-9.e+-]{0,19}";
/** A reason that a rule gives. Others, such as an operator's, may have anything in them. */
const RULE = new RegExp(
  "^(consecutive_failures|failure_count|failure_rate|slow_call_rate|wasted_tokens|cusum|auth_failures" +
    "|probe_failed|probe_slow|probe_failure_rate|probe_slow_call_rate|probes_ignored|half_open_timeout|recovery_failed)" +
    `(?: (${NUMBER}(?: reached ${NUMBER})?(?: over [0-9]{1,12} calls)?))?$`,
);

/** Return a name as a model may read it: plain if it is a short word of `A-Za-z0-9_.:/@-`, else quoted and escaped. */
export function nameForModel(name: string): string {
  return PLAIN.test(name) ? name : quoted(name, MOST_NAME, IN_NAME);
}

/** Return a stranger's text in quotation marks, on one line, with at most `most` characters. */
export function dataForModel(text: string, most = MOST_OF_AN_ERROR): string {
  return quoted(text, most, IN_DATA);
}

/** Return what a failure was, in our words: its class, or its HTTP status if that fits. Empty if neither is known. */
export function errorInWords(errorClass: string | null, error: string | null): string {
  const found = STATUS.exec((error ?? "").slice(0, MOST_OF_AN_ERROR));
  if (found !== null && (errorClass === null || errorClass === classOfStatus(Number(found[1])))) {
    return `an HTTP ${found[1]}`;
  }
  return errorClass === null ? "" : (KINDS[errorClass] ?? "an error of unknown kind");
}

/** Return the sentence for the rule that opened a circuit. Empty for every reason that isn't a rule's. */
export function ruleInWords(reason: string): string {
  const found = RULE.exec(reason);
  return found === null ? "" : `The rule ${found[1]} opened it${found[2] === undefined ? "" : ` (${found[2]})`}.`;
}

function quoted(text: string, most: number, markup: RegExp): string {
  let room = most - 2;
  const parts: string[] = [];
  for (const character of text.slice(0, 2 * most + 2)) {
    const part = shown(character, markup);
    parts.push(part);
    room -= [...part].length;
    if (room < 0) {
      break;
    }
  }
  if (room < 0) {
    while (parts.length > 0 && room < 1) {
      room += [...parts.pop()!].length;
    }
    parts.push("…");
  }
  return `"${parts.join("")}"`;
}

function shown(character: string, markup: RegExp): string {
  const short = SHORT[character];
  if (short !== undefined) {
    return short;
  }
  if (!markup.test(character) && !UNSEEN.test(character)) {
    return character;
  }
  const units = Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
}
