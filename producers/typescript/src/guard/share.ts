/**
 * A process's share of a limit, and the calls that it may make by it. No process asks another one.
 *
 * A record says how many calls all processes asked for in some seconds. Each process knows how many of them it reported itself. So the
 * shares add up to what is granted, whoever calls.
 */

/** The least share, of an equal one: a process that wants to call and hasn't been seen must be able to. */
export const FLOOR = 0.04;
/** Share of a period's calls that a process may make at once after it made none. */
export const CREDIT = 0.03;
/** A limit is used little if the processes ask for less than this share of it. */
const LITTLE = 0.5;
/** A wait that is not longer is none: sums of many parts, and of two clocks, are off by so much. */
const AT_ONCE_S = 1e-6;
/** Of a call, which sums of many parts are off by. */
const ROUNDING = 1e-9;

/**
 * Return the calls a second that a process may make. The shares of all add up to `granted`, and to 4 % more with those of processes that
 * asked for nothing.
 *
 * @param granted Calls a second that all may make.
 * @param asked Calls a second that all asked for.
 * @param own Those of them that this process asked for.
 * @param processes How many are active, with this one.
 */
export function shareOf(granted: number, asked: number, own: number, processes: number): number {
  const mine = Math.min(own, asked);
  const each = Math.max(1, processes);
  // Each gets what it asked for and an equal part of the rest, or, if there is too little, a part like its demand.
  const found = asked < granted ? mine + (granted - asked) / each : (granted * mine) / asked;
  return Math.min(granted, Math.max(found, (FLOOR * granted) / each));
}

/**
 * Return how many calls a process may have left over, to make them at once.
 *
 * @param periodS Seconds in which the rate is kept.
 * @param recent Whether it asked for a call lately. Its share may be less than one call a minute, and it must come to one.
 */
export function creditOf(
  granted: number,
  asked: number,
  processes: number,
  share: number,
  periodS: number,
  recent: boolean,
): number {
  const used = !recent && asked >= LITTLE * granted;
  const each = used ? Math.min(1, (CREDIT * granted * periodS) / Math.max(1, processes)) : 1;
  return each + CREDIT * share * periodS;
}

/**
 * Calls by their turn: the generic cell rate algorithm, with a rate that changes. A call takes a place in the queue, and goes when the rate
 * has come that far. `now` is in seconds, of any clock that doesn't go back.
 */
export class Bucket {
  /** Until then the rate is 0. */
  resumes = 0;
  /** How many calls may have gone. */
  accrued: number;
  /** How many have. */
  gone = 0;
  #last = 0;
  /** The places of the calls that wait. */
  readonly #queue: number[] = [];

  constructor(
    public at: number,
    /** Calls a second. */
    public rate: number,
    /** Calls that may be left over. */
    public credit: number,
  ) {
    this.accrued = credit;
  }

  /** How many calls wait. */
  get waiting(): number {
    return this.#queue.length;
  }

  /** Go on at another rate. */
  setRate(now: number, rate: number, credit: number, resumes: number): void {
    this.advance(now);
    this.rate = rate;
    this.credit = credit;
    this.resumes = resumes;
  }

  /** Bring it to `now`. */
  advance(now: number): void {
    const elapsed = now - Math.max(this.at, Math.min(this.resumes, now));
    this.at = Math.max(this.at, now);
    if (elapsed > 0) {
      this.accrued += this.rate * elapsed;
    }
    this.accrued = Math.min(this.accrued, this.gone + this.#queue.length + this.credit);
  }

  /** Take the last place of the queue. Return it. */
  take(now: number): number {
    this.advance(now);
    this.#last += 1;
    this.#queue.push(this.#last);
    return this.#last;
  }

  /** Return the seconds until the turn of a place. If they are 0, its call goes now, or has gone. */
  waitS(now: number, place: number): number {
    this.advance(now);
    const ahead = this.#ahead(place);
    if (this.#queue[ahead] !== place) {
      return 0;
    }
    const missing = this.gone + ahead + 1 - this.accrued;
    const waitS = Math.max(0, this.resumes - now) + (missing > ROUNDING ? missing / this.rate : 0);
    if (waitS > AT_ONCE_S) {
      return waitS;
    }
    this.#queue.splice(ahead, 1);
    this.gone += 1;
    return 0;
  }

  /** Give a place back whose call isn't made: those behind it move up. */
  leave(place: number): void {
    const at = this.#ahead(place);
    if (this.#queue[at] === place) {
      this.#queue.splice(at, 1);
    } else {
      this.gone -= 1;
    }
  }

  /** Return how many places before this one wait. */
  #ahead(place: number): number {
    let [from, to] = [0, this.#queue.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.#queue[middle]! < place) {
        from = middle + 1;
      } else {
        to = middle;
      }
    }
    return from;
  }
}
