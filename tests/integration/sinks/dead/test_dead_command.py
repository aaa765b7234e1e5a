"""`switchgear dead` on a real broker, from the rejection to the row in ClickHouse."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from switchgear_schemas import headers
from switchgear_schemas.dead_letter import DeadLetter
from switchgear_schemas.settings import Settings
from switchgear_sinks.dead import Retry, Selection, read_letters
from switchgear_sinks.dead import topic as topic_module
from switchgear_sinks.dead.retry import RETRIED
from switchgear_sinks.dead.topic import TooManyLettersError
from tests.support.processes import run
from tests.support.raw_batches import RawRecord, batch, compressed, payload, produce_raw
from tests.support.sinking import Message, assert_exact, produce, read_topic, sinking
from tests.support.unseen import HOSTILE, unseen

GOOD = b'{"tool_name":"search","status":"error"}'


@pytest.fixture
def here(make_settings: Callable[..., Settings], tmp_path: Path) -> Settings:
    return make_settings(clickhouse_url=f"chdb:{tmp_path}/clickhouse")


def letter(settings: Settings, offset: int, value: bytes | None, **fields) -> DeadLetter:
    given = {
        "reason": "missing required field `status`",
        "component": "sink",
        "field": "status",
        "original_key": b"search",
    }
    return DeadLetter(
        settings.topics.executions, fields.pop("partition", 1), offset, 1_795_262_400_000 + offset, value=value, **(given | fields)
    )  # fmt: skip


async def bury(settings: Settings, *letters: DeadLetter) -> None:
    messages = [Message(each.body, each.key, each.headers()) for each in letters]
    await produce(settings, messages, topic=settings.topics.dead)


def place(settings: Settings) -> str:
    return f"{settings.topics.executions} at {settings.kafka_bootstrap_servers}"


async def test_letter_that_another_process_wrote_too_is_found_under_its_first_place(here):
    first, other, again = letter(here, 3, b"{}"), letter(here, 4, b"{}"), letter(here, 3, b"{}", component="worker")
    await bury(here, first, other, again)
    records = [each for each in await read_topic(here, here.topics.dead) if each.key == first.key]
    assert len(records) == 2

    async def at(record) -> list[tuple[str, int]]:
        selection = Selection(place=(record.partition, record.offset))
        found = await read_letters(here.kafka, here.topics.dead, selection)
        return [(each.letter.component, each.offset) for each in found]

    assert await at(records[0]) == await at(records[1]) == [("worker", records[1].offset)]
    await produce(here, [Message(None, first.key)], topic=here.topics.dead)
    assert await at(records[0]) == []


async def test_foreign_records_in_the_dead_letter_topic_are_skipped_and_reported(here):
    mine = letter(here, 3, b"{}")
    await bury(here, mine)
    topic, key = here.topics.dead, b"executions-0-1"
    ours = [(f"switchgear.dead.{name}", b"1") for name in ("topic", "partition", "offset", "timestamp_ms", "reason")]
    odd = [("switchgear.dead.component", b"\xff"), ("switchgear.dead.field", b"x")]
    numbers = [(name, b"9" * 5_000) for name, _ in ours[1:4]]
    garbage = [
        Message(b"not ours", b"k", partition=0),
        Message(b"", b"k", partition=0),
        Message(b"\xff", b"\xff\x00", [("\u202e", b"")], 0),
        Message(b"x", key, [*ours, *odd], 0),
        Message(b"x", key, [*ours[:1], *numbers, *ours[4:], *odd[1:]], 0),
        Message(bytes(4_000_000), bytes(500_000), partition=0),
    ]
    await produce(here, garbage, topic=topic)
    bad = payload([RawRecord(b"x", b"k", [(b"\xff", b"")]), RawRecord(b"x", b"k")])
    bomb = compressed(payload([RawRecord(bytes(200 << 20), b"k")]), "zstd")
    await produce_raw(here, topic, 0, [batch(bad, 2), batch(bomb, 1, "zstd")])
    done = await dead(here, "list", "--json")
    assert [each["key"] for each in json.loads(done.stdout)["letters"]] == [mine.key.decode()]
    assert "records skipped: they are not dead letters of Switchgear" in done.stderr
    assert "count=9" in done.stderr


async def dead(settings: Settings, *arguments: str):
    return await asyncio.to_thread(run, "dead", *arguments, settings=settings)


async def test_dead_list_has_the_newest_record_of_each_key_without_tombstones(here: Settings) -> None:
    one, two = letter(here, 1, b"one"), letter(here, 2, b"two", component="worker", original_key=b"fetch")
    await bury(here, one, two, letter(here, 1, b"one", reason="seen again"), letter(here, 3, b"three"))
    await produce(here, [Message(None, letter(here, 3, None).key), Message(b"not ours", b"k")], topic=here.topics.dead)
    found = await read_letters(here.kafka, here.topics.dead, Selection())
    assert [(each.letter.offset, each.letter.reason) for each in found] == [(1, "seen again"), (2, two.reason)]
    done = await dead(here, "list", "--json")
    answer = json.loads(done.stdout)
    assert (answer["total"], [each["tool"] for each in answer["letters"]]) == (2, ["fetch", "search"])
    only = await dead(here, "list", "--json", "--component", "worker", "--reason", "REQUIRED", "--tool", "fetch")
    assert [each["offset"] for each in json.loads(only.stdout)["letters"]] == [2]
    table = await dead(here, "list", "--limit", "1")
    assert two.key.decode() in table.stdout.replace("\n", "")
    assert "1 of 2" in table.stdout
    assert (await dead(here, "list", "--since", "1s")).stdout.strip() == "No dead letters."


async def test_one_letter_is_shown_with_its_origin_headers_and_bytes(here: Settings) -> None:
    await bury(here, letter(here, 1, b'{"tool_name":"search","say":"\\u001b[2J"}'), letter(here, 2, b"\xff\x00a"))
    key = letter(here, 1, None).key.decode()
    shown = (await dead(here, "show", key)).stdout
    assert f"{here.topics.executions}, partition 1, offset 1" in shown
    assert "switchgear.dead.reason = missing required field `status`" in shown
    assert '  "tool_name": "search",' in shown
    assert "\x1b" not in shown
    assert "ff 00 61" in (await dead(here, "show", letter(here, 2, None).key.decode())).stdout
    assert json.loads((await dead(here, "show", key, "--json")).stdout)["field"] == "status"
    missing = await dead(here, "show", "nowhere-0-0")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "There is no dead letter nowhere-0-0." in missing.stderr


async def test_a_rejected_message_is_repaired_sent_again_and_stored_once(here: Settings, tmp_path: Path) -> None:
    """The whole way: rejected by the sink, listed, repaired in a file, sent, stored, and no dead letter any more."""
    await produce(here, [Message(b'{"tool_name":"search"}'), Message(b"junk"), Message(GOOD)])
    async with sinking(here) as sink:
        await sink.until_committed(here)
        listed = await dead(here, "list", "--jsonl")
        lines = [json.loads(line) for line in listed.stdout.splitlines()]
        assert [line["value"] for line in lines] == ["junk", '{"tool_name":"search"}']
        file = tmp_path / "fixed.jsonl"
        repaired = json.loads(lines[1]["value"]) | {"status": "timeout"}
        file.write_text(
            "\n".join(
                json.dumps(line | {"value": value}) for line, value in zip(lines, ["junk", repaired], strict=True)
            )
        )
        done = await dead(here, "retry", "--all", "--file", str(file))
        assert done.returncode == 1
        assert done.stdout == f"1 sent to {place(here)}, 1 still bad.\n"
        assert f"{lines[0]['key']}: still bad: the message is not JSON" in done.stderr
        await sink.until_committed(here)
        await assert_exact(sink.store, 2)
        assert await sink.scalar("SELECT count() FROM tool_metrics WHERE status = 'timeout'") == 1
    (left,) = await read_letters(here.kafka, here.topics.dead, Selection())
    assert left.key == lines[0]["key"]
    again = await read_topic(here, here.topics.executions)
    (sent,) = [record for record in again if RETRIED in dict(record.headers)]
    assert dict(sent.headers) == {headers.RESENT: b"1", RETRIED: lines[1]["key"].encode()}
    assert sent.key == b"search"
    assert not [
        record
        for record in await read_topic(here, here.topics.executions)
        if record.value == b"junk" and record.headers
    ]


@pytest.mark.deep
async def test_a_letter_that_goes_out_twice_is_one_row(here: Settings) -> None:
    """As after a command that was killed between the message and the tombstone."""
    await bury(here, letter(here, 1, GOOD))
    found = await read_letters(here.kafka, here.topics.dead, Selection())
    for _ in range(2):
        async with Retry(here.kafka, here.topics) as again:
            outcomes = [outcome async for outcome in again.send(found, {})]
        assert [outcome.error for outcome in outcomes] == [None]
    async with sinking(here) as sink:
        await sink.until_committed(here)
        await assert_exact(sink.store, 1)
        assert await sink.scalar("SELECT toUnixTimestamp64Milli(recorded_at) FROM tool_metrics") == 1_795_262_400_001
    assert await read_letters(here.kafka, here.topics.dead, Selection()) == []


async def test_a_retry_is_bounded_and_says_what_it_left(here: Settings) -> None:
    await bury(here, *(letter(here, offset, GOOD) for offset in range(5)))
    done = await dead(here, "retry", "--all", "--limit", "3", "--field", "status")
    assert (done.returncode, done.stdout.strip()) == (1, f"3 sent to {place(here)}, 0 still bad, 2 left (--limit).")
    done = await dead(here, "retry", "--all")
    assert (done.returncode, done.stdout.strip()) == (0, f"2 sent to {place(here)}, 0 still bad.")


async def test_a_letter_of_another_topic_stays_with_a_reason(here: Settings) -> None:
    other = DeadLetter(here.topics.circuits, 0, 1, 1_795_262_400_000, "not a circuit record", "sink", value=GOOD)
    await bury(here, other)
    done = await dead(here, "retry", other.key.decode())
    assert done.returncode == 1
    assert "only executions can be sent again" in done.stderr
    assert len(await read_letters(here.kafka, here.topics.dead, Selection())) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Nothing to send."),
        (["k", "--all"], "Give either keys or --all."),
        (["k", "--tool", "x"], "Filters choose among --all."),
        (["--file", "/nonexistent/x"], "cannot be read: No such file or directory"),
    ],
)
async def test_a_retry_without_a_clear_choice_sends_nothing(
    here: Settings, arguments: list[str], sentence: str
) -> None:
    done = await dead(here, "retry", *arguments)
    assert (done.returncode, done.stdout) == (1 if "cannot be read" in sentence else 2, "")
    assert sentence in done.stderr


async def test_a_reason_that_no_letter_has_is_an_error_that_lists_those_there_are(here: Settings) -> None:
    assert (await dead(here, "list", "--reason", "statsu")).stdout.strip() == "No dead letters."
    reasons = ["the message is empty", "the message is empty", "not JSON"]
    await bury(here, *(letter(here, offset, GOOD, reason=reason) for offset, reason in enumerate(reasons)))
    for command in (["list"], ["retry", "--all"]):
        done = await dead(here, *command, "--reason", "statsu")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            "switchgear: No dead letter has a reason with 'statsu' in it. "
            "There are: the message is empty (2); not JSON (1). To choose by the field, give --field.\n"
        )
    later = await dead(here, "list", "--reason", "json", "--since", "1s")
    assert (later.returncode, later.stdout.strip()) == (0, "No dead letters.")
    component = await dead(here, "list", "--component", "wroker")
    assert (component.returncode, component.stdout) == (2, "")
    assert "--component 'wroker' is not one of worker, sink." in component.stderr


async def test_a_piped_list_has_one_line_a_letter_and_prints_reasons_literally(here: Settings) -> None:
    reason = "expected [red]x[/red] " + "and a long sentence " * 20
    await bury(here, letter(here, 1, GOOD, reason=reason), letter(here, 2, GOOD, reason=reason))
    listed = (await dead(here, "list")).stdout.splitlines()
    assert len(listed) == 3
    assert all(line.endswith(reason.strip()) for line in listed[1:])


async def test_more_letters_than_memory_allows_are_refused(here: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    await bury(here, *(letter(here, offset, GOOD) for offset in range(5)))
    monkeypatch.setattr(topic_module, "MAX_LETTERS", 4)
    with pytest.raises(TooManyLettersError, match="Narrow them with --tool"):
        await read_letters(here.kafka, here.topics.dead, Selection())
    assert len(await read_letters(here.kafka, here.topics.dead, Selection(reason="no such"))) == 0


async def test_dead_command_without_a_broker_prints_one_sentence(kafka) -> None:
    away = kafka.settings(kafka_bootstrap_servers="127.0.0.1:9")
    done = await dead(away, "list")
    assert done.returncode == 1
    assert "could not be read at 127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr


async def test_no_invisible_character_of_a_dead_letter_reaches_its_reader(here: Settings) -> None:
    value = json.dumps({"tool_name": HOSTILE, "x": HOSTILE}, ensure_ascii=False).encode()
    fields = {"original_key": HOSTILE.encode(), "reason": f"no\n{HOSTILE}", "field": HOSTILE, "component": HOSTILE}
    one = letter(here, 1, value, **fields)
    two = letter(here, 2, HOSTILE.encode(), **fields)
    await bury(here, one, two)
    outputs = {}
    for arguments in (
        ["list"],
        ["list", "--json"],
        ["list", "--jsonl"],
        *(["show", str(each)] for each in keys(one, two)),
    ):
        done = await dead(here, *arguments)
        assert not unseen(done.stdout + done.stderr)
        outputs[" ".join(arguments)] = done.stdout
    (answer, *_) = [each for each in json.loads(outputs["list --json"])["letters"] if each["key"] == str(keys(one)[0])]
    assert answer["tool"] == HOSTILE
    await dead(here, "retry", "--all")
    retried = await dead(here, "retry", f"{HOSTILE}-1-1")
    assert not unseen(retried.stdout + retried.stderr)


def keys(*letters: DeadLetter) -> list[str]:
    return [each.key.decode() for each in letters]
