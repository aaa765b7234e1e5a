"""The mutations of ``tests/mutations`` can be made in this checkout. A change of the code that one is in has to change it too."""

from pathlib import Path

import pytest

from tests.mutations.catalogue import CatalogueError, Mutation, chosen, load
from tests.mutations.mutant import mutant
from tests.mutations.pytest_run import Outcome, Run
from tests.mutations.tiers import CHECK, TEST
from tests.mutations.verify import problems
from tests.support.table import table

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_each_mutation_can_be_made():
    mutations = load()
    assert problems(mutations, ROOT) == []
    assert len(mutations) >= 80


def test_a_mutation_that_cant_be_made_is_named(tmp_path):
    (tmp_path / "code.py").write_text("a = 1\nb = 1\n")

    def mutation(name, old, new="", file="code.py", near=("code.py",)):
        return Mutation(name, "x", "It breaks.", file, old, new, near)

    good = mutation("x-good", "a = 1", "a = 2")
    assert problems([good], tmp_path) == []
    for wrong in (
        mutation("y-other-area", "a = 1", "a = 2"),
        mutation("x-twice", "= 1", "= 2"),
        mutation("x-missing", "c = 1", "c = 2"),
        mutation("x-not-python", "a = 1", "a = ("),
        mutation("x-nothing", "a = 1", "a = 1"),
        mutation("x-no-file", "a = 1", "a = 2", file="other.py"),
        mutation("x-no-test", "a = 1", "a = 2", near=()),
        mutation("x-wrong-test", "a = 1", "a = 2", near=("test_gone.py",)),
    ):
        assert [each for each in problems([good, wrong], tmp_path) if wrong.id in each], wrong.id
    assert problems([good, good], tmp_path) == ["The id x-good is there 2 times."]


def test_a_mutated_file_is_put_back_with_its_times(tmp_path):
    path = tmp_path / "code.py"
    path.write_text("a = 1\n")
    before = path.stat().st_mtime_ns
    compiled = tmp_path / "__pycache__" / "code.cpython-311.pyc"
    compiled.parent.mkdir()
    with pytest.raises(KeyboardInterrupt), mutant(tmp_path, Mutation("x-a", "x", "", "code.py", "1", "2", ())):  # noqa: PT012
        assert path.read_text() == "a = 2\n"
        compiled.write_bytes(b"of the mutation")
        raise KeyboardInterrupt
    assert (path.read_text(), path.stat().st_mtime_ns) == ("a = 1\n", before)
    assert not compiled.exists()


def test_a_text_that_is_there_twice_changes_no_file(tmp_path):
    path = tmp_path / "code.py"
    path.write_text("a = 1, 1\n")
    with (
        pytest.raises(CatalogueError, match="2 times"),
        mutant(tmp_path, Mutation("x", "x", "", "code.py", "1", "2", ())),
    ):
        pass
    assert path.read_text() == "a = 1, 1\n"


def test_a_tier_takes_the_tests_near_a_mutation_in_their_order(tmp_path):
    for name in ("unit/a/test_one.py", "unit/a/test_two.py", "unit/a/support.py", "integration/test_three.py"):
        path = tmp_path / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    near = ["tests/integration/test_three.py", "tests/unit/a/test_two.py", "tests/unit/a", "tests/unit/test_gone.py"]
    units = ["tests/unit/a/test_two.py", "tests/unit/a/test_one.py"]
    assert CHECK.near(near, tmp_path) == units
    assert TEST.near(near, tmp_path) == ["tests/integration/test_three.py", *units]


@table(
    ("code", "output", "expected"),
    [
        (0, "3 passed", (Outcome.SURVIVED, "")),
        (5, "no tests ran", (Outcome.SURVIVED, "")),
        (None, "", (Outcome.TIMED_OUT, "")),
        (1, "FAILED tests/test_a.py::test_x[a b] - assert 1 == 2", (Outcome.KILLED, "tests/test_a.py::test_x[a b]")),
        (
            1,
            "ERROR    client.py:9 no\nFAILED tests/test_a.py::test_x - a log",
            (Outcome.KILLED, "tests/test_a.py::test_x"),
        ),
        (1, "ERROR tests/test_a.py::test_x - OSError", (Outcome.KILLED, "tests/test_a.py::test_x")),
        (2, "ERROR tests/test_a.py - ImportError: no", (Outcome.IMPORT_ERROR, "tests/test_a.py")),
        (4, "ImportError while loading conftest '/tests/conftest.py'.", (Outcome.IMPORT_ERROR, "a conftest.py")),
        (3, "INTERNALERROR> boom", (Outcome.ERROR, "pytest ended with 3: INTERNALERROR> boom")),
    ],
)
def test_what_pytest_says_decides_about_a_mutation(code, output, expected):
    assert Run(code, 1.0, output).verdict() == expected


def test_mutations_are_chosen_by_globs():
    mutations = load()
    assert {each.area for each in chosen(mutations, ["fold-*", "worker-*"])} == {"fold", "worker"}
    assert chosen(mutations, []) == mutations


def test_a_tier_leaves_out_the_test_that_would_notice_each_mutation():
    own = f"--ignore={Path(__file__).relative_to(ROOT)}"
    for tier in (CHECK, TEST):
        assert own in tier.whole_arguments()
        assert own in tier.near_arguments(["tests/unit"], 300)
