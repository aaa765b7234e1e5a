"""The fuzzer of readers' SQL for some seconds. ``make fuzz`` runs it for minutes."""

import itertools
from pathlib import Path

import pytest

from switchgear_api.readonly import ReadOnlySql, SqlRefusedError
from switchgear_api.sandbox.kernel import missing
from tests.fuzz.sql.opened import FileMonitor
from tests.fuzz.sql.positions import EXPRESSIONS, REFERENCES, STATEMENTS, TABLES
from tests.fuzz.sql.run import fuzz
from tests.fuzz.sql.statements import Statements, Vocabulary
from tests.support.engine import migrated_store

pytestmark = pytest.mark.deep

SEED = 13
WORDS = Vocabulary(
    refused=("file",),
    functions=("file", "plus", "sum"),
    higher=("arrayFilter",),
    combinators=("If",),
    table_functions=("file", "numbers"),
    tables=("system.users",),
    engines=("File",),
)


def test_the_first_wall_alone_keeps_hundreds_of_statements_from_the_secret():
    report = fuzz(SEED, 120, "first", at_most=400)
    assert report.findings == []
    assert report.outcomes["refused"] > 100
    assert report.outcomes["answered"] > 10
    assert report.outcomes["crashed"] == 0, report.crashes


@pytest.mark.skipif(missing() is not None, reason=f"no second wall here: {missing()}")
def test_the_second_wall_alone_keeps_hundreds_of_statements_from_the_secret():
    report = fuzz(SEED, 120, "second", at_most=200)
    assert report.findings == []
    assert report.outcomes["answered"] > 10
    assert report.outcomes["refused"] == 0, "nothing reads the text of the statements"


def test_without_walls_the_same_statements_soon_touch_what_they_may_not():
    report = fuzz(SEED, 120, "none", at_most=400)
    assert report.findings


def test_a_seed_gives_the_same_statements():
    first, second = (list(itertools.islice(Statements(WORDS, 7), 200)) for _ in range(2))
    assert first == second
    assert first != list(itertools.islice(Statements(WORDS, 8), 200))


def test_every_refused_function_comes_into_every_position():
    places = len(EXPRESSIONS) + len(REFERENCES)
    pairs = set(itertools.islice(Statements(WORDS, 7), 0, 3 * places, 3))
    assert len(pairs) == places
    assert min(len(TABLES), len(STATEMENTS)) > 30


def test_the_file_monitor_sees_a_file_that_is_opened(tmp_path):
    path = Path(tmp_path, "x")
    path.write_text("x")
    with FileMonitor(path) as monitor:
        assert not monitor.opened()
        path.read_text()
        assert monitor.opened()
        assert not monitor.opened()


@pytest.fixture(scope="module")
def sql(tmp_path_factory):
    with migrated_store(tmp_path_factory.mktemp("clickhouse")) as store:
        yield ReadOnlySql(store.connect, embedded=True, max_rows=10, max_seconds=5)


@pytest.mark.parametrize("place", EXPRESSIONS)
def test_the_gate_sees_the_function_in_every_position(sql, place):
    """Check that the gate finds ``unheardOf``. If the gate missed it, the engine would report an unknown function."""
    with pytest.raises(SqlRefusedError):
        sql.run(place.replace("@", "unheardOf('a')").replace("#", "unheardOf(''a'')"))
