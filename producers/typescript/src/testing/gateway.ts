/** A gateway in memory, for tests of programs that use this package. */
import { Switchgear, type SwitchgearOptions } from "../switchgear.js";
import type { Fetch, FetchAnswer, FetchRequest } from "../wire/http.js";
import { ManualClock } from "./clock.js";

/** An execution as the gateway gets it, with the names of the wire. */
export type SentEvent = Readonly<Record<string, unknown>>;

const PERMIT_S = 30;

/**
 * A gateway without a network. Its `fetch` is that of the clients that `gear` makes.
 *
 * It keeps the events, and a circuit is open when the test says so: it counts nothing. A call after `openUntil` gets a probe's permit, and a
 * probe that succeeds closes the circuit.
 */
export class InMemoryGateway {
  readonly clock = new ManualClock();
  readonly #events: SentEvent[] = [];
  readonly #circuits = new Map<string, Record<string, unknown>>();
  readonly #streams = new Set<CircuitStream>();
  readonly #gears: Switchgear[] = [];
  #permits = 0;
  /** The tools of the permits that are out. */
  readonly #out = new Map<string, string>();

  /** Return a client of this gateway. It knows the circuits from its first call on. */
  gear(options: Partial<SwitchgearOptions> = {}): Switchgear {
    const gear = new Switchgear({
      url: "http://gateway.invalid",
      fetch: this.fetch,
      clock: this.clock,
      startWaitS: 60,
      ...options,
    });
    this.#gears.push(gear);
    return gear;
  }

  /** Return the events of a tool, or all, in the order in which the calls ended. Those that wait at a client are sent first. */
  async events(tool?: string): Promise<readonly SentEvent[]> {
    for (const gear of this.#gears) {
      await gear.flush();
    }
    return this.#events.filter((each) => tool === undefined || each["tool_name"] === tool);
  }

  /**
   * Open a circuit in all clients.
   *
   * @param openForS When a probe may go, in seconds from now. Without it an operator keeps the circuit open.
   */
  async openCircuit(tool: string, openForS?: number): Promise<void> {
    const state = openForS === undefined ? "forced_open" : "open";
    const until = openForS === undefined ? null : new Date((this.clock.wall() + openForS) * 1000).toISOString();
    await this.publish(tool, state, { open_until: until, mode: openForS === undefined ? "forced_open" : "enforce" });
  }

  async closeCircuit(tool: string): Promise<void> {
    await this.publish(tool, "closed", {});
  }

  /**
   * Publish a record of a tool's circuit to all clients.
   *
   * @param state The circuit's state, such as `closed`.
   * @param fields Other fields with the names of the wire, such as `pace` for a rate limit.
   */
  async publish(tool: string, state: string, fields: Readonly<Record<string, unknown>> = {}): Promise<void> {
    const version = this.#version(tool) + 1;
    const record = { circuit_id: tool, tool_name: tool, scope: "tool", state, version, generation: version, ...fields };
    this.#circuits.set(tool, record);
    this.#streams.forEach((stream) => stream.send("circuit", record));
    await this.#read();
  }

  /** Return the state of a circuit. */
  state(tool: string): string {
    return (this.#circuits.get(tool)?.["state"] as string | undefined) ?? "closed";
  }

  /** Move the clock. */
  async advance(seconds: number): Promise<void> {
    this.clock.advance(seconds);
    this.#streams.forEach((stream) => stream.send("heartbeat", { fresh: true }));
    await this.#read();
  }

  /** End the clients. */
  async close(): Promise<void> {
    for (const gear of this.#gears) {
      await gear.close();
    }
  }

  /** In place of the runtime's `fetch`, for clients that a test makes itself. */
  readonly fetch: Fetch = async (url, request) => {
    const { pathname } = new URL(url);
    if (pathname === "/v1/circuits/stream") {
      return this.#stream(request);
    }
    const lines = (request.body ?? "").split("\n").map((line) => JSON.parse(line) as Record<string, unknown>);
    if (pathname === "/v1/executions") {
      this.#events.push(...lines);
      return answer({ accepted: lines.length, rejected: [] });
    }
    if (pathname === "/v1/decide") {
      return answer(this.#decide(String(lines[0]!["tool"])));
    }
    return answer(await this.#outcome(lines[0]!));
  };

  #decide(tool: string): unknown {
    this.#permits += 1;
    const permit = `permit-${this.#permits}`;
    this.#out.set(permit, tool);
    return { allowed: true, permit, probe: true, generation: this.#version(tool), expires_in_s: PERMIT_S };
  }

  /** Record the end of a probe as the real gateway does, under a lease. */
  async #outcome(given: Record<string, unknown>): Promise<unknown> {
    const { permit, status, ...rest } = given;
    const tool = this.#out.get(String(permit)) ?? "";
    if (this.#out.delete(String(permit)) && status !== "ignored") {
      this.#events.push({ tool_name: tool, status, lease_id: permit, ...rest });
      if (status === "success") {
        await this.closeCircuit(tool);
      }
    }
    return {};
  }

  #version(tool: string): number {
    return (this.#circuits.get(tool)?.["version"] as number | undefined) ?? 0;
  }

  #stream({ signal }: FetchRequest): FetchAnswer {
    const stream = new CircuitStream(() => this.#streams.delete(stream));
    this.#streams.add(stream);
    (signal as AbortSignal).addEventListener("abort", () => stream.end());
    stream.send("snapshot", { circuits: Object.fromEntries(this.#circuits) });
    stream.send("heartbeat", { fresh: true });
    return { ...answer({}), body: stream.body };
  }

  /** Wait until all clients have read what was sent. */
  async #read(): Promise<void> {
    while ([...this.#streams].some((stream) => !stream.isRead)) {
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }
}

/** A stream that knows when its reader has read everything: it asks for more. */
class CircuitStream {
  readonly body: ReadableStream<Uint8Array>;
  readonly #waiting: string[] = [];
  #asks: ReadableStreamDefaultController<Uint8Array> | null = null;
  #controller: ReadableStreamDefaultController<Uint8Array> | null = null;
  #asked: (() => void) | null = null;
  #ended = false;

  constructor(private readonly over: () => void) {
    this.body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        pull: (controller) => {
          this.#asks = controller;
          return new Promise<void>((resolve) => {
            this.#asked = resolve;
            this.#answer();
          });
        },
        cancel: () => this.end(),
      },
      { highWaterMark: 0 },
    );
  }

  get isRead(): boolean {
    return this.#ended || (this.#waiting.length === 0 && this.#asks !== null);
  }

  send(event: string, data: unknown): void {
    this.#waiting.push(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
    this.#answer();
  }

  end(): void {
    if (!this.#ended) {
      this.#ended = true;
      this.over();
      this.#asked?.();
      try {
        this.#controller?.close();
      } catch {
        // its reader has left
      }
    }
  }

  #answer(): void {
    if (this.#asks !== null && this.#waiting.length > 0) {
      const controller = this.#asks;
      this.#asks = null;
      controller.enqueue(new TextEncoder().encode(this.#waiting.splice(0).join("")));
      this.#asked?.();
    }
  }
}

function answer(body: unknown): FetchAnswer {
  return { ok: true, status: 200, headers: { get: () => null }, body: null, text: async () => JSON.stringify(body) };
}
