"""Sessions of browsers: what fits into a cookie, and which cookie is sent again."""

import random

import pytest
from starlette.datastructures import Headers

from switchgear_http.principal import Principal, Role
from switchgear_http.problem import ProblemError
from switchgear_http.sessions import Sessions


def found(sessions, session):
    cookie = sessions.cookie(session, secure=True).partition(";")[0]
    assert len(cookie) < 4096
    return sessions.find(Headers({"cookie": cookie}), secure=True)


def noise(length, seed=1):
    """A text that hardly compresses."""
    letters = random.Random(seed)
    return "".join(chr(letters.randrange(0x4E00, 0x9FFF)) for _ in range(length))


@pytest.mark.slow
def test_session_of_a_token_fits_into_a_cookie_however_many_tools_the_token_is_for():
    tools = tuple(noise(250, number) for number in range(200))
    principal = Principal(noise(256), frozenset(Role), noise(256), tools, "token abcdefghij")
    sessions = Sessions()
    session = sessions.begin(principal, "token")
    assert found(sessions, session) == session
    assert (session.credential, session.name, session.roles, session.tenant, session.tools) == (
        "token abcdefghij",
        "",
        (),
        None,
        (),
    )


def test_session_of_an_issuer_has_the_rights_of_its_login():
    principal = Principal("ada", frozenset({Role.OPERATE}), "acme", (), "jwt ada")
    sessions = Sessions()
    session = found(sessions, sessions.begin(principal, "oidc"))
    assert session is not None
    assert session.principal() == principal


def test_login_whose_cookie_would_not_fit_is_refused_with_the_reason():
    principal = Principal(noise(256), frozenset({Role.READ}), None, tuple(noise(250, number) for number in range(9)))
    with pytest.raises(ProblemError, match="don't fit into a cookie") as caught:
        Sessions().begin(principal, "oidc")
    assert caught.value.status == 403


def test_session_that_has_ended_or_was_replaced_is_not_renewed():
    sessions = Sessions()
    ended, replaced, other = (sessions.begin(Principal(name, frozenset()), "oidc") for name in "abc")
    sessions.end(ended)
    sessions.replace(replaced)
    assert [sessions.may_renew(each) for each in (ended, replaced, other)] == [False, False, True]
    assert [found(sessions, each) is not None for each in (ended, replaced, other)] == [False, True, True]


@pytest.mark.slow
def test_only_the_newest_ended_and_replaced_sessions_are_remembered():
    sessions = Sessions()
    for _ in range(10_010):
        session = sessions.begin(Principal("a", frozenset()), "oidc")
        sessions.end(session)
        sessions.replace(session)
    assert len(sessions._ended) == len(sessions._replaced) == 10_000
