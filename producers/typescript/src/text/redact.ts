/**
 * Remove secrets from error messages before they leave the process.
 *
 * The patterns match credentials with a published prefix, cookies and authorization headers, and values whose name says that they are
 * secret: `token=abc`, `"apiKey": ["abc"]`, `--password abc`, `<password>abc</password>`. Every pattern takes linear time, and the text is cut first. Secrets without
 * a known name or prefix and personal data stay: give the client a `redact` function for them.
 */

export const MARK = "[redacted]";
const MAX_MESSAGE_CHARACTERS = 2_000;
const CONSIDERED = 2 * MAX_MESSAGE_CHARACTERS;
const LONGEST_SECRET = 600;

// -- credentials by their form. JavaScript has no possessive quantifiers: `(?=(…))\1` takes their place.

const PARAMETER = String.raw`[A-Za-z0-9_-]{1,40}=(?:\\{0,8}"[^"]*"?|[^\s"',\\]+)`;
const AUTHORIZATION = new RegExp(
  String.raw`(\b(?:proxy-)?authorization["']?\]?\s{0,4}[:=]{1,2}(?=(>?\s{0,4}["']?))\2)(?!\[redacted\])` +
    String.raw`(?:[A-Za-z0-9-]{2,40}\s{1,4}${PARAMETER}(?:\s{0,4},\s{0,4}${PARAMETER})*|[^\s"',;]+(?:\s{1,4}[^\s"',;]+)?)`,
  "gi",
);
const COOKIE =
  /(\b(?:set-)?cookie["']?\]?\s{0,4}(?::|=>)(?=(\s{0,4}["']?))\2)(?!\[redacted\])[^\s=;"']{1,80}=[^\r\n"']*/gi;
/** scheme://user:password@host, keeping the host. Both may contain an @. A single word may be a token. */
const IN_URL =
  /(\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}:\/\/)(?:[^\s/:]{0,256}:[^\s/@]{1,256}|(?!git@)[^\s/:@?#"'<>]{1,256})@(?:[^\s/@"'<>]{0,256}@){0,8}/g;
/** The paths of webhooks are their passwords. */
const WEBHOOK = new RegExp(
  String.raw`(\b(?:hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/(?:v[0-9]{1,3}/)?webhooks` +
    String.raw`|webhook\.office\.com|outlook\.office(?:365)?\.com/webhook|hooks\.zapier\.com/hooks|hook\.[a-z0-9]{2,8}\.make\.com` +
    String.raw`|maker\.ifttt\.com/(?:trigger|use)|events\.pagerduty\.com/integration)/)[A-Za-z0-9/_.@%~-]+`,
  "g",
);
const KEY_IN_URL = /((?:[?&]|&amp;|\\u0026)key=)[^\s"'<>&#,;)[\]}\\]+/g;
/** curl -u name:password. A port or a URL is no password, nor is a number of a user and a group. */
const LOGIN_OPTION = new RegExp(
  String.raw`((?:(?<=curl )-u|(?<![A-Za-z0-9_-])(?:-[uU]|--(?:proxy-)?user)[\s=])\s{0,4})(?![0-9]{1,10}:[0-9]{1,10}(?:\s|$))` +
    String.raw`(?:"[^\s:"]{1,80}:(?!//)[^"]*"?|'[^\s:']{1,80}:(?!//)[^']*'?|[^\s:"']{1,80}:(?!//)[^\s"'` +
    "`]+)",
  "g",
);
const KNOWN_FORMS = [
  // OpenAI, Anthropic, Stripe; GitHub, GitLab; Slack; AWS; Google; Hugging Face, npm
  "(?:sk|pk|rk)[-_](?:[A-Za-z0-9]{1,12}[-_]){0,4}[A-Za-z0-9_-]{16,}",
  "gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}",
  "x(?:ox[a-z]|app)-[A-Za-z0-9-]{10,}",
  "(?:AKIA|ASIA)[A-Z0-9]{16}\\b",
  "AIza[A-Za-z0-9_-]{30,}",
  "(?:hf|npm)_[A-Za-z0-9]{20,}",
  // Groq, xAI, Perplexity, Replicate, Notion, Linear, Shopify, Supabase, DigitalOcean, Vault, webhooks, PyPI, Grafana
  "(?:gsk_|xai-|pplx-|r8_|ntn_|lin_api_|shp(?:at|ca|pa|ss)_|sbp_|dop_v1_|hv[sb]\\.|whsec_|pypi-|glsa_)[A-Za-z0-9._-]{16,}",
  // Postman, Google's OAuth, SendGrid; Databricks
  "(?:PMAK-|GOCSPX-|ya29\\.|SG\\.)[A-Za-z0-9._-]{16,}",
  "dapi[0-9a-f]{32}\\b",
  // Tavily, NVIDIA, Figma, Docker; Firecrawl
  "(?:tvly-|nvapi-|figd_|dckr_pat_)[A-Za-z0-9_-]{16,}",
  "fc-[0-9a-f]{32}\\b",
  // Tokens and permits of our own servers
  "sg(?:t|p1)_[A-Za-z0-9._-]{16,}",
];
/** A JSON Web Token, or a word that only begins like one: it is read once, also if it has `-eyJ` a thousand times. */
const JWT = /\beyJ[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)?/g;
const PATTERNS: readonly (readonly [RegExp, string])[] = [
  [AUTHORIZATION, `$1${MARK}`],
  [COOKIE, `$1${MARK}`],
  [
    /-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----[^]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|$)/g,
    MARK,
  ],
  [/(\b(?:bearer|basic)\s{1,4})[A-Za-z0-9._~+/=-]{8,}/gi, `$1${MARK}`],
  [WEBHOOK, `$1${MARK}`],
  [KEY_IN_URL, `$1${MARK}`],
  [LOGIN_OPTION, `$1${MARK}`],
  [new RegExp(`\\b(?:${KNOWN_FORMS.join("|")})`, "g"), MARK],
  [/(?<![0-9])[0-9]{8,10}:AA[A-Za-z0-9_-]{33}/g, MARK], // Telegram
];

// -- values of secret names

const WORDS =
  "pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key|credentials?" +
  "|client[_-]?secret|refresh[_-]?token|access[_-]?token|id[_-]?token|session[_-]?key|signature|sig|x-api-key" +
  "|account[_-]?key|shared[_-]?key|signing[_-]?key|encryption[_-]?key|secret[_-]?key(?:[_-]?base)?";
/** The end of a secret's name: the whole name, or the part after a dash. */
const SECRET_PART = new RegExp(`(?:^|[_-])(?:${WORDS})$`, "i");
/** The last part in camelCase, which begins with a capital. */
const SECRET_ENDING = new RegExp(`^(?:${WORDS})$`, "i");
/** Names that are secret if the value is written as data. A plain value (`Cookie: a=b; c=d`) is handled above, or is prose. */
const HEADER = /(?:^|[_-])(?:authorization|cookies?)$/i;
/** A name and the characters before its value. A comma is in pairs and arguments. */
const NAME =
  /(?<![A-Za-z0-9_-])(?=([A-Za-z0-9_-]{2,160}))\1(?:\\{0,32}["']?\]?\s{0,4}[:=]{1,2}>?|\\{0,32}["'](,))\s{0,4}/g;
const A_STRING = String.raw`[bBuU]?\\{0,32}["']`;
const OPENS_PAIR = new RegExp(String.raw`\(\s{0,4}${A_STRING}$`);
const CLOSES_PAIR = /["']\s{0,4}\)/g;
const BEFORE_STRING = /[bBuUrRfF]{0,2}(?=\\{0,32}["'])/y;
const QUOTE = /(?<!\\)(\\*)(["'])/y;
const BRACKET_OR_QUOTE = /(?<!\\)(\\*)(["'])|([[({])|[\])}]/g;
/** The beginning of a list, an object, or something like `SecretStr('abc')`. A bracket in prose doesn't match. */
const DATA = new RegExp(
  String.raw`(?:[A-Za-z_][A-Za-z0-9_.]{0,40}(?=[\[({]\s{0,4}${A_STRING}))?` +
    String.raw`[\[({]\s{0,8}(?=${A_STRING}|[\[({0-9]|(?=(\w{1,80}))\1\s?[:=])`,
  "y",
);
/** A value without quotes, also one in brackets. */
const WORD = /[[({][^[\](){}]{0,400}[\])}]|[^\s"'&,;)}\]]+/y;
/** An option in a command line. A word of prose after it means that the text is about the option. */
const OPTION = new RegExp(
  String.raw`(?<![A-Za-z0-9_-])--?(?=([A-Za-z][A-Za-z0-9_-]{1,80}))\1(?=(\s{1,4}))\2(?!-|(?:${either(
    "a|an|and|are|as|but|by|can|cannot|did|does|for|from|has|have|if|in|is|it|may|must|needs?|no|not|of|on|or|requires?|required|should" +
      "|the|then|to|was|were|when|which|will|with|without",
  )})[.,;:!?]?(?:\s|$))`,
  "g",
);
const TAG = /<(?:[A-Za-z0-9_.-]{1,80}:)?(?=([A-Za-z0-9_-]{2,160}))\1(?:\s[^<>]{0,200})?>/g;
/** The text of an XML element. Without its end, a name in angle brackets is a placeholder in prose. */
const BEFORE_END_TAG = /(?:<!\[CDATA\[[^<\]]*\]\]>|[^<]+)(?=<\/)/y;
const SHELL_WORD = /[^\s"'`]+/y;

/** Return the pattern for both cases of each letter. A whole pattern without case would change the others' meaning. */
function either(words: string): string {
  return words.replace(/[a-z]/g, (letter) => `[${letter}${letter.toUpperCase()}]`);
}

/**
 * Return `text` without credentials, at most 2,000 characters long. An ellipsis marks a cut. Redacting again changes nothing.
 */
export function redact(text: string): string {
  let found = text.slice(0, CONSIDERED).replace(IN_URL, `$1${MARK}@`);
  found = without(OPTION, endOfOption, without(NAME, endOfSecret, found));
  found = without(TAG, endOfElement, found);
  found = found.replace(JWT, (word: string, rest?: string) => (rest === undefined ? word : MARK));
  for (const [pattern, replacement] of PATTERNS) {
    found = found.replace(pattern, replacement);
  }
  if (text.length > CONSIDERED) {
    found = found.slice(0, -LONGEST_SECRET); // it may end with half a secret, which has no known form
  }
  if (found.length > MAX_MESSAGE_CHARACTERS || text.length > CONSIDERED) {
    return `${found.slice(0, MAX_MESSAGE_CHARACTERS - 1)}…`;
  }
  return found;
}

/** Return `text` with `MARK` in place of what follows `pattern`, up to the end of the value. */
function without(
  pattern: RegExp,
  endOfValue: (text: string, name: RegExpMatchArray) => number | null,
  text: string,
): string {
  let found = "";
  let done = 0;
  for (const name of text.matchAll(pattern)) {
    const at = name.index + name[0].length;
    if (name.index < done || text.startsWith(MARK, at)) {
      continue;
    }
    const end = endOfValue(text, name);
    if (end !== null && end > at) {
      found += text.slice(done, at) + MARK;
      done = end;
    }
  }
  return found + text.slice(done);
}

function isSecret(name: string): boolean {
  if (SECRET_PART.test(name)) {
    return true;
  }
  return [...name.matchAll(/[A-Z]/g)].some((capital) => SECRET_ENDING.test(name.slice(capital.index)));
}

function endOfOption(text: string, option: RegExpMatchArray): number | null {
  if (!isSecret(option[1]!)) {
    return null;
  }
  const at = option.index! + option[0].length;
  return endOfString(text, at) ?? endOf(SHELL_WORD, text, at);
}

function endOfElement(text: string, tag: RegExpMatchArray): number | null {
  return isSecret(tag[1]!) ? endOf(BEFORE_END_TAG, text, tag.index! + tag[0].length) : null;
}

/** Return the end of the value after `pair`, or null if the name isn't secret. An empty value ends where it begins. */
function endOfSecret(text: string, pair: RegExpMatchArray): number | null {
  const name = pair[1]!;
  const start = pair.index!;
  const at = start + pair[0].length;
  const secret = isSecret(name);
  if (!secret && !HEADER.test(name)) {
    return null;
  }
  if (pair[2] === undefined) {
    const end = endOfData(text, at);
    return end === null && secret ? endOf(WORD, text, at) : end;
  }
  const end = endOfString(text, at);
  if (end === null || name.startsWith("-")) {
    return end; // an argument of a command
  }
  // Only a pair of exactly two: longer lists, such as ['token', 'user'], usually have names only.
  const opens = OPENS_PAIR.test(text.slice(Math.max(0, start - 40), start));
  CLOSES_PAIR.lastIndex = at + 1;
  const closing = CLOSES_PAIR.exec(text.slice(0, end + 6));
  return opens && (end === text.length || closing !== null) ? end : at;
}

/** Return the end of the string, list or object that begins at `at`, or null. A truncated one ends with the text. */
function endOfData(text: string, start: number): number | null {
  const end = endOfString(text, start);
  if (end !== null) {
    return end;
  }
  if (matchAt(DATA, text, start) === null) {
    return null;
  }
  let at = start;
  let depth = 0;
  for (;;) {
    BRACKET_OR_QUOTE.lastIndex = at;
    const found = BRACKET_OR_QUOTE.exec(text);
    if (found === null) {
      return text.length;
    }
    at = found.index + found[0].length;
    if (found[2] !== undefined) {
      at = closing(text, at, found[2], found[1]!.length) ?? at;
    } else {
      depth += found[3] === undefined ? -1 : 1;
      if (depth === 0) {
        return at;
      }
    }
  }
}

function endOfString(text: string, at: number): number | null {
  const before = matchAt(BEFORE_STRING, text, at);
  const opening = before === null ? null : matchAt(QUOTE, text, at + before[0].length);
  if (opening === null) {
    return null;
  }
  const inside = at + before![0].length + opening[0].length;
  const end = closing(text, inside, opening[2]!, opening[1]!.length);
  if (end === null) {
    return text.length;
  }
  return end > inside + opening[0].length ? end : at; // an empty string has nothing to hide
}

/**
 * Return the end of a string's closing quote, which has as many escapes as the opening quote (nested JSON has several). A quote with
 * more escapes is part of the string. In doubt, the string is longer, so that nothing secret remains.
 */
function closing(text: string, at: number, quote: string, escapes: number): number | null {
  const pattern = new RegExp(`(?<!\\\\)(\\\\*)${quote}`, "g");
  pattern.lastIndex = at;
  for (let found = pattern.exec(text); found !== null; found = pattern.exec(text)) {
    if (found[1]!.length <= escapes) {
      return found.index + found[0].length;
    }
  }
  return null;
}

function endOf(pattern: RegExp, text: string, at: number): number | null {
  const found = matchAt(pattern, text, at);
  return found === null ? null : at + found[0].length;
}

function matchAt(sticky: RegExp, text: string, at: number): RegExpExecArray | null {
  sticky.lastIndex = at;
  return sticky.exec(text);
}
