// Record the log records that Gemini CLI writes for tool calls, as OTLP protobuf for the unit tests. See record_otlp.py.
//
//   npm install --ignore-scripts --omit=optional @google/gemini-cli-core
//   node record_otlp_gemini.mjs samples/gemini_cli.pb
//
// The whole program needs an account, so this gives finished calls to its own class of the event, and exports what the class makes of them.
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [, , path] = process.argv;
const here = createRequire(join(process.cwd(), "package.json"));
const core = join(process.cwd(), "node_modules/@google/gemini-cli-core");
const load = async (file) => import(pathToFileURL(file).href);
const { ToolCallEvent } = await load(join(core, "dist/src/telemetry/types.js"));
const { DiscoveredMCPTool } = await load(join(core, "dist/src/tools/mcp-tool.js"));
const { LoggerProvider, InMemoryLogRecordExporter, SimpleLogRecordProcessor } = here("@opentelemetry/sdk-logs");
const { ProtobufLogsSerializer } = here("@opentelemetry/otlp-transformer");
const { resourceFromAttributes } = here("@opentelemetry/resources");

const config = {
  getExperiments: () => undefined,
  getContentGeneratorConfig: () => undefined,
  getSessionId: () => "session-7",
  isInteractive: () => false,
  getTelemetryLogPromptsEnabled: () => true,
};
const exporter = new InMemoryLogRecordExporter();
const provider = new LoggerProvider({
  resource: resourceFromAttributes({
    "service.name": "gemini-cli",
    "telemetry.recorded_with": `@google/gemini-cli-core ${here(join(core, "package.json")).version}`,
  }),
  processors: [new SimpleLogRecordProcessor(exporter)],
});
const weather = Object.assign(Object.create(DiscoveredMCPTool.prototype), { serverName: "weather" });
const calls = [
  { name: "run_shell_command", args: { command: "exit 3" }, status: "error", error: "Command failed", errorType: "shell_execute_error" },
  { name: "mcp_weather_get_forecast", args: { city: "Oslo" }, status: "success", tool: weather },
  {
    name: "mcp_weather_get_forecast",
    args: { city: "Rome" },
    status: "error",
    tool: weather,
    error: "MCP tool reported an error: connection refused",
    errorType: "mcp_tool_error",
  },
];
for (const { name, args, status, tool, error, errorType } of calls) {
  const event = new ToolCallEvent({
    status,
    request: { name, args, prompt_id: "prompt-1" },
    response: { error: error && new Error(error), errorType },
    tool,
    durationMs: 120,
    outcome: "proceed_once",
  });
  const attributes = event.toOpenTelemetryAttributes(config);
  delete attributes["installation.id"];
  provider.getLogger("gemini-cli").emit({ body: event.toLogBody(), attributes });
}
writeFileSync(path, ProtobufLogsSerializer.serializeRequest(exporter.getFinishedLogRecords()));
console.log(path, exporter.getFinishedLogRecords().length, "records");
