-- What this store lacks, because sinks had written it to a store that was lost, or that was another one.

CREATE TABLE IF NOT EXISTS sink_history {on_cluster}
(
    consumer_group String COMMENT 'Consumer group of the sinks',
    topic String COMMENT 'Topic; empty in the row that says when the group began to write here',
    partition UInt32 COMMENT 'Partition of the topic',
    lacks_before UInt64 COMMENT 'The store lacks the offsets before this one; 0: nothing is lacking, or it was read again',
    readable UInt64 COMMENT 'How many of these offsets Kafka still had when this was noted',
    noted_at DateTime64(6, 'UTC') DEFAULT now64(6) COMMENT 'When this was noted'
)
ENGINE = {merge_tree}
ORDER BY (consumer_group, topic, partition, noted_at)
COMMENT 'From which offsets on this store has the topics. A row with lacks_before = 0 is the last word about its partition.';
