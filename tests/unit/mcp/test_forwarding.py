"""A client's headers go to no server unless the server's entry names them."""

from __future__ import annotations

import pytest

from switchgear_mcp.forwarding import added, forwarded, names_of
from switchgear_schemas.errors import WrongUsageError

CLIENT = [
    ("authorization", "Bearer a-token"),
    ("proxy-authorization", "Basic x"),
    ("cookie", "sid=1"),
    ("x-api-key", "k"),
    ("x-github-token", "t"),
    ("mcp-session-id", "s"),
    ("host", "localhost"),
    ("user-agent", "client"),
    ("traceparent", "00-1-2-01"),
]


def test_only_the_place_in_a_trace_goes_on_by_itself():
    assert forwarded(CLIENT, ()) == {"traceparent": "00-1-2-01"}


def test_what_an_entry_names_goes_on_to_this_server_alone():
    names = names_of(["Authorization", "X-Api-Key", "authorization"], "x")
    assert names == ("authorization", "x-api-key")
    assert forwarded(CLIENT, names) == {
        "authorization": "Bearer a-token",
        "x-api-key": "k",
        "traceparent": "00-1-2-01",
    }


def test_a_header_of_the_entry_wins_over_the_one_of_a_client():
    assert added({"authorization": "a", "x-a": "b"}, {"Authorization": "own"}) == {"x-a": "b"}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("authorization", "is not a list of names"),
        (True, "is not a list of names"),
        ([1], "is not a list of names"),
        (["a b"], "'a b', which is not the name of a header"),
        (["a\r\nb"], "is not the name of a header"),
        (["Host"], "belongs to the connection"),
        (["Mcp-Session-Id"], "belongs to the connection"),
        (["transfer-encoding"], "belongs to the connection"),
    ],
)
def test_names_that_are_none_or_belong_to_the_connection_are_an_error(given, sentence):
    with pytest.raises(WrongUsageError, match="forward_headers") as raised:
        names_of(given, "The server 'a' in x: forward_headers")
    assert sentence in str(raised.value)
