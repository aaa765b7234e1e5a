"""Why Kafka ended, in one sentence with the way out, from what it wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from switchgear_schemas.errors import SwitchgearError

_TAIL_BYTES: Final = 32_768


def explain(
    code: int, *, port: int, data_dir: Path, output: Path, log_file: Path, log_start: int = 0
) -> SwitchgearError:
    """The error for a broker that ended with ``code`` though nobody asked.

    Args:
        code: Its exit code.
        port: The port it was to listen on.
        data_dir: Its data folder.
        output: What Java printed.
        log_file: The broker's own log.
        log_start: Where in it this run of the broker begins; what is before is of earlier ones.
    """
    text = _tail(output) + _tail(log_file, log_start)
    if "No space left on device" in text:
        return SwitchgearError(
            f"Kafka ended: the disk of {data_dir} is full.", hint="Make room, or choose another folder by --data-dir."
        )
    if "Address already in use" in text or "Socket server failed to bind" in text:
        return SwitchgearError(f"Port {port} is in use.", hint="Choose another by --kafka-port.")
    if "Failed to acquire lock on file" in text:
        return SwitchgearError(
            f"Another Kafka uses the data in {data_dir}.", hint="Stop it, or choose another folder by --data-dir."
        )
    last = next((line for line in reversed(text.splitlines()) if "Exception" in line or "Error" in line), "")
    said = f": {last.strip()[:300]}" if last else "."
    return SwitchgearError(f"Kafka ended with code {code}{said}", hint=f"Its log: {log_file}.")


def _tail(file: Path, start: int = 0) -> str:
    if not file.is_file():
        return ""
    size = file.stat().st_size
    if start > size:  # it was rotated since
        start = 0
    with file.open("rb") as stream:
        stream.seek(max(size - _TAIL_BYTES, start))
        return stream.read().decode("utf-8", "replace")
