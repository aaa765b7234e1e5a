"""What a type checker sees of guarded functions; read by mypy in test_typing.py, never imported."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import assert_type, overload

from switchgear import (
    IGNORE,
    Answer,
    CachePolicy,
    Classification,
    Duplicate,
    Permit,
    Rejection,
    Session,
    Switchgear,
    Usage,
)

gear = Switchgear.local()


class Forecast:
    degrees: float = 21.5


@gear.guard("mcp:weather:get_forecast", fallback="mcp:backup-weather:get_forecast")
def forecast(city: str, *, days: int = 1) -> Forecast:
    return Forecast()


assert_type(forecast("Oslo", days=2), Forecast)
forecast(1)  # error: [arg-type]
forecast("Oslo", day=2)  # error: [call-arg]
_: int = forecast("Oslo")  # error: [assignment]


@gear.guard("search", timeout=5, cache=CachePolicy(ttl_s=60), single_flight=True, usage=len)
async def search(query: str) -> list[str]:
    return [query]


@gear.guard("stream")
async def stream(prompt: str) -> AsyncIterator[str]:
    yield prompt


@gear.guard("lines")
def lines(path: str) -> Iterator[bytes]:
    yield path.encode()


@overload
def parse(text: str) -> str: ...
@overload
def parse(text: bytes) -> bytes: ...
@gear.guard("parse")
def parse(text: str | bytes) -> str | bytes:
    return text


assert_type(parse("a"), str)
assert_type(parse(b"a"), bytes)


class Client:
    @gear.guard("client:get")
    def get(self, path: str) -> bytes:
        return path.encode()

    @gear.guard("client:aget")
    async def aget(self, path: str) -> bytes:
        return path.encode()

    @staticmethod
    @gear.guard("client:static")
    def fixed(path: str) -> int:
        return len(path)

    @gear.guard("client:static-below")
    @staticmethod
    def fixed_below(path: str) -> int:
        return len(path)

    @classmethod
    @gear.guard("client:class")
    def make(cls, path: str) -> Client:
        return cls()


assert_type(Client().get("/"), bytes)
assert_type(Client.fixed("/"), int)
assert_type(Client.fixed_below("/"), int)
assert_type(Client.make("/"), Client)
Client().get(1)  # error: [arg-type]


def on_duplicate(duplicate: Duplicate) -> None:
    assert_type(duplicate.count, int)


async def main() -> None:
    assert_type(await search("x"), list[str])
    assert_type(await Client().aget("/"), bytes)
    async for word in stream("x"):
        assert_type(word, str)
    for line in lines("x"):
        assert_type(line, bytes)
    assert_type(await gear.acall("t", search, "x"), list[str])
    await gear.acall("t", search, 1)  # error: [arg-type]
    assert_type(await gear.aanswer(search, "x"), Answer[list[str]])
    assert_type(await gear.aanswer("t", search, "x"), Answer[list[str]])
    assert_type(await gear.atry_acquire("t"), Permit | Rejection)


assert_type(gear.call("t", forecast, "Oslo"), Forecast)
gear.call("t", forecast, 1)  # error: [arg-type]
assert_type(gear.answer(forecast, "Oslo").value, Forecast)
assert_type(gear.answer("t", forecast, "Oslo", days=3).value, Forecast)
assert_type(gear.with_options(timeout=1.5).call("t", len, "abc"), int)
gear.with_options(tiemout=1.5)  # error: [call-arg]
gear.guard("t", timeout="soon")  # error: [arg-type]
gear.guard("t", usage=lambda result: Usage(input_tokens=1), on_duplicate=on_duplicate)


def rule(error: BaseException) -> Classification | None:
    return IGNORE if isinstance(error, KeyError) else None


Switchgear.local(classify=rule)
gear.guard("t", classify=rule, classify_result=lambda result: IGNORE if result is None else None)
gear.guard("t", classify=lambda error: IGNORE if isinstance(error, KeyError) else "server")
gear.guard("t", classify=lambda error: "ignore")  # error: [arg-type]  # error: [return-value]

with gear.session("s-1", token_budget=10) as session, gear.permit("t") as permit:
    assert_type(session, Session)
    assert_type(permit, Permit)
    permit.tokens(Usage(output_tokens=3))

answer = gear.try_acquire("t")
if answer:
    assert_type(answer, Permit)
    answer.success(output_tokens=3, duration_ms=12.5)
    answer.failure("down", duration_ms=12, classification=IGNORE)
    answer.ignore()
    answer.ignore(KeyError("x"), duration_ms=None)
    answer.ignore(KeyError)  # error: [arg-type]
    answer.success(duration_ms="12")  # error: [arg-type]
else:
    assert_type(answer, Rejection)
    assert_type(answer.text, str)
    answer.text()  # error: [operator]
    assert_type(answer.error().text, str)
assert_type(gear.available(["a", "b"]), list[str])
