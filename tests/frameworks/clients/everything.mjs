// Asks server-everything for each of its features with the official TypeScript client, and prints what it saw as JSON.
// Arguments: the folder with node_modules, then the server's command.
import { createRequire } from "node:module";

const [folder, command, ...args] = process.argv.slice(2);
const require = createRequire(`${folder}/client.js`);
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const types = require("@modelcontextprotocol/sdk/types.js");

const seen = { requests: [], progress: [], answers: {}, notified: {} };
const client = new Client(
  { name: "everything-client", version: "1.0.0" },
  { capabilities: { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } } },
);
client.setRequestHandler(types.CreateMessageRequestSchema, async (request) => {
  seen.requests.push(request);
  return { role: "assistant", model: "a-model", stopReason: "endTurn", content: { type: "text", text: "sampled" } };
});
client.setRequestHandler(types.ElicitRequestSchema, async (request) => {
  seen.requests.push(request);
  return { action: "accept", content: { name: "Ada", check: true } };
});
client.setRequestHandler(types.ListRootsRequestSchema, async () => ({ roots: [{ uri: "file:///work", name: "work" }] }));
const waiting = {};
for (const [name, schema] of Object.entries({
  log: types.LoggingMessageNotificationSchema,
  updated: types.ResourceUpdatedNotificationSchema,
})) {
  waiting[name] = new Promise((resolve) => client.setNotificationHandler(schema, resolve));
}
const within = (promise) => Promise.race([promise.then(() => true), new Promise((done) => setTimeout(done, 20_000, false))]);
const ask = async (name, call) => {
  try {
    seen.answers[name] = await call();
  } catch (error) {
    seen.answers[name] = { error: error.message, code: error.code };
  }
};
const tool = (name, given = {}) => ask(`${name} ${JSON.stringify(given)}`, () => client.callTool({ name, arguments: given }));

await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }));
seen.hello = [client.getServerVersion(), client.getServerCapabilities(), client.getInstructions()];
await new Promise((done) => setTimeout(done, 1_500)); // it adds tools when it knows the client
await ask("tools", () => client.listTools());
await ask("resources", () => client.listResources());
await ask("templates", () => client.listResourceTemplates());
await ask("prompts", () => client.listPrompts());
await tool("echo", { message: "hello" });
await tool("get-sum", { a: 1, b: 2 });
await tool("get-sum", { a: "one" });
await tool("no-such-tool");
await tool("get-tiny-image");
await tool("get-annotated-message", { messageType: "error", includeImage: true });
await tool("get-resource-links", { count: 3 });
await tool("get-resource-reference", { resourceType: "Text", resourceId: 1 });
await tool("get-structured-content", { location: "Chicago" });
await tool("get-roots-list");
await tool("trigger-sampling-request", { prompt: "hi", maxTokens: 10 });
await tool("trigger-elicitation-request");
await ask("progress", () =>
  client.callTool({ name: "trigger-long-running-operation", arguments: { duration: 1, steps: 4 } }, undefined, {
    onprogress: (progress) => seen.progress.push(progress),
  }),
);
await ask("read", async () => {
  const { resources } = await client.listResources();
  return client.readResource({ uri: resources[0].uri });
});
await ask("read nothing", () => client.readResource({ uri: "demo://nothing/at/all" }));
await ask("prompt", () => client.getPrompt({ name: "args-prompt", arguments: { city: "Oslo", state: "" } }));
await ask("prompt with a resource", () =>
  client.getPrompt({ name: "resource-prompt", arguments: { resourceType: "Text", resourceId: "1" } }),
);
await ask("wrong prompt", () => client.getPrompt({ name: "args-prompt", arguments: {} }));
const ref = { type: "ref/prompt", name: "completable-prompt" };
await ask("completion", () => client.complete({ ref, argument: { name: "department", value: "E" } }));
await ask("completion in context", () =>
  client.complete({ ref, argument: { name: "name", value: "" }, context: { arguments: { department: "Sales" } } }),
);
const abort = new AbortController();
setTimeout(() => abort.abort("enough"), 1_000);
await ask("cancelled", () =>
  client.callTool({ name: "trigger-long-running-operation", arguments: { duration: 60, steps: 60 } }, undefined, {
    signal: abort.signal,
  }),
);
await tool("echo", { message: "after the cancellation" });
await ask("level", () => client.setLoggingLevel("debug"));
await ask("subscribe", () => client.subscribeResource({ uri: "demo://resource/static/document/features.md" }));
await tool("toggle-simulated-logging");
await tool("toggle-subscriber-updates");
seen.notified = { log: await within(waiting.log), updated: await within(waiting.updated) };
await client.sendRootsListChanged();
await ask("ping", () => client.ping());
await client.close();
console.log(JSON.stringify(seen));
