/** Generated from switchgear_api.console by `make schemas`: change those modules. */
/** @import { Circuit, Tool, Trouble } from "../../types.js" */
/** The states in which a circuit refuses calls, some or all of them. @type {string[]} */
export const BROKEN = [
  "open",
  "forced_open",
  "half_open"
];
/** As many tools as the API answers with. @type {number} */
export const MOST_TOOLS = 5000;
/** The length of a strip. @type {number} */
export const MINUTES = 60;
/** The fields that a circuit's record brings. @type {(keyof Circuit)[]} */
export const CIRCUIT_FIELDS = [
  "tool",
  "circuit_id",
  "family",
  "state",
  "since",
  "version",
  "why",
  "rule",
  "value",
  "threshold",
  "sample",
  "reporters",
  "last_error",
  "next_probe_at",
  "lease",
  "permits_left",
  "ramp",
  "pace",
  "expires_at",
  "override",
  "kind",
  "action"
];
/** What a tool without trouble has. @type {Trouble} */
export const CALM = {
  "kind": null,
  "action": {
    "text": null,
    "verbs": [
      "force_open",
      "disable",
      "metrics_only",
      "auto",
      "close",
      "reset"
    ]
  },
  "opened_at": null,
  "opened_why": null,
  "wasted": {
    "calls": 0,
    "tokens": 0,
    "usd": 0.0,
    "seconds": 0.0
  },
  "saved": {
    "refused": 0,
    "tokens": 0,
    "usd": 0.0,
    "seconds": 0.0,
    "estimated": true
  },
  "blast": null,
  "local_opens": [],
  "scoped_open": 0
};
/** A tool without a circuit and without calls. @type {Tool} */
export const EMPTY_TOOL = {
  "tool": "",
  "circuit_id": "",
  "family": null,
  "state": "closed",
  "since": null,
  "version": 0,
  "why": null,
  "rule": null,
  "value": null,
  "threshold": null,
  "sample": null,
  "reporters": null,
  "last_error": null,
  "next_probe_at": null,
  "lease": null,
  "permits_left": 0,
  "ramp": null,
  "pace": null,
  "expires_at": null,
  "override": null,
  "kind": null,
  "action": {
    "text": null,
    "verbs": [
      "force_open",
      "disable",
      "metrics_only",
      "auto",
      "close",
      "reset"
    ]
  },
  "opened_at": null,
  "opened_why": null,
  "stats": {
    "calls": 0,
    "errors": 0,
    "timeouts": 0,
    "caller_errors": 0,
    "cancelled": 0,
    "ignored": 0,
    "refused": 0,
    "error_rate": 0.0,
    "p50_ms": null,
    "p95_ms": null,
    "p99_ms": null
  },
  "beat": {
    "calls": [],
    "errors": []
  },
  "wasted": {
    "calls": 0,
    "tokens": 0,
    "usd": 0.0,
    "seconds": 0.0
  },
  "saved": {
    "refused": 0,
    "tokens": 0,
    "usd": 0.0,
    "seconds": 0.0,
    "estimated": true
  },
  "blast": null,
  "local_opens": [],
  "scoped_open": 0,
  "last_call_at": null
};
