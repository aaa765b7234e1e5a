/** The fields of an execution. Generated from `switchgear_schemas.execution_record` by `make schemas`: change that module. */
import type { ErrorClass } from "../breaker/policy.js";
import type { Status } from "../breaker/values.js";

export interface ExecutionFields {
  /** Name of the tool, e.g. mcp:weather:get_forecast. */
  readonly tool_name: string;
  /** How the call ended. cancelled: the caller gave up. rejected: a circuit refused the call, so it was not made. overdue: it has not ended and took too long already; the event is a report about it, and is never stored. */
  readonly status: Status;
  /** Duration in milliseconds, at most a year. Of an overdue call: the time until the report. */
  readonly execution_time_ms?: number;
  /** Generation of the circuit that permitted the call. Null if no guard asked. */
  readonly generation?: number;
  /** Probe lease the call was made under. */
  readonly lease_id?: string;
  /** Identifier of the call. A version 7 UUID where Switchgear makes it. */
  readonly metric_id?: string;
  /** The tenant whose call it was. Empty with a single tenant. */
  readonly tenant?: string;
  /** User on whose behalf the call was made. */
  readonly user_id?: string;
  /** Agent session. */
  readonly session_id?: string;
  /** Request within the session. */
  readonly request_id?: string;
  /** Type of the error, e.g. an exception's class name. */
  readonly error_type?: string;
  /** Message of the error, redacted and truncated by the emitter. */
  readonly error_message?: string;
  /** Kind of the failure, which decides whether it counts. A success of class policy counts in no circuit. */
  readonly error_class?: ErrorClass;
  /** Seconds that a rate-limited tool asked its caller to wait. */
  readonly retry_after_s?: number;
  /** Keyed hash of the parameters, to find repeated calls. */
  readonly parameters_hash?: string;
  /** Size of the input in bytes or characters. */
  readonly input_size?: number;
  /** Size of the output in bytes or characters. */
  readonly output_size?: number;
  /** Model tokens spent on the call's input. */
  readonly input_tokens?: number;
  /** Model tokens spent on the call's output. */
  readonly output_tokens?: number;
  /** Model tokens written to a prompt cache. */
  readonly cache_creation_tokens?: number;
  /** Cost of the call in US dollars. */
  readonly cost_usd?: number;
  /** What produced the result. */
  readonly served_by?: "call" | "fallback" | "cache" | "none";
  /** Tool that answered instead. */
  readonly fallback_tool?: string;
  /** Process that emitted the event. */
  readonly emitter_id?: string;
  /** Service that process belongs to. */
  readonly service?: string;
  /** The refused caller asks the owner for a probe lease. */
  readonly probe_requested?: boolean;
  /** W3C trace context. */
  readonly traceparent?: string;
  /** Anything else. Of a rejected call: refused (how many calls the event stands for) and refused_by (local, fleet, session, duplicate, caller, credential, pace); of a process's own circuit (local) also state, scope, retry_after_s, cause, last_error. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** When the call ended, by the caller's clock. */
  readonly recorded_at?: string;
  /** Generation of the family's circuit when it permitted or refused the call. Null if no guard asked or knew it. */
  readonly family_generation?: number;
  /** Probe lease of the family's circuit that the call was made under. */
  readonly family_lease_id?: string;
  /** What the call was about, such as a host, if the tool's policy keeps targets apart. */
  readonly target?: string;
  /** How long the call had run when it was reported as overdue, in milliseconds. Null if it wasn't. */
  readonly overdue_ms?: number;
  /** Keyed hash of what the call signed in with, never the credential itself. */
  readonly credential?: string;
  /** What the event's source could tell about a failure. status_only: it hides the kind of error. */
  readonly evidence?: "full" | "status_only";
  /** Credential that circuits count as the reporter. A gateway sets it. Empty: the process counts. */
  readonly reporter?: string;
}
