"""Verdicts about batches that failed for good."""

from __future__ import annotations

import aiokafka.errors as kafka
import pytest

from switchgear.emitter.send_failure import _NOT_WRITTEN, _OUTAGE, _REFUSED, Verdict, is_outage, judge
from tests.support.table import table


@pytest.mark.parametrize(
    "error",
    [
        kafka.CorruptRecordException(),
        kafka.InvalidTimestampError(),
        kafka.MessageSizeTooLargeError(),
        kafka.RecordListTooLargeError(),
    ],
)
def test_a_refused_batch_is_split_and_a_refused_record_is_given_up(error):
    assert judge(error, 1) is Verdict.REFUSE
    assert judge(error, 2) is Verdict.SPLIT


@pytest.mark.parametrize(
    "error",
    [
        kafka.OutOfOrderSequenceNumber(),
        kafka.UnknownProducerId(),
        kafka.ProducerClosed(),
        kafka.TopicAuthorizationFailedError("t"),
    ],
)
def test_a_batch_that_was_not_written_is_sent_again_unmarked(error):
    assert judge(error, 3) is Verdict.AGAIN


@table(
    "error",
    [
        kafka.KafkaError("Unexpected error during batch delivery"),
        kafka.UnknownError(),
        RuntimeError("?"),
        # What aiokafka says of a batch that it had sent, heard nothing of, and then found no leader for.
        kafka.NotLeaderForPartitionError(),
        kafka.LeaderNotAvailableError(),
    ],
)
def test_a_batch_that_may_have_been_written_is_sent_again_marked(error):
    assert judge(error, 3) is Verdict.UNSURE


def test_every_error_name_exists_in_the_pinned_aiokafka():
    known = {name for name in dir(kafka) if isinstance(getattr(kafka, name), type)}
    assert _REFUSED - known == set()
    assert _NOT_WRITTEN - known == {"AssertionError"}


@table("name", sorted(_REFUSED | (_NOT_WRITTEN - {"AssertionError"})))
def test_verdicts_are_for_errors_that_aiokafka_does_not_retry(name):
    retried_by_aiokafka = getattr(kafka, name).retriable
    assert not retried_by_aiokafka or name in {
        "UnknownTopicOrPartitionError", "NotEnoughReplicasError"
    }  # fmt: skip


@table("name", sorted(_OUTAGE - {"TimeoutError"}))
def test_every_outage_name_exists_in_the_pinned_aiokafka(name):
    assert is_outage(getattr(kafka, name)())


def test_errors_of_the_cluster_are_outages_and_errors_of_a_record_are_not():
    assert is_outage(kafka.NotEnoughReplicasError())
    assert is_outage(TimeoutError())
    assert not is_outage(kafka.UnknownError())
    assert not is_outage(kafka.MessageSizeTooLargeError())
    assert not is_outage(kafka.TopicAuthorizationFailedError("t"))
