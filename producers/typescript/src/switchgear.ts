import { LOCAL_FAMILY_DEFAULT, policyOf, type PolicyInput } from "./breaker/policy.js";
import type { CircuitState } from "./breaker/values.js";
import { textRule } from "./classify/by-text.js";
import type { Classifier } from "./classify/classification.js";
import { Emitter, type EmitterStatus } from "./emitter/emitter.js";
import { Outcomes } from "./emitter/outcomes.js";
import { SwitchgearError } from "./errors.js";
import { DEFAULT_FAMILY_PATTERN, familyFinder, type FamilyOf } from "./families.js";
import { checkStateMaxAge, Follower, type FollowerStatus, type OnStateUnavailable } from "./fleet/follower.js";
import { CircuitTable, type GuardMode } from "./fleet/table.js";
import { Gear } from "./gear.js";
import { callerOf, type CallerIds } from "./guard/caller.js";
import type { CallContext } from "./guard/calls.js";
import { Decision } from "./guard/decision.js";
import { FallbackMap, type Chains } from "./guard/fallback.js";
import { FleetCircuits } from "./guard/fleet-circuits.js";
import { LocalCircuits, notClosed, type LocalPolicies } from "./guard/local-circuits.js";
import { LocalFamilies } from "./guard/local-families.js";
import type { Guarded } from "./guard/options.js";
import { Reporter } from "./guard/permit.js";
import { SessionLimits, type SessionOptions, type SessionStatus, type Usage } from "./guard/session-limits.js";
import { NOTHING_CALLABLE, NoticeBoard, SESSION_OVER } from "./prompts/notice.js";
import type { NameMap } from "./prompts/tool-name.js";
import { GatewayHttp, type Fetch } from "./wire/http.js";
import { mintId } from "./wire/ids.js";
import { onExit } from "./wire/process.js";
import { SYSTEM_CLOCK, type Clock } from "./wire/timing.js";
import { Warnings, type OnWarning } from "./wire/warnings.js";

const EXIT_TIMEOUT_S = 5;

/** The options of a client without a gateway. */
export interface LocalOptions {
  /** Policies of the process's own breakers. The default opens after five failures in a row. */
  readonly localPolicies?: LocalPolicies | undefined;
  /** The policy of the process's own breakers of families. The default opens after five failures in a row of more than one tool. */
  readonly localFamilyPolicy?: PolicyInput | undefined;
  /** Which tools belong to a family, the tools of one server. Give it the same value in all processes. */
  readonly familyPattern?: string | undefined;
  /** A rule of your own for errors. Null leaves an error to `classify`. */
  readonly classify?: Classifier | undefined;
  /**
   * Globs of the tools whose failed results count by their text, such as "connection refused". All others answered, so they work. Leave
   * out tools that read pages or run code: their texts are about something else.
   */
  readonly outagesInText?: readonly string[] | undefined;
  /** A rule of your own for error messages, applied after the built-in one, which removes credentials. */
  readonly redact?: ((message: string) => string) | undefined;
  /**
   * Quote the tool's last error in the texts of refusals, also to models that didn't get it. It is a stranger's text: a tool that reads
   * web pages may tell your models what to do. By default the texts say in our words what it was.
   */
  readonly includeLastError?: boolean | undefined;
  /** A tool's fallback tool, or several in order. */
  readonly fallbacks?: Chains | undefined;
  /** Called with what goes wrong in the background, each text once a minute. The default is `console.warn`. */
  readonly onWarning?: OnWarning | undefined;
  /** Both clocks, for tests. */
  readonly clock?: Clock | undefined;
}

/** The options of a client. */
export interface SwitchgearOptions extends LocalOptions {
  /** The gateway's address, such as `http://127.0.0.1:8622`. */
  readonly url: string;
  /** The gateway's bearer token. */
  readonly token?: string | undefined;
  /** The name of this service, on every event. */
  readonly service?: string | undefined;
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
  /** In place of `globalThis.fetch`. */
  readonly fetch?: Fetch | undefined;
}

export interface SwitchgearStatus {
  /** Who decides about calls. */
  readonly mode: GuardMode;
  /** Null without a gateway, as `follower`. */
  readonly emitter: EmitterStatus | null;
  readonly follower: FollowerStatus | null;
  /** The process's own circuits that aren't closed, by circuit id. */
  readonly local: Readonly<Record<string, CircuitState>>;
}

interface Wire {
  readonly emitter: Emitter;
  readonly outcomes: Outcomes;
  readonly follower: Follower;
  readonly fleet: FleetCircuits;
  readonly startWaitS: number;
}

/**
 * A circuit breaker for tools, shared by the fleet.
 *
 * Two breakers decide about each call, in memory: the process's own, and the fleet's, which the client follows through a gateway.
 * Either may refuse. Every outcome is sent to the gateway in the background. If the gateway is away, the process's own breakers decide
 * alone.
 *
 * A call waits for the gateway in two cases only: a probe after a cooldown asks for permission, for at most `probeWaitS`; and the first
 * call waits for the fleet's circuits, for at most `startWaitS`. The client starts at the first call.
 */
export class Switchgear extends Gear {
  protected readonly context: CallContext;
  protected readonly standIns = new Map<string, Guarded | null>();
  readonly #clock: Clock;
  readonly #warnings: Warnings;
  readonly #options: LocalOptions;
  readonly #familyOf: FamilyOf;
  readonly #board: NoticeBoard;
  readonly #wire: Wire | null;
  #started = false;
  #ready: Promise<void> | null = null;
  #stopListening = (): void => {};

  /**
   * @param options Without options there is no gateway: use `Switchgear.local()`.
   * @throws SwitchgearError An option is impossible. The message names it.
   */
  constructor(options: SwitchgearOptions | (LocalOptions & { readonly url?: undefined })) {
    super();
    this.#options = options;
    this.#clock = options.clock ?? SYSTEM_CLOCK;
    this.#warnings = new Warnings(
      options.onWarning ?? ((message, error) => console.warn(`switchgear: ${message}`, error ?? "")),
      this.#clock.now,
    );
    this.#familyOf = familyFinder(options.familyPattern ?? DEFAULT_FAMILY_PATTERN);
    this.#board = new NoticeBoard(this.#clock, this.#familyOf);
    this.#wire = options.url === undefined ? null : this.#connect(options);
    const fleet = this.#wire?.fleet ?? null;
    const reporter = new Reporter(this.#clock, fleet, this.#warnings, options.classify, options.redact);
    const local = this.#circuits();
    const families = new LocalFamilies(
      local,
      this.#familyOf,
      this.#clock.now,
      policyOf(options.localFamilyPolicy ?? LOCAL_FAMILY_DEFAULT),
    );
    if (fleet !== null) {
      fleet.onFamily = (family, passes) => families.onFleet(family, passes);
    }
    const fallbacks = new FallbackMap();
    fallbacks.update(options.fallbacks ?? {});
    const outagesInText = checkedGlobs(options.outagesInText ?? []);
    this.context = {
      decision: new Decision(local, families, this.#familyOf, reporter),
      reporter,
      fallbacks,
      standIns: this.standIns,
      warnings: this.#warnings,
      textRule: (tool) => textRule(tool, outagesInText),
      limits: null,
      ids: {},
      start: () => this.#start(),
    };
  }

  /** Return a client without a gateway: a complete circuit breaker for this process alone. */
  static local(options: LocalOptions = {}): Switchgear {
    return new Switchgear(options);
  }

  /** Wait until the fleet's circuits were read once. Return whether they were within `timeoutS`. Without a gateway, return true. */
  async ready(timeoutS = 10): Promise<boolean> {
    this.#start();
    return this.#wire === null || this.#wire.follower.ready(timeoutS);
  }

  /** Return one run of an agent, with circuits of its own and limits across all of its tools. */
  session(options: SessionOptions = {}): Session {
    const local = this.#circuits();
    const { reporter } = this.context;
    const decision = new Decision(local, null, this.#familyOf, reporter, true);
    const sessionId = options.sessionId ?? mintId();
    const ids: CallerIds = { sessionId, userId: options.userId, credential: options.credential };
    const limits = new SessionLimits(sessionId, options);
    const context = { ...this.context, decision, limits, ids };
    return new Session(context, this.standIns, limits, (nameOf, only) => this.#notice(context, nameOf, only));
  }

  /**
   * Return one sentence for the system prompt about the tools that must not be called, or an empty string. It has no countdown, so it
   * doesn't invalidate the cache of a prompt in every turn.
   *
   * @param options `nameOf`: the name that the model knows for a circuit. `only`: the circuits to name, of all.
   */
  notice(options: NoticeOptions & CallerIds = {}): string {
    return this.#notice({ ...this.context, ids: options }, options.nameOf, options.only);
  }

  /** Send everything now. Return whether the gateway has acknowledged all of it within `timeoutS`. Use it at the end of an invocation. */
  async flush(timeoutS = EXIT_TIMEOUT_S): Promise<boolean> {
    if (this.#wire === null) {
      return true;
    }
    const { fleet, outcomes, emitter } = this.#wire;
    fleet.refusals.sweep(true);
    const end = this.#clock.now() + timeoutS;
    const delivered = await outcomes.flush(timeoutS); // an outcome that can't be delivered becomes an event
    return (await emitter.flush(Math.max(0, end - this.#clock.now()))) && delivered;
  }

  /** Send what waits, for at most `timeoutS`, and stop. Later calls go through the process's own breakers alone. */
  async close(timeoutS = EXIT_TIMEOUT_S): Promise<void> {
    this.#started = true;
    this.#stopListening();
    await this.flush(timeoutS);
    this.#wire?.follower.close();
    this.#wire?.outcomes.close();
    this.#wire?.emitter.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Return the condition of the client, as of now. */
  status(): SwitchgearStatus {
    const { local, families } = this.context.decision;
    return {
      mode: this.#wire?.fleet.mode ?? "local_only",
      emitter: this.#wire?.emitter.status() ?? null,
      follower: this.#wire?.follower.status() ?? null,
      local: notClosed([...local.all(), ...(families?.all() ?? [])]),
    };
  }

  #circuits(): LocalCircuits {
    const { localPolicies, includeLastError } = this.#options;
    return new LocalCircuits(
      localPolicies,
      this.#clock.now,
      this.#warnings,
      undefined,
      undefined,
      includeLastError === true,
    );
  }

  #connect(options: SwitchgearOptions): Wire {
    const settings = {
      onStateUnavailable: options.onStateUnavailable ?? "last_known",
      stateMaxAgeS: options.stateMaxAgeS ?? 300,
      probeWaitS: options.probeWaitS ?? 1,
      fleetSilenceS: options.fleetSilenceS ?? 30,
      includeLastError: options.includeLastError === true,
    } as const;
    const { bufferSize = 10_000, startWaitS = 0 } = options;
    checkStateMaxAge(settings.stateMaxAgeS);
    if (!["last_known", "local", "deny"].includes(settings.onStateUnavailable)) {
      throw new SwitchgearError(
        `onStateUnavailable is ${String(settings.onStateUnavailable)}.`,
        "Use last_known, local or deny.",
      );
    }
    for (const [name, value] of Object.entries({
      probeWaitS: settings.probeWaitS,
      fleetSilenceS: settings.fleetSilenceS,
      startWaitS,
    })) {
      if (!(value >= 0 && value <= 86_400)) {
        throw new SwitchgearError(`${name} is ${String(value)}.`, "Use a number of seconds from 0 to 86400.");
      }
    }
    if (!(Number.isInteger(bufferSize) && bufferSize >= 1)) {
      throw new SwitchgearError(`bufferSize is ${String(bufferSize)}.`, "Use a whole number of at least 1.");
    }
    const http = new GatewayHttp(options.url, options.token, options.fetch);
    const emitter = new Emitter(http, options.service ?? "", bufferSize, this.#clock, this.#warnings);
    const outcomes = new Outcomes(http, this.#clock, this.#warnings);
    const follower = new Follower(http, new CircuitTable(), options.tools, this.#clock, this.#warnings);
    const fleet = new FleetCircuits(http, follower, emitter, outcomes, this.#clock, this.#warnings, settings);
    return { emitter, outcomes, follower, fleet, startWaitS };
  }

  /** Start at the first call. Return what that call waits for. */
  #start(): Promise<void> | null {
    if (!this.#started && this.#wire !== null) {
      const { emitter, follower, startWaitS, fleet } = this.#wire;
      this.#started = true;
      follower.start();
      let ending = false;
      const idle = (): void => {
        if (!ending) {
          ending = true; // once: what can't be sent would otherwise keep the process alive
          void this.flush();
        }
      };
      this.#stopListening = onExit(idle, () => {
        fleet.refusals.sweep(true);
        emitter.flushKeepalive();
      });
      if (startWaitS > 0) {
        this.#ready = follower.ready(startWaitS).then(() => {
          this.#ready = null;
        });
      }
    }
    return this.#ready;
  }

  #notice(context: CallContext, nameOf?: NameMap, only?: readonly string[]): string {
    this.#start();
    if (context.limits !== null && context.limits.exhausted !== null) {
      return SESSION_OVER;
    }
    const { local, families } = context.decision;
    const fleet = this.#wire?.fleet ?? null;
    const mode = fleet?.mode ?? "local_only";
    if (mode === "deny") {
      return NOTHING_CALLABLE;
    }
    const circuits = [...local.all(), ...(families?.all() ?? [])];
    const views = this.#wire?.follower.table.all(mode) ?? [];
    return this.#board.notice(
      circuits,
      views,
      fleet?.wall() ?? 0,
      context.fallbacks,
      callerOf(context.ids),
      nameOf,
      only,
    );
  }
}

/** @throws SwitchgearError They are no list of globs. */
function checkedGlobs(globs: readonly string[]): readonly string[] {
  if (!Array.isArray(globs) || !globs.every((glob) => typeof glob === "string" && glob !== "")) {
    throw new SwitchgearError(
      `outagesInText is ${JSON.stringify(globs)}.`,
      'Use a list of globs, such as ["mcp:weather:*"].',
    );
  }
  return [...globs];
}

export interface NoticeOptions {
  /** The name that the model knows for a circuit's name. */
  readonly nameOf?: NameMap | undefined;
  /** Name only these circuits. */
  readonly only?: readonly string[] | undefined;
}

/**
 * One run of an agent. Its calls go through circuits of its own, which start closed, and through the fleet's. The limits count all of
 * its tools together, so that switching tools doesn't evade them.
 */
export class Session extends Gear {
  constructor(
    protected readonly context: CallContext,
    protected readonly standIns: Map<string, Guarded | null>,
    private readonly limits: SessionLimits,
    private readonly noticed: (nameOf?: NameMap, only?: readonly string[]) => string,
  ) {
    super();
  }

  get sessionId(): string {
    return this.limits.sessionId;
  }

  /** Count tokens (and cost) that no tool reports, such as the model's own between two calls. */
  spend(usage: Usage): void {
    this.limits.ended(usage, false);
  }

  /** Return what the session used and what it has left, as of now. */
  status(): SessionStatus {
    return this.limits.status();
  }

  /** Return the sentence for the system prompt, as `Switchgear.notice` does, for this session. */
  notice(options: NoticeOptions = {}): string {
    return this.noticed(options.nameOf, options.only);
  }
}
