"""Write the Grafana dashboard: ``python deploy/grafana/build.py``. Import the file into Grafana, or let docker-compose.yml provision it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders import bargauge, common, dashboard, prometheus, stat, statetimeline, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import StackingMode
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
)

OUTPUT = Path(__file__).with_name("switchgear.json")
DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
CIRCUIT = 'circuit=~"$circuit"'
STATES = (("closed", "closed", "green"), ("half_open", "half-open", "yellow"), ("open|forced_open", "open", "red"))
"""Values of the label, name and colour, from 0 up."""
OTHER_MODES = ("disabled|metrics_only", "not enforced", "blue")


def query(expression: str, legend: str = "", *, instant: bool = False) -> prometheus.Dataquery:
    """Return a query."""
    made = prometheus.Dataquery().expr(expression).legend_format(legend)
    return made.instant() if instant else made


def steps(*marks: tuple[float | None, str]) -> dashboard.ThresholdsConfig:
    """Return thresholds: from each value on, a colour."""
    marked = [Threshold(value=value, color=color) for value, color in marks]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(marked)


def number(title: str, text: str, expression: str, *marks: tuple[float | None, str]) -> stat.Panel:
    """Return a panel with one number."""
    panel = stat.Panel().title(title).description(text).datasource(DATASOURCE).span(4).height(4)
    return panel.with_target(query(expression, instant=True)).thresholds(steps((None, "green"), *marks))


def chart(title: str, text: str, unit: str, *queries: prometheus.Dataquery, stacked: bool = False) -> timeseries.Panel:
    """Return a panel with lines over time."""
    panel = timeseries.Panel().title(title).description(text).datasource(DATASOURCE).unit(unit).span(12).height(8)
    if stacked:
        panel = panel.fill_opacity(30).stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    for each in queries:
        panel = panel.with_target(each)
    return panel.min(0)


def timeline() -> statetimeline.Panel:
    """Return the states of the circuits over time."""
    states = (*STATES, OTHER_MODES)
    series = [
        f'switchgear_worker_circuit_state{{state=~"{label}",{CIRCUIT}}} * {value}'
        for value, (label, *_) in enumerate(states)
    ]
    names = {
        str(value): ValueMappingResult(text=name, color=color, index=value)
        for value, (_, name, color) in enumerate(states)
    }
    return (
        statetimeline.Panel()
        .title("Circuits")
        .description("The state of each circuit. switchgear watch shows the reasons.")
        .datasource(DATASOURCE)
        .mappings([ValueMap(options=names)])
        .span(24)
        .height(10)
        .with_target(query(f"max by (circuit) ({' or '.join(series)})", "{{circuit}}"))
    )


def build() -> dashboard.Dashboard:
    """Return the dashboard."""
    refused = 'switchgear_worker_circuit_state{state=~"open|half_open|forced_open"}'
    return (
        dashboard.Dashboard("Switchgear")
        .uid("switchgear")
        .tags(["switchgear"])
        .refresh("15s")
        .time("now-1h", "now")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("datasource").type("prometheus").label("Prometheus"))
        .with_variable(
            dashboard.QueryVariable("circuit")
            .label("Circuit")
            .datasource(DATASOURCE)
            .query("label_values(switchgear_worker_circuit_state, circuit)")
            .multi(True)
            .include_all(True)
            .all_value(".*")
        )
        .with_row(dashboard.Row("Tools"))
        .with_panel(number("Not closed", "Circuits that are open, half-open or forced open.", f"count({refused}) or vector(0)", (1, "red")))
        .with_panel(number("Circuits", "All circuits, those of users and sessions included.", "sum(switchgear_worker_circuits)"))
        .with_panel(number("Workers ready", "Workers with partitions, and spares.", "sum(switchgear_worker_ready)"))
        .with_panel(number("Not counted yet", "Events that no worker has folded.", "sum(switchgear_worker_lag_records)", (10_000, "red")))
        .with_panel(number("Not stored yet", "Records that no sink has inserted.", "sum(switchgear_sink_lag)", (100_000, "red")))
        .with_panel(number("Dead letters, 1 h", "Messages that are not valid executions.", "sum(increase(switchgear_worker_dead_letters_total[1h]) or increase(switchgear_sink_dead_letters_total[1h])) or vector(0)", (1, "orange")))
        .with_panel(timeline())
        .with_panel(chart("Circuits by state", "Without the closed ones.", "short", query('sum by (state) (switchgear_worker_circuits{state!="closed"})', "{{state}}"), stacked=True))
        .with_panel(chart("Changes of state", "Circuit records by state.", "cps", query("sum by (state) (rate(switchgear_worker_circuit_records_total[$__rate_interval]))", "{{state}}")))
        .with_row(dashboard.Row("Calls, as the processes with CallCounts see them"))
        .with_panel(chart("Calls", "By status.", "cps", query("sum by (status) (rate(switchgear_guard_calls_total[$__rate_interval]))", "{{status}}"), stacked=True))
        .with_panel(chart("Refused calls", "By tool, the ten with the most.", "cps", query("topk(10, sum by (tool) (rate(switchgear_guard_rejections_total[$__rate_interval])))", "{{tool}}")))
        .with_panel(chart("Share of failed calls", "By tool, the ten highest.", "percentunit", query('topk(10, sum by (tool) (rate(switchgear_guard_calls_total{status=~"error|timeout"}[$__rate_interval])) / sum by (tool) (rate(switchgear_guard_calls_total[$__rate_interval])))', "{{tool}}")))
        .with_panel(chart("Duration of a call", "Mean by tool, the ten longest.", "s", query("topk(10, sum by (tool) (rate(switchgear_guard_call_seconds_total[$__rate_interval])) / sum by (tool) (rate(switchgear_guard_calls_total[$__rate_interval])))", "{{tool}}")))
        .with_row(dashboard.Row("Processes that call tools"))
        .with_panel(chart("Who decides", "Processes by mode.", "short", query("sum by (mode) (switchgear_guard_mode)", "{{mode}}"), stacked=True))
        .with_panel(chart("Age of the fleet's state", "Seconds since the broker last answered.", "s", query("max by (instance) (switchgear_guard_fleet_age_seconds)", "{{instance}}")))
        .with_panel(chart("Events", "By result.", "cps", query("sum by (result) (rate(switchgear_emitter_events_total[$__rate_interval]))", "{{result}}")))
        .with_panel(chart("Events that wait", "In memory, and in the spool.", "short", query("sum(switchgear_emitter_buffered_events)", "memory"), query("sum(switchgear_spool_records)", "spool")))
        .with_panel(chart("Calls that wait for their turn", "Seconds that calls waited in a second, by tool, the ten with the most.", "short", query("topk(10, sum by (tool) (rate(switchgear_guard_paced_wait_seconds_total[$__rate_interval])))", "{{tool}}")))
        .with_panel(chart("Calls over a rate limit", "Those that waited, and those that were refused.", "cps", query("sum(rate(switchgear_guard_paced_waits_total[$__rate_interval]))", "waited"), query("sum(rate(switchgear_guard_paced_refusals_total[$__rate_interval]))", "refused")))
        .with_panel(chart("Changes of lists of tools", "Of lists that models had seen, in an hour. After each, the model's provider reads the whole prompt again.", "short", query("sum by (instance) (increase(switchgear_guard_tool_list_changes_total[1h]))", "{{instance}}"), stacked=True))
        .with_row(dashboard.Row("Workers"))
        .with_panel(chart("Events folded", "", "cps", query("sum by (instance) (rate(switchgear_worker_executions_total[$__rate_interval]))", "{{instance}}"), stacked=True))
        .with_panel(chart("Lag", "Records not yet folded.", "short", query("sum by (instance, topic) (switchgear_worker_lag_records)", "{{instance}} {{topic}}")))
        .with_panel(chart("Duration of a batch", "From its arrival to the broker's acknowledgement.", "s", *(query(f"histogram_quantile({share}, sum by (le) (rate(switchgear_worker_batch_seconds_bucket[$__rate_interval])))", name) for share, name in ((0.5, "median"), (0.99, "99 %")))))
        .with_panel(chart("Late, repeated and dead", "Executions that came too late, replays that changed nothing, and dead letters.", "cps", query("sum(rate(switchgear_worker_late_total[$__rate_interval]))", "late"), query("sum(rate(switchgear_worker_duplicates_total[$__rate_interval]))", "replayed"), query("sum(rate(switchgear_worker_dead_letters_total[$__rate_interval]))", "dead letters")))
        .with_row(dashboard.Row("Sink and API"))
        .with_panel(chart("Rows stored", "By table.", "cps", query("sum by (table) (rate(switchgear_sink_rows_total[$__rate_interval]))", "{{table}}")))
        .with_panel(chart("Lag", "Records not yet stored.", "short", query("sum by (topic) (switchgear_sink_lag)", "{{topic}}")))
        .with_panel(chart("Duration of an insert", "", "s", *(query(f"histogram_quantile({share}, sum by (le) (rate(switchgear_sink_insert_seconds_bucket[$__rate_interval])))", name) for share, name in ((0.5, "median"), (0.99, "99 %")))))
        .with_panel(chart("Inserts tried again", "By ClickHouse's code.", "cps", query("sum by (code) (rate(switchgear_sink_insert_retries_total[$__rate_interval]))", "{{code}}")))
        .with_panel(chart("Requests of the API", "By status.", "reqps", query("sum by (status) (rate(switchgear_api_requests_total[$__rate_interval]))", "{{status}}"), stacked=True))
        .with_panel(chart("Duration of a request", "99 % are faster.", "s", query("histogram_quantile(0.99, sum by (le, route) (rate(switchgear_api_request_seconds_bucket[$__rate_interval])))", "{{route}}")))
        .with_row(dashboard.Row("Gateways"))
        .with_panel(chart("Calls of clients", "By what became of them.", "cps", query("sum by (result) (rate(switchgear_gateway_events_total[$__rate_interval]))", "{{result}}"), stacked=True))
        .with_panel(chart("Calls without Kafka's answer", "By gateway.", "short", query("sum by (instance) (switchgear_gateway_events_in_flight)", "{{instance}}")))
        .with_panel(chart("Requests of gateways", "By status.", "reqps", query("sum by (status) (rate(switchgear_gateway_requests_total[$__rate_interval]))", "{{status}}"), stacked=True))
        .with_panel(chart("Time until an answer begins", "99 % are faster.", "s", query("histogram_quantile(0.99, sum by (le, route) (rate(switchgear_gateway_request_seconds_bucket[$__rate_interval])))", "{{route}}")))
        .with_row(dashboard.Row("Messages about circuits: switchgear alerts"))
        .with_panel(chart("Messages delivered", "By receiver.", "cpm", query("60 * sum by (receiver) (rate(switchgear_alerts_delivered_total[$__rate_interval]))", "{{receiver}}")))
        .with_panel(chart("Messages that wait", "Made and not yet delivered, by receiver.", "short", query("sum by (receiver) (switchgear_alerts_undelivered_messages)", "{{receiver}}")))
        .with_panel(chart("Failed tries and messages given up", "By receiver.", "cpm", query("60 * sum by (receiver) (rate(switchgear_alerts_failed_total[$__rate_interval]))", "{{receiver}} failed"), query("60 * sum by (receiver) (rate(switchgear_alerts_dead_total[$__rate_interval]))", "{{receiver}} given up")))
        .with_panel(chart("Open incidents, and the lag", "Records of the circuits topic that are not read yet.", "short", query("max(switchgear_alerts_incidents_open)", "incidents"), query("max(switchgear_alerts_lag_records)", "lag")))
        .with_row(dashboard.Row("Processes"))
        .with_panel(chart("Memory", "", "bytes", query('process_resident_memory_bytes{job=~"switchgear-.*"}', "{{job}} {{instance}}")))
        .with_panel(bargauge.Panel().title("Versions").description("Processes by version.").datasource(DATASOURCE).span(12).height(8).with_target(query("count by (component, version) (switchgear_build_info)", "{{component}} {{version}}", instant=True)))
    )  # fmt: skip


def as_json() -> str:
    """Return the file's content."""
    built: Any = build().build()
    return JSONEncoder(sort_keys=True, indent=2).encode(built) + "\n"


if __name__ == "__main__":
    OUTPUT.write_text(as_json())
    print(f"{OUTPUT} is written.")
