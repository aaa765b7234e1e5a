"""What `up` decides before anything starts, and what its children receive."""

import socket

import pytest

from switchgear_cli.local.ports import any_free_port, any_free_ports
from switchgear_cli.up import plan as plan_module
from switchgear_cli.up.plan import demo_policy_file, make_plan
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.settings import load_settings


@pytest.fixture
def settings(tmp_path):
    return load_settings(data_dir=tmp_path)


def test_every_component_has_a_port_of_its_own(settings):
    plan = make_plan(settings, workers=3)
    ports = [plan.kafka_port, plan.api_port, plan.gateway_port, *plan.worker_ports]
    assert len(set(ports)) == 6


def test_requested_ports_are_taken(settings):
    api, kafka = any_free_ports(2)
    plan = make_plan(settings, api_port=api, kafka_port=kafka)
    assert (plan.api_port, plan.kafka_port) == (api, kafka)
    assert plan.api_url == f"http://127.0.0.1:{api}"
    assert plan.bootstrap == f"127.0.0.1:{kafka}"


def test_a_port_the_user_asked_for_is_not_given_to_another_component(settings, monkeypatch):
    port = any_free_port()
    monkeypatch.setattr(plan_module, "API_PORT", port)
    monkeypatch.setattr(plan_module, "WORKER_PORT", port)
    plan = make_plan(settings, kafka_port=port)
    assert len({plan.kafka_port, plan.api_port, *plan.worker_ports}) == 3


def test_one_port_for_two_flags_is_an_error(settings):
    port = any_free_port()
    with pytest.raises(SwitchgearError, match=f"--kafka-port and --api-port are both {port}"):
        make_plan(settings, api_port=port, kafka_port=port)
    with pytest.raises(SwitchgearError, match=f"--api-port and --gateway-port are both {port}"):
        make_plan(settings, api_port=port, gateway_port=port)


def test_otlp_over_grpc_is_off_where_its_port_is_in_use(settings, monkeypatch):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        monkeypatch.setattr(plan_module, "OTLP_PORT", listener.getsockname()[1])
        plan = make_plan(settings)
    assert plan.otlp_port is None
    assert "SWITCHGEAR_GATEWAY_OTLP_GRPC" not in plan.environment({})
    monkeypatch.setattr(plan_module, "OTLP_PORT", port := any_free_port())
    assert make_plan(settings).environment({})["SWITCHGEAR_GATEWAY_OTLP_GRPC"] == f"127.0.0.1:{port}"


def test_a_requested_port_in_use_names_its_flag(settings):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(SwitchgearError, match=f"--kafka-port {port}"):
            make_plan(settings, kafka_port=port)


@pytest.mark.parametrize("workers", [0, -1, 65])
def test_a_senseless_number_of_workers_is_an_error(settings, workers):
    with pytest.raises(SwitchgearError, match="--workers"):
        make_plan(settings, workers=workers)


def test_children_receive_the_address_of_every_component(settings, tmp_path):
    plan = make_plan(settings, workers=2)
    environment = plan.environment({"PATH": "/bin"}, worker_port=plan.worker_ports[1])
    assert environment["PATH"] == "/bin"
    assert environment["SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS"] == plan.bootstrap
    assert environment["SWITCHGEAR_CLICKHOUSE_URL"] == "chdb:"
    assert environment["SWITCHGEAR_DATA_DIR"] == str(tmp_path)
    assert environment["SWITCHGEAR_API_HTTP"] == f"127.0.0.1:{plan.api_port}"
    assert environment["SWITCHGEAR_API_URL"] == plan.api_url
    assert environment["SWITCHGEAR_WORKER_HTTP"] == f"127.0.0.1:{plan.worker_ports[1]}"


def test_a_cluster_in_the_environment_never_reaches_a_child(monkeypatch, tmp_path):
    for name, value in {
        "SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS": "kafka.example:9092",
        "SWITCHGEAR_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "SWITCHGEAR_KAFKA_SASL_USERNAME": "somebody",
        "SWITCHGEAR_KAFKA_SASL_PASSWORD": "secret",
        "SWITCHGEAR_CLICKHOUSE_URL": "https://clickhouse.example/prod",
        "SWITCHGEAR_TOPIC_REPLICATION_FACTOR": "3",
    }.items():
        monkeypatch.setenv(name, value)
    plan = make_plan(load_settings(data_dir=tmp_path), demo=True)
    environment = plan.environment({})
    assert environment["SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS"] == plan.bootstrap
    assert environment["SWITCHGEAR_KAFKA_SECURITY_PROTOCOL"] == "PLAINTEXT"
    assert environment["SWITCHGEAR_CLICKHOUSE_URL"] == "chdb:"
    assert environment["SWITCHGEAR_TOPIC_REPLICATION_FACTOR"] == "1"
    assert not [name for name in environment if "SASL" in name]
    assert "secret" not in str(environment)
    assert plan.system_settings().kafka_bootstrap_servers == plan.bootstrap


def test_what_the_user_set_reaches_the_children(monkeypatch, tmp_path):
    monkeypatch.setenv("SWITCHGEAR_TOPIC_PREFIX", "mine.")
    monkeypatch.setenv("SWITCHGEAR_RETENTION_DAYS", "3")
    environment = make_plan(load_settings(data_dir=tmp_path)).environment({})
    assert environment["SWITCHGEAR_TOPIC_PREFIX"] == "mine."
    assert environment["SWITCHGEAR_RETENTION_DAYS"] == "3"


def test_the_environment_of_a_child_gives_the_systems_settings(settings, monkeypatch):
    plan = make_plan(settings, demo=True)
    for name, value in plan.environment({}).items():
        monkeypatch.setenv(name, value)
    assert load_settings().model_dump() == plan.system_settings().model_dump()


def test_the_demo_brings_its_own_policies(settings):
    assert make_plan(settings, demo=True).environment({})["SWITCHGEAR_POLICY_FILE"] == str(demo_policy_file())
    assert "SWITCHGEAR_POLICY_FILE" not in make_plan(settings).environment({})


def test_the_users_policies_win_over_the_demos(tmp_path):
    settings = load_settings(data_dir=tmp_path, policy_file=tmp_path / "own.toml")
    assert make_plan(settings, demo=True).environment({})["SWITCHGEAR_POLICY_FILE"] == str(tmp_path / "own.toml")


def test_a_relative_data_folder_is_made_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert make_plan(load_settings(data_dir="here")).data_dir == tmp_path / "here"


def test_a_key_in_the_environment_is_not_handed_to_the_children(monkeypatch, tmp_path):
    monkeypatch.setenv("SWITCHGEAR_PARAMETERS_KEY", "secret")
    assert "SWITCHGEAR_PARAMETERS_KEY" not in make_plan(load_settings(data_dir=tmp_path)).environment({})


def test_alerts_have_a_port_of_their_own_and_their_file_if_one_is_named(tmp_path):
    file = tmp_path / "alerts.toml"
    file.write_text('[receivers.s]\ntype = "slack"\nurl = "env:U"\n[[routes]]\nreceivers = ["s"]\n')
    plan = make_plan(load_settings(data_dir=tmp_path, alerts_file=file))
    assert plan.alerts_port not in {None, plan.kafka_port, plan.api_port, *plan.worker_ports}
    environment = plan.environment({})
    assert environment["SWITCHGEAR_ALERTS_FILE"] == str(file)
    assert environment["SWITCHGEAR_ALERTS_HTTP"] == f"127.0.0.1:{plan.alerts_port}"
    assert make_plan(load_settings(data_dir=tmp_path)).alerts_port is None


def test_a_wrong_alerts_file_is_an_error_before_anything_starts(tmp_path):
    file = tmp_path / "alerts.toml"
    file.write_text("[receivers]\n")
    with pytest.raises(SwitchgearError, match="has no receiver"):
        make_plan(load_settings(data_dir=tmp_path, alerts_file=file))
