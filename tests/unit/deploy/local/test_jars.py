"""Only the jars whose hashes we ship are ever run."""

import hashlib
import re

import jgo
import pytest

from switchgear_cli.local.jars import COORDINATES, KAFKA_VERSION, class_path, expected_jars, kafka_jars
from switchgear_schemas.errors import SwitchgearError

EXPECTED = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("kafka.jar", "clients.jar")}


@pytest.fixture
def cache(tmp_path):
    """A cache as an earlier fetch left it."""
    folder = tmp_path / f"kafka-{KAFKA_VERSION}"
    folder.mkdir()
    for name in EXPECTED:
        (folder / name).write_bytes(name.encode())
    return tmp_path


def test_the_shipped_list_names_every_jar_with_its_hash():
    jars = expected_jars()
    assert len(jars) > 40
    assert {f"kafka_2.13-{KAFKA_VERSION}.jar", f"kafka-clients-{KAFKA_VERSION}.jar"} <= jars.keys()
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in jars.values())
    assert all(re.fullmatch(r"[\w.-]+\.jar", name) for name in jars)


def test_each_jar_is_listed_in_one_version():
    stems = [re.sub(r"-\d[\w.-]*\.jar$", "", name) for name in expected_jars()]
    assert len(stems) == len(set(stems))


def test_the_log_binding_and_the_clients_are_asked_for_by_name():
    assert f"kafka-clients:{KAFKA_VERSION}" in COORDINATES
    assert "log4j-slf4j-impl" in COORDINATES


def test_verified_jars_are_used_without_fetching(cache):
    jars = kafka_jars(cache, expected=EXPECTED)
    assert [jar.name for jar in jars] == ["clients.jar", "kafka.jar"]
    assert class_path(jars).count(":") == 1


def test_a_changed_jar_is_refused_by_name(cache):
    (cache / f"kafka-{KAFKA_VERSION}" / "kafka.jar").write_bytes(b"something else")
    with pytest.raises(SwitchgearError, match=r"kafka\.jar is refused: its SHA-256 is .* Remove"):
        kafka_jars(cache, expected=EXPECTED)


def test_a_missing_jar_is_named_with_what_to_do(cache):
    (cache / f"kafka-{KAFKA_VERSION}" / "clients.jar").unlink()
    with pytest.raises(SwitchgearError, match=r"clients\.jar is missing\. Remove .* download it"):
        kafka_jars(cache, expected=EXPECTED)


def test_an_unlisted_jar_is_not_on_the_class_path(cache):
    (cache / f"kafka-{KAFKA_VERSION}" / "evil.jar").write_bytes(b"x")
    assert "evil" not in class_path(kafka_jars(cache, expected=EXPECTED))


def test_a_cache_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SwitchgearError, match="could not be kept in"):
        kafka_jars(tmp_path / "file", expected=EXPECTED)


def test_a_fetch_that_fails_says_what_to_do_and_leaves_nothing(tmp_path, monkeypatch):
    def refuse(*_args, **_options):
        raise ConnectionError("no route to host")

    monkeypatch.setattr(jgo, "build", refuse)
    with pytest.raises(SwitchgearError, match=r"could not be fetched .*no route to host.*SWITCHGEAR_KAFKA_BOOTSTRAP"):
        kafka_jars(tmp_path, expected=EXPECTED)
    assert [path.name for path in tmp_path.iterdir()] == [f"kafka-{KAFKA_VERSION}.lock"]


def test_a_fetch_that_gives_other_jars_is_refused(tmp_path, monkeypatch):
    def build(_endpoint, cache_dir):
        for folder, name in (("jars", "kafka.jar"), ("modules", "clients.jar")):
            (cache_dir / folder).mkdir(parents=True)
            (cache_dir / folder / name).write_bytes(b"not what was meant")
        return type("Environment", (), {"path": cache_dir})

    monkeypatch.setattr(jgo, "build", build)
    with pytest.raises(SwitchgearError, match="is refused"):
        kafka_jars(tmp_path, expected=EXPECTED)
    assert not (tmp_path / f"kafka-{KAFKA_VERSION}").exists()


def test_a_fetch_from_both_folders_is_kept_for_the_next_time(tmp_path, monkeypatch):
    fetched = []

    def build(endpoint, cache_dir):
        fetched.append(endpoint)
        for folder, name in (("jars", "kafka.jar"), ("modules", "clients.jar")):
            (cache_dir / folder).mkdir(parents=True)
            (cache_dir / folder / name).write_bytes(name.encode())
        return type("Environment", (), {"path": cache_dir})

    monkeypatch.setattr(jgo, "build", build)
    first = kafka_jars(tmp_path, expected=EXPECTED)
    second = kafka_jars(tmp_path, expected=EXPECTED)
    assert first == second
    assert fetched == [COORDINATES]
