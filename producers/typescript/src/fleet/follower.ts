import { retryAfterIn } from "../classify/waits.js";
import { isRecord } from "../classify/tool-failure.js";
import { SwitchgearError } from "../errors.js";
import { GatewayError, messageOf, problemIn, type GatewayHttp } from "../wire/http.js";
import { keepProcessFree } from "../wire/process.js";
import { serverEvents, type ServerEvent } from "../wire/sse.js";
import { Backoff, later, pause, type Clock } from "../wire/timing.js";
import type { Warnings } from "../wire/warnings.js";
import type { CircuitTable, GuardMode } from "./table.js";

/** What decides while the fleet's state can't be reached: its last state, the process's own breakers, or nothing. */
export type OnStateUnavailable = "last_known" | "local" | "deny";

/** A stream without a sign of life for so long is dead: the gateway sends a heartbeat every 10 to 15 s. */
const SILENCE_S = 45;
/** A state that was not confirmed for so long may be outdated. */
export const STALE_AFTER_S = SILENCE_S;
const CONNECT_TIMEOUT_S = 15;
/** A clock that is ahead by less is ignored: the gateway's header has whole seconds. */
const NOTICED_S = 2;

export interface FollowerStatus {
  /** Whether the circuits were read once. */
  readonly loaded: boolean;
  readonly connected: boolean;
  readonly circuits: number;
  /** Seconds since the gateway last confirmed the state. Null before the first time. */
  readonly ageS: number | null;
  readonly malformed: number;
  /** Why the last connection failed. */
  readonly lastError: string | null;
}

/**
 * Follows the fleet's circuits by the gateway's stream of server-sent events, in the background. A stream that ends is opened again
 * with the id of the last event, so that the gateway sends only what changed since. Then comes a heartbeat, and another one at least every
 * 15 s. It says whether the gateway itself is up to date: only that confirms the circuits.
 */
export class Follower {
  loaded = false;
  /** How many seconds this machine's clock is ahead of the gateway's. 0 if that is not known, or little. */
  aheadS = 0;
  /** Whose circuits these are, besides those that all tenants share. Empty: everybody's. */
  tenant = "";
  #connected = false;
  #lastId = "";
  /** A snapshot before the first heartbeat of its stream. */
  #held: Readonly<Record<string, unknown>> | null = null;
  /** What the last heartbeat of this stream said. Null before the first one. */
  #fresh: boolean | null = null;
  /** Whether a snapshot was taken. */
  #complete = false;
  #lastError: string | null = null;
  /** When the state was last confirmed, by both clocks: a process may be frozen, and a clock may be set. */
  #freshAt: { now: number; wall: number } | null = null;
  #running: Promise<void> | null = null;
  readonly #closed = new AbortController();
  readonly #waiters = new Set<() => void>();

  constructor(
    private readonly http: GatewayHttp,
    readonly table: CircuitTable,
    private readonly glob: string | undefined,
    private readonly clock: Clock,
    private readonly warnings: Warnings,
  ) {}

  /** Begin to follow. */
  start(): void {
    this.#running ??= this.#run();
  }

  /** End the stream. */
  close(): void {
    this.#closed.abort();
    this.#wakeWaiters();
  }

  /** Wait until the circuits were read once, for at most `timeoutS`. Return whether they were. */
  async ready(timeoutS: number): Promise<boolean> {
    if (!this.loaded && timeoutS > 0 && !this.#closed.signal.aborted) {
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          clearTimeout(timer);
          this.#waiters.delete(wake);
          resolve();
        };
        const timer = setTimeout(wake, timeoutS * 1000);
        this.#waiters.add(wake);
      });
    }
    return this.loaded;
  }

  /** Return the seconds since the gateway last confirmed the state, or null. */
  ageS(): number | null {
    const fresh = this.#freshAt;
    return fresh === null ? null : Math.max(0, this.clock.now() - fresh.now, this.clock.wall() - fresh.wall);
  }

  /** Return who decides now. */
  mode(onUnavailable: OnStateUnavailable, stateMaxAgeS: number): GuardMode {
    const age = this.ageS();
    if (this.loaded && age !== null && age < STALE_AFTER_S) {
      return "fleet";
    }
    if (onUnavailable === "deny") {
      return "deny";
    }
    if (!this.loaded) {
      return "loading";
    }
    return onUnavailable === "local" || age === null || age >= stateMaxAgeS ? "local_only" : "last_known";
  }

  status(): FollowerStatus {
    const { size: circuits, malformed } = this.table;
    return {
      loaded: this.loaded,
      connected: this.#connected,
      circuits,
      ageS: this.ageS(),
      malformed,
      lastError: this.#lastError,
    };
  }

  async #run(): Promise<void> {
    const backoff = new Backoff(1, 30);
    while (!this.#closed.signal.aborted) {
      let retryAfterS: number | null = null;
      try {
        retryAfterS = await this.#follow(backoff);
      } catch (error) {
        this.#lastError = messageOf(error);
        if (!this.#closed.signal.aborted) {
          this.warnings.warn("the fleet's circuits can't be followed; the client tries again", error);
        }
      }
      this.#connected = false;
      await pause(backoff.next(retryAfterS), this.#closed.signal);
    }
  }

  /** Read one stream to its end. Return the seconds that the gateway asks to wait, if it does. */
  async #follow(backoff: Backoff): Promise<number | null> {
    const stop = new AbortController();
    const close = (): void => stop.abort();
    this.#closed.signal.addEventListener("abort", close, { once: true });
    let cancel = (): void => {};
    const heard = (): void => {
      cancel();
      cancel = later(SILENCE_S, () => stop.abort(new GatewayError(`The gateway sent nothing for ${SILENCE_S} s.`, 0)));
    };
    try {
      const query = this.glob === undefined ? "" : `?tool=${encodeURIComponent(this.glob)}`;
      const resume = this.#lastId === "" ? {} : { "last-event-id": this.#lastId };
      const path = `/v1/circuits/stream${query}`;
      keepProcessFree(this.http.base, path);
      const response = await this.http.open(path, { accept: "text/event-stream", ...resume }, CONNECT_TIMEOUT_S, stop);
      if (!response.ok || response.body === null) {
        heard();
        this.#lastError = `The gateway answered ${response.status}. ${problemIn(await response.text())}`.trim();
        this.warnings.warn("the fleet's circuits can't be followed; the client tries again", this.#lastError);
        return retryAfterIn(response.headers);
      }
      this.#compareClocks(response.headers);
      this.tenant = decodeURIComponent(response.headers.get("switchgear-tenant") ?? "");
      this.#connected = true;
      this.#lastError = null;
      this.#held = this.#fresh = null;
      heard();
      for await (const event of serverEvents(response.body, heard)) {
        backoff.reset();
        this.#take(event);
        if (event.id !== "" && this.#held === null) {
          // a stream that ends before its heartbeat begins again with the snapshot
          this.#lastId = event.id;
        }
      }
      return null;
    } finally {
      cancel();
      this.#closed.signal.removeEventListener("abort", close);
    }
  }

  #take(event: ServerEvent): void {
    let data: unknown;
    try {
      data = JSON.parse(event.data);
    } catch {
      this.table.malformed += 1;
      return;
    }
    if (event.event === "snapshot" && isRecord(data) && isRecord(data["circuits"])) {
      this.#held = data["circuits"];
      if (this.#fresh !== null) {
        this.#takeHeld(this.#fresh);
      }
    } else if (event.event === "circuit") {
      this.#takeHeld(true);
      if (isRecord(data) && data["removed"] === true) {
        this.table.remove(String(data["circuit_id"]));
      } else {
        this.table.apply(data);
      }
    } else if (event.event === "heartbeat" && isRecord(data)) {
      this.#fresh = data["fresh"] !== false;
      this.#takeHeld(this.#fresh);
      if (this.#fresh && this.#complete) {
        this.#confirm();
        this.loaded = true;
        this.#wakeWaiters();
      }
    }
  }

  /** Take the circuits of a snapshot. A gateway that is out of date may know less than this process: its snapshot only adds. */
  #takeHeld(fresh: boolean): void {
    const circuits = this.#held;
    this.#held = null;
    if (circuits === null) {
      return;
    }
    if (fresh) {
      this.table.replace(circuits);
    } else {
      this.table.add(circuits);
    }
    this.#complete = true;
  }

  #confirm(): void {
    this.#freshAt = { now: this.clock.now(), wall: this.clock.wall() };
  }

  #compareClocks(headers: Headers): void {
    const date = Date.parse(headers.get("date") ?? "") / 1000;
    const ahead = Number.isNaN(date) ? 0 : this.clock.wall() - date;
    this.aheadS = Math.abs(ahead) < NOTICED_S ? 0 : ahead;
  }

  #wakeWaiters(): void {
    for (const wake of [...this.#waiters]) {
      wake();
    }
  }
}

/** @throws SwitchgearError The value is too small. */
export function checkStateMaxAge(seconds: number): void {
  if (!(seconds >= STALE_AFTER_S)) {
    throw new SwitchgearError(`stateMaxAgeS is ${seconds}.`, `Pass ${STALE_AFTER_S} seconds or more.`);
  }
}
