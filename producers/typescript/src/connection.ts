/** What a client has with a gateway: events out, circuits in. It starts at the first call and does its work in the background, if there is one. */
import { Emitter, MOST_IN_BATCH } from "./emitter/emitter.js";
import { Outcomes } from "./emitter/outcomes.js";
import { SwitchgearError } from "./errors.js";
import { checkStateMaxAge, Follower, type OnStateUnavailable } from "./fleet/follower.js";
import { CircuitTable } from "./fleet/table.js";
import type { Credentials } from "./guard/credentials.js";
import { FleetCircuits } from "./guard/fleet-circuits.js";
import { GatewayHttp, type Fetch, type TokenSource } from "./wire/http.js";
import { sendLast } from "./wire/last-requests.js";
import { endsIoWithRequest, onEnd } from "./wire/process.js";
import { poll, type Clock } from "./wire/timing.js";
import type { Warnings } from "./wire/warnings.js";

/** How long a flush takes by default, in seconds. */
export const FLUSH_S = 5;
/** Without a background: how long the first event of a request waits for others. */
const LINGER_S = 0.1;

/** The options of a client that are about its gateway. */
export interface ConnectionOptions {
  /** The gateway's address, such as `http://127.0.0.1:8622`. */
  readonly url: string;
  /**
   * The gateway's bearer token, or a function that returns it or a promise of it. The function is called once, and again when the gateway
   * answers 401.
   */
  readonly token?: string | TokenSource | undefined;
  /** The name of this service, on every event. */
  readonly service?: string | undefined;
  /**
   * The `parameters_key` of the other processes: a secret of the deployment, 1 to 64 bytes. With it, events carry a keyed hash of the call's
   * credential, if the tool rejected it or the fleet keeps the tool's rate limit. So the fleet knows one credential in several processes.
   */
  readonly parametersKey?: string | Uint8Array | undefined;
  /** Follow only the circuits of these tools, such as `mcp:github:*`. */
  readonly tools?: string | undefined;
  /** The longest time that the first call waits for the fleet's circuits, in seconds. With 0, first calls may go to tools that are open. */
  readonly startWaitS?: number | undefined;
  /** The longest wait for a probe's permit, in seconds. */
  readonly probeWaitS?: number | undefined;
  /** If requests for a probe get no permit for this many seconds, the process's own breaker decides alone. */
  readonly fleetSilenceS?: number | undefined;
  /** What decides while the fleet's state can't be reached. */
  readonly onStateUnavailable?: OnStateUnavailable | undefined;
  /** Ignore a last known state that is older than this, in seconds. */
  readonly stateMaxAgeS?: number | undefined;
  /** The most events to hold while the gateway is away. When it is full, the oldest are dropped. */
  readonly bufferSize?: number | undefined;
  /**
   * Keeps a request alive for a promise, such as `waitUntil` of `cloudflare:workers` or of `@vercel/functions`. With it, the client does
   * nothing in the background: each request sends its own events and reads the circuits. Without it, call `flush` in each request there.
   */
  readonly waitUntil?: ((work: Promise<unknown>) => void) | undefined;
  /**
   * How long the end of a process may take in order to send what waits, in seconds: after `process.exit`, an uncaught error, or a
   * signal. 0: send nothing then.
   */
  readonly exitWaitS?: number | undefined;
  /** In place of `globalThis.fetch`. It can't be used at the end of a process, so nothing is sent then. */
  readonly fetch?: Fetch | undefined;
}

export class Connection {
  readonly emitter: Emitter;
  readonly follower: Follower;
  readonly fleet: FleetCircuits;
  readonly #http: GatewayHttp;
  readonly #outcomes: Outcomes;
  readonly #waitUntil: ConnectionOptions["waitUntil"];
  /** Whether something goes on between the calls. If not, each request does its own work. */
  readonly #background: boolean;
  readonly #startWaitS: number;
  readonly #exitWaitS: number;
  #started = false;
  #ready: Promise<void> | null = null;
  #stopListening = (): void => {};

  /** @throws SwitchgearError An option is impossible. The message names it. */
  constructor(
    options: ConnectionOptions,
    includeLastError: boolean,
    credentials: Credentials,
    private readonly clock: Clock,
    private readonly warnings: Warnings,
  ) {
    this.#waitUntil = options.waitUntil;
    this.#background = options.waitUntil === undefined && !endsIoWithRequest();
    const settings = {
      onStateUnavailable: options.onStateUnavailable ?? "last_known",
      stateMaxAgeS: options.stateMaxAgeS ?? 300,
      probeWaitS: options.probeWaitS ?? 1,
      fleetSilenceS: options.fleetSilenceS ?? 30,
      includeLastError,
      credentialOf: credentials.sharedOf,
      background: this.#background,
    } as const;
    const { bufferSize = 10_000, startWaitS = 0, exitWaitS = 1 } = options;
    const { probeWaitS, fleetSilenceS } = settings;
    checkStateMaxAge(settings.stateMaxAgeS);
    if (!["last_known", "local", "deny"].includes(settings.onStateUnavailable)) {
      throw new SwitchgearError(
        `onStateUnavailable is ${String(settings.onStateUnavailable)}.`,
        "Use last_known, local or deny.",
      );
    }
    for (const [name, value] of Object.entries({ probeWaitS, fleetSilenceS, startWaitS, exitWaitS })) {
      if (!(value >= 0 && value <= 86_400)) {
        throw new SwitchgearError(`${name} is ${String(value)}.`, "Use a number of seconds from 0 to 86400.");
      }
    }
    if (!(Number.isInteger(bufferSize) && bufferSize >= 1)) {
      throw new SwitchgearError(`bufferSize is ${String(bufferSize)}.`, "Use a whole number of at least 1.");
    }
    this.#startWaitS = startWaitS;
    this.#exitWaitS = exitWaitS;
    this.#http = new GatewayHttp(options.url, options.token, options.fetch);
    const waits = this.#background ? null : (count: number) => this.#waits(count);
    this.emitter = new Emitter(this.#http, options.service ?? "", bufferSize, clock, warnings, waits);
    this.#outcomes = new Outcomes(this.#http, clock, warnings, this.#background);
    this.follower = new Follower(this.#http, new CircuitTable(), options.tools, clock, warnings);
    this.fleet = new FleetCircuits(this.#http, this.follower, this.emitter, this.#outcomes, clock, warnings, settings);
  }

  /** Start at the first call. Return what that call waits for. */
  start(): Promise<unknown> | null {
    if (!this.#background) {
      const known = ["fleet", "last_known"].includes(this.fleet.mode);
      return known || this.#startWaitS === 0 ? null : this.follower.refresh(this.#startWaitS);
    }
    if (!this.#started) {
      this.#started = true;
      this.follower.start();
      this.#stopListening = this.#listen();
      if (this.#startWaitS > 0) {
        this.#ready = this.follower.ready(this.#startWaitS).then(() => {
          this.#ready = null;
        });
      }
    }
    return this.#ready;
  }

  /** Return whether the circuits were read once, after `timeoutS` at most. */
  ready(timeoutS: number): Promise<boolean> {
    void this.start();
    return this.#background ? this.follower.ready(timeoutS) : this.follower.refresh(timeoutS);
  }

  /** Send everything now. Return whether the gateway has acknowledged all of it within `timeoutS`. Without a background, also read the circuits. */
  async flush(timeoutS: number): Promise<boolean> {
    this.fleet.refusals.sweep(true);
    const end = this.clock.now() + timeoutS;
    const refreshed = this.#background ? null : this.follower.refresh(timeoutS);
    const delivered = await this.#outcomes.flush(timeoutS); // an outcome that can't be delivered becomes an event
    const sent = await this.emitter.flush(Math.max(0, end - this.clock.now()));
    await refreshed;
    return sent && delivered;
  }

  /** Send what waits, for at most `timeoutS`, and stop for good. */
  async close(timeoutS: number): Promise<void> {
    this.#started = true;
    this.#stopListening();
    await this.flush(timeoutS);
    this.follower.close();
    this.#outcomes.close();
    this.emitter.close();
  }

  /** Let this request send an event that waits, because no background task does. */
  #waits(count: number): void {
    const { warnings } = this;
    if (this.#waitUntil !== undefined) {
      const sent = poll(LINGER_S, () => false).then(
        () => this.flush(FLUSH_S),
        () => {}, // no request, so no timers
      );
      warnings.attempt("waitUntil failed; events wait", () => this.#waitUntil!(sent));
    } else if (count >= MOST_IN_BATCH) {
      warnings.warn("events wait: call `ctx.waitUntil(gear.flush())` in each request");
      void Promise.resolve().then(() => this.flush(FLUSH_S)); // not within the report that made the event
    }
  }

  #listen(): () => void {
    let ending = false;
    return onEnd({
      idle: () => {
        if (!ending) {
          ending = true; // once: what can't be sent would otherwise keep the process alive
          void this.flush(FLUSH_S);
        }
      },
      hidden: () => {
        this.fleet.refusals.sweep(true);
        this.emitter.flushKeepalive();
      },
      exit: () => this.#sendLast(),
    });
  }

  /** Send what waits while the process ends, which waits for no promise. Warn about what is lost. */
  #sendLast(): void {
    this.fleet.refusals.sweep(true);
    const requests = [...this.#outcomes.takeLast(), ...this.emitter.takeLast()];
    if (requests.length === 0) {
      return;
    }
    const { base, ownFetch } = this.#http;
    const possible = ownFetch === undefined && this.#exitWaitS > 0;
    const count = requests.reduce((sum, each) => sum + each.count, 0);
    const lost = possible ? sendLast(base, this.#http.headersNow(), requests, this.#exitWaitS) : count;
    if (lost > 0) {
      this.warnings.warn(`the process ended before the gateway had ${lost} of ${count} events`);
    }
  }
}
