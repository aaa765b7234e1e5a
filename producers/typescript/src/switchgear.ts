import { LOCAL_FAMILY_DEFAULT, type PolicyInput } from "./breaker/policy.js";
import type { CircuitState } from "./breaker/values.js";
import { textRule } from "./classify/by-text.js";
import type { Classifier } from "./classify/classification.js";
import { Connection, FLUSH_S, type ConnectionOptions } from "./connection.js";
import type { EmitterStatus } from "./emitter/emitter.js";
import { SwitchgearError } from "./errors.js";
import { DEFAULT_FAMILY_PATTERN, familyFinder, type FamilyOf } from "./families.js";
import type { FollowerStatus } from "./fleet/follower.js";
import type { GuardMode } from "./fleet/table.js";
import { Gear } from "./gear.js";
import { callerOf, type CallerIds } from "./guard/caller.js";
import type { CallContext } from "./guard/calls.js";
import { Credentials, keyOf } from "./guard/credentials.js";
import { Decision } from "./guard/decision.js";
import { FallbackMap, type Chains } from "./guard/fallback.js";
import { LocalCircuits, localPolicy, notClosed, type LocalPolicies } from "./guard/local-circuits.js";
import { LocalFamilies } from "./guard/local-families.js";
import type { Guarded } from "./guard/options.js";
import { Reporter } from "./guard/permit.js";
import type { PaceStatus } from "./guard/turns.js";
import { SessionLimits, type SessionOptions, type SessionStatus, type Usage } from "./guard/session-limits.js";
import {
  messageOf,
  NOTHING_CALLABLE,
  NOTHING_DOWN,
  NoticeBoard,
  noticeOf,
  SESSION_OVER,
  type Down,
} from "./prompts/notice.js";
import { HIDE_AFTER_S, ToolLists, type ToolListMode } from "./tool-list.js";
import type { NameMap } from "./prompts/tool-name.js";
import { mintId } from "./wire/ids.js";
import { SYSTEM_CLOCK, type Clock } from "./wire/timing.js";
import { Warnings, type OnWarning } from "./wire/warnings.js";

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
  /** Which tools a model is offered. The default is `stable`: all of them, always. */
  readonly toolList?: ToolListMode | undefined;
  /** With `toolList: "hide"`: how long, in seconds, a tool is down before it leaves the list, and up before it returns. */
  readonly hideAfterS?: number | undefined;
  /** Called with what goes wrong in the background, each text once a minute. The default is `console.warn`. */
  readonly onWarning?: OnWarning | undefined;
  /** Both clocks, for tests. */
  readonly clock?: Clock | undefined;
}

/** The options of a client. */
export interface SwitchgearOptions extends LocalOptions, ConnectionOptions {}

export interface SwitchgearStatus {
  /** Who decides about calls. */
  readonly mode: GuardMode;
  /** Null without a gateway, as `follower`. */
  readonly emitter: EmitterStatus | null;
  readonly follower: FollowerStatus | null;
  /** The process's own circuits that aren't closed, by circuit id. */
  readonly local: Readonly<Record<string, CircuitState>>;
  /** How often a list of tools that a model had seen changed. Each change makes its provider read the whole prompt again. */
  readonly toolListChanges: number;
  /** What the process does by the rate limits that the fleet keeps, by tool. */
  readonly paces: Readonly<Record<string, PaceStatus>>;
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
  readonly #connection: Connection | null;

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
    const credentials = new Credentials(options.url === undefined ? undefined : keyOf(options.parametersKey));
    this.#connection =
      options.url === undefined
        ? null
        : new Connection(options, options.includeLastError === true, credentials, this.#clock, this.#warnings);
    const fleet = this.#connection?.fleet ?? null;
    const reporter = new Reporter(this.#clock, fleet, credentials, this.#warnings, options.classify, options.redact);
    const local = this.#circuits();
    const families = new LocalFamilies(
      local,
      this.#familyOf,
      this.#clock.now,
      localPolicy(options.localFamilyPolicy ?? {}, LOCAL_FAMILY_DEFAULT),
    );
    if (fleet !== null) {
      fleet.onFamily = (family, passes) => families.onFleet(family, passes);
    }
    const fallbacks = new FallbackMap();
    fallbacks.update(options.fallbacks ?? {});
    const outagesInText = checkedGlobs(options.outagesInText ?? []);
    const decision = new Decision(local, families, this.#familyOf, reporter);
    this.context = {
      decision,
      process: decision,
      lists: new ToolLists(options.toolList ?? "stable", options.hideAfterS ?? HIDE_AFTER_S, this.#clock.now),
      reporter,
      fallbacks,
      standIns: this.standIns,
      warnings: this.#warnings,
      textRule: (tool) => textRule(tool, outagesInText),
      limits: null,
      ids: {},
      start: () => this.#connection?.start() ?? null,
    };
  }

  /** Return a client without a gateway: a complete circuit breaker for this process alone. */
  static local(options: LocalOptions = {}): Switchgear {
    return new Switchgear(options);
  }

  /** Wait until the fleet's circuits were read once. Return whether they were within `timeoutS`. Without a gateway, return true. */
  async ready(timeoutS = 10): Promise<boolean> {
    return this.#connection === null || this.#connection.ready(timeoutS);
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
    return new Session(context, this.standIns, limits, {
      notice: (given) => this.#notice(context, given),
      message: (given) => this.#message(context, given),
    });
  }

  /**
   * Return a text for a prompt about the tools that are down, or an empty string. It stays the same to the byte until other tools are
   * down, and changes at most once a minute, so that the prompt's cache stays valid.
   *
   * @param options `nameOf`: the name that the model knows for a circuit. `only`: the circuits to name, of all.
   */
  notice(options: NoticeOptions & CallerIds = {}): string {
    return this.#notice({ ...this.context, ids: options }, options);
  }

  /**
   * Return the message to append to a conversation now, or an empty string: which tools went down since the last one, and which may be
   * called again. Ask before each turn of the model. An outage is told once, and its end once.
   *
   * @param options `sessionId`: the conversation. Without it, the process has one conversation.
   */
  outageMessage(options: MessageOptions & CallerIds = {}): string {
    return this.#message({ ...this.context, ids: options }, options);
  }

  /** Forget what a conversation was told: it begins again, or was shortened. Then it is told what is down. */
  forgetTold(sessionId: string): void {
    this.#board.forget(placeOf("message", { sessionId }));
  }

  /**
   * Send everything now. Return whether the gateway has acknowledged all of it within `timeoutS`. Use it at the end of an invocation. Where
   * nothing runs in the background, it also reads the circuits, for the next invocation.
   */
  async flush(timeoutS = FLUSH_S): Promise<boolean> {
    return this.#connection === null || this.#connection.flush(timeoutS);
  }

  /** Send what waits, for at most `timeoutS`, and stop. Later calls go through the process's own breakers alone. */
  async close(timeoutS = FLUSH_S): Promise<void> {
    await this.#connection?.close(timeoutS);
  }

  /** Return the condition of the client, as of now. */
  status(): SwitchgearStatus {
    const { local, families } = this.context.decision;
    return {
      mode: this.#connection?.fleet.mode ?? "local_only",
      emitter: this.#connection?.emitter.status() ?? null,
      follower: this.#connection?.follower.status() ?? null,
      local: notClosed([...local.all(), ...(families?.all() ?? [])]),
      toolListChanges: this.context.lists.changes,
      paces: this.#connection?.fleet.turns.status() ?? {},
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

  #notice(context: CallContext, { nameOf, only }: NoticeOptions): string {
    const place = placeOf("notice", context.ids, only);
    const [, down] = this.#board.settled(place, this.#down(context, only), only);
    return down.everything || noticeOf(down.tools, nameOf);
  }

  #message(context: CallContext, { nameOf, only, sessionId }: MessageOptions): string {
    const place = placeOf("message", { sessionId: sessionId ?? context.ids.sessionId });
    const [before, after] = this.#board.settled(place, this.#down(context, only), only);
    return messageOf(before, after, nameOf);
  }

  /** Return what is down for a caller. */
  #down(context: CallContext, only?: readonly string[]): Down {
    void context.start();
    if (context.limits !== null && context.limits.exhausted !== null) {
      return { ...NOTHING_DOWN, everything: SESSION_OVER };
    }
    const { local, families } = context.decision;
    const fleet = this.#connection?.fleet ?? null;
    const mode = fleet?.mode ?? "local_only";
    if (mode === "deny") {
      return { ...NOTHING_DOWN, everything: NOTHING_CALLABLE };
    }
    const circuits = [...local.all(), ...(families?.all() ?? [])];
    const views = this.#connection?.follower.table.all(mode) ?? [];
    return this.#board.down(circuits, views, fleet?.wall() ?? 0, context.fallbacks, callerOf(context.ids), only);
  }
}

/** Return what names the place where a text about tools stands. */
function placeOf(kind: string, { sessionId, userId }: CallerIds, only?: readonly string[]): string {
  return JSON.stringify([kind, sessionId ?? "", userId ?? "", only === undefined ? null : [...new Set(only)].sort()]);
}

/** `await using` of a client, in programs whose library knows it. */
type AsyncDisposal = SymbolConstructor extends { readonly asyncDispose: infer S extends symbol }
  ? { [method in S]: () => Promise<void> }
  : object;
export interface Switchgear extends AsyncDisposal {}
if (typeof Symbol.asyncDispose === "symbol") {
  Object.defineProperty(Switchgear.prototype, Symbol.asyncDispose, {
    value(this: Switchgear) {
      return this.close();
    },
  });
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

export interface MessageOptions extends NoticeOptions {
  /** The conversation. By default that of the session, or the only one of the process. */
  readonly sessionId?: string | undefined;
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
    private readonly told: Readonly<Record<"notice" | "message", (options: MessageOptions) => string>>,
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

  /** Return the text for a prompt, as `Switchgear.notice` does, for this session. */
  notice(options: NoticeOptions = {}): string {
    return this.told.notice(options);
  }

  /** Return the message to append to this session's conversation now, as `Switchgear.outageMessage` does. */
  outageMessage(options: MessageOptions = {}): string {
    return this.told.message(options);
  }
}
