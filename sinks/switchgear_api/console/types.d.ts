/** What the API answers, as the pages use it. Times are ISO 8601 texts; durations end in _s or _ms; money is in _usd or usd. */

export type State = "closed" | "open" | "half_open" | "forced_open" | "disabled" | "metrics_only" | "unknown";

export interface Waste {
  calls: number;
  tokens: number;
  usd: number | null;
  seconds: number;
}
export interface Saved {
  refused: number;
  tokens: number;
  usd: number | null;
  seconds: number;
  estimated?: boolean;
}
export interface Stats {
  calls: number;
  errors: number;
  timeouts: number;
  refused: number;
  error_rate: number | null;
  p50_ms: number | null;
  p95_ms: number | null;
  p99_ms: number | null;
}
/** A number a minute, the oldest first. */
export interface Minutes {
  calls: number[];
  errors: number[];
}
export interface Circuit {
  tool: string;
  circuit_id: string;
  family: string | null;
  state: State;
  since: string | null;
  version: number;
  why: string | null;
  kind: "down" | "rejects_arguments" | null;
  rule: string | null;
  value: number | null;
  threshold: number | null;
  sample: number | null;
  reporters: number | null;
  last_error: string | null;
  next_probe_at: string | null;
  lease: { holder: string; expires_at: string | null } | null;
  permits_left: number | null;
  ramp: number | null;
  expires_at: string | null;
  override: { command: string; actor: string | null; reason: string | null; at: string | null } | null;
  is_family?: boolean;
  action?: Action | null;
}
export interface Action {
  text: string;
  verbs: string[];
}
export interface Tool extends Circuit {
  /** When it began to refuse calls. Failed probes later don't change it. */
  opened_at: string | null;
  opened_why: string | null;
  stats: Stats;
  beat: Minutes;
  wasted: Waste;
  saved: Saved;
  blast: { services: number; users: number; sessions: number; top_services: string[] } | null;
  local_opens?: number | unknown[];
  /** When the newest event of the last hour arrived, of a call or of a refused one. Null if there is none. */
  last_call_at?: string | null;
  /** Circuits of single users and sessions that refuse calls. */
  scoped_open?: number;
}
export interface Family extends Circuit {
  tools: string[];
}
export interface Fleet {
  calls: number;
  errors: number;
  error_rate: number | null;
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
  /** Whether decisions, or what is shown, suffer. */
  level: "bad" | "note";
  what: string;
  since: string | null;
  means: string;
  todo: string;
}
export interface Freshness {
  /** The worst first. A server of an earlier release sends none. */
  problems?: Problem[];
  newest_event_at: string | null;
  circuits_fresh: boolean;
  circuits_age_s: number | null;
}
export interface NowAnswer {
  checked_at: string;
  /** The newest live event that the answer has. */
  live_id?: string | null;
  data: Freshness;
  fleet: Fleet;
  tools: Tool[];
  families: Family[];
}
/** A process whose clock is wrong. `text` has no capital letter and no full stop; `todo` is a sentence. */
export interface WrongClock {
  emitter_id: string;
  service: string;
  text: string;
  todo: string;
}
export interface StatsEvent {
  fleet?: Fleet;
  tools: Record<string, { stats: Stats; beat_now: { calls: number; errors: number }; last_call_at?: string | null }>;
}
export interface Heartbeat extends Freshness {
  now: string;
}
export interface Call {
  metric_id: string;
  at: string;
  tool: string;
  status: string;
  error_class: string | null;
  error_type: string | null;
  error_message: string | null;
  duration_ms: number | null;
  service: string | null;
  user_id: string | null;
  session_id: string | null;
  tokens: number | null;
  usd: number | null;
  [field: string]: unknown;
}
export interface Series {
  step_s: number;
  at: string[];
  calls: number[];
  /** Calls that say how the tool is: the error rate is of these. */
  judged: number[];
  errors: number[];
  timeouts?: number[];
  refused?: number[];
  p50_ms?: (number | null)[];
  p95_ms?: (number | null)[];
  p99_ms?: (number | null)[];
}
export interface Span {
  at: string;
  until: string | null;
  state: State;
  why?: string | null;
}
export interface PolicyValue {
  setting: string;
  value: unknown;
  source: string;
  pattern: string | null;
}
export interface ToolAnswer {
  tool: Tool;
  states: Span[];
  series: Series;
  errors: {
    template: string;
    class: string | null;
    count: number;
    first_at: string;
    last_at: string;
    example: string | null;
  }[];
  slow: Call[];
  recent: Call[];
  waste: Waste;
  policy: PolicyValue[];
  /** Why the policy is unknown. */
  policy_error?: string | null;
  callers: { service: string | null; host: string | null; calls: number; errors: number }[];
}
export interface Transition {
  at: string;
  circuit_id: string;
  tool: string;
  scope: "tool" | "user" | "session" | "family";
  from: State | null;
  to: State;
  why: string | null;
  actor: string | null;
}
export interface TimelineAnswer {
  /** The newest ones, oldest first. */
  transitions: Transition[];
  /** Whether older ones of the period are left out. */
  truncated: boolean;
  series: Series;
  marks: { at: string; kind: string; text: string }[];
}
export interface Session {
  name: string;
  roles: string[];
  tenant: string | null;
  csrf: string | null;
  login: "none" | "token" | "oidc";
  expires_at: string | null;
}
export interface CommandAnswer {
  audit_id?: string;
  command_id?: string;
  outcome?: string;
  detail?: string | null;
  undoable?: boolean;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
}
export interface AuditItem {
  audit_id?: string;
  id?: string;
  at: string;
  actor: string | null;
  address: string | null;
  action: string;
  subject: string;
  reason: string | null;
  detail: unknown;
  outcome?: string;
  before?: Record<string, unknown> | null;
  after?: Record<string, unknown> | null;
  undone_by?: string | null;
  undo_of: string | null;
  undoable: boolean;
}
export interface DeadLetter {
  partition: number;
  offset: number;
  id?: string;
  at: string | null;
  reason: string;
  field: string | null;
  topic: string | null;
  key: string | null;
  text: string | null;
  hex: string | null;
  size: number | null;
  [field: string]: unknown;
}
export interface ReplayResult {
  opens: number;
  false_opens: number | null;
  calls_saved: number;
  tokens_saved: number;
  usd_saved: number | null;
  minutes_open: number;
  calls?: number;
  failed?: number;
  would_open?: number;
  calls_lost?: number;
  transitions: { at: string; state: State; tool?: string }[];
}
export interface SqlAnswer {
  columns: { name: string; type: string }[];
  rows: unknown[][];
  row_count: number;
  truncated: boolean;
  elapsed_s: number;
}
