import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { Switchgear } from "../src/index.js";
import { TestGateway } from "./support/gateway.js";
import { PACKAGE } from "./support/scenarios.js";

const BEGIN = `
  import { Switchgear } from ${JSON.stringify(join(PACKAGE, "dist", "index.js"))};
  const gear = new Switchgear({ url: process.env.GATEWAY, token: () => "t", startWaitS: 60, exitWaitS: 20 });
  await gear.call("search", () => "found");
  setTimeout(() => {}, 60_000);`;

let gateway: TestGateway;

beforeEach(async () => {
  gateway = await new TestGateway().start();
});
afterEach(() => gateway.stop());

interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
  readonly output: string;
}

/** Run a program after a call whose event waits. */
async function run(script: string, begin = BEGIN): Promise<Ended> {
  const child = spawn(process.execPath, ["--input-type=module", "-e", begin + script], {
    env: { ...process.env, GATEWAY: gateway.url },
    timeout: 120_000,
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (part: Buffer) => (output += part.toString()));
  }
  const [code, signal] = await new Promise<[number | null, string | null]>((resolve) =>
    child.on("close", (...ended) => resolve(ended)),
  );
  return { code, signal, output };
}

/** The tools of the executions that arrived. What was under way when the process ended may arrive again, with the same id. */
function arrived(): unknown[] {
  return [...new Map(gateway.executions.map((each) => [each["metric_id"], each["tool_name"]])).values()];
}

describe("a process that ends now", () => {
  it("sends what waits after process.exit", async () => {
    assert.deepEqual((await run("process.exit(7);")).code, 7);
    assert.deepEqual(arrived(), ["search"]);
    assert.equal(gateway.of("/v1/executions")[0]!.headers.authorization, "Bearer t");
  });

  it("sends what waits after an uncaught error", async () => {
    for (const script of ["throw new Error('boom');", "Promise.reject(new Error('boom'));"]) {
      const { code, output } = await run(script);
      assert.equal(code, 1);
      assert.match(output, /boom/);
    }
    assert.deepEqual(arrived(), ["search", "search"]);
  });

  it("sends what waits after a signal, and ends by it", async () => {
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) {
      assert.equal((await run(`process.kill(process.pid, "${signal}");`)).signal, signal);
    }
    assert.deepEqual(arrived(), ["search", "search", "search"]);
  });

  it("lives on after a signal to which the program listens, and sends again at its own end", async () => {
    const { code } = await run(`
      process.on("SIGTERM", async () => {
        await gear.call("last", () => "found");
        setTimeout(() => process.listenerCount("SIGTERM") === 2 && process.exit(3), 50);
      });
      process.kill(process.pid, "SIGTERM");`);
    assert.equal(code, 3);
    assert.deepEqual(arrived(), ["search", "last"]);
  });

  it("ends by a signal although another library does the same, and counts the listeners to find out whether it may", async () => {
    const { signal } = await run(`
      const listener = () => {
        if (process.listenerCount("SIGTERM") !== 1) return;
        process.off("SIGTERM", listener);
        process.kill(process.pid, "SIGTERM");
      };
      process.on("SIGTERM", listener);
      process.kill(process.pid, "SIGTERM");`);
    assert.equal(signal, "SIGTERM");
    assert.deepEqual(arrived(), ["search"]);
  });

  it("marks a batch that is under way, because it may arrive twice", async () => {
    gateway.nextExecutions.push("hang");
    await run("void gear.flush(); setTimeout(() => process.exit(0), 500);");
    const [first, second] = gateway.of("/v1/executions");
    assert.equal(second!.body, first!.body);
    assert.equal(second!.headers["switchgear-resent"], "true");
  });

  it("says how many events it has lost when the gateway doesn't answer in time", async () => {
    gateway.nextExecutions.push("hang");
    const began = Date.now();
    const { code, output } = await run("process.exit(0);", BEGIN.replace("exitWaitS: 20", "exitWaitS: 0.5"));
    assert.equal(code, 0);
    assert.match(output, /switchgear: the process ended before the gateway had 1 of 1 events/);
    assert.ok(Date.now() - began < 60_000);
  });

  it("sends nothing if the client is not to wait, or has a fetch of its own, and says so", async () => {
    for (const option of ["exitWaitS: 0", "fetch: (...given) => fetch(...given)"]) {
      const { output } = await run("process.exit(0);", BEGIN.replace("exitWaitS: 20", option));
      assert.match(output, /the process ended before the gateway had 1 of 1 events/);
    }
    assert.deepEqual(arrived(), []);
  });

  it("leaves no listener behind when its clients are closed", async () => {
    const before = process.listenerCount("exit");
    const gears = [1, 2].map(() => new Switchgear({ url: gateway.url }));
    for (const gear of gears) await gear.ready(60);
    assert.equal(process.listenerCount("exit"), before + 1, "one for all clients");
    for (const gear of gears) await gear.close();
    assert.deepEqual([process.listenerCount("exit"), process.listenerCount("SIGTERM")], [before, 0]);
  });
});
