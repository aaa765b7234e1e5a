/** The states of a circuit and the commands of an operator, in words. */

/** @type {Record<string, { label: string, meaning: string }>} */
export const STATES = {
  closed: { label: "Closed", meaning: "Calls go through." },
  open: { label: "Open", meaning: "Calls are refused until a probe succeeds." },
  half_open: { label: "Half open", meaning: "Probe calls decide whether it closes." },
  forced_open: { label: "Forced open", meaning: "An operator refuses all calls." },
  metrics_only: { label: "Metrics only", meaning: "Calls go through and are counted. Nothing is refused." },
  unknown: { label: "Unknown", meaning: "Your token may not see circuits." },
  disabled: { label: "Disabled", meaning: "Calls go through and are not counted." },
};

/** @param {string | null | undefined} state */
export const stateLabel = (state) => (state ? (STATES[state]?.label ?? state.replaceAll("_", " ")) : "Unknown");

/** @type {Record<string, { label: string, effect: string, danger?: boolean, lasts?: boolean }>} */
export const COMMANDS = {
  force_open: { label: "Force open", effect: "Every process refuses all calls.", danger: true, lasts: true },
  close: { label: "Close", effect: "Calls go through again. What is counted from now on may open it." },
  reset: { label: "Reset", effect: "The circuit closes and forgets its evidence and its waits." },
  metrics_only: {
    label: "Metrics only",
    effect: "All calls go through and are counted. What would have opened is reported.",
    lasts: true,
  },
  disable: { label: "Disable", effect: "All calls go through. Nothing is counted.", danger: true, lasts: true },
  auto: {
    label: "Auto",
    effect: "Your command ends, and the policy decides again. What a rule opened stays open.",
  },
};

/** @param {string} command */
export const commandLabel = (command) => COMMANDS[command]?.label ?? command.replaceAll("_", " ");

/**
 * Return the commands that make sense in a state, the most useful first.
 * @param {string} state
 * @param {boolean} overridden
 */
export function commandsFor(state, overridden) {
  const possible = {
    closed: ["force_open", "metrics_only", "reset", "disable"],
    open: ["force_open", "close", "metrics_only", "reset", "disable"],
    half_open: ["force_open", "close", "metrics_only", "reset", "disable"],
    forced_open: ["auto", "close", "metrics_only", "disable"],
    metrics_only: ["auto", "force_open", "reset", "disable"],
    disabled: ["auto", "force_open", "metrics_only", "reset"],
  }[state] ?? ["force_open", "close", "metrics_only", "reset", "disable"];
  return overridden && !possible.includes("auto") ? ["auto", ...possible] : possible;
}
