"""A client over a gateway in place of Kafka: events by ``POST /v1/executions``, circuits by ``GET /v1/circuits/stream``.

The package imports nothing by itself: ``import switchgear`` must not pay for it.
"""
