"""Errors have a message and a hint. Identifiers sort by time and name their emitter."""

import os

from switchgear_schemas import InvalidExecutionError, SettingsError, SwitchgearError
from switchgear_schemas.ids import mint_emitter_id, mint_metric_id


def test_an_error_shows_its_message_and_its_hint():
    assert str(SwitchgearError("No broker.", hint="Start one.")) == "No broker. Start one."
    assert str(SettingsError("Bad.")) == "Bad."


def test_an_invalid_execution_names_the_field_where_there_is_one():
    assert str(InvalidExecutionError("status", "is missing")) == "status: is missing"
    assert str(InvalidExecutionError("", "not JSON")) == "not JSON"


def test_metric_ids_sort_by_the_time_they_were_made():
    made = [mint_metric_id() for _ in range(1000)]
    assert made == sorted(made)


def test_an_emitter_id_names_service_and_process_and_is_never_reused():
    first, second = mint_emitter_id("planner"), mint_emitter_id("planner")
    assert first.startswith("planner@")
    assert str(os.getpid()) in first
    assert first != second
