/** The contract of an execution event: one per tool call. Only `tool_name` and `status` are required. */
import type { ErrorClass } from "../breaker/policy.js";
import type { Status } from "../breaker/values.js";

export interface Execution {
  readonly metric_id: string;
  readonly tool_name: string;
  readonly status: Status;
  /** When the call ended, by this machine's clock, as a timestamp of RFC 3339. */
  readonly recorded_at: string;
  readonly execution_time_ms?: number;
  /** How long the call had run when it was reported as overdue. */
  readonly overdue_ms?: number;
  /** What the call was about, such as a host, if the tool's policy keeps targets apart. */
  readonly target?: string;
  readonly user_id?: string;
  readonly session_id?: string;
  readonly request_id?: string;
  /** Keyed hash of what the call signed in with, never the credential itself. */
  readonly credential?: string;
  readonly error_type?: string;
  readonly error_message?: string;
  readonly error_class?: ErrorClass;
  readonly evidence?: "full" | "status_only";
  readonly retry_after_s?: number;
  readonly output_size?: number;
  readonly input_tokens?: number;
  readonly output_tokens?: number;
  readonly cache_creation_tokens?: number;
  readonly cost_usd?: number;
  readonly served_by?: "call" | "fallback" | "none";
  readonly fallback_tool?: string;
  readonly emitter_id: string;
  readonly service?: string;
  readonly generation?: number;
  readonly family_generation?: number;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

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
