from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref

import pytest

from switchgear.runtime.fork import call_in_child
from tests.support.limits import READY_S

pytestmark = pytest.mark.slow


class Counted:
    def __init__(self) -> None:
        self.resets = 0
        call_in_child(self.reset)

    def reset(self) -> None:
        self.resets += 1


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_of_a_fork_resets_each_living_object_once():
    first, gone = Counted(), Counted()
    del gone
    gc.collect()
    child = os.fork()
    if child == 0:
        os._exit(first.resets)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert first.resets == 0


def test_the_registry_keeps_no_object_alive():
    counted = Counted()
    seen = weakref.ref(counted)
    del counted
    gc.collect()
    assert seen() is None


def test_a_program_ends_without_output_on_stderr():
    program = "from switchgear import Switchgear; Switchgear.local().call('tool', len, 'abc')"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=READY_S)
    assert ended.stderr == ""
