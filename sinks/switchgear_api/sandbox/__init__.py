"""Run readers' SQL on the embedded engine in separate processes, which the kernel keeps away from everything else.

This module imports nothing: each query's process imports it.
"""
