"""The MCP proxy passes its tests in its environment: with faults, with other people's servers, and with the official clients."""

from __future__ import annotations

import dataclasses

import pytest

from tests.frameworks.environments import NEWEST, run

(PROXY,) = [each for each in NEWEST if each.key == "mcp-proxy"]


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("file", PROXY.tests)
def test_proxy_passes_its_tests(file, tmp_path):
    found = run(dataclasses.replace(PROXY, tests=(file,)), tmp_path)
    assert not found.failures, found.output
