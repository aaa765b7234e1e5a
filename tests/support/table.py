"""A table of cases in one test: for many cases that walk one path, where a test for each would cost more than the case."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def table(
    names: str | Sequence[str], rows: Iterable[Any], ids: Iterable[Any] | Callable[[Any], Any] | None = None
) -> Any:
    """Call a test with each row. All rows run, and the test fails with every row that failed.

    Args:
        names: The parameters that a row gives, as for ``pytest.mark.parametrize``.
        rows: The values: a tuple each, or one value where there is one name. ``pytest.param`` may name a row.
        ids: Names of the rows, or a function that returns the name of a value.

    All rows share the test's fixtures.
    """
    wanted = [each.strip() for each in names.split(",")] if isinstance(names, str) else list(names)
    cases = [_case(row, wanted) for row in rows]
    labels = [None] * len(cases) if ids is None or callable(ids) else list(ids)
    assert cases, "a table has at least one row"

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def run(**others: Any) -> None:
                failures: list[Exception] = []
                for case, label in zip(cases, labels, strict=True):
                    try:
                        await test(**case, **others)
                    except Exception as error:  # noqa: BLE001 - told together below
                        failures.append(_noted(error, case, label))
                _tell(failures, len(cases))

        else:

            @functools.wraps(test)
            def run(**others: Any) -> None:
                failures: list[Exception] = []
                for case, label in zip(cases, labels, strict=True):
                    try:
                        test(**case, **others)
                    except Exception as error:  # noqa: BLE001 - told together below
                        failures.append(_noted(error, case, label))
                _tell(failures, len(cases))

        left = [each for name, each in inspect.signature(test).parameters.items() if name not in wanted]
        run.__signature__ = inspect.Signature(left)  # type: ignore[attr-defined] # what pytest must still give
        return run

    return decorate


def _case(row: Any, names: Sequence[str]) -> dict[str, Any]:
    values = getattr(row, "values", row) if hasattr(row, "marks") else (row,) if len(names) == 1 else row
    assert not getattr(row, "marks", ()), "a row of a table can't have marks of its own"
    return dict(zip(names, values, strict=True))


def _noted(error: Exception, case: dict[str, Any], label: object) -> Exception:
    error.add_note(f"in the row {label if label is not None else ''} {case!r}"[:2_000])
    return error


def _tell(failures: Sequence[Exception], count: int) -> None:
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {count} rows failed", list(failures))
