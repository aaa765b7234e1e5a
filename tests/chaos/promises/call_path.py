"""The call path never waits for Kafka: no decision took long, and none raised."""

from __future__ import annotations

from tests.chaos.evidence import Evidence
from tests.chaos.verdict import Verdict

PROMISE = "call-path-never-waits"
LONGEST_S = 3.0
"""A decision that asks for a probe waits 0.25 s by design. Whoever waited for Kafka would wait for as long as it is away: 5 s and more.
What lies between is the machine's: hundreds of threads on a few cores."""


def call_path_never_waits(evidence: Evidence) -> Verdict:
    """Decisions of the guards, but for those that a SIGSTOP interrupted."""
    faults = []
    worst = 0.0
    slow = 0
    for ledger in evidence.ledgers:
        faults += [f"a decision of {ledger.name} raised {error}" for error in ledger.raised]
        for seconds, start in ledger.slow:
            if _stopped(evidence, ledger.name, start, start + seconds):
                continue
            slow += 1
            worst = max(worst, seconds)
            if seconds > LONGEST_S:
                faults.append(f"a decision of {ledger.name} took {seconds:.2f} s")
    decisions = sum(ledger.sums.get("decisions", 0) for ledger in evidence.ledgers)
    quick = sum(ledger.sums.get("within_a_millisecond", 0) for ledger in evidence.ledgers)
    share = quick / decisions if decisions else 0.0
    summary = f"{decisions:,} decisions, {share:.2%} within 1 ms, {slow} over 0.5 s, the longest of them {worst:.2f} s"
    return Verdict(PROMISE, summary, faults)


def _stopped(evidence: Evidence, name: str, start: float, end: float) -> bool:
    return any(who == name and since <= end and start <= until for who, since, until in evidence.pauses)
