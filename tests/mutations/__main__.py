"""Say what the tests are worth: make one small bug after the other, and see which of them a test notices.

    python -m tests.mutations [--checkout FOLDER] --tier check|test [--only GLOB] [--near-only] [--report FILE]
    python -m tests.mutations --verify

A campaign takes hours, and changes files of the checkout while it runs: give it a checkout of its own, with ``make setup`` done in it.

    git worktree add ../campaign HEAD && make -C ../campaign setup
    python -m tests.mutations --checkout ../campaign --tier check --report check.json

For each mutation, first the tests near it run, then the whole tier if none of them fails. For a checkout that has not today's markers,
name its expression: ``--marker 'not engine and not slow'``, or ``--marker ''`` for all tests. After ``kill -9``, restore the file by hand.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.mutations import report
from tests.mutations.catalogue import chosen, load
from tests.mutations.run import WHOLE_LIMIT_S, Campaign, CampaignError
from tests.mutations.tiers import TIERS
from tests.mutations.verify import problems

OWN = Path(__file__).resolve().parents[2]


def main() -> int:
    """Run a campaign, or only verify the catalogue. The exit code is 1 if it is wrong, 2 if the campaign can't begin."""
    options = _options()
    checkout: Path = options.checkout.resolve()
    mutations = chosen(load(), options.only)
    if options.verify:
        found = problems(mutations, checkout)
        print("\n".join(found) or f"{len(mutations)} mutations can be made in {checkout}.")
        return 1 if found else 0
    tier = TIERS[options.tier]
    tier = tier if options.marker is None else replace(tier, marker=options.marker)
    campaign = Campaign(checkout, tier, options.near_only, options.timeout, options.whole_timeout)
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)  # a shell's "&" has its jobs ignore it
    results: list[report.Result] = []
    try:
        campaign.check(mutations)
        if options.baseline:
            campaign.check_baseline(mutations)
        for result in campaign.run(mutations):
            print(result.line(), flush=True)
            results.append(result)
            if options.report is not None:  # after each, so that an interrupted campaign has a report too
                report.write(options.report, results, _about(campaign))
    except CampaignError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the file is as it was", file=sys.stderr)
    print(f"\n{report.table(results)}")
    return 0 if len(results) == len(mutations) else 130


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutations", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--checkout", type=Path, default=OWN, metavar="FOLDER", help="where to make them (default: here)"
    )
    parser.add_argument(
        "--tier", choices=sorted(TIERS), default="check", help="the tests of make check, or of make test"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="GLOB", help="ids of mutations, such as 'fold-*'"
    )
    parser.add_argument("--near-only", action="store_true", help="don't run the whole tier for those that survive")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the results as JSON")
    parser.add_argument("--marker", metavar="EXPRESSION", help="in place of the tier's expression; '' for all tests")
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="for the tests near one mutation (default: 300)"
    )
    parser.add_argument(
        "--whole-timeout", type=float, default=WHOLE_LIMIT_S, metavar="SECONDS", help="for a whole tier (default: 3600)"
    )
    parser.add_argument(
        "--baseline", action="store_true", help="first check that the near tests pass without a mutation"
    )
    parser.add_argument("--verify", action="store_true", help="only check that each mutation can be made, in a second")
    return parser.parse_args()


def _about(campaign: Campaign) -> dict[str, Any]:
    command = ["git", "-C", str(campaign.checkout), "rev-parse", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "checkout": str(campaign.checkout),
        "commit": commit,
        "tier": campaign.tier.name,
        "marker": campaign.tier.marker,
        "near_only": campaign.near_only,
    }


def _interrupt(*_: object) -> None:
    """End the campaign. A second signal must not disturb what puts the file back."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
