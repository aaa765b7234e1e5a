"""`switchgear completion` prints a script that the shell accepts, with every command."""

import re
import shutil
import subprocess

import pytest

from switchgear_cli.catalogue import COMMANDS
from switchgear_cli.commands import completion
from switchgear_cli.main import WRONG_USAGE, run
from tests.support.deep import some
from tests.support.limits import READY_S

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("shell", some(["bash", "zsh", "fish"], 1))
def test_script_of_each_shell_has_every_command_and_is_accepted_by_the_shell(shell, capsys):
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert [entry.name for entry in COMMANDS if entry.name not in script] == []
    assert "--worker-url" in script
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, timeout=READY_S, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_bash_completes_a_command_and_its_options(capsys):
    assert run(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    ask = '\nCOMP_WORDS=(switchgear {words}); COMP_CWORD={place}; _switchgear; printf "%s\\n" "${{COMPREPLY[@]}}"\n'
    for words, place, expected in (("doc", 1, "doctor"), ("watch --on", 2, "--once")):
        line = script + ask.format(words=words, place=place)
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=READY_S, check=False)
        assert expected in done.stdout.split(), done.stderr


def test_a_command_whose_extra_is_not_installed_is_left_out(monkeypatch, capsys):
    monkeypatch.setattr(completion, "_is_installed", lambda entry: entry.name != "retention")
    assert run(["completion", "fish"]) == 0
    found = re.search(r"all_commands '([^']*)'", capsys.readouterr().out)
    assert found is not None
    assert {entry.name for entry in COMMANDS} - set(found[1].split()) == {"retention"}


def test_an_unknown_shell_is_wrong_usage(capsys):
    assert run(["completion", "tcsh"]) == WRONG_USAGE
    assert "bash" in capsys.readouterr().err
