"""Check that a row of the changelog is one that an owner wrote. Anyone with access to the topic may write anything there."""

from __future__ import annotations

import json

from switchgear.breaker import snapshot
from switchgear.fleet.policy_overrides import PolicyOverrides, is_circuit
from switchgear.fleet.rows import Row, RowError, applied, is_circuit_of
from switchgear_schemas import SwitchgearError
from switchgear_schemas.partitioner import owner_partition


def check_row(key: bytes, data: bytes, partition: int, partitions: int) -> None:
    """Check that the owner of ``partition`` may have written a row under ``key``.

    Raises:
        RowError: The row is damaged, of another version, under the key of another row, or in another partition.
    """
    try:
        wrong = _wrong_circuit(key, data, partition, partitions) if is_circuit(key) else _wrong(key, data, partition)
    except RowError:
        raise
    except SwitchgearError as error:
        raise RowError(error.message, hint=error.hint) from None
    except Exception as error:  # noqa: BLE001 - whatever bytes can make a decoder raise
        raise RowError(f"A row of the changelog is damaged: {error!r}.") from None
    if wrong is not None:
        raise RowError(f"A row of the changelog is damaged: {wrong}.")


def _wrong_circuit(key: bytes, data: bytes, partition: int, partitions: int) -> str | None:
    row = Row.decode(data)
    if row.key != key:
        return "it is another circuit's than its key says"
    if owner_partition(row.tool_name, partitions) != partition:
        return "its tool belongs to another partition"
    if int.from_bytes(applied(data), "big") != row.applied:
        return "its head says another number of messages applied"
    if not is_circuit_of(row.circuit_id, row.tool_name, row.scope):
        return f"a circuit of scope {row.scope} has another name"
    return _wrong_bytes(row)


def _wrong_bytes(row: Row) -> str | None:
    if row.policy is not None and not _is_layer(row.policy):
        return "the values set of the policy are not a JSON object"
    if row.breaker and snapshot.decode(row.breaker).circuit_id != row.circuit_id:
        return "the breaker in it is another circuit's"
    return None


def _wrong(key: bytes, data: bytes, partition: int) -> str | None:
    overrides = PolicyOverrides.decode(data)
    if key != overrides.key or overrides.partition != partition:
        return "the policies by glob are another partition's"
    if not all(map(_is_layer, overrides.tables.values())):
        return "a policy by glob is not a JSON object"
    return None


def _is_layer(values: bytes) -> bool:
    """Return whether the values of a policy look as :func:`switchgear.fleet.policy_overrides.merged` writes them."""
    return isinstance(json.loads(values), dict)
