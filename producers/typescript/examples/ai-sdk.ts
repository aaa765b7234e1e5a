// An agent of the Vercel AI SDK whose tool breaks. It needs no key and no network: the model is a script that calls the first tool, or the
// second one when it was told that a tool is down. `Switchgear.local()` decides for this process; with `new Switchgear({ url })` the fleet shares the circuits.
import { generateText, stepCountIs, tool } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { z } from "zod";
import { Switchgear } from "@switchgear/client";
import { prepareStep, refusedCalls, wrapTools } from "@switchgear/client/ai";

const gear = Switchgear.local({ localPolicies: { consecutive_failures: 1 } });

const inputSchema = z.object({ city: z.string() });
const tools = wrapTools(gear, {
  get_forecast: tool({
    description: "The weather of tomorrow",
    inputSchema,
    execute: async (): Promise<string> => {
      throw Object.assign(new Error("weather.example refused the connection"), { code: "ECONNREFUSED" });
    },
  }),
  get_climate: tool({
    description: "The usual weather",
    inputSchema,
    execute: async ({ city }) => `usually mild in ${city}`,
  }),
});

for (const run of [1, 2]) {
  console.log(`run ${run}`);
  await generateText({
    model: scriptedModel(),
    tools,
    system: "Be brief.",
    prompt: "How is the weather in Oslo?",
    prepareStep: prepareStep(gear, tools),
    stopWhen: [stepCountIs(5), refusedCalls(3)],
  });
}

function scriptedModel(): MockLanguageModelV4 {
  const usage = {
    inputTokens: { total: 1, noCache: 1, cacheRead: undefined, cacheWrite: undefined },
    outputTokens: { total: 1, text: 1, reasoning: undefined },
  };
  return new MockLanguageModelV4({
    doGenerate: async ({ prompt, tools: offered = [] }) => {
      const answered = prompt.find(({ role }) => role === "tool");
      if (answered?.role === "tool") {
        const [result] = answered.content;
        console.log("  the model reads:", JSON.stringify("output" in result! ? result.output : result));
        return {
          content: [{ type: "text", text: "done" }],
          finishReason: { unified: "stop", raw: undefined },
          usage,
          warnings: [],
        };
      }
      const texts = prompt.flatMap(({ role, content }) => (role === "user" ? content : []));
      const told = texts.map((part) => (part.type === "text" ? part.text : "")).join(" ");
      console.log("  the model is told:", told);
      console.log("  offered:", offered.map(({ name }) => name).join(", "));
      const call = {
        type: "tool-call",
        toolCallId: "1",
        toolName: offered[told.includes("unavailable") ? 1 : 0]!.name,
        input: '{"city":"Oslo"}',
      } as const;
      return { content: [call], finishReason: { unified: "tool-calls", raw: undefined }, usage, warnings: [] };
    },
  });
}
