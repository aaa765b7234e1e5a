import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { PACKAGE } from "./support/scenarios.js";

const LINES = [
  "run 1",
  /the model is told: How is the weather in Oslo\?$/,
  "offered: get_forecast, get_climate",
  /the model reads: .*weather\.example refused the connection/,
  "run 2",
  /the model is told: How is the weather in Oslo\? \[tool status\] These tools are unavailable: get_forecast\. /,
  "offered: get_forecast, get_climate",
  /the model reads: .*usually mild in Oslo/,
];

async function lines(name: string): Promise<string[]> {
  const file = join(PACKAGE, "build", "examples", name);
  const { stdout } = await promisify(execFile)(process.execPath, [file], { timeout: 100_000 });
  return stdout.replaceAll("\n\n", " ").trim().split("\n");
}

describe("the examples", () => {
  for (const name of ["ai-sdk.js", "langgraph.js"]) {
    it(`${name} prints what each run is offered and reads`, async () => {
      const found = await lines(name);
      assert.equal(found.length, LINES.length, found.join("\n"));
      LINES.forEach((line, place) => {
        if (typeof line === "string") assert.equal(found[place]!.trim(), line);
        else assert.match(found[place]!, line);
      });
    });
  }

  it("cloudflare-worker.js answers each request, also while its gateway is away", async () => {
    const worker = (await import(join(PACKAGE, "build", "examples", "cloudflare-worker.js"))) as {
      default: { fetch(request: Request, env: object, context: object): Promise<Response> };
    };
    const settings = { SWITCHGEAR_URL: "http://127.0.0.1:59999", SWITCHGEAR_TOKEN: "t" };
    const fetched = globalThis.fetch;
    const work: Promise<unknown>[] = [];
    globalThis.fetch = async (address, init) =>
      String(address).startsWith("https://wttr.in/") ? new Response("Oslo: sunny") : fetched(address, init);
    try {
      for (let time = 0; time < 2; time += 1) {
        const request = new Request("https://worker.example/?city=Oslo");
        const context = { waitUntil: (promise: Promise<unknown>) => void work.push(promise) };
        assert.equal(await (await worker.default.fetch(request, settings, context)).text(), "Oslo: sunny");
      }
      await Promise.all(work);
    } finally {
      globalThis.fetch = fetched;
    }
  });
});
