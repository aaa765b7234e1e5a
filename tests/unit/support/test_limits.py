"""A slow machine has more time for a whole test, too."""

import pytest

from tests.support import limits


def test_a_test_without_a_limit_of_its_own_has_that_of_the_configuration_times_the_slowness(request, monkeypatch):
    monkeypatch.setattr(limits, "FACTOR", 2.0)
    before = request.node.get_closest_marker("timeout")
    limits.scale_time_limits([request.node])
    wanted = 2.0 * (float(request.config.getini("timeout")) if before is None else before.args[0])
    assert request.node.get_closest_marker("timeout").args[0] == wanted


@pytest.mark.timeout(7)
def test_the_limit_of_a_test_grows_once(request, monkeypatch):
    factor = limits.FACTOR
    assert request.node.get_closest_marker("timeout").args[0] == 7 * factor
    monkeypatch.setattr(limits, "FACTOR", 2.0)
    limits.scale_time_limits([request.node])
    assert request.node.get_closest_marker("timeout").args[0] == 14 * factor


def test_a_quiet_machine_changes_no_limit(request, monkeypatch):
    before = request.node.get_closest_marker("timeout")
    monkeypatch.setattr(limits, "FACTOR", 1.0)
    limits.scale_time_limits([request.node])
    assert request.node.get_closest_marker("timeout") is before
