"""What TypeScript and SQL repeat of the records agrees with the models."""

from __future__ import annotations

import json
import re
from typing import get_args

import pytest

from switchgear_api.console.calls import COLUMNS as CALLS
from switchgear_api.console.policies import _COLUMNS as REPLAYED
from switchgear_schemas import enums
from switchgear_schemas.cause import Cause
from switchgear_schemas.explain import OPENING
from switchgear_schemas.json_schema import schema_files
from switchgear_schemas.wire import Execution
from switchgear_sinks.migrations.files import load_migrations
from switchgear_sinks.repository.circuits import RECORD
from tests.support.snippets import REPOSITORY

SOURCE = REPOSITORY / "producers" / "typescript" / "src"
CIRCUIT = json.loads(schema_files()["circuit.schema.json"])["properties"]
LITERAL = re.compile(r'"(\w+)"')


def interface(file: str, name: str) -> dict[str, str]:
    """The properties of an interface, and their types."""
    body = re.search(rf"interface {name} {{(.*?)\n}}", (SOURCE / file).read_text(), re.DOTALL)
    assert body is not None
    return dict(re.findall(r"readonly (\w+)\??: (.*);", body.group(1)))


def test_a_cause_has_the_same_fields_in_typescript():
    assert set(interface("breaker/values.ts", "Cause")) == set(Cause.__struct_fields__)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("breaker/values.ts", "CircuitState"),
        ("breaker/values.ts", "Status"),
        ("breaker/policy.ts", "ErrorClass"),
        ("breaker/policy.ts", "Mode"),
        ("circuit-ids.ts", "CircuitScope"),
    ],
)
def test_a_type_of_typescript_has_the_values_of_the_model(file, name):
    union = re.search(rf"type {name} =(.*?);", (SOURCE / file).read_text(), re.DOTALL)
    assert union is not None
    assert set(LITERAL.findall(union.group(1))) == set(get_args(getattr(enums, name)))


def columns(table: str) -> set[str]:
    """The columns of a table, by the migrations."""
    sql = "\n".join(each.text for each in load_migrations())
    made = re.findall(rf"^CREATE TABLE IF NOT EXISTS {table} .*?^\)", sql, re.DOTALL | re.MULTILINE)
    changed = re.findall(rf"^ALTER TABLE {table} .*?;$", sql, re.DOTALL | re.MULTILINE)
    column = re.compile(r"^\s+(?:ADD COLUMN IF NOT EXISTS )?([a-z_0-9]+) [A-Z]\w+", re.MULTILINE)
    return {name for statement in made + changed for name in column.findall(statement)}


def test_each_field_of_an_execution_has_a_column():
    assert set(Execution.__struct_fields__) <= columns("tool_metrics")


def test_the_columns_that_pages_and_replays_read_are_fields_of_an_execution():
    assert set(CALLS) | set(REPLAYED) <= set(Execution.__struct_fields__)


def test_the_columns_that_circuits_are_read_from_are_fields_of_a_record():
    assert set(RECORD) <= set(CIRCUIT)
    assert set(RECORD) <= columns("circuit_transitions")


def test_typescript_tells_a_model_the_same_rules():
    source = (SOURCE / "model-text.ts").read_text()
    rules = re.search(r"const RULE = (.*?)\(\?:", source, re.DOTALL)
    assert rules is not None
    assert re.findall(r"[a-z_]{4,}", rules.group(1).replace("RegExp", "")) == list(OPENING)
