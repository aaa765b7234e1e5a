"""The engine and the system need none of the packages that ``make up`` leaves out."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.limits import READY_S
from tests.support.snippets import REPOSITORY

UNUSED = re.findall(r"^(\w+) ;", (REPOSITORY / "deploy" / "unused.txt").read_text(), re.MULTILINE)
PROGRAM = """
import asyncio, sys
for name in {unused}:
    sys.modules[name] = None
from switchgear_cli.commands import alerts, api, doctor, emit, gateway, reads, replay, sink, up, worker
from switchgear_schemas.settings import Settings
from switchgear_sinks.migrations import migrate
from switchgear_sinks.store import open_store


async def main():
    async with await open_store(Settings(clickhouse_url="chdb:" + sys.argv[1])) as store:
        await migrate(store)


asyncio.run(main())
print("the tables are there")
"""


def test_the_list_names_what_chdb_requires_for_data_frames():
    assert UNUSED == ["numpy", "pandas", "pyarrow"]


@pytest.mark.slow
def test_the_commands_and_the_engine_run_without_the_packages_that_are_left_out(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(unused=UNUSED), str(tmp_path / "store")],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=READY_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2_000:]
    assert done.stdout.endswith("the tables are there\n")
