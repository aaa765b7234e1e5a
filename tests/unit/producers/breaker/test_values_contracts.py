"""The breaker's own types without pydantic agree with the contracts, field by field."""

from __future__ import annotations

import msgspec
import pytest

from switchgear.breaker.evidence import thresholds_of
from switchgear.guard.local_circuits import policy_of
from switchgear.guard.local_families import family_policy_of
from switchgear_schemas import LOCAL_DEFAULT, BreakerPolicy, Cause, Circuit
from switchgear_schemas.plain_policy import PlainCusum, PlainPolicy
from switchgear_schemas.policy import LOCAL_FAMILY_DEFAULT, Cusum


def test_a_plain_policy_has_every_field_of_a_policy_and_its_defaults():
    assert list(PlainPolicy.__struct_fields__) == list(BreakerPolicy.model_fields)
    plain, model = PlainPolicy(), BreakerPolicy()
    for name in BreakerPolicy.model_fields:
        assert getattr(plain, name) == getattr(model, name), name
        assert type(getattr(plain, name)) is type(getattr(model, name)) or name.endswith("_s"), name


def test_a_plain_cusum_has_every_field_of_a_cusum_and_its_defaults():
    assert msgspec.structs.asdict(PlainCusum()) == Cusum().model_dump()


@pytest.mark.parametrize(
    ("found", "contract"),
    [
        (policy_of(None)("any tool"), LOCAL_DEFAULT),
        (policy_of({})("any tool"), LOCAL_DEFAULT),
        (family_policy_of(None)("any family"), LOCAL_FAMILY_DEFAULT),
    ],
)
def test_the_local_defaults_are_the_contracts(found, contract):
    assert msgspec.structs.asdict(found) | {"cusum": msgspec.structs.asdict(found.cusum)} == contract.model_dump()
    assert thresholds_of(found) == thresholds_of(contract)


def test_a_cause_becomes_part_of_a_record_as_it_is():
    cause = Cause("failure_rate", 0.5, 0.4, 20, 2, "ana", "because")
    fields = {"circuit_id": "t", "tool_name": "t", "state": "open", "version": 1, "generation": 1}
    record = Circuit.from_dict({**fields, "cause": cause, "changed_at": "2026-01-01T00:00:00Z"})
    assert record.cause is cause
    assert Circuit.from_bytes(record.to_bytes()).cause == cause
