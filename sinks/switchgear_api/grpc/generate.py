"""Generate ``tool_health_pb2`` from the proto file: ``python -m switchgear_api.grpc.generate [FOLDER]`` (needs grpcio-tools)."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path
from typing import Final

from grpc_tools import protoc  # type: ignore[import-untyped]

from switchgear_schemas.errors import SwitchgearError

PROTO: Final = "tool_health.proto"
_HEADER: Final = """# Generated from tool_health.proto by `python -m switchgear_api.grpc.generate`.
# ruff: noqa: {codes}
# mypy: disable-error-code="type-arg"
# fmt: off
"""
_CODES: Final = {
    ".py": "E402, ERA001, F401, I001, Q000, Q004, SLF001",
    ".pyi": "I001, ICN001, RUF023, UP007, UP045",
}


def generate(folder: Path) -> list[Path]:
    """Write the module and its types to ``folder``, and return the two paths.

    Raises:
        SwitchgearError: protoc refused the file. Its reason is on stderr.
    """
    source = Path(str(files("switchgear_schemas") / "protos"))
    known = Path(str(files("grpc_tools") / "_proto"))
    code = protoc.main(["protoc", f"-I{source}", f"-I{known}", f"--python_out={folder}", f"--pyi_out={folder}", PROTO])
    if code:
        raise SwitchgearError(f"protoc could not compile {PROTO}.", hint="Correct the errors that it printed above.")
    made = [folder / "tool_health_pb2.py", folder / "tool_health_pb2.pyi"]
    for path in made:
        path.write_text(_HEADER.format(codes=_CODES[path.suffix]) + path.read_text())
    return made


if __name__ == "__main__":
    print(*generate(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent), sep="\n")
