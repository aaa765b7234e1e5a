"""The ledger: what it says after its writer was killed."""

import threading

import pytest

from switchgear.emitter.status import EmitterStatus
from tests.chaos.ledger import EmittedEvents, Ledger, LedgerWriter, Offered, read_ledgers

pytestmark = pytest.mark.deep


def offered(*keys):
    return [Offered(key, "search", "success", 1.5) for key in keys]


def status(*, buffered=0, dropped=0, failed=0):
    return EmitterStatus(
        emitted=0, acknowledged=0, dropped=dropped, failed=failed, buffered=buffered, connected=True, alive=True, last_error=None
    )  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return tmp_path / "emitter-1.ledger"


def test_what_was_written_is_read_back(path):
    writer = LedgerWriter(path)
    assert writer.offer(offered("a", "b")) == 0
    assert writer.offer(offered("c", "d")) == 2
    writer.acknowledged(0, 1)
    writer.refused(2, "too\tlarge\n")
    found = Ledger.read(path)
    assert found.offered == offered("a", "b", "c", "d")
    assert found.acknowledged == {0, 1}
    assert found.refused == {2: "too large"}
    assert found.name == "emitter-1"


def test_junk_is_marked_event_by_event(path):
    writer = LedgerWriter(path)
    writer.offer(offered("a"))
    writer.offer(offered("b", "c"), junk=True)
    assert Ledger.read(path).junk == {1, 2}


def test_a_line_that_a_kill_cut_is_left_out(path):
    writer = LedgerWriter(path)
    writer.offer(offered("a"))
    with path.open("a") as file:
        file.write("A\t0\t")
    found = Ledger.read(path)
    assert found.offered == offered("a")
    assert not found.acknowledged


def test_decisions_are_kept_with_what_raised(path):
    writer = LedgerWriter(path)
    writer.sums(decisions=1)
    writer.sums(decisions=5)
    writer.slow(0.7, 100.0)
    writer.raised(ValueError("two\nlines"))
    found = Ledger.read(path)
    assert found.sums == {"decisions": 5}
    assert found.slow == [(0.7, 100.0)]
    assert found.raised == ["ValueError('two\\nlines')"]


def test_a_line_of_an_unknown_kind_is_an_error(path):
    path.write_text("?\t1\n")
    with pytest.raises(ValueError, match="unknown kind: '\\?'"):
        Ledger.read(path)


def test_threads_do_not_mix_their_lines(path):
    writer = LedgerWriter(path)
    threads = [threading.Thread(target=lambda: [writer.offer(offered("x")) for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Ledger.read(path).offered) == 800


def test_every_ledger_of_a_folder_is_read(tmp_path):
    for name in ("b", "a"):
        LedgerWriter(tmp_path / f"{name}.ledger").offer(offered("x"))
    assert [ledger.name for ledger in read_ledgers(tmp_path)] == ["a", "b"]


def test_events_count_as_acknowledged_once_the_emitter_has_nothing_left(path):
    writer = LedgerWriter(path)
    emitted = EmittedEvents(writer)
    first = writer.offer(offered(*"abcdef"))
    for number in (0, 1, 2, 4, 5):
        emitted.note(first + number)
    emitted.look(status(buffered=1))
    assert not Ledger.read(path).acknowledged
    emitted.look(status())
    assert Ledger.read(path).acknowledged == {0, 1, 2, 4, 5}


@pytest.mark.parametrize("loss", [{"dropped": 1}, {"failed": 1}])
def test_events_among_which_one_was_lost_stay_unknown_and_later_ones_do_not(path, loss):
    writer = LedgerWriter(path)
    emitted = EmittedEvents(writer)
    emitted.note(writer.offer(offered("a")))
    emitted.look(status(**loss))
    emitted.note(writer.offer(offered("b")))
    emitted.look(status(**loss))
    assert Ledger.read(path).acknowledged == {1}
