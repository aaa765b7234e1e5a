/** Generated from switchgear_api.console by `make schemas`: change those modules. */
export type State = "closed" | "open" | "half_open" | "forced_open" | "disabled" | "metrics_only" | "unknown";
/** What failed calls cost. */
export interface Waste {
  calls: number;
  tokens: number;
  usd: number;
  seconds: number;
}
/** What refused calls would have cost. */
export interface Saved {
  /** Calls that were not made, because their turn came too late. */
  refused: number;
  tokens: number;
  usd: number;
  seconds: number;
  estimated: boolean;
}
/** The calls of a tool in the window. */
export interface Stats {
  calls: number;
  errors: number;
  timeouts: number;
  caller_errors: number;
  cancelled: number;
  /** They succeeded, and their callers ignore them. */
  ignored: number;
  /** Calls that were not made, because their turn came too late. */
  refused: number;
  error_rate: number;
  p50_ms: number | null;
  p95_ms: number | null;
  p99_ms: number | null;
}
/** A number a minute, the oldest first. */
export interface Minutes {
  calls: number[];
  errors: number[];
}
/** What an operator should do, and what one can do. */
export interface Action {
  text: string | null;
  verbs: string[];
}
/** The permission to probe. */
export interface Lease {
  holder: string;
  expires_at: string | null;
}
/** The command that decides for a circuit. */
export interface Override {
  command: string;
  actor: string | null;
  reason: string | null;
  at: string | null;
}
/** A tool's rate limit, and what was asked for and waited for in the last seconds. */
export interface Pace {
  /** Whether processes keep it. Otherwise it is only shown. */
  kept: boolean;
  /** Calls a second that the tool takes. */
  rate: number;
  /** Seconds in which the rate is kept. */
  period_s: number;
  processes: number | null;
  /** Calls a second that processes asked for. */
  asked: number;
  /** Calls that the tool refused as too many. */
  limited: number;
  /** Calls that were not made, because their turn came too late. */
  refused: number;
  /** Calls that waited for their turn. */
  waited: number;
  /** How long one of those waited, on average. */
  wait_s: number;
  /** Until when the tool asked to wait. */
  paused_until: string | null;
}
/** A circuit's record. All but the first of these fields are null for a tool without one, where they can be. */
export interface CircuitRecord {
  tool: string;
  circuit_id: string;
  family: string | null;
  state: State;
  since: string | null;
  version: number;
  why: string | null;
  rule: string | null;
  value: number | null;
  threshold: number | null;
  sample: number | null;
  reporters: number | null;
  last_error: string | null;
  next_probe_at: string | null;
  lease: Lease | null;
  permits_left: number;
  ramp: number | null;
  pace: Pace | null;
  expires_at: string | null;
  override: Override | null;
}
/** What kind of failure a tool has, and what to do about it in this state. */
export interface Advice {
  kind: "down" | "rejects_arguments" | null;
  action: Action;
}
/** A circuit as the stream brings it: a tool's with advice, or a family's. */
export interface Circuit {
  tool: string;
  circuit_id: string;
  family: string | null;
  state: State;
  since: string | null;
  version: number;
  why: string | null;
  rule: string | null;
  value: number | null;
  threshold: number | null;
  sample: number | null;
  reporters: number | null;
  last_error: string | null;
  next_probe_at: string | null;
  lease: Lease | null;
  permits_left: number;
  ramp: number | null;
  pace: Pace | null;
  expires_at: string | null;
  override: Override | null;
  kind?: "down" | "rejects_arguments" | null;
  action?: Action;
  is_family?: boolean;
}
/** Whom an outage touches. */
export interface Blast {
  services: number;
  users: number;
  sessions: number;
  top_services: string[];
}
/** What a refresh brings for tools in trouble alone. */
export interface Trouble {
  kind: "down" | "rejects_arguments" | null;
  action: Action;
  /** When it began to refuse calls. Failed probes later don't change it. */
  opened_at: string | null;
  opened_why: string | null;
  wasted: Waste;
  saved: Saved;
  blast: Blast | null;
  /** Processes that opened a circuit of their own. */
  local_opens: Record<string, unknown>[];
  /** Circuits of single users and sessions that refuse calls. */
  scoped_open: number;
}
/** A row of the page `now`. */
export interface Tool {
  tool: string;
  circuit_id: string;
  family: string | null;
  state: State;
  since: string | null;
  version: number;
  why: string | null;
  rule: string | null;
  value: number | null;
  threshold: number | null;
  sample: number | null;
  reporters: number | null;
  last_error: string | null;
  next_probe_at: string | null;
  lease: Lease | null;
  permits_left: number;
  ramp: number | null;
  pace: Pace | null;
  expires_at: string | null;
  override: Override | null;
  kind: "down" | "rejects_arguments" | null;
  action: Action;
  /** When it began to refuse calls. Failed probes later don't change it. */
  opened_at: string | null;
  opened_why: string | null;
  wasted: Waste;
  saved: Saved;
  blast: Blast | null;
  /** Processes that opened a circuit of their own. */
  local_opens: Record<string, unknown>[];
  /** Circuits of single users and sessions that refuse calls. */
  scoped_open: number;
  stats: Stats;
  beat: Minutes;
  /** When the newest event of the last hour arrived, of a call or of a refused one. Null if there is none. */
  last_call_at: string | null;
}
/** The circuit of a server, and its tools. */
export interface Family {
  tool: string;
  circuit_id: string;
  family: string | null;
  state: State;
  since: string | null;
  version: number;
  why: string | null;
  rule: string | null;
  value: number | null;
  threshold: number | null;
  sample: number | null;
  reporters: number | null;
  last_error: string | null;
  next_probe_at: string | null;
  lease: Lease | null;
  permits_left: number;
  ramp: number | null;
  pace: Pace | null;
  expires_at: string | null;
  override: Override | null;
  tools: string[];
  /** Processes that opened a circuit of their own. */
  local_opens: Record<string, unknown>[];
}
/** The totals. */
export interface Fleet {
  calls: number;
  errors: number;
  error_rate: number;
  /** Calls that were not made, because their turn came too late. */
  refused: number;
  tools: number;
  open: number;
  half_open: number;
  wasted: Waste;
  saved: Saved;
}
/** A part of the system that does not work. */
export interface Problem {
  component: string;
  level: "bad" | "note";
  what: string;
  since: string | null;
  means: string;
  todo: string;
}
/** How old the data is, and what is wrong with the system, the worst first. */
export interface Freshness {
  newest_event_at: string | null;
  circuits_fresh: boolean;
  circuits_age_s: number | null;
  problems: Problem[];
}
/** The page `now`. */
export interface NowAnswer {
  checked_at: string;
  minutes: number;
  /** The newest live event that the answer has. */
  live_id: string | null;
  data: Freshness;
  fleet: Fleet;
  tools: Tool[];
  families: Family[];
}
/** The present minute. */
export interface LastMinute {
  calls: number;
  errors: number;
}
/** The numbers of a tool that changed. */
export interface Numbers {
  stats: Stats;
  beat_now: LastMinute;
  /** When the newest event of the last hour arrived, of a call or of a refused one. Null if there is none. */
  last_call_at: string | null;
}
/** An event of the stream: numbers that changed. */
export interface StatsEvent {
  tools: Record<string, Numbers>;
  fleet?: Fleet;
}
/** An event of the stream: it is alive. */
export interface Heartbeat {
  newest_event_at: string | null;
  circuits_fresh: boolean;
  circuits_age_s: number | null;
  problems: Problem[];
  now: string;
}
/** A process whose clock is wrong. `text` has no capital letter and no full stop; `todo` is a sentence. */
export interface WrongClock {
  emitter_id: string;
  service: string;
  text: string;
  todo: string;
}
/** A stored call. */
export interface Call {
  metric_id: string;
  at: string;
  tenant: string | null;
  tool: string;
  status: string;
  error_class: string | null;
  error_type: string | null;
  error_message: string | null;
  duration_ms: number;
  service: string | null;
  process: string | null;
  user_id: string | null;
  session_id: string | null;
  request_id: string | null;
  tokens: number;
  usd: number;
  served_by: string;
  fallback_tool: string | null;
  generation: number;
  lease_id: string | null;
  traceparent: string | null;
  parameters_hash: string | null;
  input_size: number;
  output_size: number;
  metadata: string | null;
}
/** Counts over time, one a step. */
export interface FleetSeries {
  step_s: number;
  at: string[];
  calls: number[];
  /** Calls that say how the tool is: the error rate is of these. */
  judged: number[];
  errors: number[];
}
/** The same with what only a tool's has. */
export interface Series {
  step_s: number;
  at: string[];
  calls: number[];
  /** Calls that say how the tool is: the error rate is of these. */
  judged: number[];
  errors: number[];
  timeouts: number[];
  /** Calls that were not made, because their turn came too late. */
  refused: number[];
  p50_ms: (number | null)[];
  p95_ms: (number | null)[];
  p99_ms: (number | null)[];
}
/** A state over a period. */
export interface Span {
  at: string;
  until: string | null;
  state: State;
  why?: string | null;
}
/** A setting of a policy, and where it comes from. */
export interface PolicyValue {
  setting: string;
  value: unknown;
  source: string;
  pattern: string | null;
}
export interface ErrorPattern {
  template: string;
  class: string;
  type: string | null;
  count: number;
  first_at: string;
  last_at: string;
  example: string;
}
/** A process that called a tool. */
export interface Caller {
  service: string | null;
  host: string | null;
  calls: number;
  errors: number;
  last_at: string;
}
/** The page of a tool. */
export interface ToolAnswer {
  checked_at: string;
  since: string;
  tool: Tool;
  states: Span[];
  series: Series;
  errors: ErrorPattern[];
  slow: Call[];
  recent: Call[];
  waste: Waste;
  policy: PolicyValue[];
  /** Why the policy is unknown. */
  policy_error: string | null;
  callers: Caller[];
}
export interface Transition {
  at: string;
  circuit_id: string;
  tool: string;
  scope: "tool" | "user" | "session" | "tenant" | "target" | "family";
  from: State | null;
  to: State;
  rule: string | null;
  why: string | null;
  actor: string | null;
  version: number;
}
/** What an operator did, on the timeline. */
export interface Mark {
  at: string;
  kind: string;
  text: string;
}
/** The page `timeline`. */
export interface TimelineAnswer {
  since: string;
  /** The newest ones, oldest first. */
  transitions: Transition[];
  /** Whether older ones of the period are left out. */
  truncated: boolean;
  series: FleetSeries;
  marks: Mark[];
}
/** Who has logged in. */
export interface SessionAnswer {
  name: string;
  roles: string[];
  tenant: string | null;
  tools: string[];
  csrf: string | null;
  login: "none" | "token" | "oidc";
  expires_at: string | null;
}
/** What came of a command. A dry run has the states alone. */
export interface CommandAnswer {
  audit_id?: string;
  command_id?: string;
  outcome?: string;
  detail?: string | null;
  undoable?: boolean;
  circuit?: Record<string, unknown> | null;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
}
/** What an operator did. */
export interface AuditItem {
  audit_id: string;
  at: string;
  actor: string;
  address: string;
  action: string;
  subject: string;
  reason: string;
  outcome: string;
  detail: string | null;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
  expires_at: string | null;
  undo_of: string | null;
  undone_by: string | null;
  undoable: boolean;
}
/** A message that was rejected. Only the page of one letter has its bytes. */
export interface DeadLetter {
  id: string;
  key: string;
  topic: string;
  partition: number;
  offset: number;
  at: string;
  written_at: string;
  tool: string;
  component: string;
  field: string | null;
  reason: string;
  bytes: number;
  /** Whether older ones of the period are left out. */
  truncated: boolean;
  original_key?: string | null;
  text?: string | null;
  hex?: string | null;
}
/** A change of state in a replay. */
export interface ReplayTransition {
  at: string;
  tool: string;
  state: State;
  rule: string;
}
/** What a policy would have done. */
export interface ReplayResult {
  calls: number;
  failed: number;
  opens: number;
  would_open: number;
  false_opens: number;
  calls_saved: number;
  calls_lost: number;
  tokens_saved: number;
  usd_saved: number;
  seconds_saved: number;
  minutes_open: number;
  /** The newest ones, oldest first. */
  transitions: ReplayTransition[];
}
/** A column of an answer. */
export interface SqlColumn {
  name: string;
  type: string;
}
/** The rows of a query. */
export interface SqlAnswer {
  columns: SqlColumn[];
  rows: unknown[][];
  row_count: number;
  /** Whether older ones of the period are left out. */
  truncated: boolean;
  elapsed_s: number;
}
