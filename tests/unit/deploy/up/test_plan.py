"""What `up` decides before anything starts, and what its children receive."""

from contextlib import ExitStack

import pytest

from switchgear_cli.local.ports import any_free_ports
from switchgear_cli.up.plan import UpRequest, demo_policy_file, make_plan
from switchgear_cli.up.ports import held_ports
from switchgear_http.authenticator import Authenticator
from switchgear_http.principal import Role
from switchgear_http.tokens import new_token, with_token
from switchgear_schemas.errors import SettingsError, SwitchgearError
from switchgear_schemas.settings import load_settings


@pytest.fixture
def settings(tmp_path):
    return load_settings(data_dir=tmp_path)


@pytest.fixture
def planned(defaults):
    """`planned(settings, …)`: the plan of a request, on ports that are held until the end of the test."""
    with ExitStack() as stack:

        def make(settings, named=None, *, workers=1, demo=False, rewind=False):
            request = UpRequest(settings, named or {}, workers, demo, rewind)
            request.check()
            alerts = settings.alerts_file is not None
            held = stack.enter_context(held_ports(request.ports, workers=workers, alerts=alerts))
            return make_plan(request, held)

        yield make


def test_every_component_has_a_port_of_its_own(planned, settings):
    plan = planned(settings, workers=3)
    ports = [plan.kafka_port, plan.api_port, plan.gateway_port, plan.otlp_port, *plan.worker_ports]
    assert len(set(ports)) == 7


def test_the_sink_reads_again_what_its_store_lacks_only_if_asked_to(planned, settings):
    assert planned(settings).sink_arguments == ["sink", "--instance-id", "up"]
    assert planned(settings, rewind=True).sink_arguments == ["sink", "--instance-id", "up", "--rewind"]


def test_requested_ports_are_taken(planned, settings):
    api, kafka = any_free_ports(2)
    plan = planned(settings, {"--api-port": api, "--kafka-port": kafka})
    assert (plan.api_port, plan.kafka_port) == (api, kafka)
    assert plan.api_url == f"http://127.0.0.1:{api}"
    assert plan.bootstrap == f"127.0.0.1:{kafka}"


def test_a_port_for_alerts_that_do_not_run_is_an_error(settings):
    with pytest.raises(SwitchgearError, match=r"--alerts-port 9000 has no effect without alerts\. Give --alerts too"):
        UpRequest(settings, {"--alerts-port": 9000}).check()


@pytest.mark.parametrize("workers", [0, -1, 65])
def test_a_senseless_number_of_workers_is_an_error(settings, workers):
    with pytest.raises(SwitchgearError, match="--workers"):
        UpRequest(settings, workers=workers).check()


def test_one_port_for_two_flags_is_an_error_before_anything_is_touched(settings):
    with pytest.raises(SwitchgearError, match="--api-port and --kafka-port are both 9000"):
        UpRequest(settings, {"--api-port": 9000, "--kafka-port": 9000}).check()


def test_children_receive_the_address_of_every_component(planned, settings, tmp_path):
    plan = planned(settings, workers=2)
    environment = plan.environment({"PATH": "/bin"}, worker_port=plan.worker_ports[1])
    assert environment["PATH"] == "/bin"
    assert environment["SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS"] == plan.bootstrap
    assert environment["SWITCHGEAR_CLICKHOUSE_URL"] == "chdb:"
    assert environment["SWITCHGEAR_DATA_DIR"] == str(tmp_path)
    assert environment["SWITCHGEAR_API_HTTP"] == f"127.0.0.1:{plan.api_port}"
    assert environment["SWITCHGEAR_API_URL"] == plan.api_url
    named = [each.partition("=")[::2] for each in environment["SWITCHGEAR_CONSOLE_SERVERS"].split(",")]
    assert named == [
        *((f"worker-{number}", url) for number, url in enumerate(plan.worker_urls, 1)),
        ("gateway", plan.gateway_url),
    ]
    assert environment["SWITCHGEAR_WORKER_HTTP"] == f"127.0.0.1:{plan.worker_ports[1]}"
    assert environment["SWITCHGEAR_GATEWAY_OTLP_GRPC"] == f"127.0.0.1:{plan.otlp_port}"


def test_a_cluster_in_the_environment_never_reaches_a_child(planned, monkeypatch, tmp_path):
    for name, value in {
        "SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS": "kafka.example:9092",
        "SWITCHGEAR_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "SWITCHGEAR_KAFKA_SASL_USERNAME": "somebody",
        "SWITCHGEAR_KAFKA_SASL_PASSWORD": "secret",
        "SWITCHGEAR_CLICKHOUSE_URL": "https://clickhouse.example/prod",
        "SWITCHGEAR_TOPIC_REPLICATION_FACTOR": "3",
    }.items():
        monkeypatch.setenv(name, value)
    plan = planned(load_settings(data_dir=tmp_path), demo=True)
    environment = plan.environment({})
    assert environment["SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS"] == plan.bootstrap
    assert environment["SWITCHGEAR_KAFKA_SECURITY_PROTOCOL"] == "PLAINTEXT"
    assert environment["SWITCHGEAR_CLICKHOUSE_URL"] == "chdb:"
    assert environment["SWITCHGEAR_TOPIC_REPLICATION_FACTOR"] == "1"
    assert not [name for name in environment if "SASL" in name]
    assert "secret" not in str(environment)
    assert plan.system_settings().kafka_bootstrap_servers == plan.bootstrap


def test_what_the_user_set_reaches_the_children(planned, monkeypatch, tmp_path):
    monkeypatch.setenv("SWITCHGEAR_TOPIC_PREFIX", "mine.")
    monkeypatch.setenv("SWITCHGEAR_RETENTION_DAYS", "3")
    environment = planned(load_settings(data_dir=tmp_path)).environment({})
    assert environment["SWITCHGEAR_TOPIC_PREFIX"] == "mine."
    assert environment["SWITCHGEAR_RETENTION_DAYS"] == "3"


def test_the_environment_of_a_child_gives_the_systems_settings(planned, settings, monkeypatch):
    plan = planned(settings, demo=True)
    for name, value in plan.environment({}).items():
        monkeypatch.setenv(name, value)
    assert load_settings().model_dump() == plan.system_settings().model_dump()


def test_the_demo_brings_its_own_policies(planned, settings):
    assert planned(settings, demo=True).environment({})["SWITCHGEAR_POLICY_FILE"] == str(demo_policy_file())
    assert "SWITCHGEAR_POLICY_FILE" not in planned(settings).environment({})


def test_the_users_policies_win_over_the_demos(planned, tmp_path):
    settings = load_settings(data_dir=tmp_path, policy_file=tmp_path / "own.toml")
    assert planned(settings, demo=True).environment({})["SWITCHGEAR_POLICY_FILE"] == str(tmp_path / "own.toml")


def test_a_relative_data_folder_is_made_absolute(planned, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert planned(load_settings(data_dir="here")).data_dir == tmp_path / "here"


def test_a_key_in_the_environment_is_not_handed_to_the_children(planned, monkeypatch, tmp_path):
    monkeypatch.setenv("SWITCHGEAR_PARAMETERS_KEY", "secret")
    assert "SWITCHGEAR_PARAMETERS_KEY" not in planned(load_settings(data_dir=tmp_path)).environment({})


def test_alerts_have_a_port_of_their_own_and_their_file_if_one_is_named(planned, tmp_path):
    file = tmp_path / "alerts.toml"
    file.write_text('[receivers.s]\ntype = "slack"\nurl = "env:U"\n[[routes]]\nreceivers = ["s"]\n')
    plan = planned(load_settings(data_dir=tmp_path, alerts_file=file))
    assert plan.alerts_port not in {None, plan.kafka_port, plan.api_port, *plan.worker_ports}
    environment = plan.environment({})
    assert environment["SWITCHGEAR_ALERTS_FILE"] == str(file)
    assert environment["SWITCHGEAR_ALERTS_HTTP"] == f"127.0.0.1:{plan.alerts_port}"
    assert planned(load_settings(data_dir=tmp_path)).alerts_port is None


def test_a_wrong_alerts_file_is_an_error_before_anything_starts(planned, tmp_path):
    file = tmp_path / "alerts.toml"
    file.write_text("[receivers]\n")
    with pytest.raises(SwitchgearError, match="has no receiver"):
        planned(load_settings(data_dir=tmp_path, alerts_file=file))


def accepting(plan, monkeypatch):
    """What decides who may use the API of a child with the plan's environment."""
    for name, value in plan.environment({}).items():
        monkeypatch.setenv(name, value)
    return Authenticator.of(load_settings())


@pytest.mark.parametrize("document", ["toml", "json", "file"])
async def test_a_protected_api_accepts_the_token_of_up_beside_those_of_the_user(
    planned, monkeypatch, tmp_path, document
):
    token, text = new_token("vera", [Role.READ])
    tokens = with_token('{"tokens": []}' if document == "json" else "", token)
    if document == "file":
        (tmp_path / "tokens.toml").write_text(tokens)
        monkeypatch.setenv("SWITCHGEAR_ACCESS_TOKENS_FILE", str(tmp_path / "tokens.toml"))
    else:
        monkeypatch.setenv("SWITCHGEAR_ACCESS_TOKENS", tokens)
    plan = planned(load_settings(data_dir=tmp_path))
    access = accepting(plan, monkeypatch)
    own = await access.authenticate(plan.token)
    assert (own.name, own.roles) == ("switchgear up", {Role.READ})
    assert (await access.authenticate(text)).name == "vera"


def test_an_api_without_tokens_stays_open_to_this_machine(planned, settings, monkeypatch):
    plan = planned(settings)
    assert plan.token is None
    assert not accepting(plan, monkeypatch).configured


def test_a_wrong_list_of_tokens_is_an_error_before_anything_starts(planned, monkeypatch, tmp_path):
    monkeypatch.setenv("SWITCHGEAR_ACCESS_TOKENS", "not a list")
    with pytest.raises(SettingsError, match="access_tokens"):
        planned(load_settings(data_dir=tmp_path))
