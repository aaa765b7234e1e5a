import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { generateText, stepCountIs, tool, type Tool } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { z } from "zod";
import { wrapTools } from "../src/ai.js";
import { CircuitOpenError, Switchgear, META_KEY } from "../src/index.js";
import { guardClient } from "../src/mcp.js";

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 1, text: 1, reasoning: undefined },
};

/** A model that calls a tool, and then says what it was told. */
function model(toolName: string): { model: MockLanguageModelV3; told: unknown[] } {
  const told: unknown[] = [];
  const mock = new MockLanguageModelV3({
    doGenerate: async ({ prompt }) => {
      const last = prompt.at(-1)!;
      if (last.role === "tool") {
        told.push(last.content[0]);
        return {
          content: [{ type: "text", text: "done" }],
          finishReason: { unified: "stop", raw: undefined },
          usage,
          warnings: [],
        };
      }
      return {
        content: [{ type: "tool-call", toolCallId: "1", toolName, input: JSON.stringify({ city: "Paris" }) }],
        finishReason: { unified: "tool-calls", raw: undefined },
        usage,
        warnings: [],
      };
    },
  });
  return { model: mock, told };
}

function weatherTools(answer: (city: string) => unknown): {
  weather: Tool<{ city: string }, unknown>;
} {
  return {
    weather: tool({
      description: "w",
      inputSchema: z.object({ city: z.string() }),
      execute: async ({ city }) => answer(city),
    }),
  };
}

describe("wrapTools with the AI SDK", () => {
  it("a tool works as before, and its failures open the circuit", async () => {
    const gear = Switchgear.local({ localPolicies: { consecutive_failures: 1 } });
    let broken = false;
    const tools = wrapTools(
      gear,
      weatherTools((city) => {
        if (broken) throw Object.assign(new Error("upstream"), { status: 503 });
        return `sunny in ${city}`;
      }),
    );
    const first = model("weather");
    await generateText({ model: first.model, tools, prompt: "weather?", stopWhen: stepCountIs(2) });
    assert.deepEqual((first.told[0] as { output: unknown }).output, { type: "text", value: "sunny in Paris" });
    broken = true;
    await generateText({ model: model("weather").model, tools, prompt: "weather?", stopWhen: stepCountIs(2) });
    const refused = model("weather");
    await generateText({ model: refused.model, tools, prompt: "weather?", stopWhen: stepCountIs(2) });
    const { output } = refused.told[0] as { output: { type: string; value: string } };
    assert.equal(output.type, "error-text");
    assert.match(
      output.value,
      /^CircuitOpenError: The tool weather is unavailable \(circuit open\)\. The rule \w+ opened it\. Its last error was a failure of the server\. Do not call it again/,
    );
    assert.deepEqual([gear.isOpen("weather"), Object.keys(gear.available(tools))], [true, ["weather"]]);
  });

  it("a refusal may be the tool's result", async () => {
    const gear = Switchgear.local({ localPolicies: { mode: "forced_open" } });
    const tools = wrapTools(
      gear,
      weatherTools(() => 1),
      { refused: "text", circuitOf: (name) => `ai:${name}` },
    );
    const { model: mock, told } = model("weather");
    await generateText({ model: mock, tools, prompt: "weather?", stopWhen: stepCountIs(2) });
    const { output } = told[0] as { output: unknown };
    assert.deepEqual(output, {
      type: "text",
      value: "The tool ai:weather is unavailable (circuit forced open). Do not call it again now.",
    });
  });

  it("preliminary results of a generator stream on, and their end is counted", async () => {
    const gear = Switchgear.local({ localPolicies: { consecutive_failures: 1 } });
    const tools = wrapTools(gear, {
      weather: tool({
        inputSchema: z.object({ city: z.string() }),
        execute: async function* ({ city }) {
          yield `loading ${city}`;
          throw Object.assign(new Error("reset"), { code: "ECONNRESET" });
        },
      }),
    });
    const { model: mock } = model("weather");
    await generateText({ model: mock, tools, prompt: "weather?", stopWhen: stepCountIs(2) });
    assert.deepEqual(gear.status().local, { weather: "open" });
  });

  it("tools that the provider runs stay as they are, and an agent's abort counts nothing", async () => {
    const gear = Switchgear.local({ localPolicies: { consecutive_failures: 1 } });
    const search = { type: "provider", id: "x.search", args: {} };
    const tools = wrapTools(gear, {
      search,
      ...weatherTools(() => Promise.reject(new DOMException("", "AbortError"))),
    });
    assert.equal(tools.search, search);
    await generateText({
      model: model("weather").model,
      tools: { weather: tools.weather },
      prompt: "?",
      stopWhen: stepCountIs(2),
    });
    assert.deepEqual(gear.status().local, {});
  });

  it("tools of one set may stand in for each other", async () => {
    const gear = Switchgear.local({ localPolicies: { consecutive_failures: 1 }, fallbacks: { weather: ["backup"] } });
    const { weather } = weatherTools(() => Promise.reject(new Error("down")));
    const backup = weatherTools((city) => `backup ${city}`).weather;
    const tools = wrapTools(gear, { weather, backup });
    await generateText({ model: model("weather").model, tools, prompt: "?", stopWhen: stepCountIs(2) });
    const { model: mock, told } = model("weather");
    await generateText({ model: mock, tools, prompt: "?", stopWhen: stepCountIs(2) });
    assert.deepEqual((told[0] as { output: unknown }).output, { type: "text", value: "backup Paris" });
  });
});

async function connected(act: () => { content: { type: "text"; text: string }[]; isError?: boolean }): Promise<Client> {
  const server = new McpServer({ name: "maps", version: "1" });
  server.registerTool("route", { inputSchema: { to: z.string() } }, () => act());
  const client = new Client({ name: "test", version: "1" });
  const [one, other] = InMemoryTransport.createLinkedPair();
  await Promise.all([server.connect(one), client.connect(other)]);
  return client;
}

describe("guardClient with the MCP SDK", () => {
  it("calls pass, errors of the tool count nothing, and outages in the texts of trusted tools do", async () => {
    const gear = Switchgear.local({ localPolicies: { consecutive_failures: 2 }, outagesInText: ["mcp:maps:*"] });
    let text = "10 km";
    let isError = false;
    const client = guardClient(gear, await connected(() => ({ content: [{ type: "text", text }], isError })), {
      server: "maps",
    });
    assert.equal((await client.listTools()).tools[0]!.name, "route");
    const call = (): ReturnType<typeof client.callTool> => client.callTool({ name: "route", arguments: { to: "x" } });
    assert.deepEqual((await call()).content, [{ type: "text", text: "10 km" }]);
    isError = true;
    text = "no such city";
    for (let time = 0; time < 5; time += 1) await call();
    assert.deepEqual(gear.status().local, {});
    text = "connect ECONNREFUSED 10.0.0.1:5432";
    await call();
    assert.equal((await call()).isError, true);
    assert.deepEqual(gear.status().local, { "mcp:maps:route": "open" });
    await assert.rejects(call(), CircuitOpenError);
    const { tools } = await client.listTools();
    assert.deepEqual(gear.available(tools, { circuitOf: (name) => `mcp:maps:${name}` }), tools);
    await client.close();
  });

  it("an answered error opens neither the tool nor its server, whatever its text says", async () => {
    for (const outagesInText of [undefined, [], ["mcp:other:*"]]) {
      const gear = Switchgear.local({ outagesInText });
      const client = guardClient(
        gear,
        await connected(() => ({
          content: [{ type: "text", text: "Failed to fetch http://203.0.113.9/: connect ECONNREFUSED" }],
          isError: true,
        })),
        { server: "maps" },
      );
      for (let time = 0; time < 6; time += 1) {
        assert.equal((await client.callTool({ name: "route", arguments: { to: "x" } })).isError, true);
      }
      assert.deepEqual(gear.status().local, {});
      await client.close();
    }
  });

  it("a server that is gone opens the circuit, and a refusal may be a result with toolFailure", async () => {
    const gear = Switchgear.local({ localPolicies: { consecutive_failures: 2 } });
    const inner = await connected(() => ({ content: [] }));
    const client = guardClient(gear, inner, { server: "maps", refused: "result" });
    await inner.close();
    const call = (): ReturnType<typeof client.callTool> => client.callTool({ name: "route", arguments: { to: "x" } });
    await assert.rejects(call());
    await assert.rejects(call());
    const result = await call();
    assert.equal(result.isError, true);
    assert.match(
      (result.content as { text: string }[])[0]!.text,
      /^The tool mcp:maps:route is unavailable \(circuit open\)/,
    );
    const failure = (result._meta as Record<string, Record<string, unknown>>)[META_KEY]!;
    assert.deepEqual([failure["class"], failure["code"], failure["retryable"]], ["reliability", "circuit_open", true]);
  });

  it("a server's refusal behind the guard does not open its circuit", async () => {
    const gear = Switchgear.local({ localPolicies: { consecutive_failures: 1 } });
    const text = "The tool db is unavailable (circuit open). Its last error was: timed out. Do not call it again now.";
    const client = guardClient(gear, await connected(() => ({ content: [{ type: "text", text }], isError: true })), {
      server: "maps",
    });
    for (let time = 0; time < 3; time += 1) await client.callTool({ name: "route", arguments: { to: "x" } });
    assert.deepEqual(gear.status().local, {});
    await client.close();
  });

  it("a name of any length that a model invents is answered by the server", async () => {
    const gear = Switchgear.local();
    const client = guardClient(gear, await connected(() => ({ content: [] })), { server: "maps" });
    const result = await client.callTool({ name: "x".repeat(1000) });
    assert.equal(result.isError, true);
    await client.close();
  });

  it("a server needs a name", async () => {
    const gear = Switchgear.local();
    assert.throws(() => guardClient(gear, { callTool: async () => ({}) }, { server: "a:b" }), /server is "a:b"/);
  });
});
