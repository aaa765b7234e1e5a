import { retryAfterIn } from "../classify/waits.js";
import { isRecord } from "../classify/tool-failure.js";
import { SwitchgearError } from "../errors.js";
import { Ending } from "../wire/ending.js";
import { GatewayError, messageOf, problemIn, type AnswerHeaders, type GatewayHttp } from "../wire/http.js";
import { keepProcessFree } from "../wire/process.js";
import { serverEvents, type ServerEvent } from "../wire/sse.js";
import { Backoff, later, pause, poll, type Clock } from "../wire/timing.js";
import type { Warnings } from "../wire/warnings.js";
import type { CircuitTable, GuardMode } from "./table.js";

/** What decides while the fleet's state can't be reached: its last state, the process's own breakers, or nothing. */
export type OnStateUnavailable = "last_known" | "local" | "deny";

/** A stream without a sign of life for so long is dead: the gateway sends a heartbeat every 10 to 15 s. */
const SILENCE_S = 45;
/** A state that was not confirmed for so long may be outdated. */
export const STALE_AFTER_S = SILENCE_S;
const CONNECT_TIMEOUT_S = 15;
/** Without a background: how old the circuits may be before a request reads them again. */
const REFRESH_AFTER_S = 5;
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

/** What one stream has said so far. */
interface Reading {
  /** A snapshot before the first heartbeat. */
  held: Readonly<Record<string, unknown>> | null;
  /** What the last heartbeat said. Null before the first one. */
  fresh: boolean | null;
}

/**
 * Follows the fleet's circuits by the gateway's stream of server-sent events, in the background. A stream that ends is opened again
 * with the id of the last event, so that the gateway sends only what changed since. Then comes a heartbeat, and another one at least every
 * 15 s. It says whether the gateway itself is up to date: only that confirms the circuits.
 *
 * Where nothing runs in the background, `refresh` reads the stream up to its first heartbeat.
 */
export class Follower {
  loaded = false;
  /** How many seconds this machine's clock is ahead of the gateway's. 0 if that is not known, or little. */
  aheadS = 0;
  /** Whose circuits these are, besides those that all tenants share. Empty: everybody's. */
  tenant = "";
  #connected = false;
  #lastId = "";
  /** Whether a snapshot was taken. */
  #complete = false;
  #lastError: string | null = null;
  /** When the state was last confirmed, by both clocks: a process may be frozen, and a clock may be set. */
  #freshAt: { now: number; wall: number } | null = null;
  #running: Promise<void> | null = null;
  /** Until when a request reads, unless it has ended, in monotonic seconds. */
  #refreshesUntil = -Infinity;
  readonly #closed = new Ending();
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

  /**
   * Read what has changed, unless it is known already, as a part of one request. It takes `timeoutS` at most, and never throws. Return
   * whether the circuits were read once.
   */
  async refresh(timeoutS: number): Promise<boolean> {
    const { clock } = this;
    const age = this.ageS();
    if ((age !== null && age < REFRESH_AFTER_S) || this.#closed.ended || timeoutS <= 0) {
      return this.loaded;
    }
    if (clock.now() < this.#refreshesUntil) {
      await poll(timeoutS, () => (this.ageS() ?? Infinity) < REFRESH_AFTER_S || clock.now() >= this.#refreshesUntil);
      return this.loaded;
    }
    this.#refreshesUntil = clock.now() + CONNECT_TIMEOUT_S;
    try {
      await this.#follow(new Backoff(1, 30), timeoutS);
    } catch (error) {
      this.#failed(error);
    }
    this.#connected = false;
    this.#refreshesUntil = -Infinity;
    return this.loaded;
  }

  /** End the stream. */
  close(): void {
    this.#closed.end();
    this.#wakeWaiters();
  }

  /** Wait until the circuits were read once, for at most `timeoutS`. Return whether they were. */
  async ready(timeoutS: number): Promise<boolean> {
    if (!this.loaded && timeoutS > 0 && !this.#closed.ended) {
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
    while (!this.#closed.ended) {
      let retryAfterS: number | null = null;
      try {
        retryAfterS = await this.#follow(backoff);
      } catch (error) {
        this.#failed(error);
      }
      this.#connected = false;
      await pause(backoff.next(retryAfterS), this.#closed);
    }
  }

  #failed(error: unknown): void {
    this.#lastError = messageOf(error);
    if (!this.#closed.ended) {
      this.warnings.warn("the fleet's circuits can't be followed; the client tries again", error);
    }
  }

  /**
   * Read one stream to its end. Return the seconds that the gateway asks to wait, if it does.
   *
   * @param onceWithinS Read up to the first heartbeat alone, within so many seconds.
   */
  async #follow(backoff: Backoff, onceWithinS?: number): Promise<number | null> {
    const stop = new AbortController();
    const forget = this.#closed.listen(() => stop.abort());
    const silenceS = onceWithinS ?? SILENCE_S;
    let cancel = (): void => {};
    const heard = (): void => {
      cancel();
      cancel = later(silenceS, () => stop.abort(new GatewayError(`The gateway sent nothing for ${silenceS} s.`, 0)));
    };
    try {
      const query = this.glob === undefined ? "" : `?tool=${encodeURIComponent(this.glob)}`;
      const resume = this.#lastId === "" ? {} : { "last-event-id": this.#lastId };
      const path = `/v1/circuits/stream${query}`;
      if (onceWithinS === undefined) {
        keepProcessFree(this.http.base, path); // a request waits for its own stream
      }
      const connectS = Math.min(onceWithinS ?? CONNECT_TIMEOUT_S, CONNECT_TIMEOUT_S);
      const response = await this.http.open(path, { accept: "text/event-stream", ...resume }, connectS, stop);
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
      const reading: Reading = { held: null, fresh: null };
      heard();
      for await (const event of serverEvents(response.body as ReadableStream<Uint8Array>, heard)) {
        backoff.reset();
        this.#take(event, reading);
        if (event.id !== "" && reading.held === null) {
          // a stream that ends before its heartbeat begins again with the snapshot
          this.#lastId = event.id;
        }
        if (onceWithinS !== undefined && reading.fresh !== null) {
          break;
        }
      }
      return null;
    } finally {
      cancel();
      forget();
    }
  }

  #take(event: ServerEvent, reading: Reading): void {
    let data: unknown;
    try {
      data = JSON.parse(event.data);
    } catch {
      this.table.malformed += 1;
      return;
    }
    if (event.event === "snapshot" && isRecord(data) && isRecord(data["circuits"])) {
      reading.held = data["circuits"];
      if (reading.fresh !== null) {
        this.#takeHeld(reading, reading.fresh);
      }
    } else if (event.event === "circuit") {
      this.#takeHeld(reading, true);
      if (isRecord(data) && data["removed"] === true) {
        this.table.remove(String(data["circuit_id"]));
      } else {
        this.table.apply(data);
      }
    } else if (event.event === "heartbeat" && isRecord(data)) {
      reading.fresh = data["fresh"] !== false;
      this.#takeHeld(reading, reading.fresh);
      if (reading.fresh && this.#complete) {
        this.#confirm();
        this.loaded = true;
        this.#wakeWaiters();
      }
    }
  }

  /** Take the circuits of a snapshot. A gateway that is out of date may know less than this process: its snapshot only adds. */
  #takeHeld(reading: Reading, fresh: boolean): void {
    const circuits = reading.held;
    reading.held = null;
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

  #compareClocks(headers: AnswerHeaders): void {
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
