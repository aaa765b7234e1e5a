"""The command line: quick help, one sentence for what goes wrong, and exit codes that scripts can trust."""

import errno
import resource
import subprocess
import sys
import tomllib

import pytest

from switchgear.telemetry.registry import own_version
from switchgear_cli import main as main_module
from switchgear_cli.catalogue import COMMANDS, GROUPS
from switchgear_cli.main import BROKEN_PIPE, FAILED, INTERRUPTED, WRONG_USAGE, run
from switchgear_schemas.errors import SwitchgearError
from tests.support.limits import READY_S
from tests.support.processes import run as run_process
from tests.support.snippets import REPOSITORY
from tests.support.table import table


@pytest.fixture
def raising(monkeypatch):
    """Make every command line raise this."""

    def prepare(error):
        def call(_tokens):
            raise error

        monkeypatch.setattr(main_module, "_call", call)

    return prepare


@pytest.mark.slow
def test_help_lists_every_command_in_its_group(capsys):
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    for entry in COMMANDS:
        assert f" {entry.name} " in text
    places = [text.index(f"─ {group} ") for group in GROUPS]
    assert places == sorted(places)
    assert "Exit codes: 0 done, 1 failed, 2 wrong usage" in text


@pytest.mark.slow
def test_no_command_at_all_shows_the_help(capsys):
    assert run([]) == 0
    assert "Usage: switchgear COMMAND" in capsys.readouterr().out


@pytest.mark.slow
def test_help_imports_no_command():
    script = (
        "import sys; from switchgear_cli.main import run; run(['--help']);"
        "print([m for m in sys.modules if m.startswith(('switchgear_cli.commands.', 'faust', 'chdb', 'aiokafka'))])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=READY_S, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_help_takes_a_fraction_of_a_second_of_processor_time():
    took = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert run_process("--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(took) < 1.5  # 0.3 s on an idle machine


@pytest.mark.slow
@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_every_command_can_be_imported_and_has_help(entry, capsys):
    assert run([entry.name, "--help"]) == 0
    assert f"Usage: switchgear {entry.name}" in capsys.readouterr().out


@pytest.mark.deep
@table(
    ("package", "command", "extra"),
    [
        ("cyclopts", "circuits", "service"),  # the SDK alone
        ("cyclopts", "mcp-proxy", "mcp-proxy"),
        ("faust", "worker", "stream"),
        ("clickhouse_connect", "sink", "sink"),
        ("clickhouse_connect", "retention", "sink"),  # a group of commands: cyclopts wraps the error
    ],
)
def test_a_package_that_is_not_installed_is_named_with_the_commands_extra(package, command, extra):
    code = f"import sys; sys.modules[{package!r}] = None; from switchgear_cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, command], capture_output=True, text=True, timeout=READY_S, check=False
    )
    assert done.returncode == FAILED
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"switchgear: This command needs the package {package}, which is not installed.")
    assert line.endswith(f"pip install 'switchgear[{extra}]'")


@pytest.mark.slow
@table(
    ("command", "expected"),
    [
        ((), "[mcp-proxy]\n  mcp-proxy "),
        (("--help",), "[embedded]\n  up "),
        (("version",), f"switchgear {own_version()}, python 3."),
        (("--version",), own_version()),
    ],
)
def test_the_sdk_alone_says_its_version_and_which_extra_each_command_needs(command, expected):
    code = "import sys; sys.modules['cyclopts'] = None; from switchgear_cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, timeout=READY_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert expected in done.stdout


def test_every_extra_that_a_command_names_exists():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert {entry.extra for entry in COMMANDS} <= set(project["optional-dependencies"])


def test_a_fault_in_an_import_of_our_own_is_not_taken_for_a_missing_package(raising):
    raising(ModuleNotFoundError("No module named 'switchgear_cli.lost'", name="switchgear_cli.lost"))
    with pytest.raises(ModuleNotFoundError):
        run(["circuits"])


def test_the_version_is_printed_by_flag_and_by_command(capsys):
    assert run(["--version"]) == 0
    version = capsys.readouterr().out.strip()
    assert run(["version"]) == 0
    assert version in capsys.readouterr().out


def test_an_unknown_command_is_wrong_usage_and_names_the_nearest(capsys):
    assert run(["circuit"]) == WRONG_USAGE
    assert capsys.readouterr().err == (
        "switchgear: There is no command circuit. Did you mean circuits? Try `switchgear --help`.\n"
    )


def test_an_unknown_option_is_wrong_usage_in_one_line(capsys):
    assert run(["version", "--jsn"]) == WRONG_USAGE
    error = capsys.readouterr().err
    assert "--jsn" in error
    assert "Try `switchgear version --help`." in error
    assert error.count("\n") == 1


def test_a_wrong_setting_is_one_sentence_and_exit_code_1(monkeypatch, capsys):
    monkeypatch.setenv("SWITCHGEAR_TOPIC_PARTITIONS", "many")
    assert run(["topics", "ensure"]) == FAILED
    error = capsys.readouterr().err
    assert error.startswith("switchgear: ")
    assert "SWITCHGEAR_TOPIC_PARTITIONS" in error
    assert error.count("\n") == 1


def test_an_error_of_ours_is_its_sentence_with_what_to_do(raising, capsys):
    raising(SwitchgearError("The disk is tired.", hint="Let it rest."))
    assert run([]) == FAILED
    assert capsys.readouterr().err == "switchgear: The disk is tired. Let it rest.\n"


def test_ctrl_c_is_quiet(raising, capsys):
    raising(KeyboardInterrupt())
    assert run([]) == INTERRUPTED
    assert capsys.readouterr().err == ""


def test_a_full_disk_is_a_sentence(raising, capsys):
    raising(OSError(errno.ENOSPC, "No space left on device", "/data/x"))
    assert run([]) == FAILED
    assert "The disk is full (/data/x)" in capsys.readouterr().err


def test_a_mistake_of_ours_keeps_its_traceback(raising):
    raising(OSError(errno.EIO, "I/O error"))
    with pytest.raises(OSError, match="I/O error"):
        run([])


@pytest.mark.slow
def test_a_closed_output_pipe_causes_no_traceback():
    script = f"{sys.executable} -m switchgear_cli --help | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=READY_S, check=True)
    assert done.stderr == ""
    assert done.stdout.strip() in {"0", str(BROKEN_PIPE)}  # 0: all was written before the reader left


def test_a_commands_number_is_the_exit_code(monkeypatch):
    monkeypatch.setattr(main_module, "_call", lambda _tokens: 7)
    assert run([]) == 7


@pytest.mark.slow
def test_the_module_can_be_run():
    done = run_process("version", "--json")
    assert done.returncode == 0
    assert '"switchgear"' in done.stdout
