"""A tool's owner is the partition that any Kafka client's default partitioner would choose."""

import pytest
from aiokafka.partitioner import DefaultPartitioner
from hypothesis import given
from hypothesis import strategies as st

from switchgear_schemas.partitioner import owner_partition


@pytest.mark.slow
@given(tool=st.text(min_size=1, max_size=256), partitions=st.integers(min_value=1, max_value=100))
def test_the_owner_partition_is_that_of_aiokafkas_default_partitioner(tool, partitions):
    everyone = list(range(partitions))
    assert owner_partition(tool, partitions) == DefaultPartitioner()(tool.encode(), everyone, everyone)


# The murmur2 values of Kafka's own UtilsTest.testMurmur2, made positive as its partitioner does.
@pytest.mark.parametrize(
    ("key", "hashed"),
    [("21", -973932308), ("foobar", -790332482), ("a-little-bit-long-string", -985981536), ("abc", 479470107)],
)
def test_the_owner_partition_is_that_of_the_java_client(key, hashed):
    assert owner_partition(key, 12) == (hashed & 0x7FFFFFFF) % 12
