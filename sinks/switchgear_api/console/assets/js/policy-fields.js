/** The values of a policy that have a field in the lab. The others are written as text. */

/** @typedef {{ name: string, label: string, unit?: string, kind: "number" | "share" | "flag" | "list" | "choice", choices?: string[] }} Field */

/** @type {{ title: string, fields: Field[] }[]} */
export const FIELD_GROUPS = [
  {
    title: "It opens",
    fields: [
      { name: "failure_rate_threshold", label: "Failed share", kind: "share" },
      { name: "minimum_number_of_calls", label: "Calls before a share is judged", kind: "number" },
      { name: "consecutive_failures", label: "Failures in a row", kind: "number" },
      { name: "failure_count", label: "Failures in the window", kind: "number" },
      { name: "slow_call_duration_threshold_ms", label: "Slow is longer than", unit: "ms", kind: "number" },
      { name: "slow_call_rate_threshold", label: "Slow share", kind: "share" },
      { name: "wasted_tokens", label: "Tokens wasted in the window", kind: "number" },
      { name: "minimum_reporters", label: "Processes that report it", kind: "number" },
      { name: "sliding_window_type", label: "Window of", kind: "choice", choices: ["time", "count"] },
      { name: "sliding_window_size", label: "Size of the window", unit: "s or calls", kind: "number" },
    ],
  },
  {
    title: "It waits",
    fields: [
      { name: "wait_duration_in_open_state_s", label: "Until the first probe", unit: "s", kind: "number" },
      { name: "backoff_multiplier", label: "Factor for each open in a row", kind: "number" },
      { name: "max_wait_duration_in_open_state_s", label: "Longest wait", unit: "s", kind: "number" },
      { name: "jitter", label: "Random share of the wait", kind: "share" },
      { name: "honor_retry_after", label: "Retry-After lengthens the wait", kind: "flag" },
    ],
  },
  {
    title: "It closes",
    fields: [
      { name: "permitted_number_of_calls_in_half_open_state", label: "Probes at a time", kind: "number" },
      { name: "success_threshold_to_close", label: "Successes that close", kind: "number" },
      { name: "recovery_ramp", label: "Shares of the ramp", kind: "list" },
      { name: "recovery_ramp_step_s", label: "Length of a step", unit: "s", kind: "number" },
    ],
  },
];

/**
 * Return the value of a field's text: undefined for an empty one, "off" as it is.
 * @param {Field} field
 * @param {string} text
 */
export function valueOf(field, text) {
  const written = text.trim();
  if (!written) return undefined;
  if (written === "off") return "off";
  if (field.kind === "flag") return written === "true";
  if (field.kind === "choice") return written;
  if (field.kind === "list") {
    const items = written
      .split(/[,\s]+/)
      .filter(Boolean)
      .map(Number);
    return items.some(Number.isNaN) ? written : items;
  }
  const number = Number(written.replace("%", ""));
  if (Number.isNaN(number)) return written;
  return written.endsWith("%") ? Number((number / 100).toPrecision(12)) : number;
}
