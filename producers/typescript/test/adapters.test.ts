import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { adapterSuite, type AdapterDriver } from "../src/testing/index.js";
import { aiDriver } from "./support/ai-driver.js";
import { langchainDriver, langgraphDriver } from "./support/langchain-driver.js";
import { PACKAGE, REPOSITORY } from "./support/scenarios.js";

interface Tested {
  readonly title: string;
  /** The framework's package. */
  readonly framework: string;
  readonly driver: AdapterDriver;
  readonly page: string;
}

const DRIVERS: readonly Tested[] = [
  { title: "ai", framework: "ai", driver: aiDriver, page: "ai-sdk.md" },
  { title: "langchain, createAgent", framework: "langchain", driver: langchainDriver, page: "langchain-js.md" },
  {
    title: "@langchain/langgraph, ToolNode",
    framework: "@langchain/langgraph",
    driver: langgraphDriver,
    page: "langchain-js.md",
  },
];

/** Return the row of the documentation's table. */
function row({ title, framework, driver }: Tested): string {
  const file = join(PACKAGE, "node_modules", framework, "package.json");
  const { version } = JSON.parse(readFileSync(file, "utf8")) as { version: string };
  const tests = adapterSuite(driver);
  const reasons = new Map<string, string[]>();
  for (const { name, notPossible } of tests) {
    if (notPossible !== false) reasons.set(notPossible, [...(reasons.get(notPossible) ?? []), name]);
  }
  const possible = tests.filter(({ notPossible }) => notPossible === false).length;
  const notes = [...reasons].map(([reason, names]) => `${names.join(", ")}: ${reason}`).sort();
  return `| ${title} | ${version} | ${possible} of ${tests.length} | ${notes.join("; ")} |`;
}

for (const tested of DRIVERS) {
  describe(`the wrapper of ${tested.title} passes the suite`, () => {
    for (const { name, notPossible, run } of adapterSuite(tested.driver)) {
      if (notPossible === false) it(name, run);
    }

    it("and the documentation says so", () => {
      const page = readFileSync(join(REPOSITORY, "docs", "integrations", tested.page), "utf8");
      assert.ok(page.includes(row(tested)), row(tested));
    });
  });
}

it("a driver can't call a test impossible that the suite doesn't have", () => {
  const driver = { ...aiDriver, notPossible: { "a test": "none" } };
  assert.throws(() => adapterSuite(driver), /no test called "a test"/);
});
