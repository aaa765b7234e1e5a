/** Numbers, durations and times as the pages show them. */

const NONE = "–";
const CLOCKS_AGREE_S = 2;

/** @param {number | null | undefined} value */
const missing = (value) => value === null || value === undefined || Number.isNaN(value);

/**
 * Return a number of things: all digits up to 9,999, then three digits and a letter.
 * @param {number | null | undefined} value
 */
export function count(value) {
  if (missing(value)) return NONE;
  const number = /** @type {number} */ (value);
  if (Math.abs(number) < 10_000) return String(Math.round(number)).replace(/(\d)(\d{3})$/, "$1,$2");
  for (const [size, letter] of /** @type {[number, string][]} */ ([
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ])) {
    // 999,950 is "1.00 M", not "1000 k"
    if (Math.abs(number) >= size * 0.9995) return `${Number((number / size).toPrecision(3))} ${letter}`;
  }
  return String(number);
}

/**
 * Return a rate as a percentage. What is more than nothing never looks like nothing.
 * @param {number | null | undefined} rate from 0 to 1
 */
export function percent(rate) {
  if (missing(rate)) return NONE;
  const value = /** @type {number} */ (rate) * 100;
  if (value === 0) return "0%";
  if (value < 0.1) return "<0.1%";
  if (value > 99.9 && value < 100) return ">99.9%";
  return value < 10 ? `${value.toFixed(1)}%` : `${Math.round(value)}%`;
}

/**
 * Return a duration given in milliseconds.
 * @param {number | null | undefined} value
 * @returns {string}
 */
export function millis(value) {
  if (missing(value)) return NONE;
  const number = /** @type {number} */ (value);
  if (number < 1) return number === 0 ? "0 ms" : `${number.toPrecision(1)} ms`;
  if (number < 1000) return `${Math.round(number)} ms`;
  if (number < 10_000) return `${(number / 1000).toFixed(1)} s`;
  return duration(number / 1000);
}

/**
 * Return a duration given in seconds, in its two largest units. Under a second it has milliseconds.
 * @param {number | null | undefined} value
 * @returns {string}
 */
export function duration(value) {
  if (missing(value)) return NONE;
  const given = /** @type {number} */ (value);
  if (given > 0 && given < 1) return millis(given * 1000);
  const seconds = Math.max(0, Math.floor(given));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return two(seconds, 60, "m", "s");
  if (seconds < 86_400) return two(Math.floor(seconds / 60), 60, "h", "m");
  return two(Math.floor(seconds / 3600), 24, "d", "h");
}

/** @param {number} value @param {number} size @param {string} large @param {string} small */
function two(value, size, large, small) {
  const rest = value % size;
  return `${Math.floor(value / size)} ${large}${rest ? ` ${rest} ${small}` : ""}`;
}

/**
 * Return the time left as a clock: 0:07, 2:41, 1:03:20.
 * @param {number} value seconds
 */
export function countdown(value) {
  const seconds = Math.max(0, Math.ceil(value));
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const shown = parts[0] ? parts : parts.slice(1);
  return shown.map((part, index) => (index ? String(part).padStart(2, "0") : String(part))).join(":");
}

/**
 * Return an amount of money in US dollars.
 * @param {number | null | undefined} value
 */
export function usd(value) {
  if (missing(value)) return NONE;
  const amount = /** @type {number} */ (value);
  if (amount === 0) return "$0";
  if (amount < 0.01) return "<$0.01";
  return amount < 1000 ? `$${amount.toFixed(2)}` : `$${count(amount)}`;
}

/**
 * Return a size in bytes.
 * @param {number | null | undefined} value
 */
export function bytes(value) {
  if (missing(value)) return NONE;
  let number = /** @type {number} */ (value);
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (number < 1000) return `${unit === "B" ? number : Number(number.toPrecision(3))} ${unit}`;
    number /= 1000;
  }
  return `${Number(number.toPrecision(3))} TB`;
}

/**
 * Return how many seconds ago a moment was.
 * @param {string | null | undefined} iso
 * @param {number} now milliseconds
 */
export function age(iso, now) {
  const at = iso ? Date.parse(iso) : NaN;
  return Number.isNaN(at) ? null : (now - at) / 1000;
}

/**
 * Return how long something has been so, as a phrase: "for 12 s". Empty if it is not known since when.
 * @param {string | null | undefined} iso
 * @param {number} now milliseconds
 */
export function lasting(iso, now) {
  const seconds = age(iso, now);
  if (seconds === null) return "";
  // The two clocks need not agree to the second. A moment that is further ahead is by a clock that is wrong.
  if (seconds < -CLOCKS_AGREE_S) return `since ${clock(iso, now)}`;
  return seconds < 1 ? "just now" : `for ${duration(Math.floor(seconds))}`;
}

/**
 * Return the time of day of a moment, with the date if it isn't today.
 * @param {string | number | null | undefined} moment
 * @param {number} now milliseconds
 * @param {{ millis?: boolean }} [options]
 */
export function clock(moment, now, options = {}) {
  const at = moment === null || moment === undefined ? null : new Date(moment);
  if (at === null || Number.isNaN(at.getTime())) return NONE;
  const pad = (/** @type {number} */ value, size = 2) => String(value).padStart(size, "0");
  const fraction = options.millis ? `.${pad(at.getMilliseconds(), 3)}` : "";
  const time = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}${fraction}`;
  const day = at.toDateString();
  if (day === new Date(now).toDateString()) return time;
  return `${at.getDate()} ${day.slice(4, 7)} ${time}`;
}

/**
 * Return a number with as many digits after the point as a reader can use: 0.04870990003434098 is 0.04871.
 * @param {number} value
 */
export function short(value) {
  if (Number.isInteger(value) || !Number.isFinite(value)) return String(value);
  const decimals = 3 - Math.floor(Math.log10(Math.abs(value)));
  return decimals > 12 ? value.toPrecision(4) : String(Number(value.toFixed(Math.max(0, decimals))));
}

/**
 * Return any value of a record as text.
 * @param {unknown} value
 * @returns {string}
 */
export function plain(value) {
  if (value === null || value === undefined) return "off";
  if (typeof value === "number") return short(value);
  if (Array.isArray(value)) return value.length ? value.map(plain).join(", ") : "none";
  if (typeof value === "object") {
    return Object.entries(value)
      .map(([key, inner]) => `${key} ${plain(inner)}`)
      .join(", ");
  }
  return String(value);
}

/**
 * Return a value of a record as text, by the end of its name: durations, sizes, rates, money and counts.
 * @param {string} name
 * @param {unknown} value
 * @param {{ exact?: boolean }} [options] all digits of a count
 */
export function named(name, value, options = {}) {
  if (value === null || value === undefined) return NONE;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return plain(value);
  if (/(^|_)(bytes|size)$/.test(name)) return bytes(value);
  if (/_per_s$/.test(name)) return `${value < 10 ? Number(value.toPrecision(2)) : count(value)} /s`;
  if (/_ms$/.test(name)) return millis(value);
  if (/_s$/.test(name)) return millis(value * 1000);
  if (/(^|_)usd$/.test(name)) return usd(value);
  if (/_days$/.test(name)) return `${short(value)} d`;
  if (options.exact || /^(node|port)$/.test(name) || !Number.isInteger(value)) return short(value);
  return count(value);
}

/** @param {number} number @param {string} one @param {string} [many] */
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
