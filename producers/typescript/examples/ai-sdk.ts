// An agent of the Vercel AI SDK whose tool breaks. It needs no key and no network: the model is a script that calls the first tool it is
// offered. `Switchgear.local()` decides for this process; with `new Switchgear({ url })` the fleet shares the circuits.
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
    prompt: "How is the weather in Oslo?",
    prepareStep: prepareStep(gear, tools, { instructions: "Be brief." }),
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
      const last = prompt.at(-1)!;
      if (last.role === "tool") {
        const [result] = last.content;
        console.log("  the model reads:", JSON.stringify("output" in result! ? result.output : result));
        return {
          content: [{ type: "text", text: "done" }],
          finishReason: { unified: "stop", raw: undefined },
          usage,
          warnings: [],
        };
      }
      const [system] = prompt;
      console.log("  system prompt:", system?.role === "system" ? system.content : "");
      console.log("  offered:", offered.map(({ name }) => name).join(", "));
      const call = {
        type: "tool-call",
        toolCallId: "1",
        toolName: offered[0]!.name,
        input: '{"city":"Oslo"}',
      } as const;
      return { content: [call], finishReason: { unified: "tool-calls", raw: undefined }, usage, warnings: [] };
    },
  });
}
