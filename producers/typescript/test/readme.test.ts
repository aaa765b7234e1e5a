import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { TestGateway } from "./support/gateway.js";
import { PACKAGE, REPOSITORY } from "./support/scenarios.js";

const TSC = join(PACKAGE, "node_modules", ".bin", "tsc");
const STRICT = ["--ignoreConfig", "--strict", "--module", "nodenext", "--target", "es2022", "--skipLibCheck", "false"];

function blocks(readme: string): string[] {
  return [...readFileSync(readme, "utf8").matchAll(/```ts\n([^]*?)```/g)].map(([, block]) => block!);
}

/** Run a program. Return what it prints. */
async function output(command: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
  const child = spawn(command, args, {
    stdio: ["ignore", "pipe", "inherit"],
    timeout: 120_000,
    env: { ...process.env, ...env },
  });
  let text = "";
  child.stdout.on("data", (part: Buffer) => (text += part.toString()));
  const code = await new Promise((resolve) => child.on("close", resolve));
  assert.equal(code, 0, text);
  return text;
}

/** Compile a program that imports this package, with the strictest types. Return the file with its JavaScript. */
async function compiled(name: string, code: string, ...options: string[]): Promise<string> {
  const folder = join(PACKAGE, "build", name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${name}.mts`), code);
  await output(TSC, [...STRICT, ...options, join(folder, `${name}.mts`)]);
  return join(folder, `${name}.mjs`);
}

const NODE = ["--types", "node", "--lib", "es2022"];

describe("the README", () => {
  it("its first code block is strict TypeScript and works, and its events arrive", async () => {
    const gateway = await new TestGateway().start();
    const weather = createServer((_, response) => response.end("Paris: sunny"));
    await new Promise<void>((resolve) => weather.listen(0, "127.0.0.1", resolve));
    const address = `http://127.0.0.1:${(weather.address() as AddressInfo).port}`;
    const [block] = blocks(join(PACKAGE, "README.md"));
    const code = block!.replace("http://127.0.0.1:8622", gateway.url).replace("https://wttr.in", address);
    assert.ok(code.includes(gateway.url) && code.includes(address));
    try {
      const file = await compiled("readme", code, ...NODE);
      assert.equal(await output(process.execPath, [file], { SWITCHGEAR_TOKEN: "t" }), "Paris: sunny\n");
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

  it("the example of the repository's README is strict TypeScript", async () => {
    const [block] = blocks(join(REPOSITORY, "README.md"));
    await compiled("repository-readme", block!, ...NODE);
  });

  it("has at most 80 lines", () => {
    assert.ok(readFileSync(join(PACKAGE, "README.md"), "utf8").split("\n").length <= 81);
  });
});

describe("the types", () => {
  const program = `
    import { Switchgear } from "@switchgear/client";
    export async function length(city: string): Promise<number> {
      const gear = new Switchgear({ url: "http://127.0.0.1:8622", token: async () => "t" });
      const guarded = gear.guard("length", async (text: string) => text.length);
      await gear.close();
      return guarded(city);
    }`;

  it("need no library but that of the language", async () => {
    for (const lib of ["es2022", "es2022,dom", "esnext,dom"]) {
      await compiled("types", program, "--lib", lib, "--types", "", "--noEmit");
    }
  });

  it("a client can be used with \`await using\`, and takes the runtime's fetch", async () => {
    const using = program.replace("const gear", "await using gear").replace("token:", "fetch, token:");
    await compiled("using", using, "--lib", "es2022,esnext.disposable,dom", "--types", "", "--noEmit");
  });
});
