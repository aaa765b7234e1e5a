"""Where a client command looks: its option, then the environment, then a running `up`, then the default."""

import contextlib
import os
import select
import shlex
import signal
import stat
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from switchgear_cli.discovery import API, KAFKA, check_only_sink, client_settings, find_system, store_settings
from switchgear_cli.main import run
from switchgear_cli.up_record import LOCK_NAME, UpRecord
from switchgear_schemas.errors import WrongUsageError
from switchgear_schemas.families import DEFAULT_PATTERN
from switchgear_schemas.file_lock import FileLock
from switchgear_schemas.settings import load_settings
from tests.support.limits import ANSWER_S


def record_of(folder, *, kafka=19092, api=18620, prefix="mine.", pattern=DEFAULT_PATTERN, started_at=1.0):
    return UpRecord(
        pid=1,
        data_dir=str(folder),
        kafka_bootstrap_servers=f"127.0.0.1:{kafka}",
        api_url=f"http://127.0.0.1:{api}",
        topic_prefix=prefix,
        family_pattern=pattern,
        started_at=started_at,
        pids={"sink": 7},
    )


@dataclass
class Machine:
    """Where systems are started: each holds its folder's lock and has written its records, as `up` does."""

    stack: ExitStack
    folder: Path

    def start(self, name, **values):
        folder = self.folder / name
        self.stack.enter_context(FileLock(folder / LOCK_NAME))
        UpRecord.announce(folder)
        record = record_of(folder, started_at=time.time(), **values)
        record.write(folder)
        return record


@pytest.fixture
def machine(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    with ExitStack() as stack:
        yield Machine(stack, tmp_path)


@pytest.fixture
def data_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_DATA_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def running(data_dir):
    """An `up` runs on the data folder that is set, and is recorded there alone."""
    with FileLock(data_dir / LOCK_NAME):
        record_of(data_dir).write(data_dir)
        yield data_dir


def pointers():
    """The files in the user's folder of running systems."""
    return [path for path in Path(os.environ["XDG_STATE_HOME"]).rglob("*") if path.is_file()]


def where(**given):
    found = client_settings(**given)
    return found.kafka_bootstrap_servers, found.api_url, found.topic_prefix


def test_without_any_setting_discovery_uses_the_defaults(data_dir):
    assert where() == ("localhost:9092", "http://127.0.0.1:8620", "switchgear.")


def test_a_running_up_is_found(running):
    assert where() == ("127.0.0.1:19092", "http://127.0.0.1:18620", "mine.")


def test_an_up_on_a_folder_that_nothing_names_is_found(machine):
    machine.start("elsewhere")
    assert where() == ("127.0.0.1:19092", "http://127.0.0.1:18620", "mine.")


def test_the_environment_wins_over_a_running_up(running, monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS", "kafka.example:9092")
    monkeypatch.setenv("SWITCHGEAR_API_URL", "http://api.example")
    monkeypatch.setenv("SWITCHGEAR_TOPIC_PREFIX", "theirs.")
    assert where() == ("kafka.example:9092", "http://api.example", "theirs.")


def test_commands_use_the_family_pattern_of_a_running_up_unless_one_is_given(machine, monkeypatch):
    machine.start("elsewhere", pattern="api:*:*")
    assert client_settings().family_pattern == "api:*:*"
    monkeypatch.setenv("SWITCHGEAR_FAMILY_PATTERN", "mcp:*")
    assert client_settings().family_pattern == "mcp:*"


def test_the_lines_to_export_name_the_family_pattern_only_where_it_is_not_the_default(tmp_path):
    for pattern, named in ((DEFAULT_PATTERN, False), ("", True), ("api:*:*", True)):
        record = record_of(tmp_path, pattern=pattern)
        record.write(tmp_path)
        assert (f"export SWITCHGEAR_FAMILY_PATTERN={shlex.quote(pattern)}" in record.exports()) is named


@pytest.mark.parametrize(
    ("variables", "started", "origins"),
    [
        ({}, False, ("default", "default")),
        ({}, True, ("found", "found")),
        ({"KAFKA_BOOTSTRAP_SERVERS": "kafka.example:9092"}, True, ("named", "default")),
        ({"KAFKA_BOOTSTRAP_SERVERS": "localhost:19092"}, True, ("named", "found")),
        ({"API_URL": "http://localhost:18620"}, True, ("found", "named")),
        ({"API_URL": "http://api.example"}, True, ("default", "named")),
        ({"API_HTTP": "127.0.0.1:18620"}, False, ("default", "named")),
        ({"TOPIC_PREFIX": "mine."}, True, ("found", "found")),
        ({"TOPIC_PREFIX": "theirs."}, True, ("found", "default")),
    ],
)
def test_it_is_known_where_each_address_is_from(machine, monkeypatch, variables, started, origins):
    if started:
        machine.start("one")
    for name, value in variables.items():
        monkeypatch.setenv(f"SWITCHGEAR_{name}", value)
    found = find_system()
    assert (found.kafka, found.api) == origins


def test_an_option_wins_over_the_environment(running, monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_API_URL", "http://api.example")
    assert client_settings(api_url="http://option.example").api_url == "http://option.example"


def test_an_option_that_was_not_given_changes_nothing(running):
    assert client_settings(api_url=None).api_url == "http://127.0.0.1:18620"


def test_the_settings_file_wins_over_a_running_up(running, tmp_path, monkeypatch):
    file = tmp_path / "switchgear.toml"
    file.write_text('kafka_bootstrap_servers = "file.example:9092"\n')
    monkeypatch.setenv("SWITCHGEAR_CONFIG", str(file))
    assert client_settings().kafka_bootstrap_servers == "file.example:9092"


def test_the_record_of_a_killed_up_is_not_believed_and_removed_from_the_users_folder(machine):
    machine.start("killed")
    assert len(pointers()) == 1
    machine.stack.close()
    assert where()[0] == "localhost:9092"
    assert pointers() == []


def test_an_up_that_is_starting_has_no_record_yet(data_dir):
    with FileLock(data_dir / LOCK_NAME):
        assert UpRecord.running(data_dir) is None


def test_a_record_that_is_not_one_is_not_believed(running):
    (running / "up.json").write_text("{not json")
    assert UpRecord.running(running) is None


def test_a_record_is_read_back_as_it_was_written(running):
    assert UpRecord.running(running) == record_of(running)


def test_removing_a_record_twice_is_harmless(machine):
    machine.start("one")
    for _ in range(2):
        UpRecord.remove(machine.folder / "one")
    assert not (machine.folder / "one" / "up.json").exists()
    assert pointers() == []


@pytest.mark.parametrize("written", [b"", b"\0\0\0\0", b"relative", b"/nowhere", b"x" * 100_000])
def test_anything_but_a_data_folder_in_the_users_folder_is_skipped(machine, written):
    UpRecord.announce(machine.folder)
    (pointer,) = pointers()
    pointer.write_bytes(written)
    machine.start("good")
    assert where()[0] == "127.0.0.1:19092"
    assert len(pointers()) == 1


def test_only_the_user_can_read_and_write_the_records(machine):
    UpRecord.announce(machine.folder)
    (pointer,) = pointers()
    assert stat.S_IMODE(pointer.stat().st_mode) == 0o600
    assert stat.S_IMODE(pointer.parent.stat().st_mode) == 0o700


def test_what_another_user_wrote_is_not_believed(machine, monkeypatch):
    machine.start("theirs")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert where()[0] == "localhost:9092"
    assert len(pointers()) == 1


def test_a_data_folder_that_another_user_took_over_is_not_believed(machine, monkeypatch):
    machine.start("taken")
    record = str(machine.folder / "taken" / "up.json")
    real = Path.lstat

    class Theirs:
        st_uid = os.getuid() + 1

    monkeypatch.setattr(Path, "lstat", lambda path: Theirs if str(path) == record else real(path))
    assert where()[0] == "localhost:9092"


def test_a_folder_of_records_that_cannot_be_made_hinders_only_the_announcement(machine, monkeypatch):
    (machine.folder / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(machine.folder / "file"))
    with pytest.raises(OSError, match="directory"):
        UpRecord.announce(machine.folder)
    UpRecord.remove(machine.folder)
    assert where()[0] == "localhost:9092"


def test_a_user_without_a_home_has_no_records(machine, monkeypatch):
    def homeless(_name):
        raise RuntimeError("could not determine the home directory")

    monkeypatch.setattr("switchgear_cli.up_record.user_state_path", homeless)
    with pytest.raises(OSError, match="no home"):
        UpRecord.announce(machine.folder)
    assert where()[0] == "localhost:9092"


def test_two_paths_to_one_data_folder_are_one_system(machine):
    machine.start("real")
    (machine.folder / "link").symlink_to(machine.folder / "real")
    UpRecord.announce(machine.folder / "link")
    assert len(pointers()) == 1
    assert where()[0] == "127.0.0.1:19092"


@pytest.mark.parametrize(
    ("address", "url"), [("0.0.0.0:80", "http://127.0.0.1:80"), ("h.example:1", "http://h.example:1")]
)
def test_the_apis_own_address_gives_its_url(data_dir, monkeypatch, address, url):
    monkeypatch.setenv("SWITCHGEAR_API_HTTP", address)
    assert client_settings().api_url == url


# Several systems


@pytest.fixture
def two(machine):
    return machine.start("one", prefix="switchgear."), machine.start("two", kafka=29092, api=28620)


def test_several_systems_are_listed_with_their_options_without_a_terminal(two):
    with pytest.raises(WrongUsageError) as caught:
        client_settings()
    text = str(caught.value)
    assert "2 systems run on this machine" in text
    for each in two:
        assert each.data_dir in text
        for line in each.exports():
            assert f"\n  {line}" in text
    assert text.index(two[0].data_dir) < text.index(two[1].data_dir)


def test_the_lines_to_export_name_the_prefix_only_where_it_is_not_the_default(two):
    assert two[0].exports() == [
        "export SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS=127.0.0.1:19092",
        "export SWITCHGEAR_API_URL=http://127.0.0.1:18620",
    ]
    assert two[1].exports()[2:] == ["export SWITCHGEAR_TOPIC_PREFIX=mine."]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SWITCHGEAR_API_URL", "http://localhost:28620/"),
        ("SWITCHGEAR_API_URL", "http://127.0.0.1:28620"),
        ("SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS", "localhost:29092"),
        ("SWITCHGEAR_DATA_DIR", "two"),
    ],
)
def test_one_address_names_the_system_and_the_record_completes_it(two, machine, monkeypatch, name, value):
    monkeypatch.setenv(name, str(machine.folder / value) if name.endswith("DIR") else value)
    kafka, api, prefix = where(use=(KAFKA, API))
    assert kafka.endswith(":29092")
    assert api.rstrip("/").endswith(":28620")
    assert prefix == "mine."


def test_an_option_names_the_system_over_the_data_folder_of_the_environment(two, machine, monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_DATA_DIR", str(machine.folder / "one"))
    assert client_settings(kafka_bootstrap_servers="127.0.0.1:29092").kafka_bootstrap_servers == "127.0.0.1:29092"


def test_an_address_of_another_system_is_used_without_the_prefix_of_a_running_up(two, monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS", "kafka.example:9092")
    assert where()[::2] == ("kafka.example:9092", "switchgear."), "the topic prefix of an up is for its own Kafka"


def test_addresses_of_two_systems_are_refused_where_both_are_used(two):
    mixed = {"kafka_bootstrap_servers": two[0].kafka_bootstrap_servers, "api_url": two[1].api_url}
    with pytest.raises(WrongUsageError, match="name one system"):
        client_settings(use=(KAFKA, API), **mixed)
    assert client_settings(use=(API,), **mixed).api_url == two[1].api_url
    assert client_settings(**mixed).kafka_bootstrap_servers == two[0].kafka_bootstrap_servers


@pytest.mark.slow
def test_an_operator_command_is_not_sent_to_one_system_with_the_names_of_another(two, monkeypatch, capsys):
    monkeypatch.setenv("SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS", two[0].kafka_bootstrap_servers)
    monkeypatch.setenv("SWITCHGEAR_API_URL", two[1].api_url)
    assert run(["open", "mcp:a:*", "--yes"]) == 2
    assert "name one system" in capsys.readouterr().err


def test_a_default_address_that_is_another_systems_is_not_used(machine, monkeypatch):
    local = machine.start("local", kafka=9092, api=8620)
    with pytest.raises(WrongUsageError) as caught:
        client_settings(use=(API,), kafka_bootstrap_servers="kafka.example:9092")
    for part in ("kafka.example:9092", "http://127.0.0.1:8620", local.data_dir, "SWITCHGEAR_API_URL"):
        assert part in str(caught.value)
    with pytest.raises(WrongUsageError, match="--bootstrap-servers"):
        client_settings(api_url="http://api.example")
    assert client_settings(use=(API,), api_url="http://api.example").api_url == "http://api.example"
    monkeypatch.setenv("SWITCHGEAR_DATA_DIR", str(machine.folder / "stopped"))
    with pytest.raises(WrongUsageError, match=r"No `switchgear up` runs on .*stopped"):
        client_settings()


# The question


@contextmanager
def typing(answer):
    """At a terminal: ``answer`` is typed; what is shown is gathered in the list that this yields."""
    master, slave = os.openpty()
    shown = []
    with (
        pytest.MonkeyPatch.context() as patch,
        os.fdopen(slave, encoding="utf-8") as stdin,
        os.fdopen(os.dup(slave), "w", encoding="utf-8") as screen,
    ):
        patch.delenv("CI", raising=False)
        patch.setattr("sys.argv", ["switchgear", "tools"])
        for name, stream in (("stdin", stdin), ("stdout", screen), ("stderr", screen)):
            patch.setattr(f"sys.{name}", stream)
        os.write(master, answer.encode())
        yield shown
        screen.flush()
        while select.select([master], [], [], 0.1)[0]:
            shown.append(os.read(master, 65_536).decode())
    os.close(master)


@pytest.mark.parametrize("answer", ["2\n", "9\nx\n 2 \n"])
def test_a_person_at_a_terminal_chooses(two, answer):
    with typing(answer) as shown:
        assert client_settings().kafka_bootstrap_servers == "127.0.0.1:29092"
    assert all(each.data_dir in "".join(shown) for each in two)


@pytest.mark.parametrize("answer", ["\n", "\x04", "9\n9\n9\n2\n"])
def test_an_answer_outside_the_choices_selects_no_system(two, answer):
    with typing(answer) as shown, pytest.raises(WrongUsageError, match="2 systems run"):
        client_settings()
    assert "Which one?" in "".join(shown)


def test_the_question_waits_for_a_limited_time(two, monkeypatch):
    monkeypatch.setattr("switchgear_cli.discovery._ANSWER_LIMIT_S", 0.05)
    with typing("") as shown, pytest.raises(WrongUsageError, match="2 systems run"):
        client_settings()
    assert "Which one?" in "".join(shown)


@pytest.mark.parametrize(("ci", "arguments"), [("true", ["tools"]), ("", ["tools", "--json"])])
def test_discovery_asks_no_question_in_ci_or_for_json(two, monkeypatch, ci, arguments):
    with typing("2\n") as shown:
        monkeypatch.setenv("CI", ci)
        monkeypatch.setattr("sys.argv", ["switchgear", *arguments])
        with pytest.raises(WrongUsageError, match="2 systems run"):
            client_settings()
    assert "Which one?" not in "".join(shown)


def interrupted(child):
    """Press Ctrl-C again where the first came between the prompt and the read, which then does not notice it."""
    for _ in range(6):
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(ANSWER_S)
    raise AssertionError("it goes on")


@pytest.mark.slow
@pytest.mark.parametrize("command", [["tools"], ["topics", "ensure"]])
def test_ctrl_c_ends_the_question(two, command):
    master, slave = os.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "switchgear_cli", *command],
        **dict.fromkeys(("stdin", "stdout", "stderr"), slave),
        env={name: value for name, value in os.environ.items() if name != "CI"},
    )
    os.close(slave)
    shown = ""
    try:
        while "Which one?" not in shown:
            shown += os.read(master, 65_536).decode()
        assert interrupted(child) == 130
    finally:
        child.kill()
        child.wait()
        os.close(master)


# Stores


def test_a_store_is_opened_only_where_it_is_named(data_dir, monkeypatch):
    def named(**options):
        return store_settings(**({"clickhouse": None, "data_dir": None} | options))

    assert named() is None
    monkeypatch.setenv("SWITCHGEAR_CLICKHOUSE_URL", "chdb:")
    assert named() is None, "that is how a sink is set up, and no word of this command"
    assert named(clickhouse="chdb:/there").clickhouse_url == "chdb:/there"
    assert named(data_dir=data_dir / "x").data_dir == data_dir / "x"
    monkeypatch.setenv("SWITCHGEAR_CLICKHOUSE_URL", "http://ch:8123/here")
    assert named().clickhouse_url == "http://ch:8123/here"
    assert named(data_dir=data_dir / "x").clickhouse_url == "chdb:"
    assert named(api_url="http://api.example") is None
    with pytest.raises(WrongUsageError, match="--clickhouse and --data-dir each name a store"):
        named(clickhouse="chdb:", data_dir=data_dir)


def test_a_second_sink_on_the_kafka_of_a_running_up_is_refused(two, machine, monkeypatch):
    ours = {"kafka_bootstrap_servers": "localhost:19092"}
    for store in ("chdb:", "http://ch:8123"):
        with pytest.raises(WrongUsageError, match="part of the rows"):
            check_only_sink(load_settings(clickhouse_url=store, **ours))
    check_only_sink(load_settings(topic_prefix="other.", **ours))
    check_only_sink(load_settings())
    monkeypatch.setenv("SWITCHGEAR_DATA_DIR", two[0].data_dir)
    check_only_sink(load_settings(**ours))
