/** What only some runtimes have: an end of the process or page, and sockets that keep a process alive. */

interface NodeProcess {
  getBuiltinModule?(name: string): unknown;
  on?(event: string, listener: () => void): void;
  off?(event: string, listener: () => void): void;
}
interface SentHeaders {
  readonly request: { readonly origin?: unknown; readonly path?: unknown };
  readonly socket: { unref?(): void };
}
interface DiagnosticsChannel {
  subscribe(name: string, listener: (message: unknown) => void): void;
}

const nodeProcess = (globalThis as { process?: NodeProcess }).process;
const streams = new Set<string>();
let subscribed = false;

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
  const channel = nodeProcess?.getBuiltinModule?.("node:diagnostics_channel") as DiagnosticsChannel | undefined;
  channel?.subscribe("undici:client:sendHeaders", (message) => {
    const { request, socket } = message as SentHeaders;
    if (streams.has(`${String(request.origin)} ${String(request.path)}`)) {
      socket.unref?.();
    }
  });
}

/**
 * Call `idle` when a Node process has nothing left to do, and `hidden` when a page goes away. Return what takes both back.
 */
export function onExit(idle: () => void, hidden: () => void): () => void {
  const page = globalThis as {
    addEventListener?: typeof addEventListener;
    removeEventListener?: typeof removeEventListener;
    document?: unknown;
  };
  const hasPage = page.document !== undefined && page.addEventListener !== undefined;
  nodeProcess?.on?.("beforeExit", idle);
  if (hasPage) {
    page.addEventListener!("pagehide", hidden);
  }
  return () => {
    nodeProcess?.off?.("beforeExit", idle);
    if (hasPage) {
      page.removeEventListener!("pagehide", hidden);
    }
  };
}
