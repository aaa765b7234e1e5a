"""One member of the consumer group has all partitions, and keeps them when others join."""

from types import SimpleNamespace

from switchgear_alerts.one_active import assign, make_assignor


def members(**active):
    return {
        name: SimpleNamespace(subscription=["circuits"], user_data=b"active" if each else b"")
        for name, each in active.items()
    }


CLUSTER = SimpleNamespace(partitions_for_topic=lambda _topic: {2, 0, 1})


def given(found):
    return {member: each.assignment for member, each in found.items()}


def test_the_first_by_name_gets_everything_at_the_start():
    assert given(assign(CLUSTER, members(b=False, a=False))) == {"a": [("circuits", [0, 1, 2])], "b": []}


def test_the_active_member_keeps_everything_when_another_joins():
    assert given(assign(CLUSTER, members(a=False, b=True, c=False))) == {
        "a": [],
        "b": [("circuits", [0, 1, 2])],
        "c": [],
    }


def test_a_member_says_that_it_is_active_as_long_as_it_has_partitions():
    assignor, other = make_assignor(), make_assignor()
    assert assignor.metadata(["circuits"]).user_data == b""
    assignor.on_assignment(SimpleNamespace(assignment=[("circuits", [0])]))
    assert assignor.metadata(["circuits"]).user_data == b"active"
    assert other.metadata(["circuits"]).user_data == b""
    assignor.on_assignment(SimpleNamespace(assignment=[]))
    assert assignor.metadata(["circuits"]).user_data == b""
