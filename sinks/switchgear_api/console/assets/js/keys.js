/** Keys of the whole console. A key never acts while a person types or a dialog is open. */
import { PAGES } from "./address.js";

const SEQUENCE_MS = 1_500;

/**
 * @typedef {object} KeyActions
 * @property {(path: string) => void} go
 * @property {() => void} search
 * @property {() => void} help
 * @property {() => void} theme
 * @property {(step: 1 | -1) => void} move
 */

/**
 * Return a function that takes the keys one by one, and says whether it used the key.
 * @param {KeyActions} actions
 */
export function keySequence(actions) {
  let leaderAt = -Infinity;
  return (/** @type {string} */ key, /** @type {number} */ atMs) => {
    const afterLeader = atMs - leaderAt < SEQUENCE_MS;
    leaderAt = -Infinity;
    if (afterLeader) {
      const page = PAGES.find((each) => each.key === key);
      if (page) actions.go(page.path);
      return page !== undefined;
    }
    if (key === "g") leaderAt = atMs;
    else if (key === "/") actions.search();
    else if (key === "?") actions.help();
    else if (key === "j" || key === "k") actions.move(key === "j" ? 1 : -1);
    else if (key === "T") actions.theme();
    else return false;
    return true;
  };
}

/** @param {EventTarget | null} target */
function types(target) {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

/** @param {KeyActions} actions */
export function listenToKeys(actions) {
  const take = keySequence(actions);
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || types(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    if (take(event.key, event.timeStamp)) event.preventDefault();
  };
  addEventListener("keydown", onKey);
  return () => removeEventListener("keydown", onKey);
}
