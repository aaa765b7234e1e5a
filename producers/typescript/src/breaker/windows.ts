/**
 * The windows over which calls are counted: the last N calls, or the last N seconds. Both have the same methods, so the rules need
 * not know which one they read. Times are in seconds.
 */

/** The oldest pane leaves as a whole, so a window is exact to a twentieth of its size. */
const DEFAULT_PANES = 20;
const FAILED = 1;
const SLOW = 2;

export interface CallWindow {
  calls: number;
  failed: number;
  slow: number;
  ignored: number;
  tokens: number;
  /** Number of the newest call or pane. Reporters use it as their stamp. */
  readonly stamp: number;
  /** Stamp of the oldest call or pane that still counts. */
  readonly oldest: number;
  readonly size: number;
  /** Whether the window starts empty at fixed times instead of sliding. */
  readonly fixed: boolean;
  /** Forget every call. */
  clear(): void;
  /** Count one call, and the tokens it wasted. */
  add(now: number, failed: boolean, slow: boolean, tokens: number): void;
  /** Count that a call failed which was counted as slow at about `at`. */
  failSlow(now: number, at: number, tokens: number): void;
  addIgnored(now: number): void;
  /** Drop what is too old at `now`. */
  roll(now: number): void;
  /** Return whether a call began in an earlier pane than the one at `now`. In a fixed window that is an earlier window. */
  beganEarlier(startedAt: number, now: number): boolean;
}

/** Counts over the last `size` calls. Ignored calls are counted apart and take no place. */
export class CountWindow implements CallWindow {
  calls = 0;
  failed = 0;
  slow = 0;
  ignored = 0;
  tokens = 0;
  stamp = 0;
  readonly fixed = false;
  #entries: { flags: number; tokens: number }[] = [];
  #next = 0;

  constructor(readonly size: number) {}

  get oldest(): number {
    return this.stamp - this.size + 1;
  }

  clear(): void {
    this.#entries = [];
    this.#next = 0;
    this.calls = this.failed = this.slow = this.ignored = this.tokens = 0;
  }

  add(_now: number, failed: boolean, slow: boolean, tokens: number): void {
    const entry = { flags: (failed ? FAILED : 0) | (slow ? SLOW : 0), tokens: failed ? tokens : 0 };
    this.stamp += 1;
    this.#count(1, entry);
    if (this.calls < this.size) {
      this.calls += 1;
      this.#entries.push(entry);
      return;
    }
    const leaving = this.#entries[this.#next]!;
    this.#entries[this.#next] = entry;
    this.#next = (this.#next + 1) % this.size;
    this.#count(-1, leaving);
  }

  /** The call keeps its place, if it is still in the window. */
  failSlow(now: number, _at: number, tokens: number): void {
    const size = this.#entries.length;
    for (let back = 1; this.slow > 0 && back <= size; back += 1) {
      const place = (this.#next - back + size) % size;
      if (this.#entries[place]!.flags === SLOW) {
        this.#entries[place] = { flags: FAILED | SLOW, tokens };
        this.#count(1, { flags: FAILED, tokens });
        return;
      }
    }
    this.add(now, true, false, tokens);
  }

  addIgnored(): void {
    this.ignored += 1;
  }

  /** Do nothing: time moves no call out of this window. */
  roll(): void {}

  beganEarlier(): boolean {
    return false;
  }

  #count(sign: 1 | -1, entry: { flags: number; tokens: number }): void {
    this.failed += sign * (entry.flags & FAILED);
    this.slow += sign * (entry.flags >> 1);
    this.tokens += sign * entry.tokens;
  }
}

interface Pane {
  stamp: number;
  calls: number;
  failed: number;
  slow: number;
  ignored: number;
  tokens: number;
}

/** Counts over the last `size` seconds, exact to one pane. If the clock goes backwards, calls count in the newest pane. */
export class TimeWindow implements CallWindow {
  calls = 0;
  failed = 0;
  slow = 0;
  ignored = 0;
  tokens = 0;
  stamp: number;
  readonly fixed: boolean;
  readonly #count: number;
  readonly #width: number;
  #panes: Pane[] = [];

  constructor(
    readonly size: number,
    panes: number | null,
    now: number,
  ) {
    this.#count = panes ?? Math.max(1, Math.min(DEFAULT_PANES, Math.trunc(size)));
    this.#width = size / this.#count;
    this.fixed = this.#count === 1;
    this.stamp = floorDivide(now, this.#width);
    this.clear();
  }

  get oldest(): number {
    return this.stamp - this.#count + 1;
  }

  clear(): void {
    this.#panes = [emptyPane(this.stamp)];
    this.calls = this.failed = this.slow = this.ignored = this.tokens = 0;
  }

  add(now: number, failed: boolean, slow: boolean, tokens: number): void {
    this.roll(now);
    const newest = this.#panes.at(-1)!;
    for (const counts of [newest, this]) {
      counts.calls += 1;
      counts.failed += failed ? 1 : 0;
      counts.slow += slow ? 1 : 0;
      counts.tokens += failed ? tokens : 0;
    }
  }

  /**
   * The call moves to `now`. Reports take different times to arrive, so it may be in a pane beside that of `at`. If its pane has left
   * the window, the call counts anew.
   */
  failSlow(now: number, at: number, tokens: number): void {
    this.roll(now);
    const around = floorDivide(at, this.#width);
    for (const stamp of [around, around + 1, around - 1]) {
      const pane = this.#panes.find((each) => each.stamp === stamp);
      if (pane !== undefined && pane.slow > 0 && pane.calls > pane.failed) {
        for (const counts of [pane, this]) {
          counts.calls -= 1;
          counts.slow -= 1;
        }
        this.add(now, true, true, tokens);
        return;
      }
    }
    this.add(now, true, false, tokens);
  }

  addIgnored(now: number): void {
    this.roll(now);
    this.#panes.at(-1)!.ignored += 1;
    this.ignored += 1;
  }

  roll(now: number): void {
    const stamp = floorDivide(now, this.#width);
    if (stamp <= this.stamp) {
      return;
    }
    this.stamp = stamp;
    this.#panes.push(emptyPane(stamp));
    while (this.#panes[0]!.stamp < this.oldest) {
      const old = this.#panes.shift()!;
      this.calls -= old.calls;
      this.failed -= old.failed;
      this.slow -= old.slow;
      this.ignored -= old.ignored;
      this.tokens -= old.tokens;
    }
  }

  beganEarlier(startedAt: number, now: number): boolean {
    return floorDivide(startedAt, this.#width) < floorDivide(now, this.#width);
  }
}

function emptyPane(stamp: number): Pane {
  return { stamp, calls: 0, failed: 0, slow: 0, ignored: 0, tokens: 0 };
}

/** Return the whole quotient as Python's `//` does. `Math.floor(1 / 0.1)` is 10, although 0.1 is a little more than a tenth. */
function floorDivide(value: number, width: number): number {
  const quotient = (value - (value % width)) / width;
  const whole = Math.floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}
