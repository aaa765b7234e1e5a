"""Who may command, and what undoes a command."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from starlette.requests import Request

from switchgear_api.answers import ForbiddenError
from switchgear_api.console.actions import Actions, _still, undo_of_command
from switchgear_api.console.records import no_circuit
from switchgear_http.middleware import _KEY
from switchgear_http.principal import Principal, Role
from switchgear_http.routing import _ROUTE, Route
from switchgear_schemas.command import Command

CLOSED = no_circuit("mail", None)
COMMAND = Command(tool_name="mail", verb="force_open", actor="ann", reason="x")
SOON = "2100-01-01T00:00:00.000Z"
OVERRIDE = {"command": "force_open", "actor": "ann", "reason": "x", "expires_at": None}


@pytest.mark.parametrize("verb", ["force_open", "disable", "metrics_only"])
def test_undo_of_a_command_to_a_closed_circuit_ends_the_command(verb):
    assert undo_of_command(verb, CLOSED, COMMAND) == [{"tool_name": "mail", "circuit_id": None, "verb": "auto"}]


@pytest.mark.parametrize("verb", ["force_open", "disable", "metrics_only"])
def test_undo_of_a_command_to_a_circuit_that_a_rule_opened_opens_it_until_its_next_probe(verb):
    before = CLOSED | {"state": "open", "next_probe_at": SOON}
    (found,) = undo_of_command(verb, before, COMMAND)
    assert (found["verb"], found["until"]) == ("force_open", SOON)


def test_undo_for_a_circuit_that_was_half_open_lets_probes_decide_at_once():
    commands = undo_of_command("disable", CLOSED | {"state": "half_open"}, COMMAND)
    (found,) = _still(commands)
    until = datetime.fromisoformat(found["until"])
    assert (found["verb"], timedelta(0) < until - datetime.now(UTC) < timedelta(seconds=2)) == ("force_open", True)


def test_undo_brings_back_the_command_from_before_while_it_lasts():
    before = CLOSED | {"state": "metrics_only", "override": OVERRIDE, "expires_at": SOON}
    commands = undo_of_command("force_open", before, COMMAND)
    assert [each["verb"] for each in _still(commands)] == ["metrics_only"]
    past = undo_of_command("force_open", before | {"expires_at": "2026-01-01T00:00:00.000Z"}, COMMAND)
    assert [each["verb"] for each in _still(past)] == ["auto"]


def test_undo_for_a_circuit_that_was_forced_open_for_a_time_keeps_the_end_of_that_time():
    before = CLOSED | {"state": "open", "override": OVERRIDE, "next_probe_at": SOON}
    (found,) = undo_of_command("auto", before, COMMAND)
    assert (found["verb"], found["until"]) == ("force_open", SOON)
    (found,) = undo_of_command("auto", before | {"state": "forced_open", "next_probe_at": None}, COMMAND)
    assert (found["verb"], found["until"]) == ("force_open", None)


@pytest.mark.parametrize("verb", ["close", "reset"])
def test_removed_evidence_cannot_be_brought_back(verb):
    assert undo_of_command(verb, CLOSED | {"state": "open", "next_probe_at": SOON}, COMMAND) is None


def asked(body: bytes, *, tenant: str | None) -> Request:
    """Return the request of an operator about the circuit of mail."""

    async def receive():
        return {"type": "http.request", "body": body}

    scope = {
        "type": "http", "method": "POST", "path": "/", "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "path_params": {"circuit_id": "mail", "audit_id": "7"},
        _KEY: Principal("ops", frozenset({Role.OPERATE}), tenant),
    }  # fmt: skip
    scope[_ROUTE] = Route("POST", "/", None, receive, "")
    return Request(scope, receive)


async def test_an_operator_of_one_tenant_commands_no_circuit_because_all_tenants_share_it():
    async def nothing(_circuit_id):
        return None

    fleet, boards = SimpleNamespace(find=nothing), SimpleNamespace(forget=None)
    actions = Actions(None, fleet, boards, None, None)
    body = b'{"command": "force_open", "reason": "x", "dry_run": true}'
    with pytest.raises(ForbiddenError, match="all tenants share"):
        await actions.command(asked(body, tenant="acme"))
    with pytest.raises(ForbiddenError, match="all tenants share"):
        await actions.undo(asked(b'{"reason": "x"}', tenant="acme"))
    assert (await actions.command(asked(body, tenant=None))).status_code == 200
