"""Classify exceptions and results. The class of a failure decides whether it counts against a circuit."""

from switchgear.classify.classification import IGNORE, Classification, Classifier
from switchgear.classify.classify import classify
from switchgear.classify.result import classify_result, outage_in_text

__all__ = ["IGNORE", "Classification", "Classifier", "classify", "classify_result", "outage_in_text"]
