"""docs/guide/gateway.md: a client that a generator makes of the gateway's OpenAPI document keeps every field of the answers."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest
from uv import find_uv_bin

from tests.support.limits import BUILD_S
from tests.support.processes import run, switchgear
from tests.support.running_gateway import running_gateway
from tests.support.snippets import snippets

pytestmark = [pytest.mark.deep, pytest.mark.timeout(400)]
GENERATOR = "openapi-python-client==0.29.1"
ASK = """
import json, sys
from switchgear_gateway_client import Client
from switchgear_gateway_client.api.default import post_v1_decide, post_v1_outcome
from switchgear_gateway_client.models import DecideRequest, OutcomeRequest, OutcomeRequestStatus

client = Client(base_url=sys.argv[1])
asked = [post_v1_decide.sync(client=client, body=DecideRequest(tool=tool)) for tool in ("works", "broken")]
done = OutcomeRequest(permit=asked[0].permit, status=OutcomeRequestStatus.SUCCESS)
sent = post_v1_outcome.sync_detailed(client=client, body=done)
print(json.dumps([*(each.to_dict() for each in asked), int(sent.status_code)]))
"""


def test_a_generated_client_asks_for_permits_and_reads_refusals(settings, tmp_path):
    (page,) = [each for each in snippets("docs/guide/gateway.md", "sh") if "uvx" in each]
    get, generate = page.splitlines()
    assert shlex.split(generate)[:2] == ["uvx", "openapi-python-client"]
    with (
        switchgear("worker", log=tmp_path / "worker.log", settings=settings) as worker,
        running_gateway(settings, tmp_path / "gateway.log", "--http", "127.0.0.1:0") as gateway,
    ):
        worker.wait_for_output("ready")
        assert run("open", "broken", "--create", "--reason", "a test", settings=settings).returncode == 0
        for command in (
            shlex.split(get.replace("http://127.0.0.1:8622", gateway.url)),
            [find_uv_bin(), "tool", "run", GENERATOR, *shlex.split(generate)[2:]],
        ):
            subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=BUILD_S)
        asked = [
            find_uv_bin(),
            "run",
            "--no-project",
            "--with",
            "httpx",
            "--with",
            "attrs",
            "--with",
            "python-dateutil",
        ]
        done = subprocess.run(
            [*asked, "python", "-c", ASK, gateway.url],
            cwd=tmp_path / "gateway_client", check=True, capture_output=True, text=True, timeout=BUILD_S,
        )  # fmt: skip
    allowed, refused, sent = json.loads(done.stdout)
    assert (allowed["allowed"], allowed["tool"], sent) == (True, "works", 204)
    assert (refused["allowed"], refused["state"], refused["source"]) == (False, "forced_open", "fleet")
    assert refused["text"].startswith("The tool broken is unavailable (circuit forced open).")
    assert refused["toolFailure"]["code"] == "circuit_open"
