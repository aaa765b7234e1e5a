"""The exceptions and results of the frameworks that are installed here have the right class."""

from __future__ import annotations

import functools
import importlib.util
import logging
import warnings

import pytest

from switchgear.classify import IGNORE, Classification, classify, classify_result, outage_in_text
from switchgear.classify.result import result_text
from tests.frameworks.framework_errors import ERRORS as ALL_ERRORS
from tests.frameworks.framework_errors import MODULES, TEXT
from tests.frameworks.framework_errors import RESULTS as ALL_RESULTS

pytestmark = pytest.mark.deep


def installed(case):
    """Return whether the framework of a case is here: each environment has its own."""
    module = MODULES.get(case.distribution, case.distribution)
    top = module.partition(".")[0]
    return importlib.util.find_spec(top) is not None and importlib.util.find_spec(module) is not None


ERRORS = [case for case in ALL_ERRORS if installed(case)]
RESULTS = [case for case in ALL_RESULTS if installed(case)]


def made(case):
    """Make a case. Frameworks warn and log while they are imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            return case.make()
        finally:
            logging.disable(logging.NOTSET)


@pytest.mark.parametrize("case", ERRORS, ids=str)
def test_exception_of_a_framework_has_its_class(case):
    assert classify(made(case)).error_class == case.expected


@pytest.mark.parametrize("case", ERRORS, ids=str)
def test_exception_of_a_framework_that_was_raised_from_an_outage_has_its_class(case):
    error = made(case)
    error.__cause__ = ConnectionRefusedError(111, "Connection refused")
    assert classify(error).error_class == case.from_outage


@pytest.mark.parametrize("case", RESULTS, ids=str)
def test_result_of_a_framework_has_its_class(case):
    result = made(case)
    expected = {None: None, "policy": IGNORE, "tool": Classification("tool")}[case.expected]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # FastMCP warns of those who read an old name
        assert classify_result(result) == expected


@pytest.mark.parametrize("case", [case for case in RESULTS if case.expected == "tool"], ids=str)
def test_text_of_a_failed_result_of_a_framework_decides_with_by_text(case):
    result = made(case)
    assert result_text(result) == TEXT
    assert functools.partial(classify_result, by_text=outage_in_text)(result) == Classification("transport")
