"""Which targets of a route take calls while some of their circuits are open."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def candidates(targets: Sequence[str], is_open: Callable[[str], bool], *, max_open_percent: float = 100.0) -> list[str]:
    """The targets that may be called, in their order.

    Open ones are left out while they are at most ``max_open_percent`` of all (Envoy's ``max_ejection_percent``, which
    lets one go in any case); beyond it the later targets are kept although they are open. If nothing is left, all are
    kept: calling a broken tool is no worse than calling none (Envoy's panic threshold, Portkey's empty
    ``healthyTargets``).

    Args:
        targets: Names in order of preference.
        is_open: Whether a target's circuit refuses calls.
        max_open_percent: Largest share of the targets that may be left out, in percent.
    """
    allowed = max(1, int(len(targets) * max_open_percent / 100))
    kept: list[str] = []
    left_out = 0
    for target in targets:
        if left_out < allowed and is_open(target):
            left_out += 1
        else:
            kept.append(target)
    return kept or list(targets)
