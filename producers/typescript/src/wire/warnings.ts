/** A function of yours for warnings. */
export type OnWarning = (message: string, error?: unknown) => void;

const AGAIN_AFTER_S = 60;
const MOST_MESSAGES = 1_000;

/** Warnings of one client: each text once a minute. A warning never fails its caller. */
export class Warnings {
  readonly #last = new Map<string, number>();

  constructor(
    private readonly report: OnWarning,
    private readonly now: () => number,
  ) {}

  warn(message: string, error?: unknown): void {
    const last = this.#last.get(message);
    const now = this.now();
    if (last !== undefined && now < last + AGAIN_AFTER_S) {
      return;
    }
    if (this.#last.size >= MOST_MESSAGES) {
      this.#last.clear();
    }
    this.#last.set(message, now);
    try {
      this.report(message, error);
    } catch {
      // the function of the user failed; a warning about it would fail in the same way
    }
  }

  /** Call a user's function. If it fails, warn and return null. */
  attempt<T>(message: string, act: () => T): T | null {
    try {
      return act();
    } catch (error) {
      this.warn(message, error);
      return null;
    }
  }
}
