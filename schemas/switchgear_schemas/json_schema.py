"""The contracts as JSON Schema files and an AsyncAPI document: ``python -m switchgear_schemas.json_schema schemas``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
from pydantic import BaseModel

from switchgear_schemas.circuit import Circuit
from switchgear_schemas.command import Command
from switchgear_schemas.execution import ToolExecution
from switchgear_schemas.health import SystemHealthReport, ToolHealthReport
from switchgear_schemas.policy import BreakerPolicy
from switchgear_schemas.struct_schema import struct_schema
from switchgear_schemas.topics import TopicNames, topic_definitions

CONTRACTS: Final[dict[str, type[BaseModel | msgspec.Struct]]] = {
    "execution": ToolExecution,
    "circuit": Circuit,
    "policy": BreakerPolicy,
    "command": Command,
    "tool_health_report": ToolHealthReport,
    "system_health_report": SystemHealthReport,
}
ASYNCAPI_VERSION: Final = "1.0.0"
_MESSAGES: Final = {  # channel: (message, a client's action, key, summary)
    "executions": (
        "execution",
        "send",
        "the tool's family, or tool_name without one",
        "One call of one tool. Send it from any service; unknown fields are kept.",
    ),
    "circuits": (
        "circuit",
        "receive",
        "circuit_id",
        "The whole state of one circuit; keep the record with the highest version.",
    ),
    "commands": (
        "command",
        "send",
        "the tool's family, or tool_name without one",
        "A command of an operator to a circuit; applied by its owner in the order of the log.",
    ),
}


def schema_files() -> dict[str, str]:
    """Return the file name and content for every contract: JSON Schema draft 2020-12 of what a writer may send."""
    files = {}
    for name, model in CONTRACTS.items():
        own = model.model_json_schema(mode="validation") if issubclass(model, BaseModel) else struct_schema(model)
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **own}
        files[f"{name}.schema.json"] = json.dumps(schema, indent=2, sort_keys=True) + "\n"
    return files


def asyncapi_document() -> dict[str, Any]:
    """Return the topics as an AsyncAPI 3.0 document, with their default names and configuration.

    The messages refer to the JSON Schema files. The actions are a client's: it sends, it receives.
    """
    names = TopicNames()
    topics = {topic.name: topic for topic in topic_definitions(names)}
    channels: dict[str, Any] = {}
    operations: dict[str, Any] = {}
    for channel, (message, action, key, summary) in _MESSAGES.items():
        topic = topics[getattr(names, channel)]
        channels[channel] = {
            "address": topic.name,
            "messages": {
                message: {
                    "contentType": "application/json",
                    "payload": {"$ref": f"./json/{message}.schema.json"},
                    "bindings": {"kafka": {"key": {"type": "string", "description": f"Equal to {key}."}}},
                }
            },
            "bindings": {
                "kafka": {"topic": topic.name, "partitions": topic.partitions, "replicas": topic.replication_factor}
            },
        }
        operations[f"{action}_{message}"] = {
            "action": action,
            "summary": summary,
            "channel": {"$ref": f"#/channels/{channel}"},
        }
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Switchgear",
            "version": ASYNCAPI_VERSION,
            "description": "Fleet-wide circuit breakers and tool health for AI agents.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
    }


def asyncapi_text() -> str:
    """Return the document as it is checked in."""
    return json.dumps(asyncapi_document(), indent=2) + "\n"


def main(folder: str) -> None:
    """Write ``json/*.schema.json`` and ``asyncapi.json`` into ``folder``."""
    (Path(folder) / "json").mkdir(exist_ok=True)
    for name, content in schema_files().items():
        (Path(folder) / "json" / name).write_text(content)
    (Path(folder) / "asyncapi.json").write_text(asyncapi_text())


if __name__ == "__main__":
    main(sys.argv[1])
