"""Snapshots are small and exact, and those of every released format can still be read."""

import json
from pathlib import Path

import msgspec
import pytest

from switchgear.breaker import Breaker, Result, ResultKind
from switchgear.breaker.snapshot import FORMAT, SnapshotError
from switchgear_schemas.policy import FLEET_DEFAULT, LOCAL_DEFAULT, BreakerPolicy
from tests.support.table import table

GOLDEN = Path(__file__).parent / "golden"
EPOCH = 1_700_000_000.0


def busy(policy, calls=100_000):
    breaker = Breaker("mcp:weather:get_forecast", policy, EPOCH)
    for call in range(calls):
        outcome = ResultKind.FAILURE if call % 11 == 0 else ResultKind.SUCCESS
        reporter = f"service-{call % 5}-7f9c4d5b6-abcde-12345"
        breaker.record(EPOCH + call * 0.0006, Result(outcome, 12.5, 900, reporter))
    return breaker


def lives():
    """A breaker in each situation that a snapshot has to hold."""
    half = BreakerPolicy(consecutive_failures=2, permitted_number_of_calls_in_half_open_state=3, minimum_reporters=2)
    breaker = Breaker("tool", half, EPOCH)
    yield "closed", half, breaker
    breaker.record(EPOCH + 1, Result(ResultKind.FAILURE, tokens=7, reporter="a", retry_after_s=90.0))
    breaker.record(EPOCH + 1, Result(ResultKind.IGNORED))
    breaker.record(EPOCH + 2, Result(ResultKind.FAILURE, reporter="a"))
    breaker.try_acquire(EPOCH + 3)
    yield "open", half, breaker
    breaker.request_lease(EPOCH + 100, "a")
    breaker.request_lease(EPOCH + 101, "b")
    yield "half_open", half, breaker
    count = BreakerPolicy(sliding_window_type="count", sliding_window_size=8, wasted_tokens=10**6, mode="metrics_only")
    counting = Breaker("tool|user=ana", count, EPOCH)
    for call in range(20):
        counting.record(EPOCH + call, Result(ResultKind(call % 3), tokens=call))
    yield "count_window", count, counting
    forced = Breaker("tool", FLEET_DEFAULT, EPOCH)
    forced.command("force_open", EPOCH + 1, actor="ana", reason="maintenance")
    yield "forced_open", FLEET_DEFAULT, forced
    yield "busy", FLEET_DEFAULT, busy(FLEET_DEFAULT, 3000)
    by_cusum = Breaker("tool", FLEET_DEFAULT, EPOCH)
    for call in range(9):
        result = Result(ResultKind.SUCCESS if call == 3 else ResultKind.FAILURE, reporter=f"process {call % 2}")
        by_cusum.record(EPOCH + call * 10.0, result)
    yield "cusum", FLEET_DEFAULT, by_cusum


LIVES = [(name, policy, breaker.snapshot()) for name, policy, breaker in lives()]


@table(("name", "policy", "saved"), LIVES, ids=[life[0] for life in LIVES])
def test_a_restored_snapshot_has_the_same_bytes(name, policy, saved):
    assert Breaker.restore(saved, policy).snapshot() == saved


@table(("name", "policy", "saved"), LIVES, ids=[life[0] for life in LIVES])
def test_a_restored_breaker_goes_on_as_the_one_that_was_saved(name, policy, saved):
    one, other = Breaker.restore(saved, policy), Breaker.restore(saved, policy)
    for step in range(300):
        now = EPOCH + 200 + step * 3.0
        result = Result(ResultKind(step % 5 % 3), reporter="ab"[step % 2])
        for breaker in (one, other):
            breaker.request_lease(now, "x")
            breaker.record(now, result, breaker.try_acquire(now) if breaker.state == "closed" else None)
        other = Breaker.restore(other.snapshot(), policy)
    assert one.snapshot() == other.snapshot()


@pytest.mark.slow
@pytest.mark.parametrize("policy", [FLEET_DEFAULT, LOCAL_DEFAULT])
def test_a_busy_circuit_of_a_default_policy_takes_at_most_two_kilobytes(policy):
    assert len(busy(policy.model_copy(update={"consecutive_failures": None})).snapshot()) <= 2048


@table("path", sorted(GOLDEN.glob("*.msgpack")), ids=lambda path: path.stem)
def test_stored_snapshots_of_every_released_format_are_read(path):
    expected = json.loads(path.with_suffix(".json").read_text())
    breaker = Breaker.restore(path.read_bytes(), BreakerPolicy.model_validate(expected["policy"]))
    assert breaker.circuit_id == expected["circuit_id"]
    assert breaker.state == expected["state"]
    assert breaker.generation == expected["generation"]
    assert breaker.attempt == expected["attempt"]
    assert breaker.open_until == expected["open_until"]
    assert [lease.lease_id for lease in breaker.leases] == expected["leases"]
    assert msgspec.structs.asdict(breaker.counts(expected["now"])) == expected["counts"]


def test_there_are_stored_snapshots_of_every_format():
    found = {int(path.stem.partition("_")[0].removeprefix("v")) for path in GOLDEN.glob("*.msgpack")}
    assert found == set(range(1, FORMAT + 1))


def test_the_present_format_is_still_written_as_it_was_released_with_fields_only_appended():
    for name, _, saved in LIVES:
        released = msgspec.msgpack.decode((GOLDEN / f"v{FORMAT}_{name}.msgpack").read_bytes())
        written = msgspec.msgpack.decode(saved)
        counted, counts = released.pop(EVIDENCE), written.pop(EVIDENCE)
        assert written[: len(released)] == released, name
        assert counts[: len(counted)] == counted, name


def test_the_run_of_a_snapshot_without_its_instant_begins_at_the_clock():
    policy = BreakerPolicy(consecutive_failures=2)
    saved = Breaker("tool", policy, EPOCH)
    saved.record(EPOCH, Result(ResultKind.FAILURE))
    saved.record(EPOCH + 50, Result(ResultKind.IGNORED))
    fields = msgspec.msgpack.decode(saved.snapshot())
    older = msgspec.msgpack.encode([*fields[:EVIDENCE], fields[EVIDENCE][:19], *fields[EVIDENCE + 1 :]])
    within, after = (Breaker.restore(older, policy) for _ in range(2))
    assert within.record(EPOCH + 110, Result(ResultKind.FAILURE)) is not None
    assert after.record(EPOCH + 111, Result(ResultKind.FAILURE)) is None


def test_a_snapshot_without_the_appended_fields_is_read_and_goes_on():
    fields = msgspec.msgpack.decode({name: saved for name, _, saved in LIVES}["cusum"])
    fields = [*fields[:EVIDENCE], fields[EVIDENCE][:14]]
    breaker = Breaker.restore(msgspec.msgpack.encode(fields), FLEET_DEFAULT)
    assert (breaker.state, breaker.cause.rule, breaker.cause.failed) == ("open", "cusum", None)


@pytest.mark.parametrize("data", [b"", b"\x00", b"nonsense", msgspec.msgpack.encode([1, "tool"])])
def test_refuses_bytes_that_are_not_a_snapshot(data):
    with pytest.raises(SnapshotError, match="Not a circuit snapshot of format"):
        Breaker.restore(data, FLEET_DEFAULT)


def test_a_snapshot_of_a_newer_format_is_refused():
    fields = msgspec.msgpack.decode(LIVES[0][2])
    fields[0] = FORMAT + 1
    with pytest.raises(SnapshotError, match="newer"):
        Breaker.restore(msgspec.msgpack.encode(fields), FLEET_DEFAULT)


def test_a_snapshot_is_taken_over_by_another_policy():
    saved = {name: saved for name, _, saved in LIVES}["busy"]
    breaker = Breaker.restore(saved, FLEET_DEFAULT.model_copy(update={"sliding_window_size": 600, "mode": "disabled"}))
    assert breaker.state == "disabled"
    stricter = Breaker.restore(saved, FLEET_DEFAULT.model_copy(update={"failure_rate_threshold": 0.3}))
    assert stricter.counts(EPOCH).calls == 3000


def changed(life, place, value):
    """The snapshot of a life with one field replaced; ``place`` is a path of positions."""
    fields = msgspec.msgpack.decode({name: saved for name, _, saved in LIVES}[life])
    *path, last = place
    target = fields
    for step in path:
        target = target[step]
    target[last] = value
    return msgspec.msgpack.encode(fields)


EVIDENCE = 16


@table(
    ("life", "place", "value", "message"),
    [
        ("open", [2], 99, r"`int` <= 5 - at `\$\[2\]`"),
        ("open", [3], -1, r"`int` >= 0 - at `\$\[3\]`"),
        ("open", [5], -3, r"`int` >= 0 - at `\$\[5\]`"),
        ("open", [7], float("nan"), r"`float` >= 0.0 - at `\$\[7\]`"),
        ("open", [8], float("inf"), r"`float` < .* - at `\$\[8\]`"),
        ("open", [8], None, "it is open without open_until"),
        ("open", [9], float("-inf"), r"`float` >= 0.0 - at `\$\[9\]`"),
        ("open", [12], -1, r"`int` >= 0 - at `\$\[12\]`"),
        ("open", [14], ["x"], r"`array` of length 7, got 1 - at `\$\[14\]`"),
        ("open", [14, 1], "much", r"at `\$\[14\]\[1\]`"),
        ("half_open", [15], None, "it is half_open without probes"),
        ("half_open", [15, 0], -1, r"at `\$\[15\]\[0\]`"),
        ("half_open", [15, 6], [["1.1"]], r"`array` of length 2, got 1 - at `\$\[15\]\[6\]"),
        ("closed", [15], [0, 0, 0, 0, 0, 0, []], "it is closed with probes"),
        ("busy", [EVIDENCE, 0], "space", "Invalid enum value 'space'"),
        ("busy", [EVIDENCE, 1], 0, r"`float` > 0.0 - at `\$\[16\]\[1\]`"),
        ("busy", [EVIDENCE, 1], float("nan"), r"`float` > 0.0 - at `\$\[16\]\[1\]`"),
        ("busy", [EVIDENCE, 2], 10**9, r"`int` <= 120 - at `\$\[16\]\[2\]`"),
        ("busy", [EVIDENCE, 5, 0], [1, 2], r"its window holds \(1, 2\)"),
        ("busy", [EVIDENCE, 5, 0, 1], -5, r"`int` >= 0 - at `\$\[16\]\[5\]"),
        ("busy", [EVIDENCE, 5, 0, 2], 10**9, "its window holds"),
        ("busy", [EVIDENCE, 5, 0, 5], 2**63 - 1, r"at `\$\[16\]\[5\]"),
        ("busy", [EVIDENCE, 6], -1.0, r"at `\$\[16\]\[6\]`"),
        ("busy", [EVIDENCE, 9], -1, r"at `\$\[16\]\[9\]`"),
        ("busy", [EVIDENCE, 11], 0, r"`int` >= 1 - at `\$\[16\]\[11\]`"),
        ("busy", [EVIDENCE, 12], [["a", 1], ["b", 1], ["c", 1]], "more reporters than 2"),
        ("count_window", [EVIDENCE, 5, 0], [9, 0], "its window holds"),
        ("busy", [EVIDENCE, 14], -1, r"at `\$\[16\]\[14\]`"),
        ("busy", [EVIDENCE, 15], -1, r"at `\$\[16\]\[15\]`"),
        ("cusum", [EVIDENCE, 19], EPOCH + 81, "it counted a call at .*, after its clock"),
        ("cusum", [EVIDENCE, 19], -1.0, r"at `\$\[16\]\[19\]`"),
        ("cusum", [17], [8], r"`array` of length 5, got 1 - at `\$\[17\]`"),
        ("cusum", [17, 1], "long", r"at `\$\[17\]\[1\]`"),
    ],
)
def test_refuses_a_snapshot_of_a_state_that_no_circuit_can_have(life, place, value, message):
    policy = {name: policy for name, policy, _ in LIVES}[life]
    with pytest.raises(SnapshotError, match=message):
        Breaker.restore(changed(life, place, value), policy)


@pytest.mark.slow
def test_a_snapshot_with_one_damaged_field_is_refused_or_restores_a_working_breaker():
    damaged = [-1, 2**62, 2**63 - 1, float("nan"), float("inf"), 1e300, None, "x", [], 7]
    refused = restored = 0
    for life, policy, saved in LIVES:
        fields = msgspec.msgpack.decode(saved)
        places = [[index] for index in range(len(fields))] + [[EVIDENCE, index] for index in range(14)]
        for place in places:
            for value in damaged:
                try:
                    breaker = Breaker.restore(changed(life, place, value), policy)
                except SnapshotError:
                    refused += 1
                    continue
                restored += 1
                for step in range(3):
                    now = EPOCH + 500.0 + step
                    breaker.advance(now)
                    breaker.record(now, Result(ResultKind.FAILURE, reporter="a"))
                    breaker.try_acquire(now)
                Breaker.restore(breaker.snapshot(), policy)
    assert refused > 10 * len(LIVES)
    assert restored > 10 * len(LIVES)
