"""What is said about a part of the system that is dead, late or away."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from switchgear_api.console.problems import (
    LATE_S,
    MOST_LAG,
    Group,
    Seen,
    Server,
    problems,
    since_when,
    without_names,
)
from tests.support.table import table

AT = datetime(2026, 11, 28, 6, 0, tzinfo=UTC)
CHANGED = datetime(2026, 11, 28, 5, 12, tzinfo=UTC)
WELL = Group(members=1, lag=0, moved_at=AT)
GONE = Group(members=0, lag=7, moved_at=CHANGED)
STUCK = Group(members=2, lag=120, moved_at=CHANGED, stands_s=LATE_S + 1)
LATE = Group(members=1, lag=MOST_LAG + 1, moved_at=AT, behind_s=300.0)


def seen(**fields):
    healthy = {"kafka_silent_s": 0.2, "circuits_changed_at": CHANGED, "worker": WELL, "sink": WELL, "alerts_members": 1}
    return Seen(AT, **healthy | fields)


def test_a_healthy_system_has_no_problem_and_a_quiet_one_has_none_either():
    assert problems(seen()) == []
    quiet = Group(members=1, lag=0, moved_at=AT - timedelta(days=1))
    assert problems(seen(worker=quiet, sink=quiet, circuits_changed_at=None)) == []
    assert problems(Seen(AT)) == [], "what is not known is no problem"


@table(
    ("wrong", "component", "level", "what", "means"),
    [
        (seen(kafka_silent_s=LATE_S), "kafka", "bad", "Kafka does not answer.", "for 5 minutes, then each process decides alone"),
        (seen(worker=GONE), "worker", "bad", "No worker runs.", "Circuits have not changed since then. Each process decides alone"),
        (seen(worker=STUCK), "worker", "bad", "The workers stand still: 120 records wait.", "Circuits have not changed"),
        (seen(worker=LATE), "worker", "bad", "The workers are 10,001 records behind.", "what was true 5 minutes ago"),
        (seen(sink=GONE), "sink", "bad", "No sink runs.", "Decisions go on."),
        (seen(sink=STUCK), "sink", "bad", "The sinks stand still: 120 records wait.", "Decisions go on."),
        (seen(sink=LATE), "sink", "bad", "The sinks are 10,001 records behind.", "what was true 5 minutes ago"),
        (seen(store_silent_s=LATE_S), "clickhouse", "bad", "ClickHouse does not answer.", "Decisions go on."),
        (seen(alerts_members=0), "alerts", "note", "No process sends alerts.", "Nobody is told of outages."),
        (seen(servers=(Server("gateway-2", "kafka"),)), "gateway", "bad", "gateway-2 is not ready: kafka.", "after 45 s"),
        (seen(servers=(Server("alerts", "no circuits yet"),), alerts_members=0), "alerts", "note", "alerts is not ready: no circuits yet.", "outages"),
        (seen(servers=(Server("sink", "store"),)), "sink", "bad", "sink is not ready: store.", "Decisions go on."),
        (seen(servers=(Server("http://box:9", "It does not answer: x."),)), "server", "bad", "http://box:9 is not ready: It does not answer: x.", "stands still"),
        (seen(servers=(Server("worker-1", "It does not answer: refused."),)), "worker", "bad", "worker-1 is not ready: It does not answer: refused.", "Circuits have not"),
        (seen(servers=(Server("worker-1", "recovering"), Server("worker-2"))), "worker", "note", "worker-1 is not ready: recovering.", "Other workers take over"),
    ],
)  # fmt: skip
def test_a_part_that_does_not_work_is_named_with_what_it_means_and_what_to_do(wrong, component, level, what, means):
    (found,) = problems(wrong)
    assert (found.component, found.level, found.what) == (component, level, what)
    assert means in found.means
    assert found.todo


def test_a_dead_worker_and_its_process_are_one_line_and_the_line_says_why():
    (found,) = problems(seen(worker=GONE, servers=(Server("worker-1", "It does not answer: refused."),)))
    assert found.what == "No worker runs. worker-1 is not ready: It does not answer: refused."


@table(
    "fine",
    [
        Group(members=1, lag=3, stands_s=LATE_S),
        Group(members=1, lag=MOST_LAG, behind_s=1e9),
        Group(members=1, lag=10**9, behind_s=LATE_S),
        Group(members=1, lag=10**9, behind_s=None),
    ],
)
def test_a_worker_that_restarts_within_its_session_or_has_much_to_do_is_no_problem(fine):
    assert problems(seen(worker=fine, sink=fine)) == []


def test_the_worst_for_decisions_is_first():
    wrong = seen(
        kafka_silent_s=99.0, worker=GONE, sink=GONE, store_silent_s=99.0, alerts_members=0,
        servers=(Server("gateway", "kafka"),),
    )  # fmt: skip
    order = ["kafka", "worker", "sink", "clickhouse", "gateway", "alerts"]
    assert [each.component for each in problems(wrong)] == order


def test_since_is_the_last_sign_of_work_or_the_first_look_and_goes_with_the_problem():
    looks = [AT + timedelta(seconds=5 * number) for number in range(4)]
    began: dict[str, datetime] = {}
    found, began = since_when(problems(seen(worker=GONE, alerts_members=0)), began, looks[0])
    assert [each["since"] for each in found] == ["2026-11-28T05:12:00.000Z", "2026-11-28T06:00:00.000Z"]
    found, began = since_when(problems(seen(alerts_members=0)), began, looks[1])
    assert [(each["component"], each["since"]) for each in found] == [("alerts", "2026-11-28T06:00:00.000Z")]
    found, began = since_when(problems(seen()), began, looks[2])
    assert (found, began) == ([], {})
    found, _ = since_when(problems(seen(alerts_members=0)), began, looks[3])
    assert found[0]["since"] == "2026-11-28T06:00:15.000Z"


def test_a_circuit_that_changed_after_the_offsets_last_rose_is_a_sign_of_work():
    gone = Group(members=0, lag=7, moved_at=CHANGED - timedelta(minutes=1))
    found, _ = since_when(problems(seen(worker=gone)), {}, AT)
    assert found[0]["since"] == "2026-11-28T05:12:00.000Z"


def test_a_reader_with_fewer_rights_learns_what_is_wrong_but_no_name_and_no_address():
    servers = tuple(Server(name, "secret-host:1 is away") for name in ("worker-x", "gateway-x", "alerts-x", "http://x"))
    wrong = seen(kafka_silent_s=99.0, sink=GONE, store_silent_s=99.0, servers=servers)
    found, _ = since_when(problems(wrong), {}, AT)
    assert {each["component"] for each in found} == {
        "kafka", "worker", "sink", "clickhouse", "gateway", "alerts", "server",
    }  # fmt: skip
    hidden = without_names(found)
    assert [each["component"] for each in hidden] == [each["component"] for each in found]
    assert not any("-x" in str(each) or "secret" in str(each) or "//x" in str(each) for each in hidden)
