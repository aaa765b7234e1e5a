// An agent with the TypeScript client. It does what the conductor says; see agents.py. The client's package is in the last argument.
import { createConnection } from "node:net";
import { createInterface } from "node:readline";
import { once } from "node:events";
import { pathToFileURL } from "node:url";

const [name, conductorPort, toolPort, url, token, packageFolder] = process.argv.slice(2);
const { Switchgear } = await import(pathToFileURL(`${packageFolder}/dist/index.js`).href);

// The process's own breaker is off: it would hide a probe too many.
const gear = new Switchgear({ url, token: token || undefined, service: name, localPolicies: { mode: "disabled" } });
if (!(await gear.ready(60))) throw new Error("the gateway's circuits were not read");
const tool = createConnection(Number(toolPort), "127.0.0.1");
tool.setNoDelay(true);
await once(tool, "connect");
const conductor = createConnection(Number(conductorPort), "127.0.0.1");
await once(conductor, "connect");

async function callTool(probe) {
  const answer = once(tool, "data");
  tool.write(probe ? "p" : "c");
  return (await answer)[0].toString() === "+";
}

let found;
async function call(circuit) {
  const permit = await gear.tryAcquire(circuit);
  if (!permit.allowed) {
    found.refused += 1;
    found.text = permit.text;
    return;
  }
  if (permit.probe) found.probes += 1;
  if (await callTool(permit.probe)) {
    found.ok += 1;
    permit.success();
  } else {
    found.failed += 1;
    permit.failure(Object.assign(new Error(`broken, says ${name}`), { code: "ECONNREFUSED" }));
  }
}

let looping = null;
async function loop(circuit) {
  while (looping !== null) {
    await call(circuit);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const fresh = () => ({ ok: 0, failed: 0, refused: 0, probes: 0, text: null });
const answer = (value) => conductor.write(`${JSON.stringify(value)}\n`);
answer({ name });
for await (const line of createInterface({ input: conductor })) {
  const asked = JSON.parse(line);
  if (asked.do === "call") {
    found = fresh();
    for (let time = 0; time < asked.times; time += 1) await call(asked.tool);
    answer({ ...found, flushed: await gear.flush(asked.flush_s) });
  } else if (asked.do === "loop") {
    found = fresh();
    looping = {};
    looping.done = loop(asked.tool);
  } else if (asked.do === "stop") {
    const { done } = looping;
    looping = null;
    await done;
    answer({ ...found, flushed: await gear.flush(30) });
  } else if (asked.do === "status") {
    answer({ available: !gear.isOpen(asked.tool), mode: gear.status().mode, follower: gear.status().follower });
  } else {
    throw new Error(`unknown: ${line}`);
  }
}
await gear.close();
process.exit(0);
