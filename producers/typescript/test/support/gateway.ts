/** A small HTTP server that speaks the gateway's contract, as far as a client sees it. It stands in for the network in these tests. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";

export type Json = Record<string, unknown>;

export interface Received {
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

/** What a request gets: a status with a body and headers, or a broken connection. */
export type Answer =
  { readonly status: number; readonly body?: unknown; readonly headers?: Record<string, string> } | "cut" | "hang";
type Script = (received: Received) => Answer;

export class TestGateway {
  /** Requests by path, without those of streams. */
  readonly received: Received[] = [];
  /** The tenant of the token. */
  tenant = "";
  /** The headers of each stream that was opened. */
  readonly streamsOpened: { headers: IncomingMessage["headers"]; path: string }[] = [];
  readonly executions: Json[] = [];
  circuits: Record<string, Json> = {};
  /** Answers to `POST /v1/executions` before those by default, in order. */
  readonly nextExecutions: Answer[] = [];
  decide: Script = () => ({
    status: 200,
    body: { allowed: false, state: "half_open", source: "fleet", reason: "probes are out", retry_after_s: null },
  });
  outcome: Script = () => ({ status: 204 });
  /** Whether a new stream gets a snapshot, if it is due, and a heartbeat. */
  greet = true;
  /** Whether this gateway is up to date, as the first heartbeat of a stream says. */
  fresh = true;
  /** Whether the gateway knows the ids that streams are opened again with. If not, they get a snapshot. */
  knowsIds = true;
  refuseStreams: Answer | null = null;
  /** Whether pages of all origins may read the answers. */
  allowsPages = false;
  readonly #server: Server;
  readonly #streams = new Set<ServerResponse>();
  readonly #sockets = new Set<Socket>();
  #cursor = 0;
  #port = 0;

  constructor() {
    this.#server = createServer((request, response) => void this.#serve(request, response));
    this.#server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get openStreams(): number {
    return this.#streams.size;
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(this.#port, "127.0.0.1", resolve));
    this.#port = (this.#server.address() as AddressInfo).port;
    return this;
  }

  /** Close all connections and the port. `start` opens the same port again. */
  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#sockets.forEach((socket) => socket.destroy());
    this.#streams.clear();
    await closed;
  }

  /** Break the streams, as a restart of the gateway does. */
  dropStreams(): void {
    this.#streams.forEach((stream) => stream.destroy());
    this.#streams.clear();
  }

  /** Set a circuit, and tell all streams. */
  publish(record: Json): void {
    this.circuits[record["circuit_id"] as string] = record;
    this.send("circuit", record);
  }

  /** Send an event to all streams. */
  send(event: string, data: unknown): void {
    this.#cursor += 1;
    this.#streams.forEach((stream) => stream.write(this.#event(event, data)));
  }

  /** Send text to all streams as it is. */
  raw(text: string): void {
    this.#streams.forEach((stream) => stream.write(text));
  }

  of(path: string): Received[] {
    return this.received.filter((each) => each.path === path);
  }

  #event(event: string, data: unknown): string {
    return `id: c${this.#cursor}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? "";
    if (this.allowsPages) {
      response.setHeader("access-control-allow-origin", "*");
      response.setHeader(
        "access-control-allow-headers",
        "authorization, content-type, last-event-id, switchgear-resent",
      );
    }
    if (request.method === "OPTIONS") {
      response.writeHead(204).end();
      return;
    }
    if (path.startsWith("/v1/circuits/stream")) {
      this.streamsOpened.push({ headers: request.headers, path });
      if (this.refuseStreams !== null) {
        this.#answer(response, this.refuseStreams);
        return;
      }
      const whose = this.tenant === "" ? {} : { "switchgear-tenant": encodeURIComponent(this.tenant) };
      response.writeHead(200, { "content-type": "text/event-stream", ...whose });
      response.flushHeaders();
      this.#streams.add(response);
      response.on("close", () => this.#streams.delete(response));
      if (this.greet) {
        if (request.headers["last-event-id"] === undefined || !this.knowsIds) {
          response.write(this.#event("snapshot", { circuits: this.circuits }));
        }
        response.write(this.#event("heartbeat", { fresh: this.fresh }));
      }
      return;
    }
    const parts: Buffer[] = [];
    for await (const part of request) {
      parts.push(part as Buffer);
    }
    const received = { path, headers: request.headers, body: Buffer.concat(parts).toString() };
    this.received.push(received);
    if (path === "/v1/executions") {
      const answer = this.nextExecutions.shift() ?? { status: 200 };
      const lines = received.body.split("\n").map((line) => JSON.parse(line) as Json);
      if (answer !== "cut" && answer !== "hang" && answer.status === 200) {
        this.executions.push(...lines);
        this.#answer(response, { ...answer, body: answer.body ?? { accepted: lines.length, rejected: [] } });
      } else {
        this.#answer(response, answer);
      }
    } else if (path === "/v1/decide") {
      this.#answer(response, this.decide(received));
    } else if (path === "/v1/outcome") {
      const detail = wrongIn(JSON.parse(received.body) as Json);
      this.#answer(response, detail === null ? this.outcome(received) : { status: 422, body: { detail } });
    } else {
      this.#answer(response, { status: 404 });
    }
  }

  #answer(response: ServerResponse, answer: Answer): void {
    if (answer === "cut") {
      response.destroy();
    } else if (answer !== "hang") {
      response.writeHead(answer.status, { "content-type": "application/json", ...answer.headers });
      response.end(answer.body === undefined ? "" : JSON.stringify(answer.body));
    }
  }
}

const OUTCOME_FIELDS = [
  "permit",
  "status",
  "error_class",
  "error_type",
  "error_message",
  "retry_after_s",
  "duration_ms",
  "input_tokens",
  "output_tokens",
  "cost_usd",
  "metadata",
];

/** Return why the gateway refuses an outcome, or null. */
function wrongIn(outcome: Json): string | null {
  const { status } = outcome;
  const unknown = Object.keys(outcome).find((name) => !OUTCOME_FIELDS.includes(name));
  if (unknown !== undefined) {
    return `${unknown}: there is no such field.`;
  }
  if (!["success", "error", "timeout", "ignored"].includes(status as string)) {
    return "status: it is unknown.";
  }
  if ((status === "success" || status === "ignored") && "error_class" in outcome) {
    return `error_class: an outcome of status ${status} has none.`;
  }
  if (status === "success" && ("error_type" in outcome || "error_message" in outcome)) {
    return "error_type, error_message: a success has no error.";
  }
  return null;
}

/** Return the record of a circuit. */
export function record(tool: string, state: string, version: number, more: Json = {}): Json {
  return {
    circuit_id: tool,
    tool_name: tool,
    scope: "tool",
    state,
    version,
    generation: version,
    changed_at: new Date().toISOString(),
    ...more,
  };
}

/** Return an instant so many seconds from now. */
export function inSeconds(seconds: number): string {
  return new Date(Date.now() + seconds * 1000).toISOString();
}

/** Wait until something holds, for a minute at most. */
export async function until(holds: () => boolean, what: string): Promise<void> {
  const end = Date.now() + 60_000;
  while (!holds()) {
    if (Date.now() > end) {
      throw new Error(`waited in vain: ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
