"""``switchgear up``: the whole system on one machine, supervised, with one live view."""
