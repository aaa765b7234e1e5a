"""The JSON Schema files beside the package are current, and say what the models say."""

import json
from pathlib import Path

import jsonschema
import pytest

from switchgear_schemas import Circuit, ToolExecution
from switchgear_schemas.json_schema import CONTRACTS, asyncapi_document, asyncapi_text, main, schema_files
from tests.support.table import table

SCHEMAS = Path(__file__).resolve().parents[3] / "schemas"
FOLDER = SCHEMAS / "json"


@pytest.mark.slow
def test_the_checked_in_files_are_what_the_models_generate():
    assert {path.name: path.read_text() for path in FOLDER.glob("*.json")} == schema_files(), "run `make schemas`"


@pytest.mark.slow
def test_every_contract_has_its_file():
    assert {f"{name}.schema.json" for name in CONTRACTS} == set(schema_files())


@pytest.mark.slow
@table("name", CONTRACTS)
def test_each_file_is_a_valid_schema(name):
    jsonschema.Draft202012Validator.check_schema(json.loads(schema_files()[f"{name}.schema.json"]))


@pytest.mark.slow
def test_the_execution_schema_accepts_the_least_event_and_refuses_one_without_status():
    schema = json.loads(schema_files()["execution.schema.json"])
    jsonschema.validate({"tool_name": "search", "status": "success", "region": "eu"}, schema)
    with pytest.raises(jsonschema.ValidationError, match="'status' is a required property"):
        jsonschema.validate({"tool_name": "search"}, schema)


@pytest.mark.slow
def test_what_the_models_write_is_valid_by_their_schemas():
    files = schema_files()
    event = ToolExecution(tool_name="search", status="timeout", error_class="timeout", metadata={"a": 1})
    jsonschema.validate(event.to_dict(), json.loads(files["execution.schema.json"]))
    circuit = Circuit(
        circuit_id="t", tool_name="t", state="open", version=1, generation=1, changed_at=event.recorded_at
    )
    jsonschema.validate(circuit.to_dict(), json.loads(files["circuit.schema.json"]))


@pytest.mark.slow
def test_the_command_writes_all_documents_into_a_folder(tmp_path):
    main(str(tmp_path))
    assert {path.name for path in (tmp_path / "json").iterdir()} == set(schema_files())
    assert (tmp_path / "asyncapi.json").read_text() == asyncapi_text()


def test_the_checked_in_asyncapi_document_is_current():
    assert (SCHEMAS / "asyncapi.json").read_text() == asyncapi_text(), "run `make schemas`"


def test_the_asyncapi_document_describes_the_topics_that_clients_use():
    document = asyncapi_document()
    addresses = {channel["address"] for channel in document["channels"].values()}
    assert addresses == {"switchgear.executions", "switchgear.circuits", "switchgear.commands"}
    for channel in document["channels"].values():
        for message in channel["messages"].values():
            assert (SCHEMAS / message["payload"]["$ref"]).is_file()
