"""The circuit breaker of Powertools for AWS Lambda (Python), with a local store in the place of DynamoDB.

The library ships one store, for DynamoDB. Here a subclass of its persistence layer keeps the same record in Redis, under the same
conditions as the library's ``CircuitBreakerDynamoDBPersistence``. Reads are consistent, which favours it: the real one reads a replica.
Each process is an execution environment.

The library counts failures in dictionaries of its module. So each process gets a copy of that module, in virtual time too.
"""

from __future__ import annotations

import importlib.util
import json
import types
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from functools import cache
from typing import Any, Final

from aws_lambda_powertools.utilities.circuit_breaker import CircuitBreakerConfig, CircuitBreakerOpenError
from aws_lambda_powertools.utilities.circuit_breaker.persistence import base as persistence
from aws_lambda_powertools.utilities.circuit_breaker.persistence.record import CircuitStateRecord
from aws_lambda_powertools.utilities.circuit_breaker.states import CircuitState

from tests.bench.fleet.agent import Guard
from tests.bench.fleet.place import FAILURES, Contender, Place

HANDLER: Final = "aws_lambda_powertools.utilities.circuit_breaker.base"
_times: list[types.SimpleNamespace] = []
"""The replacement of the module ``datetime`` in virtual time."""


class LocalStore(persistence.CircuitBreakerPersistenceLayer):
    """The record of a circuit as JSON in Redis, with the conditions of the library's store for DynamoDB."""

    def __init__(self, client: Any, prefix: str) -> None:
        super().__init__()
        self._client = client
        self._prefix = prefix

    def _get_record(self, name: str) -> CircuitStateRecord | None:
        return _record(self._client.get(self._prefix + name))

    def _put_record(
        self, record: CircuitStateRecord, condition: str | None = None, expected_opened_at: int | None = None
    ) -> None:
        key = self._prefix + record.name

        def put(pipe: Any) -> bool:
            found = _record(pipe.get(key))
            pipe.multi()
            if condition == "half_open" and not _may_probe(found, expected_opened_at):
                return False
            pipe.set(key, json.dumps(asdict(record)))
            return True

        if not self._client.transaction(put, key, value_from_callable=True):
            raise persistence.CircuitBreakerExistingLockError

    def _update_record(self, record: CircuitStateRecord) -> None:
        self._client.set(self._prefix + record.name, json.dumps(asdict(record)))


def _record(value: bytes | None) -> CircuitStateRecord | None:
    if value is None:
        return None
    fields = json.loads(value)
    return CircuitStateRecord(**fields | {"state": CircuitState(fields["state"])})


def _may_probe(found: CircuitStateRecord | None, expected_opened_at: int | None) -> bool:
    if found is None:
        return False
    if found.state == CircuitState.OPEN:
        return found.half_open_owner is None and expected_opened_at in {None, found.opened_at}
    lease = found.probe_lease_expiry
    return (
        found.state == CircuitState.HALF_OPEN
        and lease is not None
        and lease <= persistence.dt.datetime.now().timestamp()
    )


@cache
def _code() -> Any:
    spec = importlib.util.find_spec(HANDLER)
    assert spec is not None
    assert isinstance(spec.loader, importlib.machinery.SourceFileLoader)
    return spec.loader.get_code(HANDLER)


def _environment() -> Any:
    """Return a copy of the module that counts failures."""
    module = types.ModuleType(HANDLER)
    exec(_code(), module.__dict__)  # the library's own code
    if _times:
        module.dt = _times[-1]
    return module


def guards(place: Place) -> Callable[[str], Guard]:
    """Return a handler for each call, as the library's decorator makes it."""
    environment, timing = _environment(), place.timing
    config = CircuitBreakerConfig(failure_threshold=FAILURES, recovery_timeout=timing.wait_s, success_threshold=1)

    def guard(tool: str) -> Guard:
        store = LocalStore(place.redis(), place.prefix)

        def call(function: Callable[[], Any]) -> Any:
            handler = environment.CircuitBreakerHandler(
                function=function, name=tool, config=config, persistence_store=store
            )
            return handler.handle()

        return call

    return guard


def virtual_time(wall: Callable[[], float]) -> None:
    """Replace the module that it asks for the time."""

    class VirtualDatetime(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> VirtualDatetime:
            return cls.fromtimestamp(wall(), tz)

    _times[:] = [types.SimpleNamespace(datetime=VirtualDatetime)]
    persistence.dt = _times[-1]


CONTENDER = Contender(
    name="AWS Powertools, local store",
    distribution="aws-lambda-powertools",
    shares="state, cached for 5 s; counts are of each process",
    note=(
        "Five failures in a row of one process. Its store for DynamoDB is stood in for by Redis. The wait and one probe"
        " (default 3) are set."
    ),
    refusals=(CircuitBreakerOpenError,),
    guards=guards,
    needs="redis",
    virtual_time=virtual_time,
)
