"""The follower: every circuit of the fleet in this process's memory, kept current from the compacted topic.

The package imports nothing by itself: ``import switchgear`` must not pay for asyncio.
"""
