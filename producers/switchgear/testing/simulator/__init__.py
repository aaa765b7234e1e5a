"""The simulator: guards, workers and log of a whole fleet in one process, on virtual time, with every promise checked at every step.

``python -m switchgear.testing.simulator --seed 1``. One seeded random generator draws everything, so a run can be repeated to the byte.
"""
