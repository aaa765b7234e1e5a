// A graph of LangGraph.js whose tool breaks. It needs no key and no network: the model is a script that calls the first tool,
// or the second one when it was told that a tool is down.
// `Switchgear.local()` decides for this process; with `new Switchgear({ url })` the fleet shares the circuits.
import { AIMessage, HumanMessage, SystemMessage, type BaseMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode, toolsCondition } from "@langchain/langgraph/prebuilt";
import { z } from "zod";
import { Switchgear } from "@switchgear/client";
import { wrapTools } from "@switchgear/client/langchain";

const gear = Switchgear.local({ localPolicies: { consecutive_failures: 1 } });

const schema = z.object({ city: z.string() });
const forecast = tool(
  async (): Promise<string> => {
    throw Object.assign(new Error("weather.example refused the connection"), { code: "ECONNREFUSED" });
  },
  { name: "get_forecast", description: "The weather of tomorrow", schema },
);
const climate = tool(async ({ city }) => `usually mild in ${city}`, {
  name: "get_climate",
  description: "The usual weather",
  schema,
});
const tools = wrapTools(gear, [forecast, climate]);

const graph = new StateGraph(MessagesAnnotation)
  .addNode("model", async ({ messages }, config) => {
    const sessionId = String(config.configurable?.["thread_id"]);
    const message = gear.outageMessage({ sessionId, only: tools.map(({ name }) => name) });
    const told = message === "" ? [] : [new HumanMessage(message)];
    const offered = gear.available(tools).map(({ name }) => name); // model.bindTools(gear.available(tools))
    const asked = [new SystemMessage("Be brief."), ...messages, ...told];
    return { messages: [...told, scriptedModel(asked, offered)] };
  })
  .addNode("tools", new ToolNode(tools))
  .addEdge(START, "model")
  .addConditionalEdges("model", toolsCondition, ["tools", END])
  .addEdge("tools", "model")
  .compile();

for (const run of [1, 2]) {
  console.log(`run ${run}`);
  const messages = [{ role: "user", content: "How is the weather in Oslo?" }];
  await graph.invoke({ messages }, { configurable: { thread_id: `thread ${run}` } });
}

function scriptedModel(messages: BaseMessage[], offered: string[]): AIMessage {
  const answered = messages.find(({ type }) => type === "tool");
  if (answered !== undefined) {
    console.log("  the model reads:", answered.text.split("\n")[0]);
    return new AIMessage("done");
  }
  const told = messages.flatMap(({ type, text }) => (type === "human" ? [text] : [])).join(" ");
  console.log("  the model is told:", told);
  console.log("  offered:", offered.join(", "));
  const name = offered[told.includes("unavailable") ? 1 : 0]!;
  return new AIMessage({ content: "", tool_calls: [{ id: "1", name, args: { city: "Oslo" } }] });
}
