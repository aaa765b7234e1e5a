"""The second wall: readers' SQL on the embedded engine runs in processes that the kernel keeps away from everything else."""

from switchgear_sinks.sandbox.client import ReaderClient
from switchgear_sinks.sandbox.kernel import missing
from switchgear_sinks.sandbox.process import ReaderEndedError, ReaderLimitError, ReaderLimits
from switchgear_sinks.sandbox.readers import Readers

__all__ = ["ReaderClient", "ReaderEndedError", "ReaderLimitError", "ReaderLimits", "Readers", "missing"]
