/**
 * The last requests of a Node process, which ends and waits for no promise: a thread sends them while this one is blocked. Deno and Bun
 * have the same modules.
 */

/** A request without a wait for its answer. */
export interface LastRequest {
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body: string;
  /** How many events it carries. */
  readonly count: number;
  /** Called with whether the gateway has taken it. */
  readonly ended: (taken: boolean) => void;
}

interface Threads {
  readonly isMainThread: boolean;
  readonly Worker: new (
    code: string,
    options: { eval: boolean; workerData: unknown; execArgv: string[]; stdout: boolean; stderr: boolean },
  ) => { unref(): void; on(event: "error", listener: () => void): void };
}

/** It sends one request after the other, and notes the status of each after the flag that says whether it is done. */
const THREAD = `
const { requests, states, waitMs } = require("node:worker_threads").workerData;
const end = Date.now() + waitMs;
(async () => {
  for (const [place, { url, headers, body }] of requests.entries()) {
    try {
      const signal = AbortSignal.timeout(Math.max(1, end - Date.now()));
      const response = await fetch(url, { method: "POST", headers, body, redirect: "manual", signal });
      await response.text();
      Atomics.store(states, place + 1, response.status);
    } catch {}
  }
  Atomics.store(states, 0, 1);
  Atomics.notify(states, 0);
})();`;

/**
 * Send requests while this thread waits, for `waitS` at most. Return how many events they lose.
 *
 * It throws nothing. Where a runtime has no threads, all are lost.
 */
export function sendLast(
  base: string,
  authorization: Record<string, string>,
  requests: readonly LastRequest[],
  waitS: number,
): number {
  const states = new Int32Array(new SharedArrayBuffer(4 * (requests.length + 1)));
  try {
    const { Worker } = builtin("node:worker_threads") as Threads;
    const sent = requests.map(({ path, headers, body }) => ({
      url: `${base}${path}`,
      headers: { ...headers, ...authorization },
      body,
    }));
    const waitMs = waitS * 1000;
    const workerData = { requests: sent, states, waitMs };
    const worker = new Worker(THREAD, { eval: true, workerData, execArgv: [], stdout: true, stderr: true });
    worker.on("error", () => {});
    worker.unref();
    Atomics.wait(states, 0, 0, waitMs);
  } catch {
    // no threads here, or the program may start none
  }
  let lost = 0;
  requests.forEach(({ count, ended }, place) => {
    const status = Atomics.load(states, place + 1);
    const taken = status >= 200 && status < 300;
    ended(taken);
    lost += taken ? 0 : count;
  });
  return lost;
}

/** Return a module of Node, or undefined. A bundler finds no import of it. */
export function builtin(name: string): unknown {
  const { process } = globalThis as { process?: { getBuiltinModule?(name: string): unknown } };
  return process?.getBuiltinModule?.(name);
}
