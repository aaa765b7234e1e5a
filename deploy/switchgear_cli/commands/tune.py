"""``switchgear tune``: search policies on recorded calls, and propose the one with the least cost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from switchgear.policies import PolicySet
from switchgear_api.replay.history import HistoryLine, read_history
from switchgear_cli.operate.options import CommandOptions, NameOptions
from switchgear_cli.operate.run import set_policies, set_policy
from switchgear_cli.reads import output
from switchgear_cli.reads.client import connect
from switchgear_cli.reads.history import stored_history, stored_tools
from switchgear_cli.terminal import terminal_console
from switchgear_cli.times import parse_instant
from switchgear_schemas.errors import SwitchgearError, WrongUsageError
from switchgear_schemas.settings import load_settings

if TYPE_CHECKING:
    from switchgear_cli.tune.cost import Prices
    from switchgear_cli.tune.study import Study

_DEFAULT: Final = CommandOptions()
_SPAN: Final = timedelta(days=7)
_PLOTS: Final = (".svg", ".png")
_Price = Annotated[float, Parameter(validator=Number(gte=0))]


def tune(
    tool_glob: str,
    file: Path | None = None,
    /,
    *,
    since: str | None = None,
    until: str | None = None,
    stamp: float | None = None,
    outages: Path | None = None,
    policy_file: Path | None = None,
    candidates: Annotated[int, Parameter(validator=Number(gte=1, lte=100_000))] = 200,
    seed: int = 1,
    processes: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    token_usd: _Price = 0.000_003,
    second_usd: _Price = 0.01,
    refused_usd: Annotated[float | None, Parameter(validator=Number(gte=0))] = None,
    delay_usd: _Price = 0.001,
    toml: Path | None = None,
    plot: Path | None = None,
    apply: Literal["metrics-only"] | None = None,
    judge: Annotated[bool, Parameter(negative=())] = False,
    api_url: str | None = None,
    how: CommandOptions = _DEFAULT,
) -> int:
    """Search policies on recorded calls, and propose the one with the least cost.

    The first half of the calls chooses the policy, the second half judges it. Every candidate sees the same calls. The same calls,
    options and seed give the same answer. Costs are in US dollars.

    Args:
        tool_glob: Name of a tool, or a glob (quote it).
        file: JSON lines, plain or gzipped; - for the standard input. By default the stored calls, over the HTTP API.
        since: First instant of the stored calls: 90s, 15m, 2h, 7d, or a date and time, in UTC unless it has an offset. By default
            seven days before --until. With --judge, start there instead of when the policy was set.
        until: Instant before which the stored calls ended, written like --since. By default now.
        stamp: Seconds between calls without recorded_at; without it such a file is refused.
        outages: Known outages instead of estimated ones: a JSON array of objects with tool (name or glob), start and end.
        policy_file: Policy file, TOML or YAML: the present policy. By default the settings' policy_file, or the built-in default.
        candidates: How many policies to try, besides the present one and the built-in default.
        seed: Seed of the random search.
        processes: How many processes search. By default one for each processor.
        token_usd: Price of a token of a failed call that recorded no cost_usd.
        second_usd: Price of a second of waiting; 0.01 is 36 dollars an hour.
        refused_usd: Price of a refused call that would have succeeded. By default what a usual good call of the tool costs.
        delay_usd: Price of a second in which a tool works again and good calls are still refused.
        toml: Write the proposed policy to this file, as a policy file.
        plot: Draw the trade-off into this file, .svg or .png.
        apply: Set the proposed policy live, in metrics-only mode: it reports what it would do, and refuses nothing.
        judge: Compare what the policy in metrics-only mode would have done with what was done.
        api_url: Where the HTTP API is.
        how: Of --apply, and --json for one JSON document instead of a table.
    """
    _check(file, since, until, toml, plot, apply, judge=judge)
    from switchgear_cli.tune.cost import Prices  # noqa: PLC0415 - numpy and scipy, 500 ms that `--help` must not wait

    prices = Prices(token_usd, second_usd, refused_usd, delay_usd)
    present = PolicySet.load(policy_file or load_settings().policy_file)
    if judge:
        return _judge(tool_glob, present, prices, since, api_url, how)
    lines = read_history(file) if file is not None else _stored(tool_glob, since, until, api_url)
    found = _search(lines, tool_glob, present, prices, outages, stamp, candidates, seed, processes)
    from switchgear_cli.tune import report  # noqa: PLC0415 - as above

    _write(found, toml, plot)
    if how.json:
        output.show_json(report.document(found))
    else:
        output.show(report.table(found))
    if not found.proposed and (toml is not None or apply is not None):
        what = "Nothing was set" if apply is not None else f"{toml} was not written"
        raise NothingProposedError(f"{what}.", hint="There is no proposal; the report says why.")
    return 0 if apply is None else _apply(found, how, api_url, create=file is None)


class NothingProposedError(SwitchgearError):
    """There is no proposal to write or to apply."""


def _check(
    file: Path | None, since: str | None, until: str | None, toml: Path | None, plot: Path | None, apply: str | None,
    *, judge: bool,
) -> None:  # fmt: skip
    if file is not None and (since is not None or until is not None):
        raise WrongUsageError("--since and --until choose among the stored calls.", hint="Leave the file out.")
    if judge and (file is not None or apply is not None or toml is not None or plot is not None or until is not None):
        raise WrongUsageError(
            "--judge reads what is stored and proposes nothing.",
            hint="Leave out FILE, --until, --apply, --toml and --plot.",
        )
    if toml is not None and toml.suffix != ".toml":
        raise WrongUsageError(f"--toml {toml} does not end with .toml.", hint="Name the file e.g. proposed.toml.")
    if plot is not None and plot.suffix not in _PLOTS:
        raise WrongUsageError(f"--plot {plot} ends with neither .svg nor .png.", hint="Name the file e.g. tune.svg.")
    for option, path in (("--toml", toml), ("--plot", plot)):
        if path is not None and not path.absolute().parent.is_dir():
            raise WrongUsageError(f"{option} {path}: there is no folder {path.parent}.", hint="Make it first.")


def _search(
    lines: Iterator[HistoryLine], glob: str, present: PolicySet, prices: Prices, outages: Path | None, stamp: float | None,
    candidates: int, seed: int, processes: int | None,
) -> Study:  # fmt: skip
    from switchgear_cli.tune.calls import read_calls  # noqa: PLC0415 - see tune()
    from switchgear_cli.tune.known_outages import read_outages  # noqa: PLC0415
    from switchgear_cli.tune.search import usable_processors  # noqa: PLC0415
    from switchgear_cli.tune.study import study  # noqa: PLC0415

    console = terminal_console(stderr=True)
    with _progress(console) as progress:
        task = progress.add_task("read the calls", total=None)
        log = read_calls(lines, glob, stamp_s=stamp)
        known = None if outages is None else read_outages(outages, log.tools)
        return study(
            log,
            glob,
            present,
            outages=known,
            prices=prices,
            candidates=candidates,
            seed=seed,
            processes=processes or usable_processors(),
            on_start=lambda total: progress.update(task, description="try policies", total=total),
            on_done=lambda: progress.advance(task),
        )


def _progress(console: Console) -> Progress:
    """Return a progress bar. It shows on a terminal only."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _stored(glob: str, since: str | None, until: str | None, api_url: str | None) -> Iterator[HistoryLine]:
    now = datetime.now(UTC)
    end = parse_instant("--until", until, now) or now
    begin = parse_instant("--since", since, now) or end - _SPAN
    with connect(api_url) as api:
        tools = stored_tools(api, glob)
        if not tools:
            raise WrongUsageError(
                f"No call is stored of a tool that {glob!r} matches.", hint="`switchgear tools` lists the names."
            )
        yield from stored_history(api, begin, end, tools)


def _write(found: Study, toml: Path | None, plot: Path | None) -> None:
    if plot is not None and found.tried:
        from switchgear_cli.tune.plot import draw_trade_off  # noqa: PLC0415 - matplotlib, a second

        draw_trade_off(found, plot)
    if toml is not None and found.proposal is not None and found.proposed:
        heading = (
            f"Made by switchgear tune for {found.glob}. Try it with: switchgear replay FILE --policy-file {toml.name}"
        )
        toml.write_text(found.proposal.toml(heading), encoding="utf-8")


def _apply(found: Study, how: CommandOptions, api_url: str | None, *, create: bool) -> int:
    """Set every table of the proposal live, in metrics-only mode."""
    from switchgear_cli.tune.candidates import live_policies  # noqa: PLC0415 - see tune()

    assert found.proposal is not None  # checked by tune()
    policies = live_policies(found.proposal, found.glob)
    names = NameOptions(create=create, api_url=api_url)
    if len(policies) == 1:
        return set_policy(found.glob, policies[found.glob], how, names)
    return set_policies(policies, how, names)


def _judge(
    glob: str, present: PolicySet, prices: Prices, since: str | None, api_url: str | None, how: CommandOptions
) -> int:
    from switchgear_cli.tune import judge  # noqa: PLC0415 - see tune()

    now = datetime.now(UTC)
    begin = parse_instant("--since", since, now)
    with connect(api_url) as api:
        found = judge.judge(api, glob, present, prices, now=now, since=begin)
    document: dict[str, Any] = judge.document(found)
    if how.json:
        output.show_json(document)
    else:
        output.show(judge.table(found))
    return 0
