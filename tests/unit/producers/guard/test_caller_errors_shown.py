"""What the model sees of its own errors: the list of tools, the notice, and the text of a refusal."""

from __future__ import annotations

import copy
import pickle

import pytest

from switchgear import CallerErrorsError, Switchgear
from tests.support.rejecting import ends, weather


def test_is_open_says_whether_the_next_call_would_be_refused_and_the_tool_stays_in_the_list(gear):
    guarded = gear.guard("weather")(weather)
    with gear.session():
        ends(guarded, "a", "b", "c")
        assert (gear.is_open("weather"), gear.available(["weather", "other"])) == (True, ["weather", "other"])
        assert ends(guarded, "a") == ["refused"]
        assert (gear.is_open("weather"), gear.available([guarded])) == (False, [guarded])
    assert not gear.is_open("weather")


def test_the_notice_is_not_about_rejected_calls_and_the_refusal_says_what_to_change(gear):
    guarded = gear.guard("mcp:weather:get")(weather)
    with gear.session():
        ends(guarded, "a", "b", "c")
        assert gear.notice() == gear.outage_message() == ""
        with pytest.raises(CallerErrorsError, match="Change the arguments or use another tool"):
            guarded("a")
        ends(guarded, "Oslo")
        assert gear.notice() == gear.outage_message() == ""


def test_the_text_has_no_secret_and_the_users_rule_applies():
    gear = Switchgear.local(redact=lambda text: text.replace("Osloo", "[a city]"))

    @gear.guard("weather")
    def rejecting(city):
        raise ValueError(f"no such city: {city}, token=abc123secret")

    with gear.session():
        ends(rejecting, "Osloo", "Osloo", "Osloo")
        with pytest.raises(CallerErrorsError) as refused:
            rejecting("Osloo")
    assert refused.value.text == (
        'Your last 3 calls of weather were rejected: "ValueError: no such city: [a city], token=[redacted]".'
        " Change the arguments or use another tool."
    )


def test_the_error_survives_pickling_and_copying(gear):
    guarded = gear.guard("weather")(weather)
    with gear.session():
        ends(guarded, "a", "b", "c")
        with pytest.raises(CallerErrorsError) as refused:
            guarded("a")
    for same in (pickle.loads(pickle.dumps(refused.value)), copy.copy(refused.value)):
        assert (type(same), str(same), same.failures) == (CallerErrorsError, refused.value.text, 3)
