// Record what the Vercel AI SDK exports for tool calls, as OTLP protobuf for the unit tests. See record_otlp.py.
//
//   npm install ai@5 zod @opentelemetry/sdk-trace-node @opentelemetry/otlp-transformer @opentelemetry/resources
//   node record_otlp_vercel.mjs samples/vercel_ai_5.pb
//
// From version 7 on the spans come from a package of their own: npm install ai@7 @ai-sdk/otel zod @opentelemetry/…
// No model is called: a scripted one asks for the tools.
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const [, , path] = process.argv;
const here = createRequire(join(process.cwd(), "package.json"));
const load = async (name) => import(pathToFileURL(here.resolve(name)).href);
const versionOf = (name) => here(join(process.cwd(), "node_modules", name, "package.json")).version;

const { generateText, tool, stepCountIs, registerTelemetry } = await load("ai");
const mocks = await load("ai/test");
const { z } = await load("zod");
const { NodeTracerProvider, SimpleSpanProcessor, InMemorySpanExporter } = await load("@opentelemetry/sdk-trace-node");
const { ProtobufTraceSerializer } = await load("@opentelemetry/otlp-transformer");
const { resourceFromAttributes } = await load("@opentelemetry/resources");

const packages = registerTelemetry ? ["ai", "@ai-sdk/otel"] : ["ai"];
const exporter = new InMemorySpanExporter();
const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({
    "service.name": "weather-agent",
    "telemetry.recorded_with": packages.map((name) => `${name} ${versionOf(name)}`).join(", "),
  }),
  spanProcessors: [new SimpleSpanProcessor(exporter)],
});
provider.register();
if (registerTelemetry) {
  const { OpenTelemetry } = await load("@ai-sdk/otel");
  registerTelemetry(new OpenTelemetry());
}

const getForecast = tool({
  description: "Return tomorrow's weather.",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => {
    if (city === "Rome") throw new TypeError("fetch failed");
    return `sun in ${city}`;
  },
});

const calls = ["Oslo", "Rome"].map((city) => ({
  type: "tool-call",
  toolCallId: `call_${city.toLowerCase()}`,
  toolName: "getForecast",
  input: JSON.stringify({ city }),
}));
const usage = registerTelemetry
  ? { inputTokens: { total: 50, noCache: 50 }, outputTokens: { total: 5, text: 5 } }
  : { inputTokens: 50, outputTokens: 5, totalTokens: 55 };
const reason = (name) => (registerTelemetry ? { unified: name, raw: name } : name);
const Model = mocks.MockLanguageModelV4 ?? mocks.MockLanguageModelV2;
let asked = false;
const model = new Model({
  doGenerate: async () => {
    if (asked) return { content: [{ type: "text", text: "Done." }], finishReason: reason("stop"), usage, warnings: [] };
    asked = true;
    return { content: calls, finishReason: reason("tool-calls"), usage, warnings: [] };
  },
});

await generateText({
  model,
  tools: { getForecast },
  stopWhen: stepCountIs(3),
  prompt: "What is the weather?",
  experimental_telemetry: { isEnabled: true, functionId: "planner", metadata: { sessionId: "session-7" } },
});
await provider.forceFlush();
const spans = exporter.getFinishedSpans();
for (const span of spans) {
  for (const event of span.events) delete event.attributes?.["exception.stacktrace"];
}
writeFileSync(path, ProtobufTraceSerializer.serializeRequest(spans));
console.log(path, spans.length, "spans");
