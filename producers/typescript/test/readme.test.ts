import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { TestGateway } from "./support/gateway.js";
import { PACKAGE } from "./support/scenarios.js";

/** Run the first code block of the README, with other addresses. */
async function runFirstBlock(gateway: string, weather: string): Promise<string> {
  const [, block] = /```ts\n([^]*?)```/.exec(readFileSync(join(PACKAGE, "README.md"), "utf8"))!;
  const code = block!.replace("http://127.0.0.1:8622", gateway).replace("https://wttr.in", weather);
  assert.ok(code.includes(gateway) && code.includes(weather));
  const file = join(PACKAGE, "build", `readme-${process.pid}.mjs`);
  writeFileSync(file, code);
  const child = spawn(process.execPath, [file], {
    stdio: ["ignore", "pipe", "inherit"],
    timeout: 120_000,
    env: { ...process.env, SWITCHGEAR_TOKEN: "t" },
  });
  let output = "";
  child.stdout.on("data", (part: Buffer) => (output += part.toString()));
  assert.equal(await new Promise((resolve) => child.on("close", resolve)), 0);
  return output;
}

describe("the README", () => {
  it("its first code block works, and its events arrive", async () => {
    const gateway = await new TestGateway().start();
    const weather = createServer((_, response) => response.end("Paris: sunny"));
    await new Promise<void>((resolve) => weather.listen(0, "127.0.0.1", resolve));
    const address = `http://127.0.0.1:${(weather.address() as AddressInfo).port}`;
    try {
      assert.equal(await runFirstBlock(gateway.url, address), "Paris: sunny\n");
      assert.deepEqual(
        gateway.executions.map((each) => [each["tool_name"], each["status"]]),
        [["weather", "success"]],
      );
    } finally {
      weather.closeAllConnections();
      weather.close();
      await gateway.stop();
    }
  });

  it("has at most 80 lines", () => {
    assert.ok(readFileSync(join(PACKAGE, "README.md"), "utf8").split("\n").length <= 81);
  });
});
