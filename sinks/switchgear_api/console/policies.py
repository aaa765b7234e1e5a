"""The policy lab: the policies in force, a replay of another one, and setting it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final, Literal

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response

from switchgear.fleet.policy_overrides import named_values
from switchgear.policies import Explanation, PolicyError, PolicySet
from switchgear.policies.glob import is_glob, matches
from switchgear.policies.load import read_file
from switchgear.policies.policy_set import BUILT_IN, NOT_FOR_FAMILIES
from switchgear_api.answers import BadRequestError, json_answer
from switchgear_api.console.actions import WAIT_S, Actions, Actor, Reason, Wait, command_of
from switchgear_api.console.audit import Action
from switchgear_api.console.figures import utc_now
from switchgear_api.console.page_shapes import PolicyValue
from switchgear_api.operate.known_state import KnownState, read_known
from switchgear_api.operate.policy_in_force import (
    after_setting,
    checked_values,
    overridden,
    policy_used,
    with_overrides,
)
from switchgear_api.parameters import Parameters, json_body
from switchgear_api.replay.what_if import WhatIf
from switchgear_api.rights import Rights
from switchgear_http.principal import Role
from switchgear_http.routing import Handlers, route
from switchgear_schemas.circuit_ids import circuit_id as id_of
from switchgear_schemas.circuit_ids import read_circuit_id
from switchgear_schemas.enums import Mode
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.families import is_family
from switchgear_schemas.policy import BreakerPolicy
from switchgear_schemas.settings import Settings
from switchgear_schemas.wire import Execution
from switchgear_sinks.repository.queries import Conditions, select, window_end
from switchgear_sinks.store import Database

log = structlog.get_logger()

KEPT_S: Final = 5.0
READ_LIMIT_S: Final = 3.0
MOST_CALLS: Final = 300_000
"""Calls of one replay: some seconds of work."""
MOST_HOURS: Final = 24 * 31
_COLUMNS: Final = (
    "tool_name", "tenant", "target", "status", "user_id", "session_id", "execution_time_ms", "error_type", "error_message", "error_class",
    "retry_after_s", "input_tokens", "output_tokens", "cache_creation_tokens", "cost_usd", "recorded_at",
)  # fmt: skip
NOTHING_KNOWN: Final = KnownState({}, {})
"""Instead of what the workers know, while Kafka does not answer."""
_REPLAY: Final = (
    'Send {"tool": "mcp:github:search", "policy": {"consecutive_failures": 3}, "hours": 24} as application/json.'
)
_PUT: Final = 'Send {"policy": {"consecutive_failures": 3}, "mode": "metrics_only", "reason": "replayed on a day"} as application/json.'


class ReplayBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a replay, for a tool or a glob. The ``policy`` has the values to change."""

    policy: dict[str, Any]
    tool: str | None = None
    pattern: str | None = None
    hours: float = 24.0


class PutBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a change. An empty ``policy`` without a ``mode`` removes what was set.

    With ``family`` the name in the path is that of a family. ``actor`` and ``wait_s`` are as in the body of a command.
    """

    policy: dict[str, Any]
    reason: Reason
    mode: Literal["metrics_only", "enforce"] | None = None
    expires_in_s: float | None = None
    dry_run: bool = False
    family: bool = False
    actor: Actor | None = None
    wait_s: Wait = WAIT_S


class EffectivePolicies:
    """The policy file, and over it what operators set, as the workers know it.

    Args:
        settings: The policy file, the brokers and topics.
        kafka: Ask the brokers. Without it, only the file counts.
    """

    def __init__(self, settings: Settings, *, kafka: bool) -> None:
        self._settings = settings
        self._kafka = kafka
        self._turn = asyncio.Lock()
        self._known: KnownState | None = None
        self._read_at = float("-inf")

    async def known(self, *, fresh: bool = False) -> KnownState | None:
        """Return what the workers know, at most a few seconds old; None while Kafka does not answer."""
        if not self._kafka:
            return None
        async with self._turn:
            if fresh or time.monotonic() - self._read_at > KEPT_S:
                try:
                    self._known = await read_known(self._settings, timeout_s=READ_LIMIT_S)
                except SwitchgearError as error:
                    log.warning("the operators' policies could not be read", why=error.message)
                    self._known = None
                self._read_at = time.monotonic()
            return self._known

    def forget(self) -> None:
        """Ask the brokers again next time."""
        self._read_at = float("-inf")

    def file(self) -> PolicySet:
        """Return the policies of the file.

        Raises:
            PolicyError: The file is wrong.
        """
        return PolicySet.load(self._settings.policy_file)

    async def explain(self, tool: str) -> Explanation:
        """Return the policy of a tool and where each value comes from."""
        explained = (await asyncio.to_thread(self.file)).explain(tool)
        known = await self.known()
        return explained if known is None else with_overrides(explained, known)

    async def mode_of(self, circuit_id: str) -> Mode:
        """Return the mode in which a circuit starts, and goes on after a command; ``enforce`` if the policy file is wrong."""
        name, scope, _ = read_circuit_id(circuit_id)
        family = scope == "family"
        try:
            file = await asyncio.to_thread(self.file)
        except PolicyError as error:
            log.warning("the policy file could not be read", why=error.message)
            return "enforce"
        explained = file.explain_family(name) if family else file.explain(name)
        return policy_used(explained, await self.known() or NOTHING_KNOWN, family=family).mode

    async def rows(self, tool: str) -> list[PolicyValue]:
        """Return a row for every setting of a tool's policy."""
        return rows_of(await self.explain(tool))


def rows_of(explained: Explanation) -> list[PolicyValue]:
    """Return a row for every setting, with its value and source."""
    values = explained.policy.model_dump(mode="json")
    cusum = values.pop("cusum")
    flat = values | ({"cusum": None} if cusum is None else {f"cusum.{key}": cusum[key] for key in cusum})
    set_by = overridden(explained)
    found: list[PolicyValue] = []
    for name in sorted(flat):
        title = explained.sources.get(name, BUILT_IN)
        if name in set_by:
            source, pattern = "override", set_by[name]
        elif title == BUILT_IN:
            source, pattern = "default", None
        else:
            source, pattern = "file", title.strip("[]").partition(".")[2].strip('"') or None
        found.append({"setting": name, "value": flat[name], "source": source, "pattern": pattern})
    return found


class Policies(Handlers):
    """The handlers.

    Args:
        db: The stored calls.
        settings: The policy file.
        effective: The policies in force.
        actions: Sends and records a change.
    """

    def __init__(self, db: Database, settings: Settings, effective: EffectivePolicies, actions: Actions) -> None:
        self._db = db
        self._settings = settings
        self._effective = effective
        self._actions = actions
        self._turn = asyncio.Lock()
        actions.after.append(effective.forget)

    @route("GET", "/v1/policies", Role.READ)
    async def listed(self, request: Request) -> Response:
        """List the rules of the policy file and what operators set."""
        Parameters.of(request)
        Rights.of(request).check_unrestricted("Policies")
        known, written = await asyncio.gather(self._effective.known(), asyncio.to_thread(self._written))
        return json_answer(
            {
                "file": None if self._settings.policy_file is None else str(self._settings.policy_file),
                "built_in": BreakerPolicy().model_dump(mode="json"),
                "default": written.get("default") or {},
                "rules": [{"pattern": name, "values": values} for name, values in (written.get("tools") or {}).items()],
                "families": [
                    {"pattern": name, "values": values} for name, values in (written.get("family") or {}).items()
                ],
                "overrides": None if known is None else overrides_of(known),
            }
        )

    @route("POST", "/v1/policies/replay", Role.READ, body=ReplayBody)
    async def replay(self, request: Request) -> Response:
        """Compare a proposed policy with the present one on stored calls."""
        rights, body = Rights.of(request), await json_body(request, ReplayBody, _REPLAY)
        pattern = body.tool or body.pattern
        if not pattern or (body.tool and body.pattern):
            raise BadRequestError("Give either tool or pattern.", hint=_REPLAY)
        rights.check_tool(pattern)
        if not 0 < body.hours <= MOST_HOURS:
            raise BadRequestError(f"hours must be more than 0 and at most {MOST_HOURS}, got {body.hours:g}.")
        values = named_values(checked(body.policy))
        since = utc_now() - timedelta(hours=body.hours)
        calls, truncated = await self._calls(pattern, rights, since)
        file = await asyncio.to_thread(self._effective.file)
        known = await self._effective.known() or NOTHING_KNOWN
        proposed = after_setting(known, _subject(pattern), values) if values else known
        async with self._turn:  # one replay at a time: it takes a whole processor
            before = await asyncio.to_thread(WhatIf(_policies_of(file, known)).run, calls)
            try:
                after = await asyncio.to_thread(WhatIf(_policies_of(file, proposed)).run, calls)
            except PolicyError as error:
                raise BadRequestError(error.message, hint=error.hint) from None
        return json_answer(
            {
                "pattern": pattern,
                "since": since.isoformat(),
                "calls": len(calls),
                "truncated": truncated,
                "present": before,
                "proposed": after,
            }
        )

    @route("PUT", "/v1/policies/{pattern:path}", Role.OPERATE, body=PutBody)
    async def put(self, request: Request) -> Response:
        """Set values of the policy of a tool, a glob or a family."""
        pattern: str = request.path_params["pattern"]
        rights = Rights.of(request)
        rights.check_all_tenants("Policies, which all tenants share,")
        if is_glob(pattern):
            rights.check_unrestricted_tools("A policy for a glob")
        rights.check_tool(pattern)
        body = await json_body(request, PutBody, _PUT)
        if body.expires_in_s is not None:
            raise BadRequestError(
                "A policy has no end.", hint="Leave out expires_in_s, and undo it: POST /v1/audit/{id}/undo."
            )
        subject = self._family(pattern) if body.family else _subject(pattern)
        action = Action.of(request, "set_policy", subject, body.reason, actor=body.actor)
        values = body.policy | ({} if body.mode is None else {"mode": body.mode})
        policy = checked(values) if values else BreakerPolicy()
        if body.family:
            _check_for_family(policy)
        target = {"tool_name": pattern, "verb": "set_policy", "circuit_id": subject if body.family else None}
        command = command_of(**target, actor=action.actor, reason=action.reason, policy=policy)
        known = await self._effective.known(fresh=True)
        present = known or NOTHING_KNOWN
        set_before = values_set(present, subject)
        before: dict[str, Any] = {"values": set_before}
        following = after_setting(present, subject, named_values(policy))
        after: dict[str, Any] = {"values": values_set(following, subject)}
        if not is_glob(pattern):
            file = await asyncio.to_thread(self._effective.file)
            explained = file.explain_family(pattern) if body.family else file.explain(pattern)
            before["policy"] = policy_used(explained, present, family=body.family).model_dump(mode="json")
            after["policy"] = _possible(explained, following, family=body.family).model_dump(mode="json")
        if body.dry_run:
            return json_answer({"before": before, "after": after})
        undo: list[dict[str, Any]] = [target | {"policy": {}}]
        if set_before:
            undo.append(target | {"policy": set_before})
        action = replace(action, before=before, undo=None if known is None else undo)
        return await self._actions.carry_out(action, [command], expected=after, wait_s=body.wait_s)

    def _family(self, name: str) -> str:
        """Return the id of a family's circuit.

        Raises:
            BadRequestError: No tool can belong to a family of this name.
        """
        if is_glob(name):
            raise BadRequestError(
                f"family: {name!r} is a glob, and values are set for one family at a time.",
                hint="Name it, without wildcards.",
            )
        if not is_family(name, self._settings.family_pattern):
            raise BadRequestError(
                f"family: {name!r} is not the name of a family. family_pattern is {self._settings.family_pattern!r}.",
                hint="Name a family, such as mcp:github, or leave out family.",
            )
        return id_of(name, "family")

    def _written(self) -> Mapping[str, Any]:
        path = self._settings.policy_file
        return {} if path is None else read_file(path)

    async def _calls(self, pattern: str, rights: Rights, since: datetime) -> tuple[list[Execution], bool]:
        names, tenant = [pattern], rights.tenant(None)
        if is_glob(pattern):
            where = Conditions(tenant)
            rows = await self._db.rows(select("DISTINCT tool_name", "tool_counts_1m", where), where.parameters)
            names = [row["tool_name"] for row in rights.visible(rows) if matches(pattern, row["tool_name"])]
        calls = (
            Conditions(tenant)
            .recorded(since, window_end(utc_now()))
            .that("tool_name IN {names:Array(String)}", names=names)
        )
        rest = f"ORDER BY recorded_at DESC, kafka_partition DESC, kafka_offset DESC LIMIT {MOST_CALLS + 1}"
        rows = await self._db.rows(select(_COLUMNS, "tool_metrics", calls, rest), calls.parameters)
        return list(_executions(rows[:MOST_CALLS])), len(rows) > MOST_CALLS


def _subject(pattern: str) -> str:
    """Return what values are set for: a glob, or the circuit of a tool."""
    return pattern if is_glob(pattern) else id_of(pattern)


def overrides_of(known: KnownState) -> list[dict[str, Any]]:
    """Return the circuits and globs that operators set values for, with the values."""
    return [{"pattern": name, "values": values_set(known, name)} for name in known.policies_set()]


def values_set(known: KnownState, name: str) -> dict[str, Any]:
    """Return the values that operators set for a circuit or glob; empty if none."""
    row = known.circuits.get(name)
    if row is not None and row.policy is not None:
        found: dict[str, Any] = json.loads(row.policy)
        return found
    tables = (each.tables[name] for each in known.overrides.values() if name in each.tables)
    return json.loads(next(tables, b"{}"))  # type: ignore[no-any-return]  # a worker wrote an object


def checked(values: Mapping[str, Any]) -> BreakerPolicy:
    """Return a policy with only these values set.

    Raises:
        BadRequestError: A key is unknown, or a value is out of range.
    """
    try:
        return checked_values(values, "policy")
    except PolicyError as error:
        raise BadRequestError(error.message, hint=error.hint) from None


def _check_for_family(policy: BreakerPolicy) -> None:
    """Check that a family can have these values.

    Raises:
        BadRequestError: It can't.
    """
    for name, why in NOT_FOR_FAMILIES.items():
        if name in policy.model_fields_set and not (name == "scope" and policy.scope == "tool"):
            raise BadRequestError(f"policy.{name}: {why}.", hint="Set it for the tools.")


def _possible(explained: Explanation, known: KnownState, *, family: bool) -> BreakerPolicy:
    """Return the policy with the operators' values over it.

    Raises:
        BadRequestError: Together they are not a possible policy.
    """
    try:
        return with_overrides(explained, known, family=family).policy
    except PolicyError as error:
        raise BadRequestError(error.message, hint=error.hint) from None


def _policies_of(file: PolicySet, known: KnownState) -> Callable[[str], BreakerPolicy]:
    """Return a function that returns the policy in force of a tool, or raises PolicyError."""

    @cache
    def policy_of(tool: str) -> BreakerPolicy:
        return with_overrides(file.explain(tool), known).policy

    return policy_of


def _executions(rows: list[dict[str, Any]]) -> Iterator[Execution]:
    for row in reversed(rows):
        given = {name: value for name, value in row.items() if value not in ("", None)}
        given["error_class"] = row["error_class"] or None
        yield Execution(**given)
