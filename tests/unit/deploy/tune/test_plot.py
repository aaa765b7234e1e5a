"""The plot of the trade-off."""

from __future__ import annotations

import pytest

from switchgear.policies import PolicySet
from switchgear_cli.tune.cost import Prices
from switchgear_cli.tune.plot import draw_trade_off
from switchgear_cli.tune.study import study
from tests.support.tuning import logged, recorded

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found():
    return study(
        logged(recorded(seconds=2000, outages=[(300, 400), (1300, 1400)])), "search", PolicySet(), outages=None,
        prices=Prices(), candidates=5, seed=1, processes=1, on_start=lambda _total: None, on_done=lambda: None,
    )  # fmt: skip


def test_an_svg_shows_the_present_policy_and_is_the_same_each_time(found, tmp_path):
    first, second = tmp_path / "a.svg", tmp_path / "b.svg"
    draw_trade_off(found, first)
    draw_trade_off(found, second)
    content = first.read_text()
    assert content.startswith("<?xml")
    assert all(word in content for word in ("present", "default", "best", "first half: tuned", "second half: judged"))
    assert content == second.read_text()


def test_a_png_is_drawn_too(found, tmp_path):
    path = tmp_path / "a.png"
    draw_trade_off(found, path)
    assert path.read_bytes().startswith(b"\x89PNG")
