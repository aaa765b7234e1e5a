"""The emitter: from a finished call to an acknowledged Kafka record, without ever holding up the call.

The package imports nothing by itself: ``import switchgear`` must not pay for asyncio.
"""
