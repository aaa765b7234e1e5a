"""The ``switchgear`` command, and the whole system on one machine (``switchgear up``)."""
