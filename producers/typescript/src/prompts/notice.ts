/**
 * One sentence for the system prompt about the tools that must not be called.
 *
 * Model providers cache prompts by their beginning, so the notice has points in time instead of a countdown. It stays the same to the
 * byte until a circuit opens or closes, or its wait ends. It names only tools and times: the text of an error comes from a third party
 * and must not get into a system prompt.
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
import { renamer, type NameMap } from "./tool-name.js";

/** The most tools to name. The others are counted. */
const MAX_TOOLS = 10;
/** How far the wall clock may drift from the monotonic clock before the times in the notice follow it, in seconds. */
const MOST_DRIFT_S = 1;
/** The notice while `onStateUnavailable` is `deny` and the fleet is out of reach. */
export const NOTHING_CALLABLE = "No tool can be called now: their state is unknown. Go on without tools.";
/** The notice after a limit of the session is reached. */
export const SESSION_OVER = "No tool can be called any more in this session. Finish with what you have.";

/** A tool, or all tools of a family, that must not be called now. */
export interface Unavailable {
  /** Name of the tool, or of the family. */
  readonly tool: string;
  /** When it may be tried, in seconds since 1970. Null if that isn't known. */
  readonly until: number | null;
  /** Tools to use instead, best first. */
  readonly instead: readonly string[];
  readonly family: boolean;
}

/** Return the sentence for `tools`, or an empty string without tools. Families come first, and each group is sorted by name. */
export function noticeOf(tools: readonly Unavailable[], nameOf?: NameMap): string {
  const newName = renamer(nameOf);
  const shown = (tool: string): string => nameForModel(newName(tool));
  const found = new Map<string, Unavailable[]>();
  for (const tool of [...tools].sort((one, other) => byFamilyAndName(one.family, one.tool, other.family, other.tool))) {
    const name = tool.family ? `all tools of ${nameForModel(tool.tool)}` : shown(tool.tool);
    found.set(name, [...(found.get(name) ?? []), tool]);
  }
  if (found.size === 0) {
    return "";
  }
  const names = [...found.keys()].sort((one, other) =>
    byFamilyAndName(found.get(one)![0]!.family, one, found.get(other)![0]!.family, other),
  );
  const named = names.slice(0, MAX_TOOLS).map((name) => phrase(name, found, shown));
  if (names.length > MAX_TOOLS) {
    named.push(`and ${names.length - MAX_TOOLS} more`);
  }
  return `These tools are unavailable, do not call them: ${named.join(", ")}.`;
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
  const tools = [...out.get(name)!].sort((one, other) => (other.until ?? Infinity) - (one.until ?? Infinity) || 0);
  const until = tools[0]!.until;
  const when = until === null ? "until further notice" : `not before ${instant(until)}`;
  const substitute = tools.flatMap((tool) => tool.instead.map(shown)).find((each) => !out.has(each));
  return `${name} (${when}${substitute === undefined ? "" : `; use ${substitute} instead`})`;
}

/** Return a time of the day, rounded up: the model must not try too early. */
function instant(until: number): string {
  return `${new Date(Math.ceil(until) * 1000).toISOString().slice(11, 19)} UTC`;
}

/**
 * Writes the notice of one client from its circuits. A family that refuses calls is named once, in place of its tools. While it only
 * waits for a probe, any tool of it may be called.
 */
export class NoticeBoard {
  /** From the monotonic clock to the wall clock. A new one in every notice would now and then change the sentence. */
  #offsetS: number;

  constructor(
    private readonly clock: Clock,
    private readonly familyOf: FamilyOf,
  ) {
    this.#offsetS = clock.wall() - clock.now();
  }

  /**
   * Return the notice for a caller.
   *
   * @param only The tools to name, of all that are unavailable.
   */
  notice(
    local: readonly LocalCircuit[],
    views: readonly CircuitView[],
    fleetTime: number,
    fallbacks: FallbackMap,
    caller: Caller,
    nameOf?: NameMap,
    only?: readonly string[],
  ): string {
    let tools = [
      ...this.#ofFleet(views, fleetTime, fallbacks, caller),
      ...this.#ofProcess(local, views, fallbacks, caller),
    ];
    if (only !== undefined) {
      const families = only.map((tool) => this.#family(tool));
      tools = tools.filter((each) => (each.family ? families : only).includes(each.tool));
    }
    const out = new Set<string>(
      views.filter((view) => view.scope === "family" && !view.passes).map((view) => view.tool),
    );
    for (const { family, breaker } of local) {
      if (family !== null && !PASSING.includes(breaker.state)) {
        out.add(family);
      }
    }
    return noticeOf(out.size > 0 ? this.#without(out, tools) : tools, nameOf);
  }

  /** Leave out the tools of families that are `out`, except those that an operator has forced open. */
  #without(out: ReadonlySet<string>, tools: readonly Unavailable[]): Unavailable[] {
    const isOut = (tool: string): boolean => out.has(this.#family(tool) ?? "");
    return tools
      .filter((each) => each.family || each.until === null || !isOut(each.tool))
      .map((each) => ({ ...each, instead: each.instead.filter((tool) => !isOut(tool)) }));
  }

  #family(tool: string): string | null {
    return this.familyOf(tool)?.name ?? null;
  }

  /** Return the tools that the fleet's circuits refuse. After a circuit's wait the next call may probe. */
  #ofFleet(views: readonly CircuitView[], now: number, fallbacks: FallbackMap, caller: Caller): Unavailable[] {
    return views
      .filter((view) => view.scope === "family" || toolOf(view.circuitId, view.scope, caller) !== null)
      .filter(
        (view) =>
          !view.passes && (view.forced || (view.state === "open" && view.openUntil !== null && now < view.openUntil)),
      )
      .map((view) => {
        const family = view.scope === "family";
        const own = fallbacks.chain(view.tool);
        const instead = family ? [] : own.length > 0 ? own : view.fallback;
        return { tool: view.tool, until: view.forced ? null : view.openUntil, instead, family };
      });
  }

  /** Return the tools that the process's own circuits refuse, unless an operator overrules these. */
  #ofProcess(
    circuits: readonly LocalCircuit[],
    views: readonly CircuitView[],
    fallbacks: FallbackMap,
    caller: Caller,
  ): Unavailable[] {
    const now = this.clock.now();
    const offset = this.clock.wall() - now;
    if (Math.abs(offset - this.#offsetS) > MOST_DRIFT_S) {
      this.#offsetS = offset;
    }
    const byId = new Map(views.map((view) => [view.circuitId, view]));
    const found: Unavailable[] = [];
    for (const { breaker, family } of circuits) {
      const tool = family ?? toolOf(breaker.circuitId, breaker.policy.scope, caller);
      const until = tool === null || PASSING.includes(breaker.state) ? null : breaker.openAt(now);
      const view = byId.get(breaker.circuitId) ?? byId.get(circuitId(tool ?? ""));
      if (tool === null || until === null || view?.overrides) {
        continue;
      }
      const own = fallbacks.chain(tool);
      const instead = own.length > 0 ? own : (view?.fallback ?? []);
      found.push({ tool, until: until + this.#offsetS, instead, family: family !== null });
    }
    return found;
  }
}

/** Return the tool of a circuit that decides for this caller, null for another one's circuit. */
function toolOf(circuitId: string, scope: string, caller: Caller): string | null {
  const { name, whose } = readCircuitId(circuitId);
  const owner = scope === "user" ? caller.userId : scope === "session" ? caller.sessionId : "";
  return whose === owner ? name : null;
}
