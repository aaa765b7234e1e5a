from tests.simulator.agenda import EPOCH, Agenda


def test_things_happen_in_the_order_of_their_time_and_then_of_their_coming():
    agenda, seen = Agenda(), []
    for name, at in (("c", 2.0), ("a", 1.0), ("d", 2.0), ("b", 1.0)):
        agenda.at(at, seen.append, name)
    assert agenda.run(5.0) == 4
    assert seen == ["a", "b", "c", "d"]
    assert (agenda.now, agenda.wall()) == (5.0, EPOCH + 5.0)


def test_what_is_put_in_for_the_past_happens_now():
    agenda, seen = Agenda(), []
    agenda.at(3.0, lambda: agenda.at(1.0, lambda: seen.append(agenda.now)))
    agenda.run(10.0)
    assert seen == [3.0]


def test_what_lies_beyond_the_end_waits():
    agenda, seen = Agenda(), []
    agenda.after(2.0, seen.append, "later")
    assert agenda.run(1.0) == 0
    assert agenda.run(2.0) == 1
    assert seen == ["later"]
