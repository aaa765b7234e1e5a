"""Dead letters for people: look at what was rejected, repair it, send it again."""

from switchgear_sinks.dead.letters import StoredLetter
from switchgear_sinks.dead.retry import Outcome, Retry
from switchgear_sinks.dead.selection import Selection
from switchgear_sinks.dead.topic import read_letters

__all__ = ["Outcome", "Retry", "Selection", "StoredLetter", "read_letters"]
