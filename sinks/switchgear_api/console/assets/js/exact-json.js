/** JSON whose whole numbers have more digits than a browser's numbers keep. No browser is needed here. */

const TEXTS_AND_NUMBERS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** @param {string} part */
const isTooLong = (part) => /^-?\d+$/.test(part) && !Number.isSafeInteger(Number(part));

/**
 * Read JSON. A whole number that a browser can't hold becomes its text.
 * @param {string} text
 * @returns {any}
 */
export const exactJson = (text) =>
  JSON.parse(text.replaceAll(TEXTS_AND_NUMBERS, (part) => (isTooLong(part) ? `"${part}"` : part)));

/**
 * Return JSON with line breaks, if that keeps each value as it is written. Other text comes back as it is.
 * @param {string} text
 */
export function prettyJson(text) {
  try {
    const value = JSON.parse(text);
    return withoutSpace(text) === withoutSpace(JSON.stringify(value)) ? JSON.stringify(value, null, 2) : text;
  } catch {
    return text;
  }
}

/**
 * Return JSON without the space between its values. Numbers stay as they are written.
 * @param {string} text
 */
export const withoutSpace = (text) =>
  text.replaceAll(/"(?:[^"\\]|\\.)*"|\s+/g, (part) => (part.startsWith('"') ? JSON.stringify(JSON.parse(part)) : ""));

/** Return what is wrong with JSON, or "". @param {string} text */
export function jsonProblem(text) {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return `It isn't JSON: ${/** @type {Error} */ (error).message}`;
  }
}
