"""The player of ``session`` scenarios: sessions of one client call tools, which answer or reject the calls."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any

from switchgear import BreakerPolicy, CircuitOpenError, Switchgear
from switchgear.sessions import Session

NEVER_OPENS = BreakerPolicy(consecutive_failures=1_000)
ACTION_KEYS = {"t", "op", "by", "tool", "args", "outcome", "error", "type", "note"}


class SessionPlayer:
    """A client, its sessions by name, and a context per session in which it stays entered. The session "" is none."""

    def __init__(self, config: dict[str, Any]) -> None:
        unknown = set(config) - {"max_caller_errors", "without_session"}
        assert not unknown, f"the adapter does not know the config key(s) {sorted(unknown)}"
        self.gear = Switchgear.local(
            local_policies=NEVER_OPENS,
            max_caller_errors=config["max_caller_errors"],
            caller_errors_without_session=config.get("without_session", False),
        )
        self.contexts: dict[str, Context] = {"": copy_context()}
        self.sessions: dict[str, Session] = {}
        self._raised: Exception | None = None
        """What the last tool raised itself."""

    def play(self, step: dict[str, Any]) -> None:
        by = step["by"]
        if by not in self.contexts:
            self.sessions[by] = self.gear.session(by)
            self.contexts[by] = copy_context()
            self.contexts[by].run(self.sessions[by].__enter__)
        seen: dict[str, Any] = {}
        operation = getattr(self, f"op_{step['op']}", None)
        assert operation is not None, f"the adapter does not know the operation {step['op']}"
        self.contexts[by].run(operation, step, seen)
        for key, expected in step.items():
            if key not in ACTION_KEYS:
                assert key in seen, f"the adapter does not know the expectation {key}"
                assert seen[key] == expected, key

    # ---- operations

    def op_call(self, step: dict[str, Any], seen: dict[str, Any]) -> None:
        """A guarded call if the arguments are known, else a permit."""
        seen["permit"] = True
        try:
            if "args" in step:
                self._guarded(step)(step["args"])
            else:
                with self.gear.permit(step["tool"]) as permit:
                    self._report(step, permit.failure)
        except CircuitOpenError as refused:
            seen["permit"] = False
            seen["text"], seen["refused_by"] = refused.text, refused.source
        except Exception as error:
            if error is not self._raised:
                raise
        self._look(step, seen)

    def op_check(self, step: dict[str, Any], seen: dict[str, Any]) -> None:
        self._look(step, seen)

    def op_leave(self, step: dict[str, Any], seen: dict[str, Any]) -> None:
        self.sessions.pop(step["by"]).__exit__(None, None, None)
        del self.contexts[step["by"]]

    # ---- inside

    def _guarded(self, step: dict[str, Any]) -> Callable[[Any], Any]:
        def tool(_arguments: Any) -> str:
            if step["outcome"] != "success":
                raise self._error(step)
            return "found"

        return self.gear.guard(step["tool"], classify=lambda _: step["outcome"])(tool)

    def _report(self, step: dict[str, Any], failure: Callable[..., None]) -> None:
        if step["outcome"] != "success":
            failure(self._error(step), classification=step["outcome"])

    def _error(self, step: dict[str, Any]) -> Exception:
        raised: Exception = type(step.get("type", "Rejected"), (Exception,), {})(step.get("error", "rejected"))
        self._raised = raised
        return raised

    def _look(self, step: dict[str, Any], seen: dict[str, Any]) -> None:
        session = self.sessions.get(step["by"])
        tool = step["tool"]
        seen["open"] = self.gear.is_open(tool)
        seen["offered"] = self.gear.available([tool]) == [tool]
        seen["in_notice"] = tool in self.gear.notice()
        seen["refused"] = (
            self.gear.status().caller_errors if session is None else session.status().caller_errors.get(tool, 0)
        )
