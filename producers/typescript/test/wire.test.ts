import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it } from "node:test";
import { GatewayError, GatewayHttp } from "../src/wire/http.js";
import { mintId } from "../src/wire/ids.js";
import { serverEvents } from "../src/wire/sse.js";
import { Backoff } from "../src/wire/timing.js";
import { Warnings } from "../src/wire/warnings.js";

async function read(parts: readonly Uint8Array[]): Promise<string[][]> {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      parts.forEach((part) => controller.enqueue(part));
      controller.close();
    },
  });
  const found: string[][] = [];
  for await (const { event, data, id } of serverEvents(body, () => {})) {
    found.push([event, data, id]);
  }
  return found;
}

describe("server-sent events", () => {
  const stream =
    'id: 1\nevent: a\ndata: {"x":\ndata: "é😀"}\n\n: comment\n\nevent: lost\n\ndata:plain\r\n\r\nid\ndata: z\r\rdata: unfinished';
  const expected = [
    ["a", '{"x":\n"é😀"}', "1"],
    ["message", "plain", "1"],
    ["message", "z", ""],
  ];

  it("are read with every kind of line end, and an unfinished one is dropped", async () => {
    assert.deepEqual(await read([new TextEncoder().encode(stream)]), expected);
  });

  it("are the same wherever the network cuts them", async () => {
    const bytes = new TextEncoder().encode(stream);
    for (let cut = 1; cut < bytes.length; cut += 1) {
      assert.deepEqual(await read([bytes.slice(0, cut), bytes.slice(cut)]), expected, `cut at ${cut}`);
    }
    assert.deepEqual(await read(Array.from(bytes, (byte) => Uint8Array.of(byte))), expected);
  });

  it("an event without end is refused", async () => {
    const part = new TextEncoder().encode("data: ".padEnd(16 * 1024 * 1024, "x"));
    await assert.rejects(read([part, part, part, part, part]), RangeError);
  });
});

describe("requests", () => {
  it("a redirect is an error, so the token goes nowhere else", async () => {
    const seen: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      seen.push(request.url);
      response.writeHead(302, { location: "/elsewhere" }).end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const http = new GatewayHttp(`http://127.0.0.1:${(server.address() as AddressInfo).port}/base/`, "t");
    await assert.rejects(http.request("/v1/x", { method: "GET", timeoutS: 60 }), GatewayError);
    server.closeAllConnections();
    server.close();
    assert.deepEqual(seen, ["/base/v1/x"]);
  });

  it("a body that never ends has a limit too", async () => {
    const server = createServer((_, response) => {
      response.write("begins");
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const http = new GatewayHttp(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, undefined);
    await assert.rejects(
      http.request("/", { method: "GET", timeoutS: 0.1 }),
      /did not answer within 0.1 s|can't be reached/,
    );
    server.closeAllConnections();
    server.close();
  });
});

describe("small parts", () => {
  it("waits grow up to the limit, are spread, and obey what the gateway asks", () => {
    const most = new Backoff(1, 8, () => 1);
    assert.deepEqual([most.next(), most.next(), most.next(), most.next(), most.next()], [1, 2, 4, 8, 8]);
    most.reset();
    assert.equal(most.next(), 1);
    assert.equal(new Backoff(1, 8, () => 0.5).next(), 0.5);
    assert.equal(new Backoff(1, 8, () => 0).next(3), 3);
    assert.equal(new Backoff(1, 8, () => 0).next(1e9), 80);
  });

  it("identifiers are unique, and rise with the time", async () => {
    const first = mintId();
    await new Promise((resolve) => setTimeout(resolve, 3));
    const ids = Array.from({ length: 1000 }, mintId);
    assert.equal(new Set(ids).size, 1000);
    assert.ok(ids.every((id) => id > first));
  });

  it("a warning is given once a minute, and a function that fails harms nothing", () => {
    let now = 0;
    const seen: string[] = [];
    const warnings = new Warnings(
      (message) => {
        seen.push(message);
        throw new Error("broken");
      },
      () => now,
    );
    warnings.warn("a");
    warnings.warn("a");
    now = 60;
    warnings.warn("a");
    warnings.warn("b");
    assert.deepEqual(seen, ["a", "a", "b"]);
  });
});
