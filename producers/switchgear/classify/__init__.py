"""Classify exceptions and results. The class of a failure decides whether it counts against a circuit."""

from __future__ import annotations

from switchgear.classify.by_status import http_status, retry_after
from switchgear.classify.classification import IGNORE, Classification, Classifier
from switchgear.classify.classify import classify
from switchgear.classify.result import classify_result, outage_in_text, result_text

__all__ = [
    "IGNORE",
    "Classification",
    "Classifier",
    "classify",
    "classify_result",
    "http_status",
    "outage_in_text",
    "result_text",
    "retry_after",
]
