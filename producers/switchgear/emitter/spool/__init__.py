"""The spool: events on disk while Kafka is away, bounded, and still there after ``kill -9``.

The package imports nothing by itself: most clients have none.
"""
