import { html, useEffect, useState } from "../html.js";
import { live } from "../live.js";
import { age, clock, countdown, duration, lasting } from "../format.js";

/** @type {Set<() => void>} */
const tickers = new Set();
let timer = 0;

function tick() {
  for (const ticker of tickers) ticker();
}

/** Return the server's time in milliseconds, and render again every second: one timer for the whole page. */
export function useNow() {
  const [, setRound] = useState(0);
  useEffect(() => {
    const ticker = () => setRound((round) => round + 1);
    tickers.add(ticker);
    timer ||= Number(setInterval(tick, 1000));
    return () => {
      tickers.delete(ticker);
      if (!tickers.size) {
        clearInterval(timer);
        timer = 0;
      }
    };
  }, []);
  return live.store.serverNow(Date.now());
}

/** How long it has been so: the whole phrase, or nothing. @param {{ since: string | null | undefined }} props */
export function Since({ since }) {
  const now = useNow();
  if (!since) return null;
  return html`<span class="since"><time datetime=${since} title=${clock(since, now)}>${lasting(since, now)}</time></span>`;
}

/** @param {{ at: string | null | undefined }} props */
export function Ago({ at }) {
  const now = useNow();
  const seconds = age(at, now);
  if (!at || seconds === null) return html`<span>–</span>`;
  return html`<time datetime=${at} title=${clock(at, now)}>${seconds < 1 ? "now" : `${duration(seconds)} ago`}</time>`;
}

/** @param {{ to: string, due: string }} props `due` is shown when the time has come */
export function Countdown({ to, due }) {
  const now = useNow();
  const left = (Date.parse(to) - now) / 1000;
  return html`<time datetime=${to} title=${clock(to, now)}>${left > 0 ? countdown(left) : due}</time>`;
}

/** @param {{ at: string | null | undefined, millis?: boolean }} props */
export function Clock({ at, millis = false }) {
  return html`<time datetime=${at ?? ""} title=${at ?? ""}>${clock(at, live.store.serverNow(Date.now()), { millis })}</time>`;
}
