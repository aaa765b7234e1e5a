"""The programs of the guide that need a broker run. Only the address and the topic prefix are those of the test."""

from __future__ import annotations

import pytest

from tests.support.deep import some
from tests.support.limits import READY_S
from tests.support.processes import python, settings_environment
from tests.support.snippets import check_output, guide

CONNECTED = [program for program in guide() if program.connects and not program.tests]


@pytest.mark.parametrize("program", some(CONNECTED, 3), ids=lambda program: program.name)
def test_program_of_the_guide_runs_with_a_broker(program, settings, tmp_path):
    code = program.addressed(settings.kafka_bootstrap_servers, settings.topic_prefix)
    log = tmp_path / "program.log"
    with python(code, log=log, extra=settings_environment(settings)) as child:
        assert child.wait_for_exit(READY_S) == 0, child.output()
    wanted = [output for output in program.outputs if output is not None]
    if wanted and len(wanted) == len(program.outputs):
        check_output("".join(wanted), child.output())
