"""What is sent to whom and when, and that a restart forgets nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear_alerts import engine as engine_module
from switchgear_alerts.config import parse
from switchgear_alerts.engine import Engine
from switchgear_alerts.facts import read_circuit
from switchgear_alerts.receivers import pagerduty
from switchgear_alerts.receivers.base import Context
from switchgear_schemas.circuit import Cause
from tests.support.alert_values import NOON, alerts_file, seen
from tests.support.alerting import circuit_record

NOW = '[grouping]\nwait = "0s"\nstorm_interval = "0s"\n[flapping]\nopens = 0\n'
HOOK = f'[[routes]]\nreceivers = ["hook"]\n{NOW}'


class Saved:
    """An engine whose state is saved as the alerts topic does."""

    def __init__(self, text, now=NOON):
        self.rules = alerts_file(text)
        self.store = {}
        self.engine = Engine(self.rules, now)
        self.save()

    def save(self):
        for key, value in self.engine.take_unsaved().items():
            if value is None:
                self.store.pop(key, None)
            else:
                self.store[key] = value

    def restart(self, now, rules=None):
        self.rules = rules or self.rules
        self.engine = Engine(self.rules, now)
        self.engine.restore(self.store, now)
        self.save()

    def deliver(self, now, receiver="hook"):
        """Deliver everything that is due, and return the messages."""
        found = []
        for _ in range(50):
            self.engine.advance(now)
            messages = list(self.engine.outbox[receiver].values())
            for message in messages:
                self.engine.finished(receiver, message.id)
            found += messages
            if not messages:
                break
        self.save()
        return found


def told(messages):
    return [(change.kind, change.incident) for message in messages for change in message.changes]


def test_a_route_announces_an_incident_and_its_end():
    here = Saved(HOOK)
    here.engine.observe(seen("search", "open", 1, NOON))
    assert told(here.deliver(NOON)) == [("opened", "search@1")]
    here.engine.observe(seen("search", "closed", 2, NOON + 9))
    assert told(here.deliver(NOON + 9)) == [("resolved", "search@1")]
    assert here.store == {}


def test_two_fleets_with_one_key_of_pagerduty_have_incidents_of_their_own():
    keys = []
    for fleet in ("switchgear-MkU3OEVB", "switchgear-8aTrW0qZ"):
        engine = Engine(alerts_file(HOOK), NOON, fleet)
        engine.observe(seen("search", "open", 1, NOON))
        engine.advance(NOON)
        (message,) = engine.outbox["hook"].values()
        keys += [event["dedup_key"] for event in pagerduty.events(message, "key", Context())]
    assert keys == ["switchgear-MkU3OEVB/search@1", "switchgear-8aTrW0qZ/search@1"]


def test_an_incident_that_was_open_before_the_upgrade_ends_under_its_id():
    here = Saved(HOOK)
    here.engine.observe(seen("search", "open", 1, NOON))
    assert told(here.deliver(NOON)) == [("opened", "search@1")]
    here.engine = Engine(here.rules, NOON + 5, "switchgear-MkU3OEVB")
    here.engine.restore(here.store, NOON + 5)
    here.engine.observe(seen("search", "closed", 2, NOON + 9))
    here.engine.observe(seen("search", "open", 3, NOON + 10))
    assert told(here.deliver(NOON + 10)) == [("resolved", "search@1"), ("opened", "switchgear-MkU3OEVB/search@3")]


def test_an_incident_that_is_shorter_than_for_is_never_announced():
    here = Saved(f'[[routes]]\nreceivers = ["hook"]\nfor = "1m"\n{NOW}')
    here.engine.observe(seen("search", "open", 1, NOON))
    assert here.deliver(NOON + 59) == []
    here.engine.observe(seen("search", "closed", 2, NOON + 59))
    assert here.deliver(NOON + 600) == []


def test_an_incident_in_a_backlog_that_lasted_long_enough_is_announced_and_resolved():
    here = Saved(f'[[routes]]\nreceivers = ["hook"]\nfor = "1m"\n{NOW}')
    here.engine.observe(seen("search", "open", 1, NOON))
    here.engine.observe(seen("search", "closed", 2, NOON + 61))
    assert told(here.deliver(NOON + 3600)) == [("opened", "search@1"), ("resolved", "search@1")]


def test_quiet_hours_defer_an_announcement_to_their_end_if_the_incident_lasts():
    quiet = f'[[routes]]\nreceivers = ["hook"]\nquiet = [{{ from = "11:00", to = "13:00" }}]\n{NOW}'
    here = Saved(quiet)
    here.engine.observe(seen("search", "open", 1, NOON))
    here.engine.observe(seen("short", "open", 1, NOON))
    here.engine.observe(seen("short", "closed", 2, NOON + 60))
    assert here.deliver(NOON + 3599) == []
    assert told(here.deliver(NOON + 3600)) == [("opened", "search@1")]


def test_an_incident_that_matches_a_route_only_later_is_announced_after_its_quiet_hours():
    here = Saved(
        f'[[routes]]\nreceivers = ["hook"]\nstates = ["forced_open"]\nquiet = [{{ from = "12:30", to = "13:00" }}]\n{NOW}'
    )
    here.engine.observe(seen("search", "open", 1, NOON))
    here.engine.observe(seen("search", "forced_open", 2, NOON + 2400))
    assert here.deliver(NOON + 2400) == here.deliver(NOON + 3599) == []
    assert told(here.deliver(NOON + 3600)) == [("opened", "search@1")]


def test_a_process_that_starts_in_quiet_hours_announces_after_them_what_is_still_open():
    quiet = f'[[routes]]\nreceivers = ["hook"]\nquiet = [{{ from = "12:30", to = "13:00" }}]\n{NOW}'
    here = Saved(quiet, now=NOON + 2400)
    here.engine.observe(seen("search", "open", 1, NOON))
    here.engine.observe(seen("short", "open", 1, NOON))
    here.engine.observe(seen("short", "closed", 2, NOON + 60))
    assert here.deliver(NOON + 2400) == []
    assert told(here.deliver(NOON + 3600)) == [("opened", "search@1")]


def test_a_flapping_circuit_is_announced_only_while_it_is_open():
    here = Saved('[[routes]]\nreceivers = ["hook"]\nfor = "1m"\n[grouping]\nwait = "0s"\nstorm_interval = "0s"\n')
    for number in range(3):
        here.engine.observe(seen("search", "open", 2 * number + 1, NOON + 100 * number))
        here.engine.observe(seen("search", "closed", 2 * number + 2, NOON + 100 * number + 5))
    assert here.deliver(NOON + 300) == []
    here.engine.observe(seen("search", "open", 7, NOON + 310))
    assert told(here.deliver(NOON + 310)) == [("opened", "search@5")]
    here.engine.observe(seen("search", "closed", 8, NOON + 320))
    assert here.deliver(NOON + 330) == []
    assert told(here.deliver(NOON + 320 + 300)) == [("resolved", "search@5")]


def test_an_outage_long_after_a_circuit_flapped_is_an_incident_of_its_own_also_in_a_backlog():
    here = Saved('[[routes]]\nreceivers = ["hook"]\n[grouping]\nwait = "0s"\nstorm_interval = "0s"\n')
    for number in range(3):
        here.engine.observe(seen("pay", "open", 2 * number + 1, NOON + 60 * number))
        here.engine.observe(seen("pay", "closed", 2 * number + 2, NOON + 60 * number + 30))
    here.deliver(NOON + 150)
    later = NOON + 6 * 3600  # alerts were down from then on
    here.restart(later + 60)
    here.engine.observe(seen("pay", "open", 7, later))
    assert told(here.deliver(later + 60)) == [("resolved", "pay@5"), ("opened", "pay@7")]


def test_a_route_for_what_operators_open_has_commands_for_a_time_and_one_for_failures_has_not():
    here = Saved(f'[[routes]]\nreceivers = ["hook"]\nstates = ["forced_open"]\n{NOW}')
    record = circuit_record("search", "open", 1, NOON, cause=Cause(rule="command", actor="ada"))
    here.engine.observe(read_circuit(record.to_bytes()))
    assert told(here.deliver(NOON)) == [("opened", "search@1")]
    here = Saved(f'[[routes]]\nreceivers = ["hook"]\nstates = ["open"]\n{NOW}')
    here.engine.observe(read_circuit(record.to_bytes()))
    assert here.deliver(NOON) == []


def test_routes_choose_by_tool_family_scope_and_state():
    here = Saved(
        f'[[routes]]\nreceivers = ["hook"]\ntools = ["mcp:*"]\nfamilies = ["mcp:git*"]\nstates = ["open"]\n{NOW}'
    )
    here.engine.observe(seen("mcp:github:read", "open", 1, NOON, family="mcp:github"))
    here.engine.observe(seen("mcp:github:write", "forced_open", 1, NOON, family="mcp:github"))
    here.engine.observe(seen("mcp:slack:post", "open", 1, NOON, family="mcp:slack"))
    here.engine.observe(seen("search", "open", 1, NOON))
    here.engine.observe(seen("mcp:github:x|user=ada", "open", 1, NOON, family="mcp:github", scope="user"))
    assert told(here.deliver(NOON)) == [("opened", "mcp:github:read@1")]


def test_each_receiver_of_several_routes_gets_an_incident_once_with_the_severity_of_the_first_route_that_is_due():
    here = Saved(
        f'[[routes]]\nreceivers = ["hook"]\nfor = "1m"\nseverity = "critical"\n[[routes]]\nreceivers = ["hook"]\nseverity = "info"\n{NOW}'
    )
    here.engine.observe(seen("search", "open", 1, NOON))
    (message,) = here.deliver(NOON)
    assert message.changes[0].severity == "info"
    assert here.deliver(NOON + 90) == []


def test_changes_wait_while_a_message_is_not_delivered_and_then_come_together():
    here = Saved(HOOK)
    for number in range(30):
        here.engine.observe(seen(f"tool-{number}", "open", 1, NOON))
        here.engine.advance(NOON)
    assert len(here.engine.outbox["hook"]) == 1
    first, second = here.deliver(NOON + 60)
    assert (len(first.changes), len(second.changes)) == (1, 29)


@pytest.mark.slow
def test_a_storm_is_one_message_and_the_next_one_waits():
    here = Saved('[[routes]]\nreceivers = ["hook"]\n[grouping]\nwait = "5s"\nstorm = 10\nstorm_interval = "30s"\n')
    sent = []
    for second in range(60):  # 200 circuits open within a minute, and close again in the next
        for number in range(second * 4, min(second * 4 + 4, 200)):
            here.engine.observe(seen(f"tool-{number}", "open", 1, NOON + second))
        sent += here.deliver(NOON + second)
    sent += here.deliver(NOON + 120)
    assert len(told(sent)) == 200
    assert len(sent) <= 5


def played(steps, until, text='[[routes]]\nreceivers = ["hook"]\n', restarts=()):
    """The messages of records ``(second, circuit, state, generation)``, with a restart at some seconds."""
    here, left, sent = Saved(text), sorted(steps, key=lambda step: step[0]), []
    for half in range(2 * until):
        while left and left[0][0] <= half / 2:
            at, circuit, state, generation = left.pop(0)
            here.engine.observe(seen(circuit, state, generation, NOON + at))
        if half / 2 in restarts:
            here.engine.advance(NOON + half / 2)
            here.save()
            here.restart(NOON + half / 2)
        sent += here.deliver(NOON + half / 2)
    assert not left
    assert here.engine.waiting == here.engine.open_incidents == 0
    assert whole_and_in_order(sent)
    return sent


@pytest.mark.slow
@pytest.mark.parametrize("restarts", [(), (20, 70, 200)])
def test_circuits_that_open_at_once_and_close_one_by_one_are_five_messages_also_with_restarts(restarts):
    steps = [(number / 200, f"tool-{number}", "open", 1) for number in range(200)]
    steps += [(1.5 + 1.5 * number, f"tool-{number}", "closed", 2) for number in range(200)]
    sent = played(steps, until=800, restarts=restarts)
    assert len(told(sent)) == 400
    assert len(sent) <= 5


@pytest.mark.slow
def test_circuits_that_open_one_by_one_within_two_minutes_are_at_most_five_messages_and_so_are_their_ends():
    steps = [(0.6 * number, f"tool-{number}", "open", 1) for number in range(200)]
    steps += [(1000 + 0.6 * number, f"tool-{number}", "closed", 2) for number in range(200)]
    kinds = [message.kind for message in played(steps, until=1800)]
    assert kinds.count("opened") <= 5
    assert kinds.count("resolved") <= 5


@pytest.mark.slow
def test_a_storm_that_begins_with_a_few_circuits_is_at_most_five_messages_of_openings():
    steps = [(0.1 * number, f"tool-{number}", "open", 1) for number in range(4)]
    steps += [(6 + 0.5 * number, f"tool-{number}", "open", 1) for number in range(4, 200)]
    steps += [(1000, f"tool-{number}", "closed", 2) for number in range(200)]
    kinds = [message.kind for message in played(steps, until=1800)]
    assert kinds.count("opened") <= 5
    assert kinds.count("resolved") == 1


@pytest.mark.slow
def test_circuits_that_open_twice_and_close_twice_within_95_seconds_are_five_messages():
    steps = []
    for number in range(200):
        for generation, (state, at) in enumerate((("open", 0), ("closed", 35), ("open", 50), ("closed", 90)), 1):
            steps.append((at + number / 40, f"tool-{number}", state, generation))
    sent = played(steps, until=900)
    assert len(told(sent)) == 800
    assert len(sent) <= 5


TWO_HOURS = 7200


def until_sent(here, start):
    """Return the seconds from ``start`` until the next messages are there."""
    return next(second for second in range(TWO_HOURS) if here.deliver(start + second))


def test_a_clock_that_goes_back_by_hours_delays_nothing_by_hours():
    here = Saved('[[routes]]\nreceivers = ["hook"]\n')
    for number in range(10):
        here.engine.observe(seen(f"tool-{number}", "open", 1, NOON))
    here.engine.advance(NOON + TWO_HOURS)
    assert here.deliver(NOON + TWO_HOURS + 5)  # a storm
    here.engine.observe(seen("pay", "open", 1, NOON + 60))
    assert until_sent(here, NOON + 60) <= 30
    here = Saved('[[routes]]\nreceivers = ["hook"]\n', now=NOON + TWO_HOURS)
    here.engine.observe(seen("pay", "open", 1, NOON))
    here.engine.advance(NOON + TWO_HOURS)
    assert until_sent(here, NOON) == 5


def test_a_storm_saved_by_a_clock_that_was_ahead_does_not_outlast_a_restart():
    here = Saved('[[routes]]\nreceivers = ["hook"]\n')
    for number in range(10):
        here.engine.observe(seen(f"tool-{number}", "open", 1, NOON))
    here.engine.advance(NOON + TWO_HOURS)
    assert here.deliver(NOON + TWO_HOURS + 5)
    here.restart(NOON + 60)
    here.engine.observe(seen("pay", "open", 1, NOON + 60))
    assert until_sent(here, NOON + 60) <= 30


def test_quiet_hours_of_a_clock_that_was_ahead_are_over_when_it_goes_back():
    here = Saved(f'[[routes]]\nreceivers = ["hook"]\nquiet = [{{ from = "22:00", to = "07:00" }}]\n{NOW}')
    here.engine.advance(NOON + 10 * 3600 + 60)
    here.engine.observe(seen("pay", "open", 1, NOON + 60))
    assert told(here.deliver(NOON + 60)) == [("opened", "pay@1")]


@pytest.mark.slow
def test_in_a_storm_an_opening_waits_two_minutes_at_most_and_after_it_nothing_waits():
    here = Saved('[[routes]]\nreceivers = ["hook"]\n')
    opened, latest = {}, 0.0
    for second in range(1200):
        if second % 3 == 0:
            here.engine.observe(seen(f"tool-{second}", "open", 1, NOON + second))
            opened[f"tool-{second}@1"] = second
        for _, incident in told(here.deliver(NOON + second)):
            latest = max(latest, second - opened[incident])
    assert 60 < latest <= 120
    here.deliver(NOON + 2000)
    here.engine.observe(seen("search", "open", 1, NOON + 2000))
    assert here.deliver(NOON + 2000) == []
    assert told(here.deliver(NOON + 2005)) == [("opened", "search@1")]


def test_the_ends_of_a_group_that_come_at_once_are_one_message():
    here = Saved(HOOK.replace(NOW, '[grouping]\nwait = "5s"\nstorm = 3\nstorm_interval = "1s"\n'))
    for name in ("a", "b", "c"):
        here.engine.observe(seen(name, "open", 1, NOON))
    here.engine.advance(NOON)
    assert len(here.deliver(NOON + 5)) == 1
    for name in ("a", "b"):
        here.engine.observe(seen(name, "closed", 2, NOON + 60))
    here.engine.advance(NOON + 60)
    assert len(here.deliver(NOON + 65)) == 1


def test_members_of_a_group_share_a_thread_and_the_last_one_to_close_says_so():
    here = Saved(HOOK)
    for name in ("a", "b", "c"):
        here.engine.observe(seen(f"mcp:x:{name}", "open", 1, NOON, family="mcp:x"))
    (opened,) = here.deliver(NOON)
    assert {change.thread for change in opened.changes} == {opened.id}
    last = []
    for number, name in enumerate("bca"):
        here.engine.observe(seen(f"mcp:x:{name}", "closed", 2, NOON + number, family="mcp:x"))
        (message,) = here.deliver(NOON + number)
        assert message.changes[0].thread == opened.id
        last.append(message.changes[0].last)
    assert last == [False, False, True]


def test_a_restart_sends_undelivered_messages_again_with_the_same_id_and_resolves_what_closed_meanwhile():
    here = Saved(HOOK)
    for name in ("a", "b"):
        here.engine.observe(seen(f"mcp:x:{name}", "open", 1, NOON, family="mcp:x"))
    here.engine.advance(NOON)
    here.save()
    (before,) = here.engine.outbox["hook"].values()
    here.restart(NOON + 60)
    here.engine.observe(seen("mcp:x:c", "open", 1, NOON + 61, family="mcp:x"))
    here.engine.observe(seen("mcp:x:a", "closed", 2, NOON + 62, family="mcp:x"))
    messages = here.deliver(NOON + 70)
    assert messages[0] == before
    assert told(messages[1:]) == [("opened", "mcp:x:c@1"), ("resolved", "mcp:x:a@1")]


def test_what_belongs_to_a_receiver_that_left_the_file_is_dropped():
    here = Saved(HOOK)
    here.engine.observe(seen("search", "open", 1, NOON))
    here.engine.advance(NOON)
    here.save()
    other = HOOK.replace('"hook"', '"other"') + '[receivers.other]\ntype = "apprise"\nurls = ["env:URL"]\n'
    here.restart(NOON + 60, parse(other, "alerts.toml"))
    assert told(here.deliver(NOON + 60, "other")) == [("opened", "search@1")]
    assert not any(key.startswith("message:hook") for key in here.store)


def test_too_many_waiting_changes_of_a_receiver_that_is_away_are_given_up_so_that_memory_stays_bounded(monkeypatch):
    monkeypatch.setattr(engine_module, "MOST_WAITING", 20)
    here = Saved(HOOK)
    here.engine.observe(seen("first", "open", 1, NOON))
    here.engine.advance(NOON)  # its message is never delivered
    for number in range(21):
        here.engine.observe(seen(f"tool-{number}", "open", 1, NOON))
    here.engine.advance(NOON + 59)
    assert here.engine.full
    assert here.engine.given_up == []
    here.engine.advance(NOON + 60)
    assert not here.engine.full
    assert len(told(here.engine.given_up)) == 21
    assert here.engine.waiting == 1


def test_what_is_given_up_is_kept_until_it_is_in_the_dead_letters_and_sent_after_a_restart_before(monkeypatch):
    monkeypatch.setattr(engine_module, "MOST_WAITING", 20)
    here = Saved(HOOK)
    for number in range(22):
        here.engine.observe(seen(f"tool-{number}", "open", 1, NOON))
        here.engine.advance(NOON)
    here.engine.advance(NOON + 60)
    here.save()
    (given_up,) = here.engine.given_up
    here.restart(NOON + 61)
    assert len(told(here.deliver(NOON + 61))) == 22
    assert not any(key.startswith("message:") for key in here.store)

    here.restart(NOON + 62)
    here.engine.given_up.append(given_up)
    here.engine.buried(given_up)
    assert here.engine.given_up == []
    assert here.engine.take_unsaved() == {f"message:hook:{given_up.id}": None}


def test_more_changes_than_may_wait_are_sent_at_once_to_a_receiver_that_takes_them(monkeypatch):
    monkeypatch.setattr(engine_module, "MOST_WAITING", 20)
    here = Saved('[[routes]]\nreceivers = ["hook"]\n[grouping]\nwait = "5m"\n')
    for number in range(21):
        here.engine.observe(seen(f"tool-{number}", "open", 1, NOON))
    assert len(told(here.deliver(NOON))) == 21
    assert here.engine.given_up == []


def test_firing_incidents_are_those_that_the_receiver_knows():
    here = Saved(HOOK)
    here.engine.observe(seen("search", "open", 1, NOON))
    assert here.engine.firing("hook") == []
    here.deliver(NOON)
    assert [change.incident for change in here.engine.firing("hook")] == ["search@1"]
    here.engine.observe(seen("search", "closed", 2, NOON + 1))
    assert here.engine.firing("hook") == []


def test_the_digest_counts_openings_and_the_time_open_and_survives_a_restart():
    here = Saved(f'[digest]\nat = "13:00"\nreceivers = ["hook"]\n{NOW}')
    here.engine.observe(seen("search", "open", 1, NOON))
    here.engine.observe(seen("search", "closed", 2, NOON + 600))
    here.save()
    here.restart(NOON + 700)
    here.engine.observe(seen("other", "open", 1, NOON + 3000))
    assert here.deliver(NOON + 3599) == []
    (message,) = here.deliver(NOON + 3600)
    digest = message.digest
    assert (digest.since, digest.opens, digest.open_now) == (NOON, 2, ("other",))
    assert [(each.circuit_id, each.opens, each.open_s) for each in digest.tools] == [
        ("other", 1, 600),
        ("search", 1, 600),
    ]
    assert here.deliver(NOON + 3600 + 86_399) == []
    (next_day,) = here.deliver(NOON + 3600 + 86_400)
    assert next_day.digest.opens == 0


def test_the_digest_counts_every_opening_of_a_flapping_circuit_and_only_the_time_that_it_was_open():
    here = Saved('[digest]\nat = "13:00"\nreceivers = ["hook"]\n')
    for number in range(35):
        here.engine.observe(seen("pay", "open", 2 * number + 1, NOON + 100 * number))
        here.engine.advance(NOON + 100 * number)
        if number == 17:
            here.save()
            here.restart(NOON + 100 * number)
        here.engine.observe(seen("pay", "closed", 2 * number + 2, NOON + 100 * number + 10))
    here.engine.observe(seen("search", "open", 1, NOON + 3500))
    (message,) = here.deliver(NOON + 3600)
    pay = message.digest.tools[0]
    assert (message.digest.opens, message.digest.open_now) == (36, ("search",))
    assert (pay.circuit_id, pay.opens, pay.open_s, pay.longest_s) == ("pay", 35, 350, 10)


def test_the_digest_lists_no_circuit_that_no_route_is_for():
    here = Saved(
        f'[[routes]]\nreceivers = ["hook"]\ntools = ["pay*"]\n[digest]\nat = "13:00"\nreceivers = ["hook"]\n{NOW}'
    )
    here.engine.observe(seen("pay|user=ada", "open", 1, NOON, tool_name="pay", scope="user"))
    here.engine.observe(seen("search", "open", 1, NOON))
    here.engine.observe(seen("pay", "open", 1, NOON))
    digest = next(message.digest for message in here.deliver(NOON + 3600) if message.digest)
    assert (digest.opens, [each.circuit_id for each in digest.tools], digest.open_now) == (1, ["pay"], ("pay",))
    without_routes = Saved(f'[digest]\nat = "13:00"\nreceivers = ["hook"]\n{NOW}')
    without_routes.engine.observe(seen("search|user=ada", "open", 1, NOON, scope="user"))
    without_routes.engine.observe(seen("search", "open", 1, NOON))
    (message,) = without_routes.deliver(NOON + 3600)
    assert message.digest.open_now == ("search",)


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("record"), st.integers(0, 4), st.sampled_from(["open", "closed", "half_open", "forced_open"])
        ),
        st.tuples(st.just("wait"), st.floats(0, 100), st.none()),
        st.tuples(st.just("deliver"), st.none(), st.none()),
        st.tuples(st.just("restart"), st.none(), st.none()),
    ),
    max_size=60,
)


@pytest.mark.slow
@given(STEPS, st.sampled_from(["0s", "30s"]), st.integers(0, 3))
def test_any_records_deliveries_and_restarts_give_each_receiver_whole_incidents_in_order(steps, lasting, flaps):
    text = f'[[routes]]\nreceivers = ["hook"]\nfor = "{lasting}"\n[grouping]\nwait = "1s"\nstorm = 3\n[flapping]\nopens = {flaps}\nsettle = "20s"\n'
    here, now, delivered = Saved(text), NOON, []
    generations = dict.fromkeys(range(5), 0)
    for step, value, state in steps:
        if step == "record":
            generations[value] += 1
            now += 1
            here.engine.observe(seen(f"mcp:x:{value}", state, generations[value], now, family="mcp:x"))
        elif step == "wait":
            now += value
        elif step == "deliver":
            delivered += here.deliver(now)
        else:
            here.engine.advance(now)
            here.save()
            here.restart(now)
    for number in generations:
        generations[number] += 1
        here.engine.observe(seen(f"mcp:x:{number}", "closed", generations[number], now + 1, family="mcp:x"))
    for later in (60, 120, 2000, 4000):
        delivered += here.deliver(now + later)

    assert whole_and_in_order(delivered)
    assert here.engine.open_incidents == here.engine.waiting == 0
    assert here.store == {}


def whole_and_in_order(messages):
    """Check that every incident opens before it ends, in one thread, whose last member says so; and ends."""
    open_now, ids = {}, set()
    for message in messages:
        assert message.id not in ids
        ids.add(message.id)
        assert len({change.facts.circuit_id for change in message.changes}) == len(message.changes)
        for change in message.changes:
            circuit = change.facts.circuit_id
            if change.kind == "opened":
                assert circuit not in open_now
                open_now[circuit] = (change.incident, change.thread)
            assert open_now[circuit] == (change.incident, change.thread)
            if change.kind == "resolved":
                del open_now[circuit]
                assert change.last == all(thread != change.thread for _, thread in open_now.values())
    return not open_now
