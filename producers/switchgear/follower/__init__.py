"""The follower: every circuit of the fleet in this process's memory, kept current from the compacted topic.

This file imports nothing, so that ``import switchgear`` doesn't import asyncio.
"""
