"""Reading a policy file: TOML or YAML into plain dicts."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any, Final

import yaml

from switchgear.policies.errors import PolicyError

MOST_BYTES: Final = 1_000_000
"""A file of as many tables as there may be, with every key in each, has less."""
_DEEP_KEY: Final = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){32}""", re.ASCII)
"""A dotted key of more than 32 parts: tomllib needs memory by the square of them."""
_LONG_NUMBER: Final = re.compile(r"(?<![^\n:=,{\[])([^\n:=,{\[]{1,300}+)[:=][ \t\[{]{0,20}+[-+]?+[0-9_]{4301}")
_AT_LINE: Final = re.compile(r"\(at line (\d+)")
_SHOWN: Final = 80
"""Characters of a line, or of a key, in an error."""


def read_file(path: Path) -> dict[str, Any]:
    """The file's content.

    Args:
        path: ``.toml``, ``.yaml`` or ``.yml``; UTF-8, at most :data:`MOST_BYTES`.

    Raises:
        PolicyError: it is missing, no file, of another kind, too large, not to be parsed, or YAML without PyYAML.
    """
    if path.suffix not in {".toml", ".yaml", ".yml"}:
        raise PolicyError(f"{path} is neither .toml nor .yaml.", hint="Name the file for what it is.")
    text = _text(path)
    return _toml(path, text) if path.suffix == ".toml" else _yaml(path, text)


def _text(path: Path) -> str:
    try:
        content = _bytes(path)
    except FileNotFoundError:
        raise PolicyError(f"There is no policy file {path}.", hint="Check the path.") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise PolicyError(f"The policy file {path} can't be read: {error}.") from None
    if content is None:
        raise PolicyError(f"{path} is not a regular file.", hint="Name a file, not a folder, a pipe or a device.")
    if len(content) > MOST_BYTES:
        raise PolicyError(f"{path} has more than {MOST_BYTES:,} bytes.", hint="Use globs for tools that share values.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PolicyError(f"{path} is not UTF-8: byte {error.start} can't be read.", hint="Save it as UTF-8.") from None


def _bytes(path: Path) -> bytes | None:
    """The first bytes, one more than a policy file may have; None where it is no regular file. It never waits for a writer."""
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        return None
    with os.fdopen(opened, "rb") as file:
        return file.read(MOST_BYTES + 1)


def _toml(path: Path, text: str) -> dict[str, Any]:
    if _DEEP_KEY.search(text):
        raise _nested(path)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise _nested(path) from None
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"{path} is not valid TOML: {error}{_quoted(text, error)}.") from None
    except ValueError:
        raise _unreadable(path, text) from None


def _yaml(path: Path, text: str) -> dict[str, Any]:
    try:
        from switchgear.policies.load import InvalidYamlError, load_yaml  # noqa: PLC0415 - PyYAML comes with the extra "service"
    except ModuleNotFoundError:
        raise PolicyError(
            f"{path} is YAML, and PyYAML is not installed.",
            hint="pip install 'switchgear[service]', or write it as TOML.",
        ) from None
    try:
        content = load_yaml(text)
    except RecursionError:
        raise _nested(path) from None
    except InvalidYamlError as error:
        raise PolicyError(f"{path} is not valid YAML: {error}.") from None
    except ValueError:
        raise _unreadable(path, text) from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise PolicyError(f"{path} holds a {type(content).__name__}.", hint="It wants the keys default and tools.")
    return content


def _nested(path: Path) -> PolicyError:
    return PolicyError(f"{path} is nested too deeply.", hint="A policy file has tables of values.")


def _unreadable(path: Path, text: str) -> PolicyError:
    long = _LONG_NUMBER.search(text)
    where = "" if long is None else f", of {long[1].strip()[-_SHOWN:]}"
    hint = "Numbers have at most 4,300 digits."
    return PolicyError(f"{path} has a number or a date that can't be read{where}.", hint=hint)


def _quoted(text: str, error: tomllib.TOMLDecodeError) -> str:
    """The line that the error is in: its number alone names no key."""
    found = _AT_LINE.search(str(error))
    lines = text.rstrip().split("\n")
    line = lines[-1] if found is None else "".join(lines[int(found[1]) - 1 : int(found[1])])
    return f": {line.strip()[:_SHOWN]}"


MOST_NODES: Final = 100_000
"""Keys, values and lists of a file; what an alias repeats counts again. Within itself an anchor would repeat without an end."""


class InvalidYamlError(Exception):
    """The text is not YAML; the message is one line."""


def load_yaml(text: str) -> Any:
    """The one document of ``text``; None where it is empty.

    Raises:
        InvalidYamlError: it is not YAML, has a key twice, or more than :data:`MOST_NODES` with what aliases repeat.
        ValueError: a number or a date is unlike its tag.
        RecursionError: it is nested too deeply.
    """
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        raise InvalidYamlError(" ".join(str(error).replace('"<unicode string>", ', "").split())) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError):  # PyYAML's, for a value that is unlike its tag
        raise ValueError from None


class _Loader(yaml.SafeLoader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = 0
        self._sizes: dict[str, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        began = self._nodes
        if isinstance(event, yaml.AliasEvent):
            within_itself = event.anchor in self.anchors and event.anchor not in self._sizes
            self._count(event, MOST_NODES if within_itself else self._sizes.get(str(event.anchor), 1))
            return super().compose_node(parent, index)
        self._count(event, 1)
        node = super().compose_node(parent, index)
        if event.anchor is not None:
            self._sizes[event.anchor] = self._nodes - began
        return node

    def _count(self, event: Any, more: int) -> None:
        self._nodes += more
        if self._nodes > MOST_NODES:
            raise yaml.composer.ComposerError(None, None, f"it has more than {MOST_NODES:,} values", event.start_mark)

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise yaml.composer.ComposerError(None, None, f"the key {key.value} is given twice", key.start_mark)
                seen.add((key.tag, key.value))
        return node
