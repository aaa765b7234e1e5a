"""A child of a fork has locks of its own, whatever the parent's threads held at that moment."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap

from switchgear.caching.cache import CachePolicy, ResultCache
from switchgear.runtime import fork as fork_safe


def assert_the_child_ends_well(code: str) -> None:
    """``code`` forks, and prints how its child ended."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == ["0"], done.stderr


def test_a_child_uses_cache_watch_and_flights_whose_locks_were_held_at_the_fork():
    code = """
        import os, signal, threading
        from switchgear import Switchgear
        from switchgear.compat.agent_circuit_breaker import AgentCircuitBreaker
        from switchgear.caching.cache import CachePolicy, ResultCache
        from switchgear.telemetry.prometheus import CallCounts
        from switchgear.caching.repeated_calls import DuplicateWatch
        from switchgear.prompts.notice import NoticeBoard
        from switchgear.caching.single_flight import SingleFlight
        clock = lambda: 0.0
        cache, watch, flights = ResultCache(CachePolicy(), clock), DuplicateWatch(clock=clock), SingleFlight()
        board, breaker, counts = NoticeBoard(), AgentCircuitBreaker(), CallCounts()
        cache.put("k", 1)
        started, release = threading.Event(), threading.Event()
        flight = threading.Thread(target=lambda: flights.do("k", lambda: (started.set(), release.wait(30))))
        flight.start()
        started.wait(30)
        owners = (cache, watch, flights, board, breaker, counts)
        for owner in owners:
            owner._lock.acquire()
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)  # a held lock would hang it
            assert cache.get("k").value == 1
            assert watch.noted("s", "t", "k") == 1
            assert flights.do("k", lambda: "mine") == ("mine", True)
            assert board.notice([], {}, {}) == ""
            assert breaker.call(lambda: "called") == "called"
            assert Switchgear.local(hooks=[counts]).call("t", len, "abc") == 3
            assert counts.calls["t", "success"] == 1
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        for owner in owners:
            owner._lock.release()
        release.set()
        flight.join(30)
        print(os.waitstatus_to_exitcode(status))
    """
    assert_the_child_ends_well(code)


def test_nothing_is_kept_alive_by_it():
    cache = ResultCache(CachePolicy(), lambda: 0.0)
    assert cache in fork_safe._owners
    before = len(fork_safe._owners)
    del cache
    gc.collect()
    assert len(fork_safe._owners) < before


def test_the_probe_of_a_parents_thread_does_not_keep_a_child_out():
    code = """
        import os
        from switchgear.compat.agent_circuit_breaker import AgentCircuitBreaker
        breaker = AgentCircuitBreaker(1, 0)
        try:
            breaker.call(int, "x")
        except ValueError:
            pass

        def probe():
            pid = os.fork()
            if pid == 0:
                os._exit(0 if breaker.call(lambda: "called") == "called" else 1)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

        print(breaker.call(probe))
    """
    assert_the_child_ends_well(code)
