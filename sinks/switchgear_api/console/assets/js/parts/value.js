import { named } from "../format.js";
import { html } from "../html.js";
import { Ago, Clock } from "./time.js";

/**
 * A value of a record, as its name says: a moment, a duration, a size, a count or a text.
 * @param {{ name: string, value: unknown, exact?: boolean }} props `exact` shows the moment and all digits of a count
 */
export function Value({ name, value, exact = false }) {
  if (/(^|_)at$/.test(name) && typeof value === "string")
    return exact ? html`<${Clock} at=${value} millis />` : html`<${Ago} at=${value} />`;
  return named(name, value, { exact });
}
