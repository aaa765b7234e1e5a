from tests.simulator.agenda import EPOCH, Agenda


def test_actions_run_by_time_and_then_in_the_order_in_which_they_were_added():
    agenda, seen = Agenda(), []
    for name, at in (("c", 2.0), ("a", 1.0), ("d", 2.0), ("b", 1.0)):
        agenda.at(at, seen.append, name)
    assert agenda.run(5.0) == 4
    assert seen == ["a", "b", "c", "d"]
    assert (agenda.now, agenda.wall()) == (5.0, EPOCH + 5.0)


def test_an_action_in_the_past_runs_now():
    agenda, seen = Agenda(), []
    agenda.at(3.0, lambda: agenda.at(1.0, lambda: seen.append(agenda.now)))
    agenda.run(10.0)
    assert seen == [3.0]


def test_an_action_after_the_end_does_not_run():
    agenda, seen = Agenda(), []
    agenda.after(2.0, seen.append, "later")
    assert agenda.run(1.0) == 0
    assert agenda.run(2.0) == 1
    assert seen == ["later"]
