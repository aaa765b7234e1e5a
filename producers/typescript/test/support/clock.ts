import type { Clock } from "../../src/wire/timing.js";

/** Clocks that a test moves by hand. */
export class TestClock implements Clock {
  seconds = 0;
  /** Seconds since 1970 at the monotonic zero. */
  offset = 1_700_000_000;

  readonly now = (): number => this.seconds;
  readonly wall = (): number => this.offset + this.seconds;

  advance(seconds: number): void {
    this.seconds += seconds;
  }
}
