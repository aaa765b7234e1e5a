"""What to do with a batch that failed, by its error.

aiokafka itself retries what the protocol calls retriable (a lost connection, a leader that moved, a time-out), under the same
sequence numbers and so without duplicates. An error that arrives here is final for its producer: the sequence numbers of the batch
are used up, so every later batch of the partition would fail as out of order (aiokafka 0.14 ``MessageAccumulator._pop_batch``;
the Java client increases its epoch there). Every verdict therefore also retires the producer.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

# Errors go by name, so that deciding does not need the slow import of aiokafka.
_REFUSED: Final = frozenset(
    {
        "CorruptRecordException",
        "InvalidMessageError",
        "InvalidTimestampError",
        "MessageSizeTooLargeError",
        "PolicyViolationError",
        "RecordListTooLargeError",
    }
)
# NotLeaderForPartitionError and LeaderNotAvailableError are not in this set. aiokafka fails a batch with them when its partition has had
# no leader for too long, even if it had sent the batch and got no answer (MessageAccumulator.drain_by_nodes): it may be written.
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

    SPLIT = "sending one by one, to find the record that is refused"
    REFUSE = "the record is refused"
    AGAIN = "not written, sending again"
    UNSURE = "perhaps written, sending again, marked as resent"


def judge(error: BaseException, records: int) -> Verdict:
    """Decide about a batch of ``records`` records that failed with ``error``."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & _REFUSED:
        return Verdict.SPLIT if records > 1 else Verdict.REFUSE
    return Verdict.AGAIN if names & _NOT_WRITTEN else Verdict.UNSURE


def is_outage(error: BaseException) -> bool:
    """Return whether the cluster is at fault and not the record. Such a batch is retried without a limit."""
    return any(kind.__name__ in _OUTAGE for kind in type(error).__mro__)
