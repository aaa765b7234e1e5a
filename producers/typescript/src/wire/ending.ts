/**
 * The end of a client, or of a wait. It is no AbortController, because a client outlives requests: Cloudflare Workers let no request touch
 * the I/O objects of another one, and an AbortController is one.
 */
export class Ending {
  #ended = false;
  readonly #listeners = new Set<() => void>();

  get ended(): boolean {
    return this.#ended;
  }

  /** Call `act` at the end. Return what takes that back. */
  listen(act: () => void): () => void {
    this.#listeners.add(act);
    return () => void this.#listeners.delete(act);
  }

  end(): void {
    this.#ended = true;
    for (const act of [...this.#listeners]) {
      try {
        act();
      } catch {
        // what it would stop belongs to a request that is over
      }
    }
    this.#listeners.clear();
  }
}
