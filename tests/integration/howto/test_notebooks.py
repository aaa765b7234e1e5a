"""docs/howto/notebooks.md in a real kernel."""

from __future__ import annotations

import nbformat
import pytest
from nbclient import NotebookClient

from tests.integration.howto.pages import by_host_name, statuses
from tests.support.snippets import check_output, programs

pytestmark = pytest.mark.deep

CELLS = [(program.code, program.outputs[0]) for program in programs("docs/howto/notebooks.md")]


@pytest.fixture
def run(settings, monkeypatch, tmp_path):
    """Return ``run(*cells)``, which runs cells in one kernel, shuts it down, and returns what each cell printed."""
    monkeypatch.setenv("SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS", by_host_name(settings))
    monkeypatch.setenv("SWITCHGEAR_TOPIC_PREFIX", settings.topic_prefix)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))

    def execute(*cells):
        made = [nbformat.v4.new_code_cell(cell) for cell in cells]
        notebook = nbformat.v4.new_notebook(cells=made)
        NotebookClient(notebook, timeout=60, startup_timeout=60, kernel_name="python3").execute()
        return ["".join(output.get("text", "") for output in cell.outputs) for cell in made]

    return execute


def test_notebook_cells_print_what_the_page_says_and_send_their_events(run, settings):
    printed = run(*(code for code, _ in CELLS))
    for text, (_, wanted) in zip(printed, CELLS, strict=True):
        check_output(wanted, text)
    assert statuses(settings) == {"success": 1}


def test_notebook_cells_that_run_again_leave_one_client_and_lose_no_event(run, settings):
    (make, _), (call, _), _ = CELLS
    count = "import threading; print(sum('switchgear' in thread.name for thread in threading.enumerate()))"
    printed = run(make, call, call, make, call, count)
    assert printed[-1] == "1\n"
    assert statuses(settings) == {"success": 3}
