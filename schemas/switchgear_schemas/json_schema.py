"""The contracts as JSON Schema files, with the AsyncAPI document beside them: ``python -m switchgear_schemas.json_schema schemas``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pydantic import BaseModel

from switchgear_schemas.asyncapi import asyncapi_text
from switchgear_schemas.circuit import Circuit
from switchgear_schemas.command import Command
from switchgear_schemas.execution import ToolExecution
from switchgear_schemas.health import SystemHealthReport, ToolHealthReport
from switchgear_schemas.policy import BreakerPolicy

CONTRACTS: dict[str, type[BaseModel]] = {
    "execution": ToolExecution,
    "circuit": Circuit,
    "policy": BreakerPolicy,
    "command": Command,
    "tool_health_report": ToolHealthReport,
    "system_health_report": SystemHealthReport,
}


def schema_files() -> dict[str, str]:
    """File name to content, for every contract (JSON Schema draft 2020-12, of what a writer may send)."""
    files = {}
    for name, model in CONTRACTS.items():
        schema = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **model.model_json_schema(mode="validation"),
        }
        files[f"{name}.schema.json"] = json.dumps(schema, indent=2, sort_keys=True) + "\n"
    return files


def main(folder: str) -> None:
    """Write ``json/*.schema.json`` and ``asyncapi.json`` into ``folder``."""
    (Path(folder) / "json").mkdir(exist_ok=True)
    for name, content in schema_files().items():
        (Path(folder) / "json" / name).write_text(content)
    (Path(folder) / "asyncapi.json").write_text(asyncapi_text())


if __name__ == "__main__":
    main(sys.argv[1])
