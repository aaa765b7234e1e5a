"""No file that a setting or an option names makes a process wait: a pipe without a writer is refused at once."""

import os

import pytest
from pydantic import TypeAdapter

from switchgear.policies import PolicySet
from switchgear_alerts.config import load
from switchgear_alerts.secret import Secret
from switchgear_api.replay.history import read_history
from switchgear_cli.commands.dead import _repairs
from switchgear_cli.commands.token import create
from switchgear_cli.reads.client import ApiClient
from switchgear_cli.tune.known_outages import read_outages
from switchgear_http.listening import tls_options
from switchgear_http.token_source import TokenFile
from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.json_file import read
from switchgear_schemas.settings import Settings, load_settings


def settings_file(path, monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_CONFIG", str(path))
    load_settings()


def kafka(name):
    def connect(path, _monkeypatch):
        certificates = {"ssl_certfile": str(path)} if name == "ssl_keyfile" else {}
        KafkaConnection(security_protocol="SSL", **{**certificates, name: str(path)}).options()

    return connect


WAYS = {
    "settings": settings_file,
    "policies": lambda path, _: PolicySet.load(path),
    "tokens of a server": lambda path, _: TokenFile(path),
    "tokens of the command": lambda path, _: create("ada", roles="read", tokens_file=path),
    "certificate of a server": lambda path, _: tls_options(Settings(tls_certfile=path)),
    "authorities for Kafka": kafka("ssl_cafile"),
    "certificate for Kafka": kafka("ssl_certfile"),
    "key for Kafka": kafka("ssl_keyfile"),
    "authorities for the API": lambda path, _: ApiClient("https://x.example", cafile=path),
    "alerts": lambda path, _: load(path),
    "a secret of alerts": lambda path, _: TypeAdapter(Secret).validate_python(f"file:{path}").reveal(),
    "recorded calls": lambda path, _: next(read_history(path)),
    "repaired dead letters": lambda path, _: _repairs(path),
    "outages": lambda path, _: read_outages(path, []),
    "a client's configuration": lambda path, _: read(path, way_out="By hand."),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_a_device_in_place_of_a_file_is_refused_at_once(tmp_path, monkeypatch, way, kind):
    path = tmp_path / "file.toml"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(SwitchgearError, match="not a regular file"):
        WAYS[way](path, monkeypatch)
