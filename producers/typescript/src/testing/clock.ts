import type { Clock } from "../wire/timing.js";

/** Both clocks of a client, which a test moves by hand. */
export class ManualClock implements Clock {
  #seconds = 0;

  /** @param startedAt The wall clock at the beginning, in seconds since 1970. */
  constructor(readonly startedAt: number = Date.UTC(2026, 0, 1) / 1000) {}

  readonly now = (): number => this.#seconds;
  readonly wall = (): number => this.startedAt + this.#seconds;

  advance(seconds: number): void {
    this.#seconds += seconds;
  }
}
