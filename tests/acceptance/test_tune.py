"""``switchgear tune`` on real calls: it saves something where there is evidence, and says so where there is none."""

from __future__ import annotations

import json

import pytest

from switchgear.policies import PolicySet
from switchgear_cli.main import run
from tests.bench.breaker_nezha import FAULT_LASTS_S
from tests.support.shared import shared_folder

FAULT_AT = 1_661_140_434.0
"""2022-08-22 03:53:54, the CPU contention."""


@pytest.fixture(scope="module")
def history():
    return str(shared_folder() / "data" / "rpc_calls_nezha.jsonl.gz")


@pytest.fixture
def known(tmp_path):
    """The faults as a file of outages. A fault's file ends three minutes after its start."""
    faults = json.loads((shared_folder() / "data" / "nezha_faults.json").read_text())
    starts = [float(fault["inject_timestamp"]) for hour in faults.values() for fault in hour]
    path = tmp_path / "outages.json"
    path.write_text(json.dumps([{"start": start, "end": start + FAULT_LASTS_S} for start in starts]))
    return str(path)


def searched(capsys, *arguments):
    assert run(["tune", *arguments, "--processes", "1", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def costs(document):
    return {row["policy"]: row["judged"] for row in document["rows"]}, next(r for r in document["rows"] if r["best"])


@pytest.mark.deep
@pytest.mark.shared
def test_with_the_known_faults_the_policy_of_the_first_half_beats_the_default_on_the_second(
    capsys, history, known, tmp_path
):
    toml = tmp_path / "proposed.toml"
    document = searched(capsys, "*", history, "--outages", known, "--candidates", "6", "--toml", str(toml))
    judged, best = costs(document)
    assert document["verdict"] == "better"
    assert best["judged"]["total_usd"] < judged["default"]["total_usd"]
    assert judged["default"]["opens"] == 0  # no call of this history failed
    assert any("only 1 incident" in note for note in document["notes"])
    assert PolicySet.load(toml).patterns


@pytest.mark.deep
@pytest.mark.shared
def test_estimated_outages_are_those_of_the_cpu_contention(capsys, history):
    document = searched(capsys, "hipstershop.*/Get*", history, "--candidates", "1")
    starts = {each["tool"]: each["start"] for each in document["outages"]}
    assert {
        "hipstershop.AdService/GetAds",
        "hipstershop.CartService/GetCart",
        "hipstershop.ProductCatalogService/GetProduct",
        "hipstershop.ShippingService/GetQuote",
    } <= starts.keys()
    assert all("2022-08-22T03:53:50" < start < "2022-08-22T03:54:20" for start in starts.values())


@pytest.mark.shared
@pytest.mark.parametrize("name", ["agent_calls_tau_airline", "agent_calls_livemcp"])
def test_evidence_in_the_agent_files_is_thin(capsys, name):
    document = searched(capsys, "*", str(shared_folder() / "data" / f"{name}.jsonl.gz"), "--stamp", "1")
    assert (document["verdict"], document["proposal"]) == ("thin", None)
    assert document["says"][0] == "Too little evidence: nothing is proposed."
    assert any("made up by --stamp" in note for note in document["notes"])
