"""The variables that a command line passes on to its server. test_child.py shows what a server gets."""

from __future__ import annotations

import pytest

from switchgear_mcp.environment import passed_on
from switchgear_schemas.errors import WrongUsageError


def test_variables_are_passed_on_by_their_names_if_they_are_set(monkeypatch):
    monkeypatch.setenv("TOKEN", "x")
    monkeypatch.delenv("NOT_SET", raising=False)
    assert passed_on(["TOKEN", "NOT_SET"]) == {"TOKEN": "x"}


@pytest.mark.parametrize("name", ["TOKEN=hunter2", "=", ""])
def test_a_value_on_the_command_line_is_refused_and_not_shown(name):
    with pytest.raises(WrongUsageError, match="without a value") as raised:
        passed_on([name])
    assert "hunter2" not in str(raised.value)
