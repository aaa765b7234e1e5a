"""Looking at the parts of the system again and again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from switchgear_api.console import components as module
from switchgear_api.console.components import Components
from switchgear_api.console.groups import GroupLook
from switchgear_schemas.settings import Settings

WELL = GroupLook(members=1, used=True, done=10, lag=0)


class Looked(Components):
    """Components whose world the test sets."""

    def __init__(self):
        self.groups = (WELL, WELL, GroupLook(0, False, 0, 0))
        self.stored = True

        async def ping():
            return self.stored

        fleet = SimpleNamespace(age_s=0.1, fresh=False)
        super().__init__(SimpleNamespace(ping=ping), fleet, Settings(), kafka=True)

    async def _ask_groups(self):
        return self.groups

    async def found(self):
        await self.look()
        return [each["what"] for each in self.problems(named=True)]


@pytest.fixture
def servers(monkeypatch):
    """What the named processes answer."""
    answers = {"worker-1": None, "gateway": None}

    async def ask(_settings):
        return [{"server": name, "ready": why is None, "why": why} for name, why in answers.items()]

    monkeypatch.setattr(module, "ask_servers", ask)
    return answers


async def test_a_process_counts_as_not_ready_from_the_second_look_on(servers):
    looked = Looked()
    servers["gateway"] = "kafka"
    assert await looked.found() == []
    assert await looked.found() == ["gateway is not ready: kafka."]
    servers["gateway"] = None
    assert await looked.found() == []
    servers["gateway"] = "kafka"
    assert await looked.found() == []


async def test_a_worker_that_is_gone_is_a_problem_at_the_first_look(servers):
    looked = Looked()
    looked.groups = (GroupLook(0, True, 10, 3), WELL, GroupLook(0, False, 0, 0))
    assert await looked.found() == ["No worker runs."]
    assert [each["what"] for each in looked.problems(named=False)] == ["The workers do not do their work."]


async def test_brokers_that_do_not_answer_say_nothing_about_the_groups(servers):
    looked = Looked()
    looked.groups = None
    assert await looked.found() == []


async def test_alerts_are_missed_only_where_they_were_used(servers):
    looked = Looked()
    looked.groups = (WELL, WELL, GroupLook(0, True, 5, 0))
    assert await looked.found() == ["No process sends alerts."]


async def test_a_store_that_does_not_answer_once_is_no_problem_yet(servers):
    looked = Looked()
    looked.stored = False
    assert await looked.found() == []
    looked._stored_s -= 15
    assert await looked.found() == ["ClickHouse does not answer."]


async def test_components_of_an_api_without_kafka_look_at_nothing():
    looked = Components(SimpleNamespace(), SimpleNamespace(), Settings(), kafka=False)
    await looked.run()
    assert list(looked.problems(named=True)) == []
