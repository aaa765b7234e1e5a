/** Clocks, waits and back-off. Times are in seconds. */
import type { Ending } from "./ending.js";

/** Both clocks of a client. Tests give their own. */
export interface Clock {
  /** Monotonic seconds. */
  now(): number;
  /** Seconds since 1970. */
  wall(): number;
  /** Calls a function after so many seconds, and keeps the process alive for it. Returns what cancels it. Without it, no call waits for its turn. */
  readonly later?: (seconds: number, act: () => void) => () => void;
}

export const SYSTEM_CLOCK: Clock = {
  now: () => performance.now() / 1000,
  wall: () => Date.now() / 1000,
  later(seconds, act) {
    const timer = setTimeout(act, seconds * 1000);
    return () => clearTimeout(timer);
  },
};

/** Waits that grow from one failure to the next, with full jitter (Brooker, AWS Architecture Blog, 2015). */
export class Backoff {
  #failures = 0;

  constructor(
    readonly firstS: number,
    readonly mostS: number,
    readonly random: () => number = Math.random,
  ) {}

  /** Return the next wait. It is not shorter than what the gateway asked for. */
  next(retryAfterS: number | null = null): number {
    const most = Math.min(this.mostS, this.firstS * 2 ** this.#failures);
    this.#failures = Math.min(this.#failures + 1, 30);
    const spread = this.random() * most;
    return retryAfterS === null ? spread : Math.min(retryAfterS, 10 * this.mostS) + spread;
  }

  /** Begin with the first wait again. */
  reset(): void {
    this.#failures = 0;
  }
}

/** Call a function later, without keeping the process alive for it. Return what cancels it. It never throws: a module of a Worker has no timers. */
export function later(seconds: number, act: () => void): () => void {
  let timer: unknown;
  try {
    timer = setTimeout(act, seconds * 1000);
  } catch {
    return () => {};
  }
  if (typeof timer === "object" && timer !== null && "unref" in timer) {
    (timer as { unref(): void }).unref();
  } else {
    (globalThis as { Deno?: { unrefTimer?(id: number): void } }).Deno?.unrefTimer?.(timer as number);
  }
  return () => clearTimeout(timer as ReturnType<typeof setTimeout>);
}

/** Wait, or end early with one of the endings. It doesn't keep the process alive. */
export function pause(seconds: number, ...endings: readonly Ending[]): Promise<void> {
  return new Promise((resolve) => {
    if (endings.some((each) => each.ended)) {
      resolve();
      return;
    }
    const end = (): void => {
      cancel();
      forget.forEach((each) => each());
      resolve();
    };
    const cancel = later(seconds, end);
    const forget = endings.map((each) => each.listen(end));
  });
}

/** Wait until `holds` returns true, for `seconds` at most. It looks every few milliseconds, and shares no promise with other requests. */
export async function poll(seconds: number, holds: () => boolean): Promise<boolean> {
  const end = SYSTEM_CLOCK.now() + seconds;
  while (!holds()) {
    if (SYSTEM_CLOCK.now() >= end) {
      return false;
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return true;
}

/** Wait for `work`, for `seconds` at most. It keeps the process alive for no longer than that takes. */
export async function atMost(seconds: number, work: Promise<unknown>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const limit = new Promise((resolve) => {
    timer = setTimeout(resolve, Math.max(0, seconds) * 1000);
  });
  await Promise.race([work, limit]).finally(() => clearTimeout(timer));
}
