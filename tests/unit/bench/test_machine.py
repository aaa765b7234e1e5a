"""What is recorded of the machine."""

from __future__ import annotations

import json
from datetime import datetime

from tests.bench import machine


def test_a_machine_is_described_in_json_with_versions_and_date():
    found = json.loads(json.dumps(machine.describe()))
    assert datetime.fromisoformat(found["date"]).tzinfo is not None
    assert found["cores"] >= 1
    assert found["packages"]["msgspec"]


def test_a_description_is_also_a_sentence():
    found = machine.describe()
    text = machine.sentence(found)
    assert found["commit"] in text
    assert found["python"] in text
