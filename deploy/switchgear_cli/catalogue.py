"""Every command: its name, its function, its group in the help, and its summary."""

from __future__ import annotations

from typing import Final, NamedTuple

RUN: Final = "Run"
ASK: Final = "Ask"
CHANGE: Final = "Feed and change"
ABOUT: Final = "About"
GROUPS: Final = (RUN, ASK, CHANGE, ABOUT)


class Entry(NamedTuple):
    """One command.

    ``target`` is ``module:function`` under ``switchgear_cli.commands``; it is imported when it runs. ``extra`` is what to
    install for it.
    """

    name: str
    target: str
    group: str
    summary: str
    extra: str = "service"


COMMANDS: Final = (
    Entry(
        "up", "up:up", RUN, "Run the whole system on this machine: Kafka, worker, sink, API and gateway.", "embedded"
    ),
    Entry("worker", "worker:worker", RUN, "Fold the fleet's executions into circuits.", "stream"),
    Entry("sink", "sink:sink", RUN, "Store executions and circuit changes in ClickHouse.", "sink"),
    Entry("api", "api:api", RUN, "Serve the HTTP API over a ClickHouse server.", "sink"),
    Entry("gateway", "gateway:gateway", RUN, "Serve clients over HTTP and OpenTelemetry, without Kafka.", "gateway"),
    Entry("alerts", "alerts:alerts", RUN, "Send alerts when circuits open and close; check and test them.", "alerts"),
    Entry("demo", "demo:demo", RUN, "Send demo traffic of a small agent fleet."),
    Entry(
        "mcp-proxy", "mcp_proxy:mcp_proxy", RUN, "Guard the tools of MCP servers with circuit breakers.", "mcp-proxy"
    ),
    Entry("mcp", "mcp:mcp", RUN, "Answer agents' questions about tools, as an MCP server.", "mcp-server"),
    Entry("hook", "hook:hook", RUN, "Guard the tools of Claude Code with circuit breakers."),
    Entry("tools", "reads:tools", ASK, "List the tools with their calls, errors and latency."),
    Entry("tool", "reads:tool", ASK, "Report one tool's health."),
    Entry("circuits", "reads:circuits", ASK, "List the circuits and their state."),
    Entry("watch", "watch:watch", ASK, "Watch the circuits live: broken tools first."),
    Entry("slow", "reads:slow", ASK, "List the slowest calls."),
    Entry("errors", "reads:errors", ASK, "List the latest errors."),
    Entry("sql", "reads:sql", ASK, "Run one read-only SELECT on the stored data."),
    Entry("emit", "emit:emit", CHANGE, "Send executions from a file of JSON lines."),
    Entry("dead", "dead:dead", CHANGE, "List, show and resend rejected messages."),
    Entry("replay", "replay:replay", CHANGE, "Show what a policy would have done with a recording."),
    Entry("tune", "tune:tune", CHANGE, "Search policies on the stored calls, and propose one.", "tune"),
    Entry("open", "operate:force_open", CHANGE, "Refuse a tool's calls, in every process."),
    Entry("close", "operate:close", CHANGE, "Let a tool's calls through again."),
    Entry("reset", "operate:reset", CHANGE, "Close a tool's circuits and forget their evidence."),
    Entry("disable", "operate:disable", CHANGE, "Let every call of a tool through and count none."),
    Entry("metrics-only", "operate:metrics_only", CHANGE, "Let every call of a tool through, and count."),
    Entry("auto", "operate:auto", CHANGE, "Remove an operator's command: the policy decides again."),
    Entry("policy", "policy:policy", CHANGE, "Check, explain and set the policies of tools."),
    Entry("retention", "retention:retention", CHANGE, "Show or set how long rows are kept.", "sink"),
    Entry("token", "token:token", CHANGE, "Create, list and revoke the tokens of the HTTP API."),
    Entry("migrate", "migrate:migrate", CHANGE, "Make or change the tables, or show what would be done.", "sink"),
    Entry("topics", "topics:topics", CHANGE, "Create the Kafka topics and report those that differ."),
    Entry("doctor", "doctor:doctor", ABOUT, "Check every part of the system, and say what to do."),
    Entry("completion", "completion:completion", ABOUT, "Print the script that completes commands in your shell."),
    Entry("version", "version:version", ABOUT, "Print the versions of Switchgear and of what it runs on."),
)
