"""Dead letters for operators: list rejected messages, repair them and send them again."""

from switchgear_sinks.dead.letters import Selection, StoredLetter, hexdump
from switchgear_sinks.dead.retry import Retry, RetryOutcome, read_repairs
from switchgear_sinks.dead.topic import read_letters

__all__ = ["Retry", "RetryOutcome", "Selection", "StoredLetter", "hexdump", "read_letters", "read_repairs"]
