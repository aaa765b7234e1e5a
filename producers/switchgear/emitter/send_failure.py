"""What to do with a batch that failed: a pure function of the error.

aiokafka retries by itself, under the same sequence numbers and hence without duplicates, whatever the protocol calls
retriable (a lost connection, a leader that moved, a time-out). What arrives here is final for *its* producer: the
sequence numbers of the batch are spent, so every later batch of the partition would fail as out of order
(aiokafka 0.14 ``MessageAccumulator._pop_batch``; the Java client bumps its epoch there). So each of these verdicts also
retires the producer.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

# By name: aiokafka takes 100 ms to import and is not needed to decide.
_TOO_LARGE: Final = frozenset({"MessageSizeTooLargeError", "RecordListTooLargeError"})
_REFUSED: Final = frozenset(
    {
        "CorruptRecordException",
        "InvalidMessageError",
        "InvalidTimestampError",
        "PolicyViolationError",
    }
)
# Not among them: NotLeaderForPartitionError and LeaderNotAvailableError. aiokafka gives up a batch with these when its partition has had
# no leader for too long, also one that it had sent before and never heard of (MessageAccumulator.drain_by_nodes): it may be written.
_NOT_WRITTEN: Final = frozenset(
    {
        "OutOfOrderSequenceNumber",
        "UnknownProducerId",
        "InvalidProducerIdMapping",
        "InvalidProducerEpoch",
        "ProducerFenced",
        "TopicAuthorizationFailedError",
        "ClusterAuthorizationFailedError",
        "InvalidTopicError",
        "UnknownTopicOrPartitionError",
        "NotEnoughReplicasError",
        "ProducerClosed",
        "AssertionError",
    }
)
_OUTAGE: Final = frozenset(
    {
        "KafkaTimeoutError",
        "RequestTimedOutError",
        "KafkaConnectionError",
        "NodeNotReadyError",
        "BrokerNotAvailableError",
        "NotLeaderForPartitionError",
        "LeaderNotAvailableError",
        "NotEnoughReplicasError",
        "NotEnoughReplicasAfterAppendError",
        "ProducerClosed",
        "TimeoutError",
    }
)


class Verdict(Enum):
    """What to do with the records of the batch."""

    SMALLER = "the topic takes no batch of this size: in smaller ones"
    SPLIT = "one by one, to find the one that is refused"
    REFUSE = "the record is refused: report it and go on"
    AGAIN = "not written: send again"
    UNSURE = "perhaps written: send again, marked as resent"


def judge(error: BaseException, records: int) -> Verdict:
    """Decide for a batch of ``records`` records that ended with ``error``."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & _TOO_LARGE:
        return Verdict.SMALLER if records > 1 else Verdict.REFUSE
    if names & _REFUSED:
        return Verdict.SPLIT if records > 1 else Verdict.REFUSE
    return Verdict.AGAIN if names & _NOT_WRITTEN else Verdict.UNSURE


def is_outage(error: BaseException) -> bool:
    """The cluster, not the record, is at fault: it is waited out for however long, within the buffer's bound."""
    return any(kind.__name__ in _OUTAGE for kind in type(error).__mro__)
