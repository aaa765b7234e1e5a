"""Edit a JSON or TOML file of another program: all or nothing, and nothing that the file says is lost."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from switchgear_schemas import jsonc, toml_text
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.files import read_file

_BOM: Final = codecs.BOM_UTF8
_MOST_BYTES: Final = 64 * 1_048_576


class JsonFileError(SwitchgearError):
    """The file can't be edited. It is unchanged."""


@dataclass(frozen=True, slots=True)
class JsonFile:
    """A file with a JSON object, which may have comments and trailing commas. If its name ends with ``.toml``, a file of TOML."""

    path: Path
    """Where the file is, with links followed."""
    data: bytes
    """As it was read. Empty if there is no file."""
    value: dict[str, Any]

    def rendered(self, value: dict[str, Any]) -> bytes:
        """Return the file's bytes with another value. What stays the same keeps its bytes, and comments stay.

        Raises:
            JsonFileError: The file's form can't hold it.
        """
        text = self.data.decode("utf-8-sig")
        try:
            if _is_toml(self.path):
                written = toml_text.patched(text, value)
            elif not text.strip():
                written = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
            else:
                written = jsonc.patched(text, value)
        except ValueError:
            raise JsonFileError(f"{self.path} has a form that can't be changed in place. It is unchanged.") from None
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
    """Read a file with an object.

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
    kind = "TOML" if _is_toml(where) else "JSON"
    try:
        text = data.decode("utf-8-sig")
        value = tomllib.loads(text) if _is_toml(where) else jsonc.parsed(text, _once_each)
    except UnicodeDecodeError:
        raise JsonFileError(f"{path} is not UTF-8 text. It is unchanged.", hint=way_out) from None
    except RecursionError:
        raise JsonFileError(f"{path} is nested too deeply. It is unchanged.", hint=way_out) from None
    except _TwiceError as error:
        raise JsonFileError(f"{path} has the key {error} twice. It is unchanged.", hint="Remove one of them.") from None
    except ValueError as error:
        raise JsonFileError(
            f"{path} is not valid {kind}: {error}. It is unchanged.", hint="Correct it and try again."
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


def _is_toml(path: Path) -> bool:
    return ".toml" in path.suffixes  # a backup has another one after it
