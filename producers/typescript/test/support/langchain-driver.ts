import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, HumanMessage, SystemMessage, ToolMessage, type BaseMessage } from "@langchain/core/messages";
import { tool, type StructuredToolInterface } from "@langchain/core/tools";
import { END, interrupt, MemorySaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode, toolsCondition } from "@langchain/langgraph/prebuilt";
import { createAgent, toolRetryMiddleware } from "langchain";
import { z } from "zod";
import type { Session, Switchgear } from "../../src/index.js";
import { switchgearMiddleware, wrapTools } from "../../src/langchain.js";
import type { AdapterDriver, SuiteCall, SuiteOptions, SuiteRun, SuiteTool } from "../../src/testing/index.js";

const PROMPT = "Be brief.";
const GIVEN = { messages: [{ role: "user", content: "How is the weather?" }] };

/** A model that asks for the calls of each turn, and notes what it is offered and told. */
class ScriptedModel extends BaseChatModel {
  readonly offered: string[][] = [];
  readonly asked: BaseMessage[][] = [];

  constructor(private readonly turns: readonly (readonly SuiteCall[])[]) {
    super({});
  }

  _llmType(): string {
    return "scripted";
  }

  override bindTools(tools: readonly unknown[]): this {
    this.offered[this.asked.length] = tools.map((each) => (each as { name: string }).name);
    return this;
  }

  async _generate(messages: BaseMessage[]): Promise<{ generations: { text: string; message: AIMessage }[] }> {
    const turn = this.asked.push(messages) - 1;
    const calls = (this.turns[turn] ?? []).map(({ tool: name, args }, place) => ({
      type: "tool_call" as const,
      id: `call-${turn}-${place}`,
      name,
      args: { ...args },
    }));
    const text = calls.length === 0 ? "done" : "";
    return { generations: [{ text, message: new AIMessage({ content: text, tool_calls: calls }) }] };
  }
}

interface Agent {
  invoke(given: unknown, config: unknown): Promise<unknown>;
  stream(given: unknown, config: unknown): Promise<AsyncIterable<unknown>>;
}
type Build = (
  gear: Switchgear | Session,
  model: ScriptedModel,
  tools: StructuredToolInterface[],
  options: SuiteOptions,
) => Agent;

/** An agent of `langchain`. */
const withCreateAgent: Build = (gear, model, tools, { terminalAfter, retries }) => {
  const again = retries === undefined ? [] : [toolRetryMiddleware({ maxRetries: retries, initialDelayMs: 0 }) as never];
  return createAgent({
    model,
    tools: wrapTools(gear, tools),
    middleware: [switchgearMiddleware(gear, { terminalAfter }), ...again],
    systemPrompt: PROMPT,
    checkpointer: new MemorySaver(),
  }) as unknown as Agent;
};

let runs = 0;

/** A graph of one's own, with LangGraph's node for tools. */
const withGraph: Build = (gear, model, given) => {
  const tools = wrapTools(gear, given);
  const only = tools.map(({ name }) => name);
  const run = `run ${(runs += 1)}`;
  return new StateGraph(MessagesAnnotation)
    .addNode("model", async ({ messages }) => {
      const told = gear.outageMessage({ only, sessionId: run });
      const added = told === "" ? [] : [new HumanMessage(told)];
      const asked = [new SystemMessage(PROMPT), ...messages, ...added];
      return { messages: [...added, await model.bindTools(gear.available(tools)).invoke(asked)] };
    })
    .addNode("tools", new ToolNode(tools))
    .addEdge(START, "model")
    .addConditionalEdges("model", toolsCondition, ["tools", END])
    .addEdge("tools", "model")
    .compile({ checkpointer: new MemorySaver() }) as unknown as Agent;
};

const HIDDEN = "a tool hides its function, so a guard on that function counts besides the tool's";

export const langchainDriver: AdapterDriver = driver(withCreateAgent, {
  "guarded function is counted once and its circuit filters": HIDDEN,
});

export const langgraphDriver: AdapterDriver = driver(withGraph, {
  "guarded function is counted once and its circuit filters": HIDDEN,
  "retries of the framework count once": "a ToolNode doesn't repeat calls",
  "terminal refusal ends the run": "the edges of the graph are the program's own",
});

function driver(build: Build, notPossible: Readonly<Record<string, string>>): AdapterDriver {
  return {
    notPossible,

    async run(
      gear: Switchgear | Session,
      given: readonly SuiteTool[],
      turns: readonly (readonly SuiteCall[])[],
      options: SuiteOptions,
    ): Promise<SuiteRun> {
      const schema = z.object({ city: z.string() });
      const tools = given.map(({ name, call }) => tool(call as never, { name, description: name, schema }));
      const model = new ScriptedModel(turns);
      const agent = build(gear, model, tools as never, options);
      const config = {
        configurable: { thread_id: "1" },
        ...(options.signal === undefined ? {} : { signal: options.signal }),
      };
      let error: unknown;
      try {
        if (options.stream) {
          for await (const _ of await agent.stream(GIVEN, config));
        } else {
          await agent.invoke(GIVEN, config);
        }
      } catch (failed) {
        error = failed;
      }
      const last = model.asked.at(-1) ?? [];
      return {
        results: last.filter((each) => ToolMessage.isInstance(each)).map(({ text }) => text),
        offered: model.offered,
        prompts: model.asked.map((messages) =>
          messages.map((each) => (each.type === "system" ? each.text : "")).join(""),
        ),
        conversation: model.asked.map((messages) =>
          messages.map((each) => (each.type === "system" ? "" : `\n${each.type}: ${each.text}`)).join(""),
        ),
        ...(error === undefined ? {} : { error }),
      };
    },

    interrupt: () => interrupt("Is that right?"),
    errorValue: (text) => new ToolMessage({ status: "error", content: text, tool_call_id: "call-0-0" }),
  };
}
