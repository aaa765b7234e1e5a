/** What the console knows about the fleet: a snapshot, and the changes that arrive after it. No browser is needed here. */

import { BROKEN, CALM, CIRCUIT_FIELDS, EMPTY_TOOL, MINUTES, MOST_TOOLS } from "./declared.js";

/** @import { Circuit, Family, Fleet, Freshness, Heartbeat, Minutes, NowAnswer, State, StatsEvent, Tool } from "../../types.js" */

/** How long a change of state stands out on the screen. */
export const FRESH_MS = 8_000;
const RANK = /** @type {Record<string, number>} */ ({
  open: 0,
  forced_open: 1,
  half_open: 2,
  metrics_only: 3,
  disabled: 4,
  closed: 5,
});
/** @param {{ state: string }} circuit */
export const isBroken = (circuit) => BROKEN.includes(circuit.state);

/**
 * Order tools as an operator reads them: what is broken, by its errors in the window, then what is commanded, then by errors and calls.
 * @param {Tool} one @param {Tool} other
 */
export function byUrgency(one, other) {
  const broken = Number(isBroken(other)) - Number(isBroken(one));
  if (broken) return broken;
  if (!isBroken(one)) {
    const closed = Number(one.state === "closed") - Number(other.state === "closed");
    if (closed) return closed;
  }
  return (
    other.stats.errors - one.stats.errors ||
    other.stats.calls - one.stats.calls ||
    (RANK[one.state] ?? 9) - (RANK[other.state] ?? 9) ||
    (one.tool < other.tool ? -1 : 1)
  );
}

export class Store {
  constructor() {
    /** @type {Map<string, Tool>} */
    this.tools = new Map();
    /** @type {Map<string, Family>} */
    this.families = new Map();
    /** @type {Fleet | null} */
    this.fleet = null;
    /** @type {Freshness} */
    this.data = { newest_event_at: null, circuits_fresh: true, circuits_age_s: null, problems: [] };
    /** Rises with every change, so that a view knows when to render. */
    this.revision = 0;
    /** Rises when a tool must move to another place of the list. */
    this.orderRevision = 0;
    /** Tools that may have advice, costs or circuits of single processes. */
    this.troubled = /** @type {Set<string>} */ (new Set());
    /** Rises when the strips of minutes change. A change of a circuit leaves them as they are. */
    this.beatRevision = 0;
    /** Milliseconds that the server's clock is ahead of this one. */
    this.offsetMs = 0;
    /** @type {Map<string, number>} when a tool's state changed on this screen, in milliseconds of the server's clock */
    this.changedAt = new Map();
    this.minute = 0;
    /** @type {Tool[]} */
    this.sortedTools = [];
    this.sortedAt = -1;
  }

  /** @param {number} localMs */
  serverNow(localMs) {
    return localMs + this.offsetMs;
  }

  /** @param {NowAnswer} now @param {number} localMs */
  load(now, localMs) {
    this.offsetMs = Date.parse(now.checked_at) - localMs;
    this.minute = minuteOf(Date.parse(now.checked_at));
    const [tools, families] = [this.tools, this.families];
    this.tools = new Map(
      now.tools.map((tool) => [
        tool.tool,
        newer({ ...withForcedState(tool), beat: padded(tool.beat) }, tools.get(tool.tool)),
      ]),
    );
    this.families = new Map(
      now.families.map((family) => [nameOf(family), newer(withForcedState(family), families.get(nameOf(family)))]),
    );
    this.fleet = now.fleet;
    this.data = now.data;
    this.troubled = new Set(now.tools.map((tool) => tool.tool));
    this.beatRevision += 1;
    this.revision += 1;
    this.orderRevision += 1;
  }

  /**
   * Take the tools in trouble as they are now. For the others nothing is advised.
   * @param {NowAnswer} now only with the tools in trouble
   * @param {number} localMs
   */
  refresh(now, localMs) {
    this.offsetMs = Date.parse(now.checked_at) - localMs;
    const troubled = new Map(now.tools.map((tool) => [tool.tool, tool]));
    for (const [name, tool] of troubled)
      if (hasRoom(this.tools, name, tool.state))
        this.tools.set(name, newer({ ...withForcedState(tool), beat: padded(tool.beat) }, this.tools.get(name)));
    for (const [name, tool] of this.tools)
      if (this.troubled.has(name) && !troubled.has(name) && tool.state === "closed")
        this.tools.set(name, { ...tool, ...CALM });
    this.troubled = new Set(troubled.keys());
    // A server that the stream has brought stays: the answer may be older than its first record.
    for (const family of now.families)
      this.families.set(nameOf(family), newer(withForcedState(family), this.families.get(nameOf(family))));
    this.fleet = now.fleet;
    this.data = now.data;
    this.countStates();
    this.beatRevision += 1;
    this.revision += 1;
    this.orderRevision += 1;
  }

  /**
   * Apply a circuit's record. Return the change of state, or null if there is none.
   * @param {Circuit} record @param {number} localMs
   * @returns {{ circuit: Circuit, from: State | null } | null}
   */
  applyCircuit(record, localMs) {
    record = withForcedState(record);
    const key = record.is_family ? (record.family ?? record.tool) : record.tool;
    const held = record.is_family ? this.families.get(key) : this.tools.get(key);
    if (held && record.version < held.version) return null;
    if (!record.is_family && !hasRoom(this.tools, key, record.state)) return null;
    if (record.is_family) {
      this.families.set(key, { tools: [], local_opens: [], ...this.families.get(key), ...record });
    } else {
      const known = this.tools.get(key) ?? emptyTool();
      this.tools.set(key, { ...known, ...openingOf(known, record), ...record });
    }
    this.revision += 1;
    if (held?.state === record.state) return null;
    this.orderRevision += 1;
    this.changedAt.set(key, this.serverNow(localMs));
    this.countStates();
    return { circuit: record, from: held?.state ?? null };
  }

  /** @param {StatsEvent} event @param {number} localMs */
  applyStats(event, localMs) {
    this.advance(localMs);
    if (event.fleet) this.fleet = event.fleet;
    for (const [name, change] of Object.entries(event.tools ?? {})) {
      if (!hasRoom(this.tools, name, "closed")) continue;
      const held = this.tools.get(name) ?? { ...emptyTool(), tool: name, circuit_id: name };
      const beat = change.beat_now ? withLast(held.beat, change.beat_now) : held.beat;
      this.tools.set(name, { ...held, stats: change.stats, beat, last_call_at: change.last_call_at });
    }
    this.countStates();
    this.beatRevision += 1;
    this.revision += 1;
  }

  /** @param {Heartbeat} event @param {number} localMs */
  applyHeartbeat(event, localMs) {
    this.offsetMs = Date.parse(event.now) - localMs;
    this.data = event;
    this.advance(localMs);
    this.revision += 1;
  }

  /**
   * Move the strips of minutes along with the clock, and forget which tools changed some time ago.
   * @param {number} localMs
   */
  advance(localMs) {
    const now = this.serverNow(localMs);
    for (const [name, at] of this.changedAt) if (now - at >= FRESH_MS) this.changedAt.delete(name);
    const minute = minuteOf(now);
    const passed = Math.min(minute - this.minute, MINUTES);
    if (!this.minute || passed <= 0) return;
    this.minute = minute;
    const blank = new Array(passed).fill(0);
    for (const [name, tool] of this.tools) {
      const beat = { calls: [...tool.beat.calls, ...blank], errors: [...tool.beat.errors, ...blank] };
      this.tools.set(name, { ...tool, beat: padded(beat) });
    }
    this.beatRevision += 1;
  }

  /** Count the states again: they change before the next numbers of the fleet arrive. */
  countStates() {
    if (!this.fleet) return;
    let open = 0;
    let half = 0;
    for (const tool of this.tools.values()) {
      if (tool.state === "open" || tool.state === "forced_open") open += 1;
      if (tool.state === "half_open") half += 1;
    }
    this.fleet = { ...this.fleet, open, half_open: half, tools: Math.max(this.fleet.tools, this.tools.size) };
  }

  /** All tools by urgency. The array is the same until something changes. */
  sorted() {
    if (this.sortedAt !== this.revision) {
      this.sortedTools = [...this.tools.values()].sort(byUrgency);
      this.sortedAt = this.revision;
    }
    return this.sortedTools;
  }

  brokenFamilies() {
    return [...this.families.values()].filter(isBroken);
  }

  /** Return the server whose circuit refuses a tool's calls, or null. @param {Tool} tool */
  refusingFamily(tool) {
    const family = tool.family === null ? undefined : this.families.get(tool.family);
    return family && isBroken(family) ? family : null;
  }

  /** Return when one of these tools was last called, as far as the numbers say. @param {string[]} names */
  lastCallAt(names) {
    const times = names.map((name) => this.tools.get(name)?.last_call_at ?? "");
    return times.reduce((newest, at) => (at > newest ? at : newest), "") || null;
  }

  /** Return the servers whose circuits refuse calls, each with the names of the tools behind it. @returns {Map<Family, string[]>} */
  toolsOfBrokenFamilies() {
    /** @type {Map<string | null, string[]>} */
    const names = new Map();
    /** @type {Map<Family, string[]>} */
    const found = new Map();
    for (const family of this.brokenFamilies()) {
      found.set(family, []);
      names.set(nameOf(family), /** @type {string[]} */ (found.get(family)));
    }
    if (found.size) for (const tool of this.tools.values()) names.get(tool.family)?.push(tool.tool);
    return found;
  }
}

/**
 * Return whether a tool has a place: it has one already, or there are not too many. One that refuses calls takes the place of a closed one.
 * @param {Map<string, Tool>} tools @param {string} name @param {State} state
 */
function hasRoom(tools, name, state) {
  if (tools.has(name) || tools.size < MOST_TOOLS) return true;
  const closed = BROKEN.includes(state) && [...tools.values()].find((tool) => tool.state === "closed");
  return Boolean(closed) && tools.delete(/** @type {Tool} */ (closed).tool);
}

/** @param {number} ms */
const minuteOf = (ms) => Math.floor(ms / 60_000);

/**
 * Return when and why a tool began to refuse calls, after a record. A failed probe begins nothing.
 * @param {Tool} known @param {Circuit} record
 */
function openingOf(known, record) {
  if (!isBroken(record)) return { opened_at: null, opened_why: null };
  return isBroken(known) ? {} : { opened_at: record.since, opened_why: record.why };
}

/**
 * Return a circuit as an operator thinks of it. Forced open for a time, it is open until then in its record.
 * @template {Circuit} T
 * @param {T} circuit
 * @returns {T}
 */
export function withForcedState(circuit) {
  if (circuit.state !== "open" || circuit.override?.command !== "force_open") return circuit;
  return { ...circuit, state: "forced_open", expires_at: circuit.expires_at ?? circuit.next_probe_at };
}

/** @param {Family} family */
const nameOf = (family) => family.family ?? family.tool;

/**
 * Return a circuit as loaded, or with the state of a newer record that the stream has brought before.
 * @template {Circuit} T
 * @param {T} loaded
 * @param {T | undefined} held
 * @returns {T}
 */
function newer(loaded, held) {
  if (!held || held.version <= loaded.version) return loaded;
  /** @type {T} */
  const merged = { ...loaded };
  for (const field of CIRCUIT_FIELDS) Object.assign(merged, { [field]: held[field] });
  return merged;
}

/**
 * Return the last hour: shorter strips begin with minutes without a call.
 * @param {Minutes} beat
 * @returns {Minutes}
 */
function padded(beat) {
  const fill = (/** @type {number[]} */ held) =>
    held.length < MINUTES ? [...new Array(MINUTES - held.length).fill(0), ...held] : held.slice(-MINUTES);
  return { calls: fill(beat.calls), errors: fill(beat.errors) };
}

/** @param {Minutes} beat @param {{ calls: number, errors: number }} last @returns {Minutes} */
const withLast = (beat, last) => ({
  calls: [...beat.calls.slice(0, -1), last.calls],
  errors: [...beat.errors.slice(0, -1), last.errors],
});

/** @returns {Tool} */
const emptyTool = () => ({ ...EMPTY_TOOL, beat: padded(EMPTY_TOOL.beat) });
