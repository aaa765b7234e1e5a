"""What each kind of process needs of Kafka, and how the broker's bits are read."""

import re
from pathlib import Path

from switchgear_cli.doctor.permissions import Operation, allowed, needs_of
from switchgear_schemas.topics import TopicNames
from tests.support.table import table

PAGE = Path(__file__).resolve().parents[4] / "docs/howto/kafka-permissions.md"
NAMES = TopicNames()
USERS = {"service": "forecasts", "worker": "worker", "sink": "sink", "alerts": "alerts", "operator": "operator"}
"""The users of the page, by role."""


def granted(user: str, kind: str, resource: str) -> set[str]:
    """The operations that the page's commands give to a user on a topic or a group."""
    found: set[str] = set()
    for line in re.findall(rf"^kafka-acls.sh .*User:{user} .*$", PAGE.read_text(), re.MULTILINE):
        named = re.findall(rf"--{kind} (\S+)", line)
        prefixed = "prefixed" in line
        topics = re.findall(r"--topic (\S+)", line) if kind == "group" and prefixed else []
        if any(resource == name or (prefixed and resource.startswith(name)) for name in named) and (named or topics):
            found |= set(re.findall(r"--operation (\S+)", line))
    return found


@table("role", USERS)
def test_the_page_on_permissions_grants_what_the_doctor_asks_for(role):
    needs = needs_of(role, NAMES)
    assert needs.topics
    for kind, resources in (("topic", needs.topics), ("group", needs.groups)):
        for resource, operations in resources.items():
            assert {each.name for each in operations} <= granted(USERS[role], kind, resource), resource


def test_bits_of_the_broker_are_operations_and_a_broker_that_does_not_say_allows_all():
    assert allowed(1 << 3 | 1 << 8) == {Operation.Read, Operation.Describe}
    assert allowed(0) == set()
    assert allowed(-(2**31)) == set(Operation)
