/** The acceptance scenarios: those of this repository, and those of the shared folder beside it where there is one. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export interface Scenario {
  readonly id: string;
  readonly kind: string;
  readonly title: string;
  readonly config: Record<string, unknown>;
  readonly steps: readonly Step[];
}
export type Step = Readonly<Record<string, unknown>> & { readonly t: number; readonly op: string };

/** The folder of this package. The compiled tests are in `build/test/support`. */
export const PACKAGE = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..");
export const REPOSITORY = join(PACKAGE, "..", "..");

export const SHARED_FILE =
  process.env["SWITCHGEAR_SCENARIOS"] ?? join(REPOSITORY, "..", "shared", "acceptance", "scenarios.json");

export function repositoryScenarios(): Scenario[] {
  const files = ["more_scenarios.json", "evidence_scenarios.json"];
  return files.flatMap((file) => read(join(REPOSITORY, "tests", "acceptance", file)));
}

/** Return the shared scenarios, or null where the file isn't there. */
export function sharedScenarios(): Scenario[] | null {
  return existsSync(SHARED_FILE) ? read(SHARED_FILE) : null;
}

function read(path: string): Scenario[] {
  return (JSON.parse(readFileSync(path, "utf8")) as { scenarios: Scenario[] }).scenarios;
}
