import gzip
import json

import pytest

from tests.bench.benefit.tasks import NoTasksError, Replay, Step, Task, World
from tests.bench.benefit.wheels import wheel
from tests.bench.benefit.worlds import bfcl, recordings, tau2


def test_a_call_of_bfcl_is_read_with_its_arguments():
    call = bfcl.Call.parse("book_flight(city='Rivermist', seats=[1, 2], cost=3.5)")
    assert (call.method, call.args) == ("book_flight", ())
    assert call.kwargs == {"city": "Rivermist", "seats": [1, 2], "cost": 3.5}
    assert bfcl.Call.parse("sort('a.txt')").args == ("a.txt",)


@pytest.mark.parametrize("text", ["__import__('os').remove('x')", "1 + 1", "f(g())"])
def test_what_is_no_call_with_literals_is_not_read(text):
    with pytest.raises(ValueError, match=r".+"):
        bfcl.Call.parse(text)


def test_a_result_of_tau2_is_as_long_as_the_records_that_its_arguments_name():
    lengths = dict(tau2.record_lengths({"orders": {"#W1": {"a": 1}}, "count": 3}))
    assert lengths == {"#W1": 8}
    assert tau2.result_chars({"order_id": "#W1", "items": ["x"]}, lengths) == 8
    assert tau2.result_chars({"email": "a@b.c"}, lengths) == tau2.SHORT_CHARS


def test_the_tools_of_tau2_are_those_that_its_source_marks():
    source = '@is_tool(ToolType.READ)\ndef find(self, name: str):\n    """Find it."""\ndef helper(self): ...\n'
    assert tau2.tool_chars(source) == {"find": len("self, name: str") + len("Find it.")}


def test_recorded_runs_are_read_by_session(tmp_path):
    path = tmp_path / "calls.jsonl.gz"
    calls = [{"session_id": session, "tool_name": tool} for session, tool in (("1", "a"), ("2", "b"), ("1", "c"))]
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, calls)).encode()))
    assert [[call["tool_name"] for call in run] for run in recordings.runs(path)] == [["a", "c"], ["b"]]


def test_without_the_recordings_a_sentence_says_so(tmp_path):
    with pytest.raises(NoTasksError, match="not part of a clone"):
        recordings.runs(tmp_path / "calls.jsonl.gz")


def test_without_a_wheel_a_sentence_says_how_to_get_it(tmp_path):
    with pytest.raises(NoTasksError, match="--fetch downloads it"):
        wheel("bfcl_eval", tmp_path)


def test_a_replayed_task_is_done_when_every_step_was_made():
    attempt = Replay((10, 20))
    assert attempt.make(1) == 20
    assert not attempt.done()
    assert attempt.make(0) == 10
    assert attempt.done()


def test_a_tool_that_few_tasks_use_does_not_break():
    def task(*tools: str) -> Task:
        return Task("", tuple(Step(tool, 1) for tool in tools), {}, 0, lambda: Replay(()))

    world = World("w", tuple(task("often", "often") if number % 5 else task("often", "rare") for number in range(11)))
    assert world.often_used() == ["often", "rare"]
    world = World("w", (*world.tasks, *(task("often") for _ in range(30))))
    assert world.often_used() == ["often"]
    assert World("w", (task("a", "a"), task("b"))).uses("a") == 1.0
