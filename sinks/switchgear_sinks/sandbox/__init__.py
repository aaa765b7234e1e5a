"""Run readers' SQL on the embedded engine in separate processes, which the kernel keeps away from everything else."""

from switchgear_sinks.sandbox.kernel import missing
from switchgear_sinks.sandbox.process import ReaderEndedError, ReaderLimitError, ReaderLimits, SnapshotError
from switchgear_sinks.sandbox.readers import ReaderClient, Readers

__all__ = [
    "ReaderClient",
    "ReaderEndedError",
    "ReaderLimitError",
    "ReaderLimits",
    "Readers",
    "SnapshotError",
    "missing",
]
