/** Who may make the next probe, and why it is not made. No browser is needed here. */
import { clock } from "./format.js";

/** @import { Circuit } from "../../types.js" */

/** Calls that a circuit refused are told up to this long after they were made. */
const TOLD_MS = 2_000;

/**
 * Return since when nobody has made the call that would be the probe. Empty if that is not known.
 * @param {Circuit & { last_call_at?: string | null }} circuit whose probe is due
 * @param {number} now milliseconds
 */
export function unasked(circuit, now) {
  const last = circuit.last_call_at;
  if (last === undefined) return "";
  if (last === null) return "nobody has called in the last hour";
  const due = circuit.next_probe_at ? Date.parse(circuit.next_probe_at) : Infinity;
  if (Date.parse(last) >= due + TOLD_MS) return "asked for, no answer yet";
  return `nobody has called since ${clock(last, now)}`;
}
