/**
 * The list of tools that a model sees, and when a text about them changes. Everything here is decided by a state, an event and a time,
 * as in the Python client's `switchgear/tool_list.py`.
 *
 * Providers cache a prompt by its beginning, and the list of tools comes first: a tool that leaves or returns makes the provider read,
 * and bill, the whole conversation again. So by default the list stays as it is.
 */
import { SwitchgearError } from "./errors.js";

/**
 * Which tools a model is offered. `stable`: all of them, always. `new_sessions`: a session's list leaves out what is refused when it
 * begins, and never changes then. `hide`: a tool that stays down leaves all lists, and returns when it stays up.
 */
export type ToolListMode = "stable" | "new_sessions" | "hide";

/** How long a tool is down before `hide` leaves it out, and up before it returns. */
export const HIDE_AFTER_S = 600;
/** A text about tools stays the same for so long after a change. */
const SAYS_THE_SAME_S = 60;
/** How long a process offers a tool again whose probe it was given, at most: as long as a provider keeps a prompt in its cache. */
const TRIAL_S = 300;
/** The most sessions, and the most lists, to remember. The one that was used longest ago is forgotten first. */
export const MOST_LISTS = 10_000;

/** What the circuits say of a tool. */
export interface Condition {
  /** One that decides about its calls isn't closed. */
  readonly down: boolean;
  /** A call would be refused now. */
  readonly refuses: boolean;
  /** `due`: the wait is over, and a probe may be asked for. `held`: this process has the lease of a probe. */
  readonly probe: "" | "due" | "held";
}

export const UP: Condition = { down: false, refuses: false, probe: "" };
export const REFUSES: Condition = { down: true, refuses: true, probe: "" };
export const DUE: Condition = { down: true, refuses: false, probe: "due" };

/** A tool in a list. Times are monotonic seconds. */
export interface Entry {
  /** The model is offered it now. */
  readonly offered: boolean;
  /** It has left the list. */
  readonly hidden: boolean;
  /** It was down when the list was last made. */
  readonly down: boolean;
  /** When `down` last changed. */
  readonly since: number;
  /** Since when the tool is out of the list and nobody has made the probe that is due, or this process has asked for it. */
  readonly untested: number;
  /** When this process last asked for a probe. */
  readonly asked: number;
  /** Until when it offers the tool for that probe. */
  readonly trialUntil: number;
  /** Ask for a probe: maybe nobody else does, because no model is offered the tool. */
  readonly asks: boolean;
}

const NEW: Entry = {
  offered: true,
  hidden: false,
  down: false,
  since: 0,
  untested: 0,
  asked: -Infinity,
  trialUntil: -Infinity,
  asks: false,
};

/** Return a tool's next entry in a list. `entry` is null when the list begins. */
export function step(entry: Entry | null, seen: Condition, now: number, mode: ToolListMode, hideAfterS: number): Entry {
  if (mode === "stable") {
    return entry ?? NEW;
  }
  if (mode === "new_sessions") {
    return entry ?? { ...NEW, offered: !seen.refuses };
  }
  let next = entry ?? NEW;
  if (entry === null || entry.down !== seen.down) {
    next = { ...next, down: seen.down, since: now };
  }
  if (next.hidden !== next.down && now - next.since >= hideAfterS) {
    next = { ...next, hidden: next.down, untested: now };
  }
  if (seen.probe === "") {
    next = { ...next, untested: now, trialUntil: -Infinity }; // somebody has made it, or the wait goes on
  } else if (seen.probe === "held" && now - next.asked < TRIAL_S) {
    next = { ...next, trialUntil: next.asked + TRIAL_S };
  }
  const tried = seen.probe === "held" || now < next.trialUntil;
  const asks = next.hidden && !tried && seen.probe === "due" && now - next.untested >= hideAfterS;
  if (asks) {
    next = { ...next, untested: now, asked: now };
  }
  return { ...next, offered: tried || !next.hidden, asks };
}

/** Return the entry of a tool whose probe this process may make without asking another one. */
export function granted(entry: Entry, now: number): Entry {
  return { ...entry, offered: true, trialUntil: now + TRIAL_S };
}

/** What a text says about the tools that are down, and since when. */
export interface Said<T> {
  readonly down: ReadonlySet<string>;
  /** What the text is made of. It is kept while the set stays the same. */
  readonly about: T;
  readonly since: number;
}

/** Return what a text says next. It changes only when the set of tools does, and at most once a minute. */
export function settle<T>(said: Said<T> | null, down: ReadonlySet<string>, about: T, now: number): Said<T> {
  if (said === null) {
    return { down, about, since: down.size > 0 ? now : -Infinity };
  }
  const same = down.size === said.down.size && [...down].every((each) => said.down.has(each));
  return same || now - said.since < SAYS_THE_SAME_S ? said : { down, about, since: now };
}

/** For whom a list is made. */
export interface ListSession {
  /** The session, empty without one. */
  readonly name: string;
  /** It has circuits of its own. */
  readonly own: boolean;
  /** The user, whose circuits may decide. */
  readonly user?: string;
}

/** The lists of one client. */
export class ToolLists {
  /** How often a list that was shown to a model before was another one. */
  changes = 0;
  /** By session or user, then by tool. */
  readonly #entries = new Map<string, Map<string, Entry>>();
  readonly #last = new Map<string, string>();

  /** @throws SwitchgearError An option is impossible. */
  constructor(
    private readonly mode: ToolListMode,
    private readonly hideAfterS: number,
    private readonly now: () => number,
  ) {
    if (!["stable", "new_sessions", "hide"].includes(mode)) {
      throw new SwitchgearError(`toolList is ${String(mode)}.`, "Use stable, new_sessions or hide.");
    }
    if (!(hideAfterS >= 0 && hideAfterS <= 86_400)) {
      throw new SwitchgearError(`hideAfterS is ${String(hideAfterS)}.`, "Use a number of seconds from 0 to 86400.");
    }
  }

  /**
   * Return which tools of a list to offer.
   *
   * @param tools The circuits of all tools of the list.
   * @param condition Returns what the circuits say of a tool: those of the session if the flag is set, else the process's.
   * @param ask Asks the same circuits for a probe. Returns whether this process may make it at once.
   */
  offered(
    tools: readonly string[],
    session: ListSession,
    condition: (tool: string, own: boolean) => Condition,
    ask: (tool: string, own: boolean) => boolean,
  ): boolean[] {
    if (this.mode === "stable" || (this.mode === "new_sessions" && session.name === "")) {
      return tools.map(() => true);
    }
    const now = this.now();
    const user = JSON.stringify(["user", session.user ?? ""]);
    const name = JSON.stringify(["session", session.name]);
    let found: boolean[] = [];
    if (this.mode === "hide") {
      found = this.#listed(user, user, tools, false, condition, ask, now);
    }
    if (this.mode === "new_sessions" || session.own) {
      found = this.#listed(name, user, tools, session.own, condition, ask, now);
    }
    const key = JSON.stringify([session.name, session.user ?? "", tools]);
    const shown = JSON.stringify(found);
    this.changes += (this.#last.get(key) ?? shown) === shown ? 0 : 1;
    remember(this.#last, key, shown);
    return found;
  }

  #listed(
    name: string,
    process: string,
    tools: readonly string[],
    own: boolean,
    condition: (tool: string, own: boolean) => Condition,
    ask: (tool: string, own: boolean) => boolean,
    now: number,
  ): boolean[] {
    const entries = this.#entries.get(name) ?? new Map<string, Entry>();
    remember(this.#entries, name, entries);
    for (const tool of new Set(tools)) {
      const seen = condition(tool, own);
      const known = this.#entries.get(process)?.get(tool);
      // A circuit of the fleet is down for longer than the session lasts.
      const begins = known !== undefined && known.down === seen.down ? known : null;
      const entry = step(entries.get(tool) ?? begins, seen, now, this.mode, this.hideAfterS);
      remember(entries, tool, entry.asks && ask(tool, own) ? granted(entry, now) : entry);
    }
    return tools.map((tool) => entries.get(tool)!.offered);
  }
}

/** Set an entry of a map of at most `MOST_LISTS`, as the newest. */
export function remember<K, V>(map: Map<K, V>, key: K, value: V): void {
  map.delete(key);
  map.set(key, value);
  if (map.size > MOST_LISTS) {
    map.delete(map.keys().next().value!);
  }
}
