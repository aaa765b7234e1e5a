"""The campaign: make each mutation in a checkout, run the tests, and put the file back."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutations.catalogue import Mutation
from tests.mutations.mutant import mutant
from tests.mutations.pytest_run import Outcome, interpreter, run_pytest
from tests.mutations.report import Result
from tests.mutations.tiers import Tier
from tests.mutations.verify import impossible

WHOLE_LIMIT_S: Final = 3_600.0
"""The longest run of a whole tier, in seconds."""
_WHERE: Final = "import switchgear; print(switchgear.__file__)"


class CampaignError(Exception):
    """The campaign can't begin. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """How to run.

    Attributes:
        checkout: The checkout to work in. Its files change while the campaign runs.
        tier: The tests.
        near_only: Don't run the whole tier for a mutation that the tests near it don't notice.
        limit_s: The longest run of the tests near a mutation; None for that of the catalogue.
        whole_limit_s: The longest run of the whole tier.
    """

    checkout: Path
    tier: Tier
    near_only: bool = False
    limit_s: float | None = None
    whole_limit_s: float = WHOLE_LIMIT_S

    def check(self, mutations: Sequence[Mutation]) -> None:
        """Check that the mutations can be made here, and that their files can be put back.

        Raises:
            CampaignError: They can't.
        """
        if wrong := impossible(mutations, self.checkout):
            raise CampaignError("\n".join(wrong))
        if dirty := self._uncommitted(sorted({each.file for each in mutations})):
            raise CampaignError(
                f"{self.checkout} has uncommitted changes in {', '.join(dirty)}. Commit them, or restore the files with git restore."
            )
        python = interpreter(self.checkout)
        if not python.exists():
            raise CampaignError(f"{self.checkout} has no virtual environment. Run: make -C {self.checkout} setup")
        found = subprocess.run([python, "-c", _WHERE], cwd=self.checkout, capture_output=True, text=True, check=False)
        place = Path(found.stdout.strip() or "/")
        if not place.resolve().is_relative_to(self.checkout.resolve()):
            raise CampaignError(
                f"The virtual environment of {self.checkout} imports switchgear from {place}. Make it again: make clean setup"
            )

    def check_baseline(self, mutations: Sequence[Mutation]) -> None:
        """Check that the tests near the mutations pass without a mutation. If not, nothing that they notice means anything.

        Raises:
            CampaignError: One fails.
        """
        files = self.tier.near([path for each in mutations for path in each.near], self.checkout)
        run = run_pytest(self.checkout, self.tier.near_arguments(files, self.whole_limit_s), self.whole_limit_s)
        outcome, by = run.verdict()
        if outcome is not Outcome.SURVIVED:
            raise CampaignError(f"The tests don't pass without a mutation: {outcome} {by}")

    def run(self, mutations: Sequence[Mutation]) -> Iterator[Result]:
        """Yield the result of each mutation."""
        for each in mutations:
            with mutant(self.checkout, each):
                result = self._result(each)
            yield result

    def _result(self, mutation: Mutation) -> Result:
        limit_s = mutation.limit_s if self.limit_s is None else self.limit_s
        files, seconds, had_tests = self.tier.near(mutation.near, self.checkout), 0.0, False
        if files:
            run = run_pytest(self.checkout, self.tier.near_arguments(files, limit_s), limit_s)
            outcome, by = run.verdict()
            seconds, had_tests = run.seconds, run.had_tests
            if outcome is not Outcome.SURVIVED:
                return Result(mutation, outcome, seconds, by)
        if self.near_only:
            return Result(mutation, Outcome.SURVIVED, seconds, "" if had_tests else "(no test of this tier is near it)")
        run = run_pytest(self.checkout, self.tier.whole_arguments(), self.whole_limit_s)
        outcome, by = run.verdict()
        return Result(mutation, outcome, seconds + run.seconds, by)

    def _uncommitted(self, files: Sequence[str]) -> list[str]:
        command = ["git", "-C", str(self.checkout), "status", "--porcelain", "--untracked-files=all", "--", *files]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.returncode:
            raise CampaignError(f"{self.checkout} must be a git checkout: {found.stderr.strip()}")
        return [line[3:] for line in found.stdout.splitlines()]
