"""Events for Kafka: a hook leaves them in the state file, and one process in the background sends them.

So no tool call waits for Kafka. That process sends what it finds, waits a few seconds for more, and ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from switchgear_cli.hook.settings import is_true, setting
from switchgear_cli.hook.state import State
from switchgear_schemas.enums import TARGET_ERROR

if TYPE_CHECKING:
    from switchgear_schemas.claude_code import HookCall

IDLE_S: Final = 10.0
"""How long the sender waits for more events."""
KAFKA_S: Final = 10.0
"""Longest wait for Kafka. What was sent and not acknowledged by then goes into the spool, for a later sender."""
RETRY_S: Final = 30.0
"""No sender is started for this long after one that could not reach Kafka."""
LONGEST_S: Final = 120
"""A sender ends after this many seconds, whatever it waits for."""
SERVICE: Final = "claude-code"
"""The name on the events, unless the setting ``service`` is set."""
_AT_ONCE: Final = 500
_POLL_S: Final = 0.5
_DUE: Final = "sender"


def configured() -> bool:
    """Return whether the settings name a Kafka."""
    return bool(setting("kafka_bootstrap_servers")) and not is_true("local")


def ended(
    state: State,
    call: HookCall,
    duration_ms: float | None,
    error: str | None = None,
    error_class: str | None = None,
    target: str = "",
    of_target: bool = False,
) -> None:
    """Leave the event of a call that was made, if Kafka is configured. ``of_target``: what failed is the call's target."""
    status = {None: "success", "timeout": "timeout", "cancelled": "cancelled"}.get(error_class, "error")
    fields = {"status": status, "execution_time_ms": duration_ms or 0.0}
    if error_class is not None:
        fields |= {"error_class": error_class, "error_message": error or ""}
    if of_target:
        fields["error_type"] = TARGET_ERROR
    _post(state, call, fields, target)


def refused(state: State, call: HookCall, source: str, target: str = "") -> None:
    """Leave the event of a refused call, if Kafka is configured."""
    metadata = {"refused": 1, "refused_by": source}
    _post(state, call, {"status": "rejected", "served_by": "none", "metadata": metadata}, target)


def _post(state: State, call: HookCall, fields: dict[str, Any], target: str) -> None:
    if not configured():
        return
    from switchgear_schemas.ids import mint_metric_id  # noqa: PLC0415 - not without Kafka

    now = time.time()
    event = {"tool_name": call.tool, "metric_id": mint_metric_id(), **fields}
    event["recorded_at"] = datetime.fromtimestamp(now, UTC).isoformat()
    if target:
        event["target"] = target
    if call.session:
        event["session_id"] = call.session[:256]
    state.post(event, now)


def start_sender(path: Path) -> None:
    """Start the process that sends, unless one runs, nothing waits, or Kafka could not be reached a moment ago."""
    if not configured():
        return
    from switchgear_schemas.file_lock import FileLock  # noqa: PLC0415 - not without Kafka

    with State(path) as state:
        if not state.posted(1) or not state.is_due(_DUE, time.time()):
            return
    if FileLock(_lock(path)).is_held():
        return
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    command = [sys.executable, "-P", "-m", "switchgear_cli.hook.outbox", str(path)]
    os.posix_spawn(command[0], command, os.environ, file_actions=null, setpgroup=0)


def send(path: Path, *, idle_s: float = IDLE_S) -> None:
    """Send the events that wait, those in the spool too, and those that come within ``idle_s`` seconds after the last one."""
    from switchgear_schemas.file_lock import FileLock  # noqa: PLC0415 - see start_sender

    spool_dir = path.parent / "spool"
    spooled = any(spool_dir.glob("*.db"))
    with State(path) as state:
        while (spooled or state.posted(1)) and state.is_due(_DUE, time.time()):
            spooled = False
            # An event that comes just before the lock is free finds it held, so look again after that.
            lock = FileLock(_lock(path))
            if not lock.acquire():
                return
            try:
                _send(state, spool_dir, idle_s)
            finally:
                lock.release()


def _send(state: State, spool_dir: Path, idle_s: float) -> None:
    from switchgear.emitter.emitter import Emitter  # noqa: PLC0415 - a hook that only starts the sender needs no SDK

    service = setting("service") or os.environ.get("OTEL_SERVICE_NAME") or SERVICE
    own: dict[str, Any] = {} if setting("spool_dir") else {"spool_dir": spool_dir}
    emitter = Emitter.from_env(service=service, exit_timeout=0.0, **own)
    if not emitter.connect(KAFKA_S):  # the events stay where they are
        emitter.close(0.0)
        state.set_due(_DUE, time.time() + RETRY_S)
        return
    last = time.monotonic()
    while time.monotonic() < last + idle_s:
        rows = state.posted(_AT_ONCE)
        if not rows:
            time.sleep(_POLL_S)
            continue
        for _, event in rows:
            fields = json.loads(event)
            emitter.emit(fields, ended_at=datetime.fromisoformat(fields["recorded_at"]).timestamp())
        reached = emitter.flush(KAFKA_S)
        if not reached:  # closing leaves them in the spool
            emitter.close(0.5)
            state.set_due(_DUE, time.time() + RETRY_S)
        state.sent(rows[-1][0])
        if not reached:
            return
        last = time.monotonic()
    emitter.close(1.0)


def _lock(path: Path) -> Path:
    return path.with_suffix(".sender")


if __name__ == "__main__":
    signal.alarm(LONGEST_S)
    send(Path(sys.argv[1]))
