/** One stream of changes from the API, and one paint per animation frame, however many changes arrive. */
import { get } from "./api.js";
import { announce } from "./announce.js";
import { useEffect, useState } from "./html.js";
import { Store } from "./store.js";
import { stateLabel } from "./states.js";

/** @import { Circuit, Heartbeat, NowAnswer, StatsEvent } from "../../types.js" */

/** The server sends a heartbeat every 5 s. */
const SILENT_MS = 12_000;
const RETRY_MS = 3_000;

class Live {
  constructor() {
    this.store = new Store();
    /** @type {"connecting" | "live" | "lost"} */
    this.connection = "connecting";
    /** When the connection was lost, in milliseconds of this clock. */
    this.lostAt = 0;
    this.loaded = false;
    /** @type {string} */
    this.error = "";
    this.heardAt = 0;
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
    this.connect();
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.source?.close();
    this.source = null;
  }

  connect() {
    this.source?.close();
    const source = new EventSource("/v1/console/live");
    this.source = source;
    this.heardAt = Date.now();
    source.addEventListener("open", () => void this.reload());
    source.addEventListener("reset", () => void this.reload());
    source.addEventListener("circuit", (event) => {
      this.heard();
      const change = this.store.applyCircuit(/** @type {Circuit} */ (JSON.parse(event.data)), Date.now());
      if (change?.from) announce(`${change.circuit.tool}: ${stateLabel(change.circuit.state)}. ${change.circuit.why ?? ""}`);
    });
    source.addEventListener("stats", (event) => {
      this.heard();
      this.store.applyStats(/** @type {StatsEvent} */ (JSON.parse(event.data)), Date.now());
    });
    source.addEventListener("heartbeat", (event) => {
      this.heard();
      this.store.applyHeartbeat(/** @type {Heartbeat} */ (JSON.parse(event.data)), Date.now());
    });
    source.addEventListener("error", () => this.lose());
  }

  async reload() {
    try {
      this.store.load(/** @type {NowAnswer} */ (await get("/v1/console/now", { minutes: 60 })), Date.now());
      this.loaded = true;
      this.error = "";
      this.heard();
    } catch (error) {
      this.error = error instanceof Error ? error.message : String(error);
      this.lose();
    }
  }

  heard() {
    this.heardAt = Date.now();
    if (this.connection !== "live" && this.loaded) {
      if (this.connection === "lost") announce("Connected again.");
      this.connection = "live";
    }
    this.paint();
  }

  lose() {
    if (this.connection !== "lost") {
      this.connection = "lost";
      this.lostAt = Date.now();
      this.retryAt = this.lostAt + RETRY_MS;
      announce("Disconnected from the API. What is on the screen is old.");
    }
    this.paint();
  }

  /** Notice a silent connection, and connect again: a browser gives up after an answer that isn't a stream. */
  check() {
    const now = Date.now();
    if (this.connection === "live" && now - this.heardAt > SILENT_MS) this.lose();
    if (this.connection !== "live" && now - this.heardAt > RETRY_MS && (this.source?.readyState === EventSource.CLOSED || now - this.heardAt > SILENT_MS)) this.connect();
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
