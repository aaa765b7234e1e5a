"""The same tasks and arms with a real model, in real time."""
