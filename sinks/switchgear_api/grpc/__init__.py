"""Tool health over gRPC (``pip install switchgear[grpc]``): ``schemas/switchgear_schemas/protos/tool_health.proto``.

:func:`switchgear_api.grpc.server.serving_grpc` serves it. ``tool_health_pb2`` is generated and checked in. After a change of
the proto file, run ``python -m switchgear_api.grpc.generate``.
"""
