/** One stream of changes from the API, and one paint per animation frame, however many changes arrive. */
import { address } from "./address.js";
import { get } from "./api.js";
import { announce } from "./announce.js";
import { useEffect, useState } from "./html.js";
import { Store } from "./store.js";
import { stateLabel } from "./states.js";

/** @import { Circuit, Heartbeat, NowAnswer, StatsEvent } from "../../types.js" */

/** The server sends a heartbeat every 5 s. */
const SILENT_MS = 12_000;
const RETRY_MS = 3_000;
/** A network without an answer must not hold the next try. */
const CONNECT_LIMIT_MS = 20_000;
/** Costs, reach and advice come with the whole page, which loads again after a change and now and then. */
const REFRESH_MS = 30_000;
const REFRESH_AFTER_CHANGE_MS = 3_000;
const REFRESH_AT_MOST_EVERY_MS = 8_000;
/** A browser has six connections to a server. A tab that stays hidden gives its own back. */
const HIDDEN_MS = 60_000;

class Live {
  constructor() {
    this.store = new Store();
    /** @type {"connecting" | "live" | "lost"} */
    this.connection = "connecting";
    /** When the connection was lost, in milliseconds of this clock. */
    this.lostAt = 0;
    this.loaded = false;
    /** @type {Store | null} The store that the page is being loaded into. */
    this.loading = null;
    this.error = "";
    this.heardAt = 0;
    this.triedAt = 0;
    this.loadedAt = 0;
    this.refreshAt = Infinity;
    this.hiddenSince = 0;
    this.onVisibility = () => this.check();
    /** @type {EventSource | null} */
    this.source = null;
    /** @type {Set<() => void>} */
    this.watchers = new Set();
    this.frame = 0;
    this.timer = 0;
  }

  start() {
    if (this.timer) return;
    this.timer = setInterval(() => this.check(), 1_000);
    document.addEventListener("visibilitychange", this.onVisibility);
    void this.connect();
  }

  stop() {
    clearInterval(this.timer);
    document.removeEventListener("visibilitychange", this.onVisibility);
    this.timer = 0;
    this.source?.close();
    this.source = null;
    this.connection = "connecting";
    // Whoever logs in next may have other rights.
    this.store = new Store();
    this.loaded = false;
  }

  /** Load the page, then follow what has changed since: no change lies between the two. */
  async connect() {
    const store = this.store;
    if (this.loading === store) return; // two at once would leave a stream that nothing closes
    this.source?.close();
    this.source = null;
    this.triedAt = Date.now();
    this.loading = store;
    const position = await this.reload();
    if (this.loading === store) this.loading = null;
    if (position === null || !this.timer) return;
    const source = new EventSource(address("/v1/console/live", { after: position }));
    this.source = source;
    source.addEventListener("open", () => this.heard());
    source.addEventListener("reset", () => void this.connect());
    source.addEventListener("circuit", (event) => this.onCircuit(/** @type {Circuit} */ (JSON.parse(event.data))));
    source.addEventListener("stats", (event) => {
      this.store.applyStats(/** @type {StatsEvent} */ (JSON.parse(event.data)), Date.now());
      this.heard();
    });
    source.addEventListener("heartbeat", (event) => {
      this.store.applyHeartbeat(/** @type {Heartbeat} */ (JSON.parse(event.data)), Date.now());
      this.heard();
    });
    source.addEventListener("error", () => this.lose());
  }

  /** Load the page. Return the position in the stream that it belongs to, or null without an answer. */
  async reload() {
    const store = this.store;
    try {
      const now = /** @type {NowAnswer} */ (
        await get("/v1/console/now", { minutes: 60 }, AbortSignal.timeout(CONNECT_LIMIT_MS))
      );
      if (store !== this.store) return null; // asked by someone who has logged out meanwhile
      store.load(now, Date.now());
      this.loaded = true;
      this.error = "";
      this.loadedAt = Date.now();
      this.refreshAt = this.loadedAt + REFRESH_MS;
      this.paint();
      return now.live_id ?? "";
    } catch (error) {
      if (store !== this.store) return null;
      this.error = error instanceof Error ? error.message : String(error);
      this.lose();
      return null;
    }
  }

  /** Load the tools in trouble again. The numbers of the others come with the stream. */
  async refresh() {
    const store = this.store;
    try {
      const now = /** @type {NowAnswer} */ (
        await get("/v1/console/now", { minutes: 60, troubled: 1 }, AbortSignal.timeout(CONNECT_LIMIT_MS))
      );
      if (store !== this.store) return;
      store.refresh(now, Date.now());
      this.loadedAt = Date.now();
      this.paint();
    } catch {
      // The stream goes on, and the next try comes by itself.
    }
  }

  /** @param {Circuit} circuit */
  onCircuit(circuit) {
    const change = this.store.applyCircuit(circuit, Date.now());
    if (change) {
      this.refreshAt = Math.min(
        this.refreshAt,
        Math.max(Date.now() + REFRESH_AFTER_CHANGE_MS, this.loadedAt + REFRESH_AT_MOST_EVERY_MS),
      );
      if (change.from) announce(`${circuit.tool}: ${stateLabel(circuit.state)}. ${circuit.why ?? ""}`);
    }
    this.heard();
  }

  heard() {
    this.heardAt = Date.now();
    if (this.connection !== "live") {
      if (this.connection === "lost") announce("Connected again.");
      this.connection = "live";
    }
    this.paint();
  }

  lose() {
    if (this.connection !== "lost") {
      this.connection = "lost";
      this.lostAt = Date.now();
      announce("Disconnected from the API. What is on the screen is old.");
    }
    this.paint();
  }

  /** Notice a silent connection, and connect again: a browser gives up after an answer that isn't a stream. */
  check() {
    const now = Date.now();
    this.hiddenSince = document.hidden ? this.hiddenSince || now : 0;
    if (this.hiddenSince && now - this.hiddenSince > HIDDEN_MS) {
      this.source?.close();
      this.source = null;
      this.connection = "connecting";
      return;
    }
    if (this.connection === "live" && now - this.heardAt > SILENT_MS) this.lose();
    const given =
      this.source === null || this.source.readyState === EventSource.CLOSED || now - this.heardAt > SILENT_MS;
    if (this.connection === "live") {
      if (now >= this.refreshAt && !document.hidden) {
        this.refreshAt = now + REFRESH_MS;
        void this.refresh();
      }
    } else if (given && now - this.triedAt > RETRY_MS) void this.connect();
  }

  paint() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      for (const watcher of this.watchers) watcher();
    });
  }
}

export const live = new Live();

/** Render again after every change of the fleet. */
export function useLive() {
  const [, setRound] = useState(0);
  useEffect(() => {
    const watcher = () => setRound((round) => round + 1);
    live.watchers.add(watcher);
    return () => void live.watchers.delete(watcher);
  }, []);
  return live;
}
