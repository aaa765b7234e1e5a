"""The command line of ``--live``."""

from __future__ import annotations

import argparse
import os
from typing import Final

import httpx

from tests.bench.benefit.arms import arms
from tests.bench.benefit.faults import FAULTS
from tests.bench.benefit.live import anthropic_messages, openai_chat
from tests.bench.benefit.live.chat import Model, PatientModel

KEYS: Final = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
"""The environment variable with the key."""
URLS: Final = {"openai": openai_chat.URL, "anthropic": anthropic_messages.URL}
ANSWER_S: Final = 120.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    of_live = parser.add_argument_group("a real model")
    of_live.add_argument("--live", choices=sorted(KEYS), help=f"The format of its endpoint. The key is in {KEYS}.")
    of_live.add_argument("--model", default="", help="Its name.")
    of_live.add_argument("--url", default="", help="The endpoint's address, if it is another one.")
    of_live.add_argument("--agents", type=int, default=4, help="Agents that share the tools.")
    of_live.add_argument("--tasks", type=int, default=20, help="BFCL tasks, in each arm.")
    of_live.add_argument(
        "--arms",
        nargs="*",
        default=["nothing", "Switchgear", "Switchgear + fallback"],
        choices=list(arms()),
        metavar="ARM",
        help=f"Some of {', '.join(arms())}.",
    )
    of_live.add_argument(
        "--fault",
        default="explicit, permanent",
        choices=list(FAULTS),
        metavar="FAULT",
        help=f"What is wrong with one tool all the time: one of {'; '.join(FAULTS)}.",
    )
    of_live.add_argument("--seed", type=int, default=0, help="Decides which tool, and which tasks.")


def model(given: argparse.Namespace, client: httpx.AsyncClient) -> Model:
    """Return the model."""
    key = os.environ.get(KEYS[given.live], "")
    kind = openai_chat.OpenAIChat if given.live == "openai" else anthropic_messages.AnthropicMessages
    return PatientModel(kind(client, given.model, key))


def endpoint(given: argparse.Namespace) -> httpx.AsyncClient:
    """Return a client of the endpoint."""
    return httpx.AsyncClient(base_url=given.url or URLS[given.live], timeout=ANSWER_S)


def problem(given: argparse.Namespace) -> str | None:
    """Return why there can be no live run, in a sentence; None if there can."""
    if not os.environ.get(KEYS[given.live]):
        return f"There is no key in {KEYS[given.live]}."
    return None if given.model else "Name the model with --model."
