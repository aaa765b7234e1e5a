"""The loop of emit: every line counted once, paced by the recorded clock."""

from __future__ import annotations

import gzip
import io
import json
import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from switchgear_cli.emit.recording import Extent, extent, rereadable
from switchgear_cli.emit.run import EmitPlan, Pace, emit_lines, shift_of
from switchgear_cli.emit.sending import SHOWN, Tally

T0 = datetime(2022, 8, 22, 3, tzinfo=UTC)
NOW = datetime(2026, 11, 1, tzinfo=UTC)


class Taking:
    """Where the records would go."""

    def __init__(self):
        self.records = []
        self.pushed = 0
        self.finished = 0

    def add(self, tool, value):
        self.records.append((tool, json.loads(value)))

    def push(self):
        self.pushed += 1

    def finish(self):
        self.finished += 1


def write(tmp_path, *events):
    path = tmp_path / "calls.jsonl"
    path.write_text("".join((event if isinstance(event, str) else json.dumps(event)) + "\n" for event in events))
    return str(path)


def call(seconds=0.0, **changes):
    return {
        "tool_name": "t",
        "status": "success",
        "recorded_at": (T0 + timedelta(seconds=seconds)).isoformat(),
    } | changes


def emit(plan, taking, **options):
    tally, said, advanced, slept = Tally(), [], [], []
    emit_lines(plan, tally, taking, complain=said.append, advance=advanced.append, sleep=slept.append, **options)
    return SimpleNamespace(tally=tally, said=said, lines=sum(advanced), slept=slept)


def test_good_lines_go_and_bad_ones_are_named_with_number_and_reason(tmp_path):
    taking = Taking()
    found = emit(EmitPlan(write(tmp_path, call(), "junk", "", call(status="weird"), call()), late_after_s=1e10), taking)
    assert len(taking.records) == 2
    assert found.said[0].startswith("line 2 is not an execution: the message is not JSON")
    assert found.said[1].startswith("line 4 is not an execution: status: Invalid enum value")
    assert (found.tally.lines, found.tally.refused) == (4, 2)
    assert found.lines == 4
    assert taking.finished == 1


def test_of_many_bad_lines_the_first_are_shown_and_the_rest_counted(tmp_path):
    found = emit(EmitPlan(write(tmp_path, *["junk"] * 50)), Taking())
    assert len(found.said) == SHOWN
    assert f"{50 - SHOWN} more lines were refused" in found.tally.remarks(30, file="f")[0]


def test_restamping_makes_the_last_call_now_and_keeps_the_distances(tmp_path):
    taking = Taking()
    emit(EmitPlan(write(tmp_path, call(0), call(90), call(30)), restamp=True), taking)
    stamps = [datetime.fromisoformat(event["recorded_at"]) for _, event in taking.records]
    assert abs((datetime.now(UTC) - stamps[1]).total_seconds()) < 20
    assert stamps[1] - stamps[0] == timedelta(seconds=90)
    assert stamps[1] - stamps[2] == timedelta(seconds=60)


def test_a_paced_restamped_recording_ends_at_the_moment_its_last_call_is_sent():
    found = Extent(T0, T0 + timedelta(seconds=100), 2)
    assert T0 + timedelta(seconds=100) + shift_of(found, 10, NOW) == NOW + timedelta(seconds=10)
    assert T0 + timedelta(seconds=100) + shift_of(found, None, NOW) == NOW


def test_a_recording_without_any_clock_is_not_shifted():
    assert shift_of(Extent(None, None, 5), 1.0, NOW) == timedelta(0)


def test_the_pace_is_the_recorded_clock_divided_by_the_speed():
    pace = Pace(10)
    assert pace.wait(T0, 1_000.0) == 0
    assert pace.wait(T0 + timedelta(seconds=5), 1_000.1) == pytest.approx(0.4)
    assert pace.wait(T0 + timedelta(seconds=5), 1_009.0) == 0, "late: at once"
    assert pace.wait(T0 - timedelta(seconds=5), 1_000.0) == 0, "recorded earlier: at once"
    assert pace.wait(None, 1_000.0) == 0


def test_without_a_speed_nothing_waits():
    pace = Pace(None)
    pace.wait(T0, 0)
    assert pace.wait(T0 + timedelta(days=1), 0) == 0


def test_what_was_taken_goes_before_the_loop_sleeps(tmp_path):
    taking = Taking()
    found = emit(EmitPlan(write(tmp_path, call(0), call(60), call(120)), speed=1), taking)
    assert len(found.slept) == 2
    assert found.slept[0] == pytest.approx(60, abs=1)
    assert taking.pushed == 2


def test_missing_clocks_and_identities_and_repeats_are_reported(tmp_path):
    same = "018bcfe5-687b-7000-8000-000000000000"
    events = [{"tool_name": "t", "status": "success"}, call(metric_id=same), call(metric_id=same), call()]
    found = emit(EmitPlan(write(tmp_path, *events), late_after_s=1e10), Taking())
    tally = found.tally
    assert (tally.without_clock, tally.without_id, tally.repeated) == (1, 2, 1)
    remarks = " ".join(tally.remarks(30, file="f"))
    assert "1 lines had no recorded_at; stamped with the time of sending." in remarks
    assert "2 lines had no metric_id" in remarks
    assert "1 lines repeat a metric_id" in remarks


def test_calls_that_no_circuit_will_count_are_named_with_the_command_that_replays_them(tmp_path):
    found = emit(EmitPlan(write(tmp_path, call(), call())), Taking())
    assert found.tally.late == 2
    remark = " ".join(found.tally.remarks(300.0, file="calls.jsonl"))
    assert "2 lines were recorded more than 300 s (late_after_s) before they were sent" in remark
    assert "run `switchgear replay calls.jsonl`" in remark
    assert "--restamp" not in remark


def test_a_recording_longer_than_late_after_s_that_is_restamped_at_once_suggests_its_own_pace(tmp_path):
    found = emit(EmitPlan(write(tmp_path, call(0), call(600)), restamp=True), Taking())
    assert found.tally.late == 1
    remark = " ".join(found.tally.remarks(300.0, file="calls.jsonl", restamped_at_once=True))
    assert "add `--speed 1`" in remark
    assert "--restamp" not in remark


def test_the_calls_of_a_restamped_recording_are_counted(tmp_path):
    found = emit(EmitPlan(write(tmp_path, call(), call()), restamp=True), Taking())
    assert found.tally.late == 0
    assert "no circuit counts" not in " ".join(found.tally.remarks(300.0, file="f"))


def test_a_dry_run_checks_every_line(tmp_path):
    found = emit(EmitPlan(write(tmp_path, call(), "junk")), None)
    assert found.tally.summary(1.0, dry_run=True) == "1 lines would be sent, 1 refused. Nothing was sent (--dry-run)."


def test_an_interruption_finishes_what_was_taken(tmp_path):
    class Interrupted(Taking):
        def add(self, tool, value):
            super().add(tool, value)
            if len(self.records) == 2:
                raise KeyboardInterrupt

    taking = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        emit(EmitPlan(write(tmp_path, *[call()] * 5), late_after_s=1e10), taking)
    assert taking.finished == 1


def test_the_standard_input_can_be_read_twice(monkeypatch):
    content = gzip.compress(json.dumps(call(7)).encode() + b"\n")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    with rereadable("-") as source:
        assert extent(source) == extent(source) == Extent(T0 + timedelta(seconds=7), T0 + timedelta(seconds=7), 1)


def test_the_summary_counts_what_has_no_answer():
    tally = Tally(lines=10, refused=1, sent=9, acknowledged=5, rejected=1)
    assert tally.unacknowledged == 3
    assert not tally.complete
    assert tally.summary(0.5) == "9 sent, 5 acknowledged, 2 refused, 3 not acknowledged in 0.5 s (10 events/s)."
