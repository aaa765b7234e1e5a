"""The topics as an AsyncAPI 3.0 document, for clients in any language; the messages refer to the JSON Schema files."""

from __future__ import annotations

import json
from typing import Any, Final

from switchgear_schemas.topics import TopicNames, topic_definitions

VERSION: Final = "1.0.0"
_MESSAGES: Final = {  # channel -> (message, who sends it, key, what it is)
    "executions": (
        "execution",
        "send",
        "tool_name",
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
        "tool_name",
        "What an operator tells a circuit; applied by its owner in the order of the log.",
    ),
}


def asyncapi_document() -> dict[str, Any]:
    """The document, with the default names and configuration of the topics. Actions are a client's: it sends, it receives."""
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
            "version": VERSION,
            "description": "Fleet-wide circuit breakers and tool health for AI agents.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
    }


def asyncapi_text() -> str:
    """The document as it is checked in."""
    return json.dumps(asyncapi_document(), indent=2) + "\n"
