"""When no file descriptor is left the background can't start: calls go on, and their events wait."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.limits import BUILD_S

pytestmark = pytest.mark.slow

CODE = """
import os, resource, time
from switchgear import Switchgear

gear = Switchgear("127.0.0.1:1")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
began = time.monotonic()
for _ in range(20):
    gear.call("search", int)
print("took", time.monotonic() - began)
print("loaded", gear.start())
status = gear.status().emitter
print("waiting", status.buffered, status.alive)
for each in held:
    os.close(each)
deadline = time.monotonic() + 60
while not gear.status().emitter.alive and time.monotonic() < deadline:
    gear.call("search", int)
    time.sleep(0.1)
status = gear.status().emitter
print("then", status.alive, status.dropped, status.buffered >= 20)
gear.close(0)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of files")
def test_without_files_no_call_waits_and_the_events_are_kept_until_there_are_some():
    ended = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert ended.returncode == 0, ended.stderr
    found = dict(line.split(" ", 1) for line in ended.stdout.splitlines())
    assert float(found.pop("took")) < 8, "one call waited ten seconds"
    assert found == {"loaded": "False", "waiting": "20 False", "then": "True 0 True"}
    assert "Exception ignored" not in ended.stderr
