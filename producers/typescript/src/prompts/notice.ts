/**
 * What a model is told about tools: a sentence for a prompt, and a message for a conversation.
 *
 * Model providers cache prompts by their beginning, so a text has no times: it stays the same to the byte until other tools are down. It
 * names only tools: the text of an error comes from a third party and must not get into a prompt.
 */
import { PASSING } from "../breaker/states.js";
import { circuitId, readCircuitId } from "../circuit-ids.js";
import type { FamilyOf } from "../families.js";
import type { CircuitView } from "../fleet/view.js";
import type { Caller } from "../guard/caller.js";
import type { FallbackMap } from "../guard/fallback.js";
import type { LocalCircuit } from "../guard/local-circuits.js";
import { nameForModel } from "../model-text.js";
import type { Clock } from "../wire/timing.js";
import { remember, settle, type Said } from "../tool-list.js";
import { renamer, type NameMap } from "./tool-name.js";

/** The most tools to name. The others are counted. */
const MAX_TOOLS = 10;
/** A tool whose wait ended so long ago, and that nobody called since, isn't said to be down any more: maybe nobody calls it for that. */
const UNTESTED_S = 600;
/** The text while `onStateUnavailable` is `deny` and the fleet is out of reach. */
export const NOTHING_CALLABLE = "No tool can be called now: their state is unknown. Go on without tools.";
/** The text after a limit of the session is reached. */
export const SESSION_OVER = "No tool can be called any more in this session. Finish with what you have.";
/** Without it, a model that does as it is told would never find out that a tool works again. */
const TO_TRY = "The answer to a call of one says when to try it again.";
const CALLABLE_AGAIN = "Tools can be called again.";
/** How a message in a conversation begins, so that it isn't taken for the user's. */
const MARK = "[tool status]";

/** A tool, or all tools of a family, that is down. */
export interface Unavailable {
  /** Name of the tool, or of the family. */
  readonly tool: string;
  /** Tools to use instead, best first. */
  readonly instead: readonly string[];
  readonly family: boolean;
}

/** What is down. */
export interface Down {
  readonly tools: readonly Unavailable[];
  /** The text to say in place of the tools' names, because no tool can be called. */
  readonly everything: string;
}

export const NOTHING_DOWN: Down = { tools: [], everything: "" };

const keyOf = ({ tool, family }: Unavailable): string => (family ? `${tool}|family` : tool);

/** Return the set that decides whether a text changes. */
function keysOf(down: Down): ReadonlySet<string> {
  return new Set(down.everything === "" ? down.tools.map(keyOf) : [down.everything]);
}

/** Return the sentences for `tools`, or an empty string without tools. Families come first, and each group is sorted by name. */
export function noticeOf(tools: readonly Unavailable[], nameOf?: NameMap): string {
  const newName = renamer(nameOf);
  const shown = (tool: string): string => nameForModel(newName(tool));
  const found = new Map<string, Unavailable[]>();
  for (const tool of [...tools].sort((one, other) => byFamilyAndName(one.family, one.tool, other.family, other.tool))) {
    const name = shownName(tool, shown);
    found.set(name, [...(found.get(name) ?? []), tool]);
  }
  if (found.size === 0) {
    return "";
  }
  const names = [...found.keys()].sort((one, other) =>
    byFamilyAndName(found.get(one)![0]!.family, one, found.get(other)![0]!.family, other),
  );
  return `These tools are unavailable: ${listed(names.map((name) => phrase(name, found, shown)))}. ${TO_TRY}`;
}

/** Return the message for a conversation about what went down, and what may be called again. It is empty if nothing did. */
export function messageOf(before: Down, after: Down, nameOf?: NameMap): string {
  const newName = renamer(nameOf);
  if (after.everything !== "") {
    return after.everything === before.everything ? "" : `${MARK} ${after.everything}`;
  }
  const known = keysOf(before);
  const out = keysOf(after);
  const texts = before.everything === "" ? [] : [CALLABLE_AGAIN];
  const gone = after.tools.filter((each) => !known.has(keyOf(each)));
  if (gone.length > 0) {
    texts.push(noticeOf(gone, nameOf));
  }
  const back = before.everything === "" ? before.tools.filter((each) => !out.has(keyOf(each))) : [];
  if (back.length > 0) {
    const names = new Set(back.map((each) => shownName(each, (tool) => nameForModel(newName(tool)))));
    texts.push(`These tools may be called again: ${listed([...names].sort())}.`);
  }
  return texts.length > 0 ? [MARK, ...texts].join(" ") : "";
}

function listed(names: readonly string[]): string {
  const more = names.length > MAX_TOOLS ? [`and ${names.length - MAX_TOOLS} more`] : [];
  return [...names.slice(0, MAX_TOOLS), ...more].join(", ");
}

function shownName({ tool, family }: Unavailable, shown: (tool: string) => string): string {
  return family ? `all tools of ${nameForModel(tool)}` : shown(tool);
}

function byFamilyAndName(family: boolean, name: string, otherFamily: boolean, otherName: string): number {
  if (family !== otherFamily) {
    return family ? -1 : 1;
  }
  return name < otherName ? -1 : name > otherName ? 1 : 0;
}

function phrase(
  name: string,
  out: ReadonlyMap<string, readonly Unavailable[]>,
  shown: (tool: string) => string,
): string {
  const substitute = out
    .get(name)!
    .flatMap((tool) => tool.instead.map(shown))
    .find((each) => !out.has(each));
  return substitute === undefined ? name : `${name} (use ${substitute} instead)`;
}

/** What the texts of one client say, by the place where they stand. A family that is down is named once, in place of its tools. */
export class NoticeBoard {
  readonly #said = new Map<string, Said<Down>>();

  constructor(
    private readonly clock: Clock,
    private readonly familyOf: FamilyOf,
  ) {}

  /**
   * Return what the text in a place said about, and what it says about now.
   *
   * @param only What is `down` are those of these tools, and the text goes on about others as it did.
   */
  settled(place: string, down: Down, only?: readonly string[]): readonly [Down, Down] {
    const said = this.#said.get(place) ?? null;
    const before = said?.about ?? NOTHING_DOWN;
    let now = down;
    if (only !== undefined && down.everything === "") {
      const concerned = this.#concerned(only);
      now = { ...down, tools: [...before.tools.filter((each) => !concerned.has(keyOf(each))), ...down.tools] };
    }
    const after = settle(said, keysOf(now), now, this.clock.now());
    remember(this.#said, place, after);
    return [before, after.about];
  }

  /** Forget what the text in a place said. */
  forget(place: string): void {
    this.#said.delete(place);
  }

  /**
   * Return what is down for a caller.
   *
   * @param only The tools to name, of all that are down.
   */
  down(
    local: readonly LocalCircuit[],
    views: readonly CircuitView[],
    fleetTime: number,
    fallbacks: FallbackMap,
    caller: Caller,
    only?: readonly string[],
  ): Down {
    let found = [
      ...this.#ofFleet(views, fleetTime, fallbacks, caller),
      ...this.#ofProcess(local, views, fallbacks, caller),
    ];
    if (only !== undefined) {
      const concerned = this.#concerned(only);
      found = found
        .filter((each) => concerned.has(keyOf(each)))
        .map((each) => ({ ...each, instead: each.instead.filter((tool) => only.includes(tool)) }));
    }
    const out = new Set(found.filter((each) => each.family).map((each) => each.tool));
    const isOut = (tool: string): boolean => out.has(this.#family(tool) ?? "");
    const tools = found
      .filter((each) => each.family || !isOut(each.tool))
      .map((each) => ({ ...each, instead: each.instead.filter((tool) => !isOut(tool)) }));
    return { tools, everything: "" };
  }

  /** Return the keys of tools and of their families. */
  #concerned(only: readonly string[]): ReadonlySet<string> {
    const families = only.map((tool) => this.#family(tool)).filter((family) => family !== null);
    return new Set([...only, ...families.map((tool) => keyOf({ tool, instead: [], family: true }))]);
  }

  #family(tool: string): string | null {
    return this.familyOf(tool)?.name ?? null;
  }

  /** Return the tools whose circuits of the fleet aren't closed. */
  #ofFleet(views: readonly CircuitView[], now: number, fallbacks: FallbackMap, caller: Caller): Unavailable[] {
    return views
      .filter((view) => view.scope === "family" || toolOf(view.circuitId, view.scope, caller) !== null)
      .filter((view) => !view.passes && !view.recovers)
      .filter((view) => view.forced || !endedBefore(now - UNTESTED_S, view.state, view.openUntil))
      .map((view) => {
        const family = view.scope === "family";
        const own = fallbacks.chain(view.tool);
        const instead = family ? [] : own.length > 0 ? own : view.fallback;
        return { tool: view.tool, instead, family };
      });
  }

  /** Return the tools whose circuits of the process aren't closed, unless an operator overrules these. */
  #ofProcess(
    circuits: readonly LocalCircuit[],
    views: readonly CircuitView[],
    fallbacks: FallbackMap,
    caller: Caller,
  ): Unavailable[] {
    const tested = this.clock.now() - UNTESTED_S;
    const byId = new Map(views.map((view) => [view.circuitId, view]));
    const found: Unavailable[] = [];
    for (const { breaker, family } of circuits) {
      const tool = family ?? toolOf(breaker.circuitId, breaker.policy.scope, caller);
      const view = byId.get(breaker.circuitId) ?? byId.get(circuitId(tool ?? ""));
      const isUp = PASSING.includes(breaker.state) || endedBefore(tested, breaker.state, breaker.openUntil);
      if (tool === null || isUp || view?.overrides) {
        continue;
      }
      const own = fallbacks.chain(tool);
      const instead = own.length > 0 ? own : (view?.fallback ?? []);
      found.push({ tool, instead, family: family !== null });
    }
    return found;
  }
}

/** Return whether the wait of an open circuit ended before `at`. */
function endedBefore(at: number, state: string, openUntil: number | null): boolean {
  return state === "open" && openUntil !== null && openUntil < at;
}

/** Return the tool of a circuit that decides for this caller, null for another one's circuit. */
function toolOf(circuitId: string, scope: string, caller: Caller): string | null {
  const { name, whose } = readCircuitId(circuitId);
  const owner = scope === "user" ? caller.userId : scope === "session" ? caller.sessionId : "";
  return whose === owner ? name : null;
}
