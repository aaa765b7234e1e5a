// A graph of LangGraph.js whose tool breaks. It needs no key and no network: the model is a script that calls the first tool it is offered.
// `Switchgear.local()` decides for this process; with `new Switchgear({ url })` the fleet shares the circuits.
import { AIMessage, SystemMessage, type BaseMessage } from "@langchain/core/messages";
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
  .addNode("model", async ({ messages }) => {
    const system = new SystemMessage(`Be brief. ${gear.notice({ only: tools.map(({ name }) => name) })}`);
    const offered = gear.available(tools).map(({ name }) => name); // model.bindTools(gear.available(tools))
    return { messages: [scriptedModel([system, ...messages], offered)] };
  })
  .addNode("tools", new ToolNode(tools))
  .addEdge(START, "model")
  .addConditionalEdges("model", toolsCondition, ["tools", END])
  .addEdge("tools", "model")
  .compile();

for (const run of [1, 2]) {
  console.log(`run ${run}`);
  await graph.invoke({ messages: [{ role: "user", content: "How is the weather in Oslo?" }] });
}

function scriptedModel(messages: BaseMessage[], offered: string[]): AIMessage {
  const last = messages.at(-1)!;
  if (last.type === "tool") {
    console.log("  the model reads:", last.text.split("\n")[0]);
    return new AIMessage("done");
  }
  console.log("  system prompt:", messages[0]!.text);
  console.log("  offered:", offered.join(", "));
  return new AIMessage({ content: "", tool_calls: [{ id: "1", name: offered[0]!, args: { city: "Oslo" } }] });
}
