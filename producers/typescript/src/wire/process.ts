/** What only some runtimes have: sockets that keep a process alive, an end of the process or page, and requests that own all I/O. */
import { builtin } from "./last-requests.js";

interface NodeProcess {
  readonly pid: number;
  prependListener?(event: string, listener: () => void): void;
  off?(event: string, listener: () => void): void;
  listenerCount?(event: string): number;
  kill?(pid: number, signal: string): void;
}
interface SentHeaders {
  readonly request: { readonly origin?: unknown; readonly path?: unknown };
  readonly socket: { unref?(): void };
}
interface DiagnosticsChannel {
  subscribe(name: string, listener: (message: unknown) => void): void;
}
interface Page {
  readonly document?: unknown;
  readonly Deno?: unknown;
  addEventListener?: typeof addEventListener;
  removeEventListener?: typeof removeEventListener;
}

/** What a client does at the end of its process or page. */
export interface AtEnd {
  /** Called when a Node process has nothing left to do. It may do more. */
  readonly idle: () => void;
  /** Called when a page goes away. */
  readonly hidden: () => void;
  /** Called when a process ends now, by `process.exit`, an uncaught error, or a signal. */
  readonly exit: () => void;
}

/** Signals that end a process which doesn't listen. */
const SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP"] as const;

const nodeProcess = (globalThis as { process?: NodeProcess }).process;
const page = globalThis as Page;
const streams = new Set<string>();
let subscribed = false;
const clients = new Set<AtEnd>();
const takenBack: (() => void)[] = [];

/** Return whether a request owns all I/O that it begins, as in Cloudflare Workers: nothing goes on after its end. */
export function endsIoWithRequest(): boolean {
  return (globalThis as { navigator?: { userAgent?: string } }).navigator?.userAgent === "Cloudflare-Workers";
}

/**
 * Let a Node process end although a stream of the gateway is open. Node's fetch has no option for that, but it announces each request
 * with its socket. In other runtimes, close the client.
 */
export function keepProcessFree(base: string, path: string): void {
  const { origin, pathname } = new URL(base);
  streams.add(`${origin} ${pathname === "/" ? "" : pathname}${path}`);
  if (subscribed) {
    return;
  }
  subscribed = true;
  const channel = builtin("node:diagnostics_channel") as DiagnosticsChannel | undefined;
  channel?.subscribe?.("undici:client:sendHeaders", (message) => {
    const { request, socket } = message as SentHeaders;
    if (streams.has(`${String(request.origin)} ${String(request.path)}`)) {
      socket.unref?.();
    }
  });
}

/** Call a client at the end of its process or page. Return what takes that back. */
export function onEnd(client: AtEnd): () => void {
  if (clients.size === 0) {
    listen();
  }
  clients.add(client);
  return () => {
    if (clients.delete(client) && clients.size === 0) {
      takenBack.splice(0).forEach((each) => each());
    }
  };
}

function listen(): void {
  const all = (what: keyof AtEnd) => (): void => clients.forEach((each) => each[what]());
  if (page.document !== undefined) {
    listenOnPage("pagehide", all("hidden"));
  } else if (page.Deno !== undefined) {
    ["unload", "error", "unhandledrejection"].forEach((event) => listenOnPage(event, all("exit"))); // it has no `exit` after these
  }
  if (nodeProcess?.prependListener === undefined) {
    return;
  }
  listenTo("beforeExit", all("idle"));
  listenTo("exit", all("exit"));
  const threads = builtin("node:worker_threads") as { readonly isMainThread?: boolean } | undefined;
  if (threads?.isMainThread) {
    SIGNALS.forEach(listenToSignal);
  }
}

function listenOnPage(event: string, listener: () => void): void {
  page.addEventListener?.(event, listener);
  takenBack.push(() => page.removeEventListener?.(event, listener));
}

function listenTo(event: string, listener: () => void): void {
  try {
    nodeProcess!.prependListener!(event, listener);
    takenBack.push(() => nodeProcess!.off?.(event, listener));
  } catch {
    // a runtime without this event
  }
}

/**
 * A process that listens to a signal doesn't end by it, so this listener ends it, unless others listen too. It leaves before they are
 * called: they may count the listeners in order to do the same.
 */
function listenToSignal(signal: (typeof SIGNALS)[number]): void {
  const listener = (): void => {
    nodeProcess!.off?.(signal, listener);
    clients.forEach((each) => each.exit());
    if (nodeProcess!.listenerCount?.(signal) === 0) {
      nodeProcess!.kill?.(nodeProcess!.pid, signal);
    } else {
      queueMicrotask(() => clients.size > 0 && nodeProcess!.prependListener!(signal, listener));
    }
  };
  listenTo(signal, listener);
}
