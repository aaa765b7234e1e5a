"""Tokens: made, kept as hashes, and refused when wrong, expired or revoked."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear_http.errors import InvalidCredentialsError
from switchgear_http.principal import Role
from switchgear_http.tokens import (
    TokenTable,
    digest,
    new_token,
    parse_tokens,
    with_revoked,
    with_token,
)
from switchgear_schemas.errors import SettingsError
from tests.support.table import table

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30)
SECONDS = st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def test_new_token_authenticates_its_client_with_its_rights():
    token, text = new_token("planner", [Role.EMIT, Role.READ], tenant="acme", tools=["mcp:*"])
    client = TokenTable([token]).authenticate(text, NOW)
    assert (client.name, client.roles, client.tenant, client.tools) == (
        "planner", frozenset({Role.EMIT, Role.READ}), "acme", ("mcp:*",),
    )  # fmt: skip


@table("text", ["", "{}"])
def test_one_token_is_one_reporter_unless_it_is_marked_as_a_collectors(text):
    tokens = [new_token(f"{mark}", [Role.EMIT], collector=mark)[0] for mark in (False, True)]
    for token in tokens:
        text = with_token(text, token)
    found = [each.principal().reporter for each in parse_tokens(text, "The file")]
    assert found == [f"token {tokens[0].id}", None]


@table("start", ["tokens = []", "tokens = [\n]\n"])
def test_a_token_is_added_to_an_array_on_one_line(start):
    token, _ = new_token("planner", [Role.READ])
    assert parse_tokens(with_token(start, token), "The file") == (token,)


def test_a_token_is_added_beside_one_of_an_inline_table():
    first, second = (new_token(name, [Role.READ])[0] for name in ("a", "b"))
    inline = f'tokens = [{{id = "{first.id}", name = "a", sha256 = "{first.sha256}", roles = ["read"]}}]'
    assert [each.id for each in parse_tokens(with_token(inline, second), "The file")] == [first.id, second.id]


def test_stored_token_holds_the_hash_and_not_the_secret():
    token, text = new_token("planner", [Role.READ])
    kept = with_token("", token) + repr(token) + repr(token.principal())
    secret = text.split("_", 2)[2]
    assert secret not in kept
    assert digest(text) in kept
    assert len(secret) >= 43  # 256 bits in base64


@pytest.mark.slow
@given(st.text(max_size=80))
def test_any_other_text_is_refused(text):
    token, own = new_token("a", [Role.ADMIN])
    table = TokenTable([token])
    for wrong in (text, own + text, own[:-1] + text, text + own):
        if wrong != own:
            with pytest.raises(InvalidCredentialsError, match="unknown"):
                table.authenticate(wrong, NOW)


def test_secret_of_another_token_does_not_open_this_one():
    (one, first), (two, second) = new_token("a", [Role.READ]), new_token("b", [Role.ADMIN])
    table = TokenTable([one, two])
    mixed = f"sgt_{two.id}_{first.split('_', 2)[2]}"
    with pytest.raises(InvalidCredentialsError, match="unknown"):
        table.authenticate(mixed, NOW)
    assert table.authenticate(second, NOW).name == "b"


def test_expired_or_revoked_token_is_refused_by_its_id_without_its_text():
    for field in ("expires_at", "revoked_at"):
        token, text = new_token("a", [Role.READ])
        table = TokenTable([msgspec.structs.replace(token, **{field: NOW})])
        assert table.authenticate(text, NOW - timedelta(seconds=1)).name == "a"
        with pytest.raises(
            InvalidCredentialsError, match=f"The token {token.id} is {field.partition('s_')[0][:6]}"
        ) as caught:
            table.authenticate(text, NOW)
        assert text not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("start", ["", "# ours\n", "{}", '{"tokens": []}\n'])
@given(
    st.lists(
        st.tuples(NAMES, st.sets(st.sampled_from(Role), min_size=1), st.none() | NAMES, st.lists(NAMES, max_size=2)),
        max_size=3,
    ),
    SECONDS,
)
def test_document_with_tokens_reads_back_as_they_were_in_toml_and_json(start, values, expires_at):
    text, made = start, []
    for name, roles, tenant, tools in values:
        token, _ = new_token(name, roles, tenant=tenant, tools=tools, expires_at=expires_at)
        text = with_token(text, token)
        made.append(token)
    assert parse_tokens(text, "x") == tuple(made)
    for token in made:
        text = with_revoked(text, token.id, NOW)
    assert {each.revoked_at for each in parse_tokens(text, "x")} <= {NOW}
    assert text.startswith("# ours") == (start == "# ours\n")


def test_revoking_keeps_comments_and_the_other_tokens():
    (one, _), (two, _) = new_token("a", [Role.READ]), new_token("b", [Role.READ])
    text = with_token(with_token("# first\n", one), two) + "# last\n"
    changed = with_revoked(text, one.id, NOW)
    assert changed.startswith("# first\n")
    assert changed.endswith("# last\n")
    assert [each.state(NOW) for each in parse_tokens(changed, "x")] == ["revoked", "valid"]


def test_token_in_an_unusual_form_is_not_revoked_and_the_error_says_the_line_to_add():
    token, _ = new_token("a", [Role.READ])
    inline = f'tokens = [{{id = "{token.id}", name = "a", sha256 = "{token.sha256}", roles = ["read"]}}]'
    with pytest.raises(SettingsError, match=r"Add the line: revoked_at = 2026-11-25T12:00:00Z"):
        with_revoked(inline, token.id, NOW)


@table(
    ("text", "word"),
    [
        ("tokens = 3", "tokens"),
        ("[[token]]", "token"),
        ('[[tokens]]\nid = "abcd"', "name"),
        ('{"tokens": [{"id": "abcd", "name": "a", "sha256": "zz", "roles": ["read"]}]}', "sha256"),
        ('{"tokens": [{"id": "abcd", "name": "a", "sha256": "' + "0" * 64 + '", "roles": ["root"]}]}', "root"),
        ('{"tokens": [{"id": "abcd", "name": "a", "sha256": "' + "0" * 64 + '", "roles": []}]}', "roles"),
        ("{", "truncated"),
        ("= =", "list of tokens"),
        ('{"tokens": ' + "[" * 100_000, "list of tokens"),
    ],
)
def test_wrong_document_is_an_error_that_names_the_place(text, word):
    with pytest.raises(SettingsError, match=word):
        parse_tokens(text, "The file")


def test_plain_token_in_place_of_a_hash_is_an_error_that_does_not_show_it():
    _, text = new_token("a", [Role.READ])
    with pytest.raises(SettingsError) as caught:
        parse_tokens(f'[[tokens]]\nid = "abcd"\nname = "a"\nroles = ["read"]\nsha256 = "{text}"\n', "The file")
    assert text not in str(caught.value)


def test_id_that_is_there_twice_is_an_error():
    token, _ = new_token("a", [Role.READ])
    with pytest.raises(SettingsError, match=f"{token.id} twice"):
        parse_tokens(with_token(with_token("", token), token), "The file")


def test_token_without_a_name_or_a_role_is_not_made():
    for name, roles in (("", [Role.READ]), ("a", [])):
        with pytest.raises(SettingsError, match="Roles are emit"):
            new_token(name, roles)
