"""Which folders of the engine a snapshot shows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear_api.sandbox.snapshot import link_snapshot, uncovered
from tests.support.table import table

TABLE = "store/abc/abc-def"


@pytest.fixture
def folder(tmp_path):
    for name in (
        "metadata",
        TABLE,
        f"{TABLE}/detached/all_9_9_0",
        f"{TABLE}/all_1_1_0",
        f"{TABLE}/tmp_merge_all_1_2_1",
    ):
        (tmp_path / "real" / name).mkdir(parents=True, exist_ok=True)
    for name in ("status", "metadata/switchgear.sql", f"{TABLE}/format_version.txt", f"{TABLE}/mutation_3.txt"):
        (tmp_path / "real" / name).write_text(name)
    (tmp_path / "real" / TABLE / "all_1_1_0" / "data.bin").write_text("rows")
    return tmp_path / "real"


def seen(snapshot) -> list[str]:
    return sorted(
        str(path.relative_to(snapshot)) for path in snapshot.rglob("*") if not path.is_dir() or path.is_symlink()
    )


def test_snapshot_links_parts_and_copies_the_files_above_them(folder, tmp_path):
    snapshot = tmp_path / "snapshot"
    link_snapshot(folder, snapshot)
    assert seen(snapshot) == ["metadata/switchgear.sql", f"{TABLE}/all_1_1_0", f"{TABLE}/format_version.txt"]
    assert (snapshot / TABLE / "all_1_1_0").readlink() == folder / TABLE / "all_1_1_0"
    assert not (snapshot / "metadata" / "switchgear.sql").is_symlink()


def test_second_snapshot_shows_new_tables_and_not_dropped_ones(folder, tmp_path):
    snapshot = tmp_path / "snapshot"
    link_snapshot(folder, snapshot)
    (folder / TABLE / "all_1_1_0").rename(folder / TABLE / "all_2_2_0")
    link_snapshot(folder, snapshot)
    assert f"{TABLE}/all_2_2_0" in seen(snapshot)
    assert f"{TABLE}/all_1_1_0" not in seen(snapshot)
    assert (folder / TABLE / "all_2_2_0" / "data.bin").read_text() == "rows", "the rows themselves stay"


@table(
    ("names", "kept"),
    [
        (["all_1_1_0", "all_2_2_0", "all_1_2_1"], {"all_1_2_1"}),
        (["all_1_1_0", "all_2_2_0"], {"all_1_1_0", "all_2_2_0"}),
        (["all_1_5_1", "all_6_6_0", "all_1_6_2", "all_7_7_0"], {"all_1_6_2", "all_7_7_0"}),
        (["all_1_1_0", "all_1_1_0_4"], {"all_1_1_0_4"}),  # a mutation replaced it
        (["all_1_1_0", "all_1_1_1"], {"all_1_1_1"}),
        (["202611_1_1_0", "202612_1_3_1"], {"202611_1_1_0", "202612_1_3_1"}),  # two partitions
        (["all_1_1_0", "all_3_3_0", "all_1_3_1_7", "all_4_4_0_7", "all_4_4_0"], {"all_1_3_1_7", "all_4_4_0_7"}),
        ([], set()),
    ],
)
def test_parts_that_were_merged_into_another_are_left_out(names, kept):
    assert set(uncovered(names)) == kept


@pytest.mark.slow
@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.randoms())
def test_every_block_is_in_one_part_whatever_was_merged(sizes, random):
    """Merges of neighbours, some of them with their sources still there: each block is read once."""
    blocks, names, start = sum(sizes), [], 1
    for size in sizes:
        end = start + size - 1
        names += [f"all_{block}_{block}_0" for block in range(start, end + 1) if size == 1 or random.random() < 0.7]
        if size > 1:
            names.append(f"all_{start}_{end}_1")
        start = end + 1
    random.shuffle(names)
    ranges = [tuple(map(int, name.split("_")[1:3])) for name in uncovered(names)]
    assert sorted(block for first, last in ranges for block in range(first, last + 1)) == list(range(1, blocks + 1))
