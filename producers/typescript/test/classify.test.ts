import assert from "node:assert/strict";
import { createServer } from "node:http";
import { createServer as createTcpServer, type AddressInfo } from "node:net";
import { describe, it } from "node:test";
import { APICallError, InvalidToolInputError, LoadAPIKeyError, RetryError } from "ai";
import { McpError } from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";
import { CallTimeoutError, CircuitOpenError, classify, classifyResult, outageInText } from "../src/index.js";

function carrying(fields: Record<string, unknown>, message = "failed"): Error {
  return Object.assign(new Error(message), fields);
}

async function thrownBy(act: () => Promise<unknown>): Promise<unknown> {
  return act().then(
    () => assert.fail("it did not throw"),
    (error: unknown) => error,
  );
}

describe("errors that real clients throw", () => {
  it("fetch to a closed port is transport", async () => {
    const error = await thrownBy(() => fetch("http://127.0.0.1:9/"));
    assert.equal(classify(error).errorClass, "transport");
  });

  it("fetch of a name that does not exist is transport", async () => {
    const error = await thrownBy(() => fetch("http://does-not-exist.invalid/"));
    assert.equal(classify(error).errorClass, "transport");
  });

  it("fetch of a server that hangs up is transport", async () => {
    const server = createTcpServer((socket) => socket.once("data", () => socket.destroy()));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const error = await thrownBy(() => fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`));
    server.close();
    assert.equal(classify(error).errorClass, "transport");
  });

  it("fetch with a time limit is timeout, and with an aborted signal cancelled", async () => {
    const server = createServer(() => {});
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    assert.equal(classify(await thrownBy(() => fetch(url, { signal: AbortSignal.timeout(20) }))).errorClass, "timeout");
    assert.equal(classify(await thrownBy(() => fetch(url, { signal: AbortSignal.abort() }))).errorClass, "cancelled");
    server.closeAllConnections();
    server.close();
  });

  it("an answer that is no JSON is server, and bad arguments are invalid_input", async () => {
    assert.equal(classify(await thrownBy(() => new Response("<html>").json())).errorClass, "server");
    assert.equal(classify(z.object({ a: z.string() }).safeParse({}).error).errorClass, "invalid_input");
  });

  it("MCP errors have the class of their code", () => {
    assert.equal(classify(new McpError(-32000, "Connection closed")).errorClass, "transport");
    assert.equal(classify(new McpError(-32001, "Request timed out")).errorClass, "timeout");
    assert.equal(classify(new McpError(-32602, "wrong")).errorClass, "invalid_input");
    assert.equal(classify(new McpError(-32603, "broken")).errorClass, "server");
    assert.equal(classify(new McpError(1234, "its own")).errorClass, "tool");
  });

  it("an MCP error says in its data that the server is limited", () => {
    const limited = { errorClass: "rate_limited", retryAfterS: 30 };
    assert.deepEqual(classify(new McpError(-32603, "slow", { status: 429, retryAfter: 30 })), limited);
    assert.deepEqual(classify(new McpError(-32029, "slow", { retry_after: "30" })), limited);
    assert.equal(classify(new McpError(-32602, "wrong", { status: 429 })).errorClass, "invalid_input");
    assert.equal(classify(new McpError(1234, "its own", { tool: { retry_after: 3 } })).errorClass, "tool");
  });

  it("a failed result says in its _meta that the server is limited, and in its content only how long", () => {
    const failed = { isError: true, content: [{ type: "text", text: "HTTP error 429" }] };
    const limited = { errorClass: "rate_limited", retryAfterS: 9 };
    assert.deepEqual(classifyResult({ ...failed, _meta: { retry_after: 9 } }), limited);
    const content = { status: 429, retry_after: 9 };
    assert.deepEqual(classifyResult({ ...failed, structuredContent: content }), { errorClass: "tool" });
    assert.deepEqual(classifyResult({ ...failed, structuredContent: content }, outageInText), limited);
  });

  it("the wait of a limit goes with the class, and an error that can't be read keeps its class", () => {
    const headers = { "x-ratelimit-reset-requests": "6m0s", "x-ratelimit-remaining-requests": "0" };
    assert.deepEqual(classify(carrying({ status: 429, headers })), { errorClass: "rate_limited", retryAfterS: 360 });
    assert.deepEqual(classify(carrying({ status: 403, headers })), { errorClass: "rate_limited", retryAfterS: 360 });
    const within = { ...headers, "x-ratelimit-remaining-requests": "37" };
    assert.equal(classify(carrying({ status: 403, headers: within })).errorClass, "auth");
    const broken = new Proxy({}, { get: () => { throw new Error("no") }, ownKeys: () => { throw new Error("no") } }); // prettier-ignore
    assert.deepEqual(classify(carrying({ status: 429, headers: broken })), {
      errorClass: "rate_limited",
      retryAfterS: null,
    });
    let deep: unknown = { retry_after: 3 };
    for (let at = 0; at < 1000; at++) {
      deep = { deep };
    }
    assert.deepEqual(classify(carrying({ status: 429, body: deep, error: deep })), {
      errorClass: "rate_limited",
      retryAfterS: null,
    });
  });

  it("errors of the AI SDK have the class of their status, or of what they wrap", () => {
    const limited = new APICallError({
      message: "slow",
      url: "",
      requestBodyValues: {},
      statusCode: 429,
      responseHeaders: { "retry-after": "3" },
    });
    assert.deepEqual(classify(limited), { errorClass: "rate_limited", retryAfterS: 3 });
    assert.deepEqual(classify(new RetryError({ message: "again", reason: "maxRetriesExceeded", errors: [limited] })), {
      errorClass: "rate_limited",
      retryAfterS: 3,
    });
    const ofGoogle = {
      error: { details: [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "37s" }] },
    };
    const told = { message: "slow", url: "", requestBodyValues: {}, statusCode: 429, responseHeaders: { server: "x" } };
    assert.deepEqual(classify(new APICallError({ ...told, responseBody: JSON.stringify(ofGoogle) })), {
      errorClass: "rate_limited",
      retryAfterS: 37,
    });
    assert.equal(classify(new LoadAPIKeyError({ message: "none" })).errorClass, "auth");
    assert.equal(
      classify(new InvalidToolInputError({ toolName: "t", toolInput: "", cause: new Error("x") })).errorClass,
      "invalid_input",
    );
  });
});

describe("errors by what they carry", () => {
  const cases: [string, unknown, string][] = [
    [
      "the status of a response (axios)",
      carrying({ code: "ERR_BAD_RESPONSE", response: { status: 503, headers: {} } }),
      "server",
    ],
    ["axios's time limit", carrying({ code: "ECONNABORTED" }, "timeout of 1000ms exceeded"), "timeout"],
    ["axios without an answer", carrying({ code: "ERR_NETWORK", name: "AxiosError" }), "transport"],
    ["an axios request that was cancelled", carrying({ code: "ERR_CANCELED", name: "CanceledError" }), "cancelled"],
    ["the status of a model SDK", carrying({ status: 401 }), "auth"],
    ["a time limit of undici", carrying({ code: "UND_ERR_HEADERS_TIMEOUT" }), "timeout"],
    ["a certificate that has expired", carrying({ code: "CERT_HAS_EXPIRED" }), "transport"],
    ["a missing file", carrying({ code: "ENOENT" }), "invalid_input"],
    [
      "a name of AWS that says more than its status",
      carrying({ name: "ThrottlingException", $metadata: { httpStatusCode: 400 } }),
      "rate_limited",
    ],
    ["the status of AWS", carrying({ name: "Odd", $metadata: { httpStatusCode: 500 } }), "server"],
    ["a gRPC code", carrying({ code: 14, details: "no connection", metadata: {} }), "transport"],
    ["a PostgreSQL state", carrying({ code: "23505", severity: "ERROR" }), "invalid_input"],
    ["a MySQL state", carrying({ sqlState: "08S01" }), "transport"],
    ["an outage as the cause", new Error("could not search", { cause: carrying({ code: "ECONNRESET" }) }), "transport"],
    ["a status as the cause", new Error("could not search", { cause: carrying({ status: 404 }) }), "invalid_input"],
    ["a cause that says nothing", new Error("x", { cause: new Error("y") }), "unknown"],
    [
      "the worst member of a group",
      new AggregateError([carrying({ status: 400 }), carrying({ code: "ECONNREFUSED" })]),
      "transport",
    ],
    ["a guard's time limit", new CallTimeoutError("x", 1), "timeout"],
    ["a refusal of another tool", new CircuitOpenError(), "policy"],
    [
      "the text of a refusal in another error",
      new Error("Tool failed: The tool x is unavailable (circuit open). Do not call it now."),
      "policy",
    ],
    ["what browsers say without an answer", new TypeError("Failed to fetch"), "transport"],
    [
      "what Bun says without an answer",
      carrying({ code: "ConnectionRefused" }, "Unable to connect. Is the computer able to access the url?"),
      "transport",
    ],
    [
      "an unexpected shape of the answer",
      new TypeError("Cannot read properties of undefined (reading 'x')"),
      "unknown",
    ],
    ["a thrown text", "broken", "unknown"],
    ["nothing", undefined, "unknown"],
  ];
  for (const [name, error, errorClass] of cases) {
    it(`${name} is ${errorClass}`, () => {
      assert.equal(classify(error).errorClass, errorClass);
    });
  }

  it("circles of causes and properties that throw end in a class", () => {
    const circle = new Error("circle");
    circle.cause = circle;
    assert.equal(classify(circle).errorClass, "unknown");
    assert.equal(
      classify({
        get name() {
          throw new Error("no");
        },
      }).errorClass,
      "unknown",
    );
  });
});
