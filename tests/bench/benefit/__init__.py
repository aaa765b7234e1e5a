"""What agents gain: real tasks, simulated agents, and shared tools that break in virtual time.

Where to change what:

* a contender: one file in ``arms/``
* a fault: one entry in ``faults.py``
* how an agent reacts to an error or a refusal: ``reaction.py``
* what a token costs, and what a prompt cache keeps: ``tokens.py``
* a set of tasks: one file in ``worlds/``
"""
