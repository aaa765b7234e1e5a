from __future__ import annotations

from switchgear_schemas.enums import MOST_MS, MOST_TOKENS
from switchgear_schemas.policy import FLEET_DEFAULT
from tests.support.fleet import COUNTING, START_MS, OnePolicy, World, at, event
from tests.support.table import table


def test_every_call_is_counted_once_in_its_circuit():
    world = World()
    for status in ("success", "error", "timeout", "success"):
        world.say(status)
    world.say("success", tool_name="other")
    world.run_all()
    assert (world.row().total_calls, world.row().total_failed) == (4, 2)
    assert world.row("other").total_calls == 1


def test_a_rejected_call_does_not_count_as_a_call():
    world = World()
    world.say("rejected")
    world.run_all()
    assert (world.row().total_calls, world.row().total_rejected) == (0, 1)


def test_a_report_of_an_overdue_call_does_not_count_as_a_call():
    world = World()
    for _ in range(5):
        world.say("overdue", tool_name="mcp:github:search", execution_time_ms=9_000, overdue_ms=9_000, emitter_id="a")
    world.run_all()
    for circuit_id in ("mcp:github:search", "mcp:github|family"):
        row = world.row(circuit_id)
        assert (row.total_calls, row.total_failed, row.total_ignored, row.late) == (0, 0, 0, 0), circuit_id
    assert (world.dead, world.circuits) == ([], [])


def test_an_error_of_a_class_that_does_not_count_is_a_call_but_no_failure():
    world = World()
    for _ in range(5):
        world.say("error", error_class="invalid_input")
    world.run_all()
    row = world.row()
    assert (row.total_calls, row.total_failed, row.total_ignored) == (5, 0, 5)
    assert world.circuits == []


def test_a_breached_rule_opens_the_circuit_and_publishes_it():
    world = World()
    for second in range(3):
        world.say("error", seconds=second, error_type="ConnectionError", error_message="refused", emitter_id="a")
    world.run_all()
    (record,) = world.records()
    assert (record.state, record.previous_state, record.version, record.generation) == ("open", "closed", 1, 1)
    assert record.changed_at.isoformat() == at(2)
    assert record.open_until is not None
    assert (record.open_until - record.changed_at).total_seconds() == 10
    assert record.last_error == "ConnectionError: refused"
    assert record.cause is not None
    assert record.cause.rule == "consecutive_failures"
    assert (record.counts.total_calls, record.counts.total_failed) == (3, 3)


def test_the_first_caller_after_the_wait_gets_the_lease_and_its_success_closes():
    world = World()
    for _ in range(3):
        world.say("error")
    world.say("rejected", seconds=5, probe_requested=True, emitter_id="early")
    world.say("rejected", seconds=10, probe_requested=True, emitter_id="a")
    world.say("rejected", seconds=10, probe_requested=True, emitter_id="b")
    world.run_all()
    half_open = world.records()[-1]
    assert half_open.state == "half_open"
    (lease,) = half_open.leases
    assert lease.emitter_id == "a"
    world.say("success", seconds=11, generation=half_open.generation, lease_id=lease.lease_id, emitter_id="a")
    world.run_all()
    assert [record.state for record in world.records()] == ["open", "half_open", "closed"]
    assert [record.version for record in world.records()] == [1, 2, 3]
    assert world.counted.leases == 1


def test_a_request_without_a_name_gets_no_lease():
    world = World()
    for _ in range(3):
        world.say("error")
    world.say("rejected", seconds=60, probe_requested=True)
    world.run_all()
    assert [record.state for record in world.records()] == ["open"]


def test_an_expired_lease_opens_the_circuit_with_the_next_event():
    world = World()
    for _ in range(3):
        world.say("error")
    world.say("rejected", seconds=10, probe_requested=True, emitter_id="a")
    world.say("rejected", seconds=100)
    world.run_all()
    assert [record.state for record in world.records()] == ["open", "half_open", "open"]


def test_rejections_are_published_with_the_state_that_caused_them():
    world = World()
    for _ in range(3):
        world.say("error")
    for second in range(4):
        world.say("rejected", seconds=second)
    world.say("rejected", seconds=10, probe_requested=True, emitter_id="a")
    world.run_all()
    assert world.records()[-1].counts.rejected == 5
    assert (world.row().rejected, world.row().total_rejected) == (0, 5)


def test_a_late_event_is_counted_apart_and_opens_nothing():
    world = World(late_after_s=300)
    for _ in range(5):
        world.say("error", seconds=301, recorded_at=at(0))
    world.say("error", seconds=300, recorded_at=at(0))
    world.run_all()
    row = world.row()
    assert (row.late, row.total_calls, row.total_failed) == (5, 1, 1)
    assert world.circuits == []


def test_a_naive_time_is_utc():
    world = World()
    world.say("error", seconds=10, recorded_at=at(0).removesuffix("+00:00"))
    world.run_all()
    assert world.row().late == 0


def test_a_circuits_time_does_not_follow_a_record_that_is_a_little_older():
    world = World()
    world.say(seconds=100)
    world.say(seconds=50)
    world.run_all()
    assert world.row().clock == START_MS / 1000 + 100
    assert world.row().applied == 2


def test_a_policy_of_scope_session_has_a_circuit_per_session():
    world = World(policies=OnePolicy(COUNTING.model_copy(update={"scope": "session"})))
    for _ in range(3):
        world.say("error", session_id="s1")
    world.say("success", session_id="s2")
    world.say("success")
    world.run_all()
    (record,) = world.records("search|session=s1")
    assert (record.state, record.scope, record.tool_name) == ("open", "session", "search")
    assert world.row("search|session=s2").total_calls == 1
    assert world.row("search").total_calls == 1


def test_a_policy_of_scope_user_has_a_circuit_per_user():
    world = World(policies=OnePolicy(COUNTING.model_copy(update={"scope": "user"})))
    world.say("error", user_id="u1", session_id="s1")
    world.run_all()
    assert world.row("search|user=u1").total_failed == 1


def test_the_largest_numbers_are_folded_like_any():
    world = World()
    for _ in range(3):
        world.say(
            "error",
            error_class="rate_limited",
            retry_after_s=1e308,
            execution_time_ms=MOST_MS,
            input_tokens=MOST_TOKENS,
            output_tokens=MOST_TOKENS,
            cache_creation_tokens=MOST_TOKENS,
        )
    world.run_all()
    assert world.records()[-1].state == "open"
    world.start()
    assert world.row().total_calls == 3


@table(
    ("field", "number"),
    [("execution_time_ms", 1e300), ("input_tokens", 2**62), ("output_size", 2**53), ("cost_usd", 1e300)],
)
def test_a_number_that_no_call_has_is_a_dead_letter_and_counts_as_nothing(field, number):
    world = World()
    world.say("success")
    world.say("success", **{field: number})
    world.run_all()
    assert world.row().total_calls == 1
    (letter,) = world.dead
    assert (letter.field, "<=" in letter.reason) == (field, True)


def test_a_long_error_is_cut():
    world = World()
    world.say("error", error_type="E", error_message="x" * 100_000)
    world.run_all()
    assert len(world.row().last_error or "") == 500


def test_a_circuit_that_its_policy_pins_is_announced_once():
    world = World(policies=OnePolicy(COUNTING.model_copy(update={"mode": "forced_open"})))
    for _ in range(3):
        world.say("rejected")
    world.run_all(batch=1)
    (record,) = world.records()
    assert (record.state, record.mode) == ("forced_open", "forced_open")


def test_folding_one_by_one_gives_the_same_rows_as_in_one_batch():
    worlds = [World(), World()]
    for world, batch in zip(worlds, (1, 1000), strict=True):
        for second in range(60):
            status = ("success", "error", "error", "error", "rejected")[second % 5]
            world.say(status, seconds=second, probe_requested=status == "rejected", emitter_id=f"e{second % 2}")
        world.run_all(batch=batch)
    assert worlds[0].rows == worlds[1].rows
    assert worlds[0].circuits == worlds[1].circuits
    assert len(worlds[0].circuits) > 3


def test_the_fold_reads_the_table_and_never_writes_it():
    world = World()
    world.say("error")
    before = dict(world.rows)
    world.fold.executions(world.log["t.executions", world.log and next(iter(world.log))[1]])
    assert world.rows == before
    assert world.fold.take().rows


def test_unknown_fields_are_accepted():
    world = World()
    world.append(event("search", "success", colour="blue", nested={"a": [1]}))
    world.run_all()
    assert world.row().total_calls == 1
    assert world.dead == []


def test_a_tool_named_like_a_users_circuit_has_a_circuit_of_its_own():
    world = World(policies=OnePolicy(COUNTING.model_copy(update={"scope": "user"})))
    for _ in range(3):
        world.say("error", user_id="ana")
    world.say("success", tool_name="search|user=ana")
    world.say("success", tool_name="search|user=ana", user_id="ana")
    world.run_all()
    assert world.records("search|user=ana")[-1].state == "open"
    assert (world.row("search|user=ana").total_calls, world.row("search%7Cuser=ana").total_calls) == (3, 1)
    assert world.row("search%7Cuser=ana|user=ana").tool_name == "search|user=ana"


def test_a_tool_named_like_a_family_is_none():
    world = World()
    for _ in range(3):
        world.say("error", tool_name="mcp:github|family")
    world.say("success", tool_name="mcp:github:search")
    world.run_all()
    assert world.records("mcp:github%7Cfamily")[-1].scope == "tool"
    assert world.row("mcp:github|family").scope == "family"
    assert world.records("mcp:github|family") == []


def test_failures_of_sources_that_hide_the_kind_of_error_count_half_and_a_model_that_errs_opens_nothing():
    world = World(policies=OnePolicy(FLEET_DEFAULT))
    for number in range(60):
        status = "success" if number % 5 < 2 else "error"
        world.say(status, emitter_id=f"p{number % 3}", evidence="status_only", seconds=number / 10)
    world.run_all()
    assert (world.circuits, world.row().total_failed) == ([], 36)


def test_a_tool_whose_every_call_fails_opens_by_sources_that_hide_the_kind_of_error():
    world = World(policies=OnePolicy(FLEET_DEFAULT))
    for number in range(20):
        world.say("error", emitter_id=f"p{number % 3}", evidence="status_only", seconds=number / 10)
    world.run_all()
    (record,) = world.records()
    assert (record.state, record.cause.failed) == ("open", 20)
    assert "count half" in record.cause.reason
