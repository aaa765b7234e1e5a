"""Edit a JSON file of another program: all or nothing, and nothing that the file says is lost."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.files import read_file

_BOM: Final = codecs.BOM_UTF8
_STRING: Final = r'"(?:[^"\\]|\\.)*"'
_COMMENT: Final = r"//[^\n]*|/\*.*?\*/"
_MOST_BYTES: Final = 64 * 1_048_576


class JsonFileError(SwitchgearError):
    """The file can't be edited. It is unchanged."""


@dataclass(frozen=True, slots=True)
class JsonFile:
    """A file with a JSON object, as it was read."""

    path: Path
    """Where the file is, with links followed."""
    data: bytes
    """Empty if there is no file."""
    value: dict[str, Any]

    def rendered(self, value: dict[str, Any]) -> bytes:
        """Return another value as this file would hold it: with its byte order mark, indentation and line ends."""
        text = self.data.decode("utf-8-sig", "replace")
        indented = re.search(r"^[{\[]\r?\n([ \t]+)", text)
        indent = indented[1] if indented else (2 if not text.strip() or "\n" in text.strip() else None)
        written = json.dumps(value, ensure_ascii=False, indent=indent)
        try:
            written.encode()
        except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can hold
            written = json.dumps(value, indent=indent)
        if not text or text.endswith("\n"):
            written += "\n"
        if "\r\n" in text:
            written = written.replace("\n", "\r\n")
        return (_BOM if self.data.startswith(_BOM) else b"") + written.encode()

    def replace(self, data: bytes) -> None:
        """Write ``data`` in place of what was read. Mode and owner stay.

        Raises:
            JsonFileError: The file has changed since it was read, or can't be written.
        """
        try:
            if (read_file(self.path, _MOST_BYTES) if self.path.exists() else b"") != self.data:
                raise JsonFileError(
                    f"{self.path} changed at the same moment, so nothing was written.",
                    hint="Close the program that writes it and try again.",
                )
            write(self.path, data, like=self.path)
        except OSError as error:
            raise JsonFileError(f"{self.path} can't be written: {error.strerror}. Nothing was changed.") from None


def read(path: Path, *, way_out: str, may_be_missing: bool = False) -> JsonFile:
    """Read a file with a JSON object.

    Args:
        path: The file.
        way_out: What to do by hand where the file can't be edited, as a sentence.
        may_be_missing: Without a file, the object is empty.

    Raises:
        JsonFileError: It can't be read, or is not an object that can be written back without a loss.
    """
    try:
        where = path.expanduser().resolve()
        data = b"" if may_be_missing and not where.exists() else read_file(where, _MOST_BYTES)
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle, or "~" of an unknown user
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise JsonFileError(f"{path} can't be read: {why}.") from None
    if may_be_missing and not data.removeprefix(_BOM).strip():
        return JsonFile(where, data, {})
    try:
        value = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_once_each)
    except UnicodeDecodeError:
        raise JsonFileError(f"{path} is not UTF-8 text. It is unchanged.", hint=way_out) from None
    except RecursionError:
        raise JsonFileError(f"{path} is nested too deeply. It is unchanged.", hint=way_out) from None
    except _TwiceError as error:
        raise JsonFileError(f"{path} has the key {error} twice. It is unchanged.", hint="Remove one of them.") from None
    except json.JSONDecodeError as error:
        if _has_comments(data.decode("utf-8-sig")):
            raise JsonFileError(
                f"{path} has comments or trailing commas, which would be lost. It is unchanged.",
                hint=f"Remove them, or edit it by hand. {way_out}",
            ) from None
        raise JsonFileError(
            f"{path} is not valid JSON: {error}. It is unchanged.", hint="Correct it and try again."
        ) from None
    if not isinstance(value, dict):
        raise JsonFileError(f"{path} holds no JSON object. It is unchanged.", hint=way_out)
    return JsonFile(where, data, value)


def write(path: Path, data: bytes, *, like: Path) -> None:
    """Write a file as a whole: a reader sees the old bytes or the new ones, also after a power cut.

    Args:
        path: The file.
        data: What it holds then.
        like: It gets the mode and the owner of this file, if there is one. A new file is its owner's alone.

    Raises:
        OSError: It can't be written. The old file is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            with contextlib.suppress(FileNotFoundError):
                known = like.stat()
                with contextlib.suppress(PermissionError):  # of another owner, in a folder that the group can write
                    os.fchown(file.fileno(), known.st_uid, known.st_gid)
                os.fchmod(file.fileno(), known.st_mode & 0o7777)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class _TwiceError(ValueError):
    """A key is there twice."""


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(json.dumps(next(name for name in names if names.count(name) > 1)))
    return found


def _has_comments(text: str) -> bool:
    """Return whether the text is JSON but for comments and trailing commas."""
    plain = re.sub(rf"({_STRING})|{_COMMENT}", lambda found: found[1] or " ", text, flags=re.DOTALL)
    plain = re.sub(rf"({_STRING})|,(\s*[}}\]])", lambda found: found[1] or found[2], plain, flags=re.DOTALL)
    try:
        json.loads(plain)
    except (ValueError, RecursionError):
        return False
    return True
