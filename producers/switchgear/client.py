"""The client: a service makes one and calls its tools through it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, Self, TypedDict, Unpack, get_args

from switchgear import arguments
from switchgear.arguments import FromEnv
from switchgear.arguments import tool_name as check_tool_name
from switchgear.classify import Classifier
from switchgear.emitter.shutdown import EXIT_TIMEOUT_S
from switchgear.fallback import Chains
from switchgear.follower.view import CircuitView
from switchgear.for_models import ForModels
from switchgear.guard.attempts import Pending
from switchgear.guard.caller_errors import DEFAULT_MAX_CALLER_ERRORS
from switchgear.guard.calls import Calling
from switchgear.guard.credentials import Credentials
from switchgear.guard.decision import CircuitDecision
from switchgear.guard.fleet_circuits import FleetCircuits
from switchgear.guard.fleet_state import STATE_MAX_AGE_S, Availability, OnStateUnavailable
from switchgear.guard.local_circuits import LocalBreakers, LocalPolicies
from switchgear.guard.options import GuardOptions
from switchgear.guard.permits import Permit
from switchgear.guard.rejections import Caller, Rejection, caller_of
from switchgear.guard.reporter import Reporter
from switchgear.guard.runtime import PermitContext, Runtime
from switchgear.guard.targets import target_of
from switchgear.redaction import Redactor, redactor
from switchgear.runtime.fork import call_in_child
from switchgear.runtime.lifetime import Housekeeping, Lifetime
from switchgear.sessions import Session, session_stack
from switchgear.telemetry.hooks import FleetChanges, HookList, Hooks
from switchgear.telemetry.status import SwitchgearStatus
from switchgear.tool_list import HIDE_AFTER_S, ToolList, ToolLists
from switchgear.transport import Clock, Servers, connect
from switchgear_schemas.families import DEFAULT_PATTERN
from switchgear_schemas.ids import mint_metric_id


class LocalOptions(TypedDict, total=False):
    """The arguments of :meth:`Switchgear.local`."""

    service: str
    family_pattern: str
    local_policies: LocalPolicies | None
    classify: Classifier | None
    outages_in_text: Collection[str]
    parameters_key: bytes | None
    defaults: GuardOptions | None
    fallbacks: Chains | None
    hooks: Iterable[Hooks]
    timed_threads: int
    redact: Redactor | None
    max_caller_errors: int | None
    caller_errors_without_session: bool
    include_last_error: bool
    tool_list: ToolList
    hide_after_s: float
    clock: Clock | None


class _NeverDirect:
    """Stands for a runtime whose calls must all be asked for."""

    started = False


class Switchgear(Calling, Lifetime, ForModels, FromEnv):
    """A circuit breaker for tools, shared by the fleet.

    Two breakers decide about each call, in memory: the process's own, and the fleet's, which it follows through Kafka or a
    gateway. Either may refuse. Every outcome is sent there in the background. If no broker can be reached, the process's own
    breakers decide alone.

    A call waits for Kafka in two cases only: a probe after a cooldown asks the fleet for permission, for at most
    ``probe_wait``; and the first call waits for the fleet's circuits, for at most ``start_wait_s``.

    You can use a client from threads and from several event loops. It starts at the first call.

    Args:
        bootstrap_servers: ``host:port`` of the brokers, comma-separated, or a :class:`KafkaConnection`. In tests, a
            :class:`switchgear.testing.InMemoryFleet`. Or the address of a gateway, such as ``https://gateway:8622``: it
            stands for Kafka in all of this, and ``topic_prefix`` is the gateway's.
        token: The bearer token for a gateway.
        service: The name of this service, on every event.
        topic_prefix: The prefix of every topic name.
        family_pattern: Which tools belong to a family, the tools of one server. Give it the same value in all processes.
        local_policies: Policies of the process's own breakers. The default opens after five failures in a row, or if most calls fail.
            Those of families have their default, unless this is a policy set.
        probe_wait: The longest wait for a probe lease, in seconds.
        fleet_silence: If requests for a probe get no answer for this many seconds, the process's own breaker decides alone.
        buffer_size: The most events to hold while Kafka is down. When it is full, the oldest are dropped.
        classify: A rule of your own for exceptions. If it returns None, :func:`switchgear.classify.classify` decides.
        outages_in_text: Globs of the tools whose failed results count by their text, such as "connection refused". All others
            answered, so they work. Leave out tools that read pages or run code: their texts are about something else.
        parameters_key: A secret of the deployment. With it, events carry a keyed hash of the call's parameters.
        compression: How to compress what is sent: None, gzip, snappy, lz4 or zstd.
        spool_dir: A folder on a local disk where events wait while Kafka is down and outlive this process. None: in memory only.
        spool_bytes: The most bytes of this process in the spool. When it is full, the oldest events are dropped.
        spool_fsync: Wait for the disk after each write, so that a power cut loses nothing either.
        exit_timeout: The longest wait, in seconds, for the last events when the process ends. Without a broker it is short.
        on_state_unavailable: What decides while the fleet's state can't be reached: its ``last_known`` state, the ``local``
            breakers alone, or nothing: ``deny`` refuses every call.
        state_max_age_s: Ignore a last known state that is older than this.
        defaults: The options of guards that don't set their own.
        fallbacks: A tool's fallback tool, or several in order. See :meth:`map_fallbacks`.
        hooks: Notified of changes, refusals, fallbacks and outcomes.
        timed_threads: The most threads for synchronous calls with a time limit.
        redact: A rule of your own for error messages, applied after the built-in one, which removes credentials.
        start_wait_s: The longest time, in seconds, that the first call waits for the fleet's circuits. With 0, first calls
            may go to tools whose circuits are open.
        max_caller_errors: Refuse a tool to a session after this many errors of the caller in a row. None: never.
        caller_errors_without_session: The process's calls without a session are one session, for ``max_caller_errors``.
        include_last_error: Quote the tool's last error in the texts of refusals, also to models that didn't get it. Others
            write that error, so it may tell your models what to do. By default the texts describe it in Switchgear's own words.
        tool_list: Which tools a model is offered: see :data:`switchgear.tool_list.ToolList`.
        hide_after_s: With ``tool_list="hide"``: how long, in seconds, a tool is down before it leaves the list, and up before it
            returns.
        clock: For tests: shows the time, such as a :class:`switchgear.testing.FakeClock`. None: the machine's.

    Raises:
        SwitchgearError: An argument is impossible. The message names it.
    """

    _servers, _may_be_local, _may_use_gateway = "bootstrap_servers", True, True
    _settings = (
        "service",
        "topic_prefix",
        "family_pattern",
        "spool_dir",
        "parameters_key",
        "start_wait_s",
        "outages_in_text",
        "include_last_error",
        "tool_list",
        "hide_after_s",
    )
    housekeeping: Housekeeping | None = None

    def __init__(
        self,
        bootstrap_servers: Servers = "localhost:9092",
        *,
        token: str | None = None,
        service: str = "",
        topic_prefix: str = "switchgear.",
        family_pattern: str = DEFAULT_PATTERN,
        local_policies: LocalPolicies | None = None,
        probe_wait: float = 0.25,
        fleet_silence: float = 30.0,
        buffer_size: int = 65_536,
        classify: Classifier | None = None,
        outages_in_text: Collection[str] = (),
        parameters_key: bytes | None = None,
        compression: str | None = None,
        spool_dir: str | os.PathLike[str] | None = None,
        spool_bytes: int = 268_435_456,
        spool_fsync: bool = False,
        exit_timeout: float = EXIT_TIMEOUT_S,
        on_state_unavailable: OnStateUnavailable = "last_known",
        state_max_age_s: float = STATE_MAX_AGE_S,
        defaults: GuardOptions | None = None,
        fallbacks: Chains | None = None,
        hooks: Iterable[Hooks] = (),
        timed_threads: int = 64,
        redact: Redactor | None = None,
        start_wait_s: float = 0.0,
        max_caller_errors: int | None = DEFAULT_MAX_CALLER_ERRORS,
        caller_errors_without_session: bool = False,
        include_last_error: bool = False,
        tool_list: ToolList = "stable",
        hide_after_s: float = HIDE_AFTER_S,
        clock: Clock | None = None,
    ) -> None:
        arguments.policies("local_policies", local_policies)
        arguments.numbers(
            probe_wait=probe_wait,
            fleet_silence=fleet_silence,
            start_wait_s=start_wait_s,
            state_max_age_s=state_max_age_s,
            hide_after_s=hide_after_s,
        )
        arguments.one_of("on_state_unavailable", on_state_unavailable, get_args(OnStateUnavailable))
        if classify is not None:
            arguments.function("classify", classify)
        if redact is not None:
            arguments.function("redact", redact)
        if parameters_key is not None:
            arguments.secret_key("parameters_key", parameters_key)
        if defaults is not None and not isinstance(defaults, GuardOptions):
            arguments.impossible("defaults", "GuardOptions", defaults, "defaults=GuardOptions(timeout=5)")
        arguments.whole("timed_threads", timed_threads)
        if max_caller_errors is not None:
            arguments.whole("max_caller_errors", max_caller_errors)
        arguments.flag("caller_errors_without_session", caller_errors_without_session)
        arguments.flag("include_last_error", include_last_error)
        arguments.one_of("tool_list", tool_list, get_args(ToolList))
        hook_list = HookList(hooks)
        self._hooks = hook_list if hook_list.wants else None
        wire = connect(
            self,
            bootstrap_servers,
            token=token,
            service=service,
            topic_prefix=topic_prefix,
            family_pattern=family_pattern,
            buffer_size=buffer_size,
            compression=compression,
            spool_dir=spool_dir,
            spool_bytes=spool_bytes,
            spool_fsync=spool_fsync,
            exit_timeout=exit_timeout,
            clock=clock,
        )
        self._emitter, self._follower, self._background = wire.emitter, wire.follower, wire.background
        monotonic, wall = self._clocks = wire.clock, wire.wall
        self._local_policies = local_policies
        fleet: FleetCircuits | None = None
        self._availability: Availability | None = None
        if self._emitter is not None and self._follower is not None:
            fleet = FleetCircuits(
                self._follower,
                self._emitter,
                silence_s=fleet_silence,
                clock=monotonic,
                wall=wall,
                include_last_error=include_last_error,
            )
            self._availability = Availability(self._follower, on_state_unavailable, state_max_age_s, monotonic)
        own_redactor = None if redact is None else redactor(redact)
        self._lists = ToolLists(tool_list, hide_after_s, monotonic)
        reporter = Reporter(
            monotonic,
            fleet,
            classifier=classify,
            redactor=own_redactor,
            hooks=self._hooks,
            credentials=Credentials(parameters_key),
            list_changes=self._lists.say,
        )
        if fleet is not None and self._availability is not None:
            self.housekeeping = Housekeeping(
                fleet, self._availability, self._hooks, lambda: reporter.overdue.look(monotonic())
            )
        self._family_pattern = family_pattern
        self._decision = CircuitDecision(
            LocalBreakers(local_policies, monotonic, include_last_error=include_last_error),
            reporter,
            family_pattern=family_pattern,
        )
        if self._hooks is not None and self._follower is not None and "on_transition" in self._hooks.wants:
            self._follower.listeners.append(FleetChanges(self._hooks.on_transition, self._follower, wall).on_view)
        runtime = Runtime(
            self._decision,
            self._start,
            self._astart,
            fallbacks=fallbacks,
            probe_wait=probe_wait,
            parameters_key=parameters_key,
            timed_threads=timed_threads,
            max_caller_errors=max_caller_errors,
            caller_errors_without_session=caller_errors_without_session,
            outages_in_text=arguments.globs("outages_in_text", outages_in_text),
        )
        self._max_caller_errors = max_caller_errors
        super().__init__(runtime, defaults or GuardOptions())
        self._begun = runtime.started = self._background is None
        self._direct: Runtime | type[_NeverDirect] = runtime if runtime.process_limit is None else _NeverDirect
        """Whether calls without a session can ask the circuits alone."""
        self._start_wait_s = start_wait_s
        if self._background is not None and self.housekeeping is not None:
            self._background.add("watch", self.housekeeping.run)
            self._background.add("overdue", lambda: reporter.overdue.run(monotonic))
            call_in_child(self._reset_in_child)

    @classmethod
    def local(cls, **options: Unpack[LocalOptions]) -> Self:
        """Return a client without Kafka: a complete circuit breaker for this process alone.

        Args:
            options: Arguments of the constructor, except those about Kafka.
        """
        return cls(None, **options)

    def try_acquire(
        self,
        tool: str,
        *,
        user_id: str = "",
        session_id: str | None = None,
        request_id: str | None = None,
        credential: str | None = None,
        target: str = "",
        arguments: Mapping[str, Any] | None = None,
        fallbacks: Collection[str] = (),
        tenant: str = "",
    ) -> Permit | Rejection:
        """Ask whether a call may be made now.

        At the end of a cooldown it may block for ``probe_wait``. In event loops, use :meth:`atry_acquire`.

        Args:
            tool: The circuit's name.
            user_id: The user that the call is for.
            session_id: The session that the call belongs to. ``max_caller_errors`` counts in it.
            request_id: The request that the call belongs to.
            credential: What the call signs in with, such as its token. Only a salted hash is kept. See
                :mod:`switchgear.guard.credentials`.
            target: What the call is about, such as a host. It counts if the tool's policy has a ``target``. Without it, the arguments say.
            arguments: The call's arguments by name, for the limit of caller errors, the event's hash and the target.
            fallbacks: Tools that you can call instead. If the circuit of ``tool`` refuses, the permit may be for one of them:
                see its ``tool``. Only those that are fallbacks of ``tool`` are asked, in the order of its chain.
            tenant: The tenant that the call is for, if this process calls for several. It counts if the policy's scope is ``tenant``.

        Returns:
            A Permit, which is true, or a Rejection, which is false.
        """
        caller = self._caller(user_id, session_id, request_id, target, tenant, credential)
        if arguments is not None or fallbacks:
            check_tool_name(tool)
            return self._runtime.acquire(tool, caller, arguments, fallbacks)
        # A name that has a circuit was checked before.
        if type(tool) is not str or tool not in self._decision.local.circuits:
            check_tool_name(tool)
        # The common case saves a function call.
        if self._direct.started and not (session_id or target or tenant or session_stack.get()):
            answer = self._decision.acquire(tool, caller)
        else:
            answer = self._runtime.ask(tool, caller)
        if isinstance(answer, Pending):
            answer = self._runtime.wait(answer)
        if isinstance(answer, Rejection):
            return self._runtime.refused_permit(answer, caller)
        return answer

    async def atry_acquire(
        self,
        tool: str,
        *,
        user_id: str = "",
        session_id: str | None = None,
        request_id: str | None = None,
        credential: str | None = None,
        target: str = "",
        arguments: Mapping[str, Any] | None = None,
        fallbacks: Collection[str] = (),
        tenant: str = "",
    ) -> Permit | Rejection:
        """:meth:`try_acquire` without blocking the event loop."""
        check_tool_name(tool)
        caller = self._caller(user_id, session_id, request_id, target, tenant, credential)
        if arguments is not None or fallbacks:
            return await self._runtime.aacquire(tool, caller, arguments, fallbacks)
        answer = await self._runtime.adecide(tool, caller)
        return self._runtime.refused_permit(answer, caller) if isinstance(answer, Rejection) else answer

    def permit(
        self,
        tool: str,
        *,
        user_id: str = "",
        session_id: str | None = None,
        request_id: str | None = None,
        credential: str | None = None,
        target: str = "",
    ) -> PermitContext:
        """Return a permit as a block: ``with gear.permit("tool"):`` or ``async with``.

        Entering it raises CircuitOpenError if the call is refused. Leaving it reports the outcome. For ``target``, see
        :meth:`try_acquire`.
        """
        arguments.tool_name(tool)
        caller = self._caller(user_id, session_id, request_id, target, "", credential)
        return PermitContext(self._runtime, tool, caller)

    def _caller(
        self, user: str, session: str | None, request: str | None, target: str, tenant: str, credential: str | None
    ) -> Caller:
        """Return for whom a call is made, with the hash of its credential."""
        caller = caller_of(user, session, request, target, tenant)
        if not credential:
            return caller
        arguments.secret("credential", credential)
        return caller._replace(credential=self._runtime.salted(credential))

    def target_of(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Return what a call with these arguments is about, by the ``target`` in force. Empty without one, or if they don't name it."""
        rule = self._decision.target_rule(tool)
        return "" if rule is None else target_of(rule, arguments)

    def map_fallbacks(self, chains: Chains) -> None:
        """Set the fallbacks of tools: ``{"mcp:a:search": ["mcp:b:search", "local:search"]}``. Replaces those they had.

        Raises:
            SwitchgearError: A tool is its own fallback, or a chain is not a list of names.
        """
        self._runtime.fallbacks.update(chains)

    def session(
        self,
        session_id: str | None = None,
        *,
        user_id: str = "",
        credential: str | None = None,
        token_budget: int | None = None,
        max_failures: int | None = None,
        max_calls: int | None = None,
        max_caller_errors: int | Literal["client"] | None = "client",
        policies: LocalPolicies | None = None,
    ) -> Session:
        """Return a session: ``with gear.session("s-1", token_budget=50_000):``. See :class:`~switchgear.Session`.

        Args:
            session_id: Its name; generated unless given.
            user_id: The user it belongs to.
            credential: What its calls sign in with, such as a token. Only a salted hash is kept.
            token_budget: Refuse calls after this many tokens of all its tools together.
            max_failures: Refuse calls after this many failed calls of all its tools together.
            max_calls: Refuse calls after this many calls.
            max_caller_errors: Refuse a tool after this many errors of its caller in a row; the client's number unless given.
                None: never.
            policies: Policies of the session's own circuits; the client's ``local_policies`` unless given.

        Raises:
            SwitchgearError: An argument is impossible. The message names it.
        """
        arguments.policies("policies", policies)
        if credential is not None:
            arguments.secret("credential", credential)
        breakers = LocalBreakers(
            self._local_policies if policies is None else policies,
            self._clocks[0],
            include_last_error=self._decision.local.include_last_error,
        )
        return Session(
            mint_metric_id() if session_id is None else session_id,
            owner=self._runtime,
            decision=CircuitDecision(
                breakers, self._decision.reporter, of_session=True, family_pattern=self._family_pattern
            ),
            user_id=user_id,
            credential=self._runtime.salted(credential) if credential else "",
            token_budget=token_budget,
            max_failures=max_failures,
            max_calls=max_calls,
            max_caller_errors=self._max_caller_errors if max_caller_errors == "client" else max_caller_errors,
        )

    def is_open(self, tool: str) -> bool:
        """Return whether a call would be refused now, in the running session. Takes no permit and asks no other process."""
        arguments.tool_name(tool)
        return self._runtime.is_open(tool)

    def status(self) -> SwitchgearStatus:
        """Return the counts and the condition of the client, as of now."""
        self._look_at_calls()
        fleet, families = self._decision.fleet, self._decision.families
        return SwitchgearStatus(
            emitter=None if self._emitter is None else self._emitter.status(),
            follower=None if self._follower is None else self._follower.status(),
            local={**self._decision.local.not_closed(), **({} if families is None else families.not_closed())},
            mode="local_only" if self._availability is None else self._availability.look(),
            owner_silent_s={} if fleet is None else fleet.owner_silent_s(),
            hook_failures=0 if self._hooks is None else self._hooks.failures,
            background_deaths={} if self._background is None else dict(self._background.deaths),
            fleet={} if self._follower is None else self._follower.table.states(),
            caller_errors=self._runtime.caller_errors.refusals,
            tool_list_changes=self._lists.changes,
            paces={} if fleet is None else fleet.turns.status(),
        )

    def _look_at_calls(self) -> None:
        """Count the calls that are overdue by now."""
        self._decision.reporter.overdue.look(self._clocks[0]())

    def circuits(self) -> Mapping[str, CircuitView]:
        """Return the fleet's circuits as this process sees them, by circuit id."""
        self._start()
        return {} if self._follower is None else self._follower.table.snapshot()
