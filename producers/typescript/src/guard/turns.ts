/**
 * A call's turn: this process's share of a tool's rate limit, which the whole fleet keeps.
 *
 * The fleet's record says what all processes may make and what they asked for. This process knows what it asked for itself. From both it
 * computes its share, in memory (`share.ts`). A call over it waits for its turn, or is refused with a time.
 */
import { STALE_AFTER_S, type Follower } from "../fleet/follower.js";
import { DEMAND_S, limitOf, type CircuitView, type LimitView } from "../fleet/view.js";
import { Rejection } from "../rejection.js";
import { shortNumber } from "../text/short-number.js";
import type { Clock } from "../wire/timing.js";
import type { Caller } from "./caller.js";
import { Bucket, creditOf, shareOf } from "./share.js";

/** A process that asked for a call within so long may have one call left over. */
const RECENT_S = 120;
/** How often a call looks whose request may hear nothing from others. */
const LOOK_S = 0.25;

/** The place of a call in its tool's bucket. */
export interface Turn {
  readonly pace: ToolPace;
  /** 0: no limit was known. */
  readonly place: number;
  /** When the call asked for it, in monotonic seconds. */
  readonly askedAt: number;
  /** The seconds until it comes, as things are. */
  waitS: number;
  /** How long the call has waited for it, in seconds. */
  waitedS: number;
}

/** What this process does by the limit of one tool. */
export interface PaceStatus {
  /** Calls a second that this process may make now. Null: no limit is known. With several credentials, in all. */
  readonly share: number | null;
  /** Calls that wait for their turn now. */
  readonly waiting: number;
  /** Calls so far that waited for their turn, made or not. */
  readonly waited: number;
  /** How long they waited, in seconds. */
  readonly waitedS: number;
  /** Calls so far that were refused because their turn came too late. */
  readonly refused: number;
}

/** What this process knows of the pace of one tool, of the calls with one credential or of all others (empty). */
export class ToolPace {
  bucket: Bucket | null = null;
  /** Calls that this process said it asked for, by second of the broker's clock. */
  readonly demand = new Map<number, number>();
  /** Those that it hasn't said yet. */
  unsaid = 0;
  /** When a call was last asked for. */
  askedAt = -Infinity;
  /** Called with the next record, in the order of the calls that wait. */
  readonly waiters = new Set<() => void>();
  waited = 0;
  waitedS = 0;
  refused = 0;
  /** That of the last record, by which the bucket runs. */
  #limit: LimitView | null = null;
  #stale = false;

  constructor(readonly credential: string) {}

  /** Return how many calls were asked for since this was last called, to be sent in an event of this second. */
  say(second: number): number {
    const count = this.unsaid;
    this.unsaid = 0;
    if (count > 0) {
      this.demand.set(second, (this.demand.get(second) ?? 0) + count);
      for (const oldest of this.demand.keys()) {
        if (oldest >= second - RECENT_S) {
          break;
        }
        this.demand.delete(oldest);
      }
    }
    return count;
  }

  /** Run the bucket by the newest record. `ahead` are the seconds of the wall clock at 0 of the monotonic one. */
  follow(view: CircuitView, now: number, ahead: number, stale: boolean): void {
    const limit = limitOf(view, this.credential);
    if (limit === null) {
      this.bucket = this.#limit = null;
      return;
    }
    if (limit === this.#limit && !stale && !this.#stale) {
      return;
    }
    const { granted, periodS, pausedUntil } = limit;
    const until = Math.floor(limit.until);
    const processes = view.activeProcesses ?? 1;
    const asked = limit.asked / DEMAND_S;
    let own = 0;
    for (const [second, count] of this.demand) {
      own += until - DEMAND_S <= second && second < until ? count : 0;
    }
    const found = shareOf(granted, asked, own / DEMAND_S, processes);
    const share = stale ? Math.min(found, granted / processes) : found;
    const credit = creditOf(granted, asked, processes, share, periodS, now - this.askedAt < RECENT_S);
    this.bucket ??= new Bucket(now, share, Math.min(1, credit));
    this.bucket.setRate(now, share, credit, pausedUntil === null ? 0 : pausedUntil - ahead);
    this.#limit = limit;
    this.#stale = stale;
  }

  /** Let those that wait look again. */
  wake(): void {
    const waiters = [...this.waiters];
    this.waiters.clear();
    waiters.forEach((each) => each());
  }
}

/** The turns of all tools of the fleet whose limits are kept. */
export class Turns {
  /** By tool, those whose limits were to be kept at some time, and by credential. */
  readonly tools = new Map<string, Map<string, ToolPace>>();

  constructor(
    private readonly follower: Follower,
    private readonly clock: Clock,
    /** The gateway's time, in seconds since 1970. */
    private readonly wall: () => number,
    /** Returns by what the fleet may know the credential of a call. Empty if it can't. */
    private readonly credentialOf: (caller: Caller) => string,
    /** Whether a record may wake the calls of other requests. */
    private readonly wakes: boolean,
  ) {}

  /** Take note of a new record of a tool's own circuit. */
  onView(view: CircuitView): void {
    let paces = this.tools.get(view.tool);
    if (paces === undefined && view.keepsPace) {
      paces = new Map();
      this.tools.set(view.tool, paces);
    }
    for (const pace of paces?.values() ?? []) {
      this.#follow(pace, view);
      pace.wake();
    }
  }

  /** Ask for the turn of a call. It has come if no limit is known. */
  ask(view: CircuitView, caller: Caller): Turn {
    const pace = this.#pace(view, caller);
    this.#follow(pace, view);
    const askedAt = (pace.askedAt = this.clock.now());
    pace.unsaid += 1;
    const { bucket } = pace;
    const place = bucket?.take(askedAt) ?? 0;
    return { pace, place, askedAt, waitS: bucket?.waitS(askedAt, place) ?? 0, waitedS: 0 };
  }

  /** Return the seconds until a turn, 0 if it has come or needs to come no more. */
  look(turn: Turn, view: CircuitView | null): number {
    if (view === null || !view.keepsPace) {
      return 0;
    }
    const { pace } = turn;
    this.#follow(pace, view);
    turn.waitedS = this.clock.now() - turn.askedAt;
    turn.waitS = pace.bucket?.waitS(this.clock.now(), turn.place) ?? 0;
    return turn.waitS;
  }

  /**
   * Return how many seconds a call may still wait for its turn, 0 if it is to be refused. A turn that comes too late is no turn. But while
   * the tool isn't used up, the next record gives the process more.
   */
  mayWait(turn: Turn, view: CircuitView): number {
    const limit = limitOf(view, turn.pace.credential);
    const left = turn.askedAt + view.paceWaitS - this.clock.now();
    const late = turn.waitS > left;
    if (limit === null || (late && (limit.asked >= limit.granted * DEMAND_S || limit.pausedUntil !== null))) {
      return 0;
    }
    return Math.max(0, left);
  }

  /** Wait for a turn, or for the next record. Return null if the call is to be refused, or if a test moves the clock: nobody's turn comes then. */
  wait(turn: Turn, view: CircuitView): Promise<void> | null {
    const { later } = this.clock;
    const left = this.mayWait(turn, view);
    if (later === undefined || left <= 0) {
      return null;
    }
    const { waiters } = turn.pace;
    const seconds = Math.min(turn.waitS, left, this.wakes ? Infinity : LOOK_S);
    return new Promise((resolve) => {
      const wake = (): void => {
        cancel();
        waiters.delete(wake);
        resolve();
      };
      const cancel = later(seconds, wake);
      if (this.wakes) {
        waiters.add(wake);
      }
    });
  }

  /** Count a call that waits no more. */
  waited({ pace, waitedS }: Turn): void {
    pace.waited += 1;
    pace.waitedS += waitedS;
  }

  /** Give the turn of a call back that isn't made. */
  leave({ pace, place }: Turn): void {
    if (place > 0) {
      pace.bucket?.leave(place);
    }
  }

  /** Return the refusal of a call whose turn comes too late. */
  refusal(view: CircuitView, turn: Turn): Rejection {
    const limit = limitOf(view, turn.pace.credential);
    const shared = `shared by ${view.activeProcesses ?? 1} processes`;
    return new Rejection({
      tool: view.tool,
      state: "closed",
      source: "pace",
      reason: limit === null ? "rate limit" : `rate limit: ${inWords(limit)}, ${shared}`,
      retryAfterS: turn.waitS,
      generation: view.generation,
    });
  }

  /** Return how many calls an event says now that were asked for. */
  say(pace: ToolPace): number {
    return pace.say(Math.floor(this.wall()));
  }

  /** Return what an event says of the calls like one of `caller`, with their credential. Null: nobody wants to know. */
  asked(view: CircuitView | null, caller: Caller): { readonly asked: number; readonly credential: string } | null {
    return view === null || !this.tools.has(view.tool)
      ? null
      : { asked: this.say(this.#pace(view, caller)), credential: this.credentialOf(caller) };
  }

  status(): Readonly<Record<string, PaceStatus>> {
    return Object.fromEntries(
      [...this.tools].map(([tool, paces]) => {
        const found = { share: null as number | null, waiting: 0, waited: 0, waitedS: 0, refused: 0 };
        for (const { bucket, waited, waitedS, refused } of paces.values()) {
          found.share = bucket === null ? found.share : (found.share ?? 0) + bucket.rate;
          found.waiting += bucket?.waiting ?? 0;
          found.waited += waited;
          found.waitedS += waitedS;
          found.refused += refused;
        }
        return [tool, found];
      }),
    );
  }

  /** Return the pace of the calls with a credential: its own, if the record has a limit of it. */
  #pace(view: CircuitView, caller: Caller): ToolPace {
    const paces = this.tools.get(view.tool)!;
    const key = limitOf(view, this.credentialOf(caller))?.credential ?? "";
    let found = paces.get(key);
    if (found === undefined) {
      found = new ToolPace(key);
      paces.set(key, found);
    }
    return found;
  }

  #follow(pace: ToolPace, view: CircuitView): void {
    const now = this.clock.now();
    pace.follow(view, now, this.wall() - now, (this.follower.ageS() ?? Infinity) >= STALE_AFTER_S);
  }
}

function inWords({ rate, periodS }: LimitView): string {
  return `${shortNumber(rate * periodS, 4)} calls per ${shortNumber(periodS, 4)} s`;
}
