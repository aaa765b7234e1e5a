"""Bodies of requests: compression, its limits, and the budget of all requests together."""

from __future__ import annotations

import gzip
import random

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from switchgear_gateway.bodies import Budget, read_body, unpacked, zstd
from switchgear_http.problem import ProblemError

LIMIT = 100_000


class Reader:
    """Answers with the body as it was read, or with the status of the refusal."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget

    async def __call__(self, request: Request) -> Response:
        try:
            with self.budget.request() as held:
                return Response(await read_body(request, held, limit=LIMIT))
        except ProblemError as problem:
            return Response(problem.body, problem.status, problem.headers)


@pytest.fixture
def budget():
    return Budget(1_000_000)


@pytest.fixture
def post(budget):
    transport = httpx.ASGITransport(Starlette(routes=[Route("/", Reader(budget).__call__, methods=["POST"])]))

    async def send(body, encoding="gzip"):
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            return await client.post("/", content=body, headers={"Content-Encoding": encoding})

    return send


@pytest.mark.parametrize("encoding", ["", "identity"])
async def test_a_body_without_compression_is_read_as_it_is(post, encoding):
    assert (await post(b"ab", encoding)).content == b"ab"


async def test_a_gzip_body_is_unpacked_also_in_several_members(post):
    assert (await post(gzip.compress(b"ab") + gzip.compress(b"cd"))).content == b"abcd"


async def test_a_zstd_body_is_unpacked_also_in_several_frames_and_in_pieces_of_any_size(post):
    assert (await post(zstd.compress(b"ab") + zstd.compress(b"cd"), "zstd")).content == b"abcd"
    for size in (0, 1, 90_000):
        body = random.Random(1).randbytes(size)
        assert (await post(zstd.compress(body), "zstd")).content == body


@pytest.mark.slow
async def test_a_zstd_body_that_unpacks_to_more_than_the_limit_is_refused_before_it_is_unpacked(post, budget):
    for size in (LIMIT + 1, 500_000_000):
        assert (await post(zstd.compress(b"\0" * size), "zstd")).status_code == 413
    assert budget.held == 0


async def test_a_zstd_frame_that_wants_a_window_of_gigabytes_is_refused(post):
    wide = {zstd.CompressionParameter.window_log: 27, zstd.CompressionParameter.enable_long_distance_matching: 1}
    packer = zstd.ZstdCompressor(options=wide)  # of unknown size, so the frame names the whole window
    answer = await post(packer.compress(b"ab") + packer.flush(), "zstd")
    assert answer.status_code == 400
    assert "too much memory" in answer.json()["detail"]


@pytest.mark.parametrize(
    "body", [b"no zstd", zstd.compress(b"abc" * 100)[:-2], zstd.compress(b"ab") + b"rest", b"\x28\xb5\x2f\xfd"]
)
async def test_a_broken_zstd_body_is_refused(post, body):
    assert (await post(body, "zstd")).status_code == 400


async def test_many_zstd_frames_are_refused_because_each_costs_time_without_content(post):
    for frame in (zstd.compress(b""), b"\x50\x2a\x4d\x18\x00\x00\x00\x00"):  # the second is skipped
        assert (await post(frame * 1_000, "zstd")).status_code == 413


@pytest.mark.slow
async def test_a_body_that_unpacks_to_more_than_the_limit_is_refused_before_it_is_unpacked(post, budget):
    assert (await post(gzip.compress(b"\0" * 50_000_000))).status_code == 413
    assert budget.held == 0


async def test_many_members_are_refused_because_each_costs_time_without_content(post):
    assert (await post(gzip.compress(b"") * 1_000)).status_code == 413


@pytest.mark.parametrize(
    "body",
    [b"no gzip", gzip.compress(b"abc" * 100)[:-12], gzip.compress(b"ab") + b"rest"],
    ids=["no gzip", "cut off", "more after the end"],  # of their own: the bytes have the time in them
)
async def test_a_broken_gzip_body_is_refused(post, body):
    assert (await post(body)).status_code == 400


async def test_an_unknown_compression_is_refused_with_what_to_use(post):
    answer = await post(b"", "br")
    assert (answer.status_code, answer.headers["accept-encoding"]) == (415, "gzip, zstd")
    assert "Use gzip" in answer.json()["hint"]


async def test_a_request_is_asked_to_come_later_if_all_together_hold_too_much(post, budget):
    with budget.request() as other:
        other.add(999_000)
        answer = await post(b"x" * 2_000, "")
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        assert budget.held == 999_000
    assert (await post(b"x" * 2_000, "")).status_code == 200


async def test_a_token_holds_at_most_half_of_the_memory_and_others_go_on(budget):
    with budget.request("token a") as first, budget.request("token a") as second, budget.request("token b") as other:
        first.add(400_000)
        with pytest.raises(ProblemError, match="This token has too many") as raised:
            second.add(100_001)
        assert raised.value.status == 429
        other.add(500_000)
        second.add(100_000)
        first.release(400_000)
        second.add(400_000)
    assert budget.held == 0
    with budget.request("token a") as again:
        again.add(500_000)


async def test_all_tokens_together_hold_at_most_the_memory(budget):
    with budget.request("token a") as first, budget.request("token b") as second, budget.request("token c") as third:
        first.add(500_000)
        second.add(500_000)
        with pytest.raises(ProblemError, match="gateway has too many"):
            third.add(1)


async def test_what_was_unpacked_is_held_once_and_what_was_sent_no_longer(budget):
    body = gzip.compress(b"x" * 90_000)
    with budget.request() as held:
        held.add(len(body))
        await unpacked(body, held, limit=LIMIT)
        assert held.count == 90_000
