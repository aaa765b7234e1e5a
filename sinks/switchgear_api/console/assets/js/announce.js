/** Announcements for screen readers, at most one every five seconds: a storm of changes must not talk without end. */

const EVERY_MS = 5_000;
const MOST = 3;

/** @type {string[]} */
let waiting = [];
let timer = 0;
let lastAt = -EVERY_MS;
/** @type {(text: string) => void} */
let show = () => undefined;

/** @param {(text: string) => void} callback */
export const onAnnouncement = (callback) => {
  show = callback;
};

/** @param {string} text */
export function announce(text) {
  waiting.push(text);
  if (timer) return;
  const wait = Math.max(0, lastAt + EVERY_MS - performance.now());
  timer = Number(setTimeout(flush, wait));
}

function flush() {
  timer = 0;
  lastAt = performance.now();
  show(summary(waiting));
  waiting = [];
}

/** @param {string[]} texts */
export function summary(texts) {
  const more = texts.length - MOST;
  return more > 0 ? `${texts.slice(0, MOST).join(" ")} And ${more} more changes.` : texts.join(" ");
}
