/** The contract of an execution event: one per tool call. Only `tool_name` and `status` are required. */
import type { ExecutionFields } from "./execution-fields.js";

export type Execution = ExecutionFields & {
  readonly metric_id: string;
  readonly recorded_at: string;
  readonly emitter_id: string;
};

/** The largest numbers of one call. The workers refuse an event with more. */
export const MOST: Readonly<Record<string, number>> = {
  durationMs: 31_536_000_000, // a year
  inputTokens: 1e9,
  outputTokens: 1e9,
  cacheCreationTokens: 1e9,
  costUsd: 1e6,
  outputSize: 2 ** 40,
};

/** What the emitter adds itself. */
export type ExecutionInput = Omit<Execution, "metric_id" | "recorded_at" | "emitter_id" | "service"> & {
  readonly recorded_at?: string;
};
