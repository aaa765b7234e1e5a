import { generateText, stepCountIs, streamText, tool, type ToolSet } from "ai";
import { MockLanguageModelV4, simulateReadableStream } from "ai/test";
import { z } from "zod";
import { prepareStep, refusedCalls, wrapTools } from "../../src/ai.js";
import type { Session, Switchgear } from "../../src/index.js";
import type { AdapterDriver, SuiteCall, SuiteOptions, SuiteRun, SuiteTool } from "../../src/testing/index.js";

type Options = Parameters<NonNullable<MockLanguageModelV4["doGenerate"]>>[0];
type Result = Awaited<ReturnType<MockLanguageModelV4["doGenerate"]>>;

const USAGE = {
  inputTokens: { total: 1, noCache: 1, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 1, text: 1, reasoning: undefined },
};
const ENDED = { usage: USAGE, warnings: [] };
const MOST_STEPS = 20;

/** A model that asks for the calls of each turn, and notes what it is asked. */
function scripted(turns: readonly (readonly SuiteCall[])[]): { model: MockLanguageModelV4; asked: Options[] } {
  const asked: Options[] = [];
  const answer = (options: Options): Result => {
    const turn = asked.push(options) - 1;
    const calls = turns[turn] ?? [];
    if (calls.length === 0) {
      return { ...ENDED, content: [{ type: "text", text: "done" }], finishReason: { unified: "stop", raw: undefined } };
    }
    const content = calls.map(({ tool: toolName, args }, place) => ({
      type: "tool-call" as const,
      toolCallId: `call-${turn}-${place}`,
      toolName,
      input: JSON.stringify(args),
    }));
    return { ...ENDED, content, finishReason: { unified: "tool-calls", raw: undefined } };
  };
  const model = new MockLanguageModelV4({
    doGenerate: async (options) => answer(options),
    doStream: async (options) => {
      const { content, finishReason } = answer(options);
      const parts = content.flatMap((part): object[] =>
        part.type === "text"
          ? [
              { type: "text-start", id: "1" },
              { type: "text-delta", id: "1", delta: part.text },
              { type: "text-end", id: "1" },
            ]
          : [part],
      );
      const all = [{ type: "stream-start", warnings: [] }, ...parts, { type: "finish", usage: USAGE, finishReason }];
      return { stream: simulateReadableStream({ chunks: all as never[] }) };
    },
  });
  return { model, asked };
}

/** Runs `generateText` and `streamText` of the AI SDK. */
export const aiDriver: AdapterDriver = {
  refusesUnoffered: true,
  notPossible: {
    "interrupt or deferral does not count":
      "approvals come before the call, and a tool can't pause the run from within",
    "probe of an interrupted call is released":
      "approvals come before the call, and a tool can't pause the run from within",
    "retries of the framework count once": "the SDK doesn't repeat calls of tools",
  },

  async run(
    gear: Switchgear | Session,
    given: readonly SuiteTool[],
    turns: readonly (readonly SuiteCall[])[],
    options: SuiteOptions,
  ): Promise<SuiteRun> {
    const inputSchema = z.object({ city: z.string() });
    const made: ToolSet = Object.fromEntries(
      given.map(({ name, call }) => [name, tool({ description: name, inputSchema, execute: call })]),
    );
    const tools = wrapTools(gear, made);
    const { model, asked } = scripted(turns);
    const { terminalAfter, stream = false, signal } = options;
    const settings = {
      model,
      tools,
      prompt: "How is the weather?",
      system: "Be brief.",
      prepareStep: prepareStep(gear, tools),
      stopWhen: [stepCountIs(MOST_STEPS), ...(terminalAfter === undefined ? [] : [refusedCalls(terminalAfter)])],
      ...(signal === undefined ? {} : { abortSignal: signal }),
    };
    let error: unknown;
    try {
      if (stream) {
        await streamText(settings).consumeStream({ onError: (failed) => (error = failed) });
      } else {
        await generateText(settings);
      }
    } catch (failed) {
      error = failed;
    }
    const told = asked.at(-1)?.prompt.filter((message) => message.role === "tool") ?? [];
    return {
      results: told
        .flatMap(({ content }) => content)
        .map((part) => JSON.stringify("output" in part ? part.output : part)),
      offered: asked.map((each) => (each.tools ?? []).map(({ name }) => name)),
      prompts: asked.map(({ prompt }) =>
        prompt.flatMap((each) => (each.role === "system" ? [each.content] : [])).join(),
      ),
      conversation: asked.map(({ prompt }) =>
        prompt
          .filter((each) => each.role !== "system")
          .map((each) => `\n${JSON.stringify(each)}`)
          .join(""),
      ),
      ...(error === undefined ? {} : { error }),
    };
  },

  interrupt: () => null,
  /** The result of an MCP tool that failed, as the SDK's MCP client returns it. */
  errorValue: (text) => ({ content: [{ type: "text", text }], isError: true }),
};
