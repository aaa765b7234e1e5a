"""A ToolMetric as a row, and back."""

from switchgear_schemas.execution import ToolMetric
from switchgear_sinks.repository.tool_metrics import COLUMNS, to_json_line, to_metric
from tests.support.table import table


@table(
    ("stored", "read"),
    [("", {}), ("{}", {}), ('{"a": [1]}', {"a": [1]}), ("not json", {"raw": "not json"}), ("[1]", {"raw": [1]})],
)
def test_metadata_that_is_not_an_object_is_kept_as_raw_text(stored, read):
    assert to_metric({"tool_name": "t", "status": "success", "metadata": stored}).metadata == read


def test_empty_text_becomes_none_only_in_optional_fields():
    metric = to_metric(
        {"tool_name": "t", "status": "error", "user_id": "", "session_id": "", "error_class": "", "tenant": ""}
    )
    assert (metric.user_id, metric.tenant) == ("", "")
    assert (metric.session_id, metric.error_class) == (None, None)


def test_columns_that_are_not_fields_of_a_tool_metric_are_left_out():
    metric = to_metric({"tool_name": "t", "status": "success", "kafka_offset": 7})
    assert metric.model_extra == {}
    assert set(COLUMNS) == set(ToolMetric.model_fields)


def test_json_line_of_a_metric_reads_back_as_the_same_metric():
    metric = ToolMetric(tool_name="t", status="error", error_message='\u2028 \\ "', metadata={"a": None})
    assert ToolMetric.model_validate_json(to_json_line(metric)) == metric
    assert b"\n" not in to_json_line(metric)
