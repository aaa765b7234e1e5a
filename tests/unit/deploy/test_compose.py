"""docker-compose.yml and its Dockerfile, as far as parsers go: no engine is needed."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from switchgear_api.readonly.server_user import too_much
from switchgear_http.principal import Role
from switchgear_http.tokens import TokenTable, parse_tokens
from switchgear_schemas.settings import PREFIX, Settings
from switchgear_sinks.store import StoreLocation
from tests.support.table import table

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()
SERVICES = COMPOSE["services"]
LASTING = ["kafka", "clickhouse", "worker", "sink", "api", "gateway"]


MONITORING = ["prometheus", "grafana"]


def test_the_compose_file_starts_the_whole_system():
    assert set(SERVICES) == {*LASTING, "topics", "cli", *MONITORING}
    assert {name for name, each in SERVICES.items() if "profiles" in each} == {"cli", *MONITORING}


def test_the_profile_for_monitoring_mounts_files_that_exist():
    for name in MONITORING:
        assert SERVICES[name]["profiles"] == ["monitoring"]
        sources = [volume.split(":")[0] for volume in SERVICES[name]["volumes"] if volume.startswith("./")]
        assert all((ROOT / source).exists() for source in sources)
        assert len(sources) == 2


def test_prometheus_scrapes_each_server_at_its_port_and_those_with_login_with_the_token():
    config = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    targets = {name: job["static_configs"][0]["targets"] for name, job in jobs.items()}
    environment = SERVICES["worker"]["environment"]
    ports = {name: environment[f"SWITCHGEAR_{name}_HTTP"].rpartition(":")[2] for name in ("WORKER", "API", "GATEWAY")}
    assert targets == {
        "switchgear-worker": [f"worker:{ports['WORKER']}"],
        "switchgear-sink": [f"sink:{ports['API']}"],
        "switchgear-api": [f"api:{ports['API']}"],
        "switchgear-gateway": [f"gateway:{ports['GATEWAY']}"],
    }
    (mounted,) = SERVICES["prometheus"]["configs"]
    for name in ("switchgear-api", "switchgear-gateway"):
        assert jobs[name]["authorization"]["credentials_file"] == mounted["target"]
    assert COMPOSE["configs"][mounted["source"]]["content"] == environment["SWITCHGEAR_TOKEN"]


@table("name", [*LASTING, *MONITORING])
def test_every_lasting_service_has_a_health_check_and_is_restarted(name):
    assert SERVICES[name]["healthcheck"]["test"]
    assert SERVICES[name]["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", ["kafka", "clickhouse"])
def test_every_service_with_data_has_a_named_volume(name):
    volumes = {volume.split(":")[0] for volume in SERVICES[name]["volumes"]}
    assert volumes & set(COMPOSE["volumes"])


@table(
    ("name", "first", "condition"),
    [
        ("topics", "kafka", "service_healthy"),
        ("worker", "topics", "service_completed_successfully"),
        ("sink", "topics", "service_completed_successfully"),
        ("sink", "clickhouse", "service_healthy"),
        ("api", "sink", "service_healthy"),
        ("gateway", "topics", "service_completed_successfully"),
        ("cli", "api", "service_healthy"),
        ("prometheus", "api", "service_healthy"),
        ("grafana", "prometheus", "service_healthy"),
    ],
)
def test_services_start_in_order(name, first, condition):
    assert SERVICES[name]["depends_on"][first]["condition"] == condition


@table("name", SERVICES)
def test_every_setting_of_the_compose_file_exists(name):
    given = [key for key in SERVICES[name].get("environment", {}) if key.startswith(PREFIX)]
    assert {key.removeprefix(PREFIX).lower() for key in given} <= set(Settings.model_fields)


def test_the_settings_of_the_compose_file_are_valid():
    environment = SERVICES["worker"]["environment"]
    given = {
        key.removeprefix(PREFIX).lower(): re.sub(r"\$\{\w+:-(\w+)\}", r"\1", value)
        for key, value in environment.items()
    }
    assert not Settings(**given).embedded


def test_commands_of_the_compose_file_have_a_token_that_changes_nothing_in_its_api():
    environment = SERVICES["cli"]["environment"]
    token = re.fullmatch(r"\$\{SWITCHGEAR_TOKEN:-(\w+)\}", environment["SWITCHGEAR_TOKEN"])[1]
    tokens = parse_tokens(SERVICES["api"]["environment"]["SWITCHGEAR_ACCESS_TOKENS"], "docker-compose.yml")
    assert TokenTable(tokens).authenticate(token).roles == {Role.EMIT, Role.READ}


def test_sql_runs_under_a_user_of_clickhouse_who_may_only_read():
    where = StoreLocation.parse(SERVICES["api"]["environment"]["SWITCHGEAR_CLICKHOUSE_READER_URL"], Path())
    source = "./deploy/clickhouse/reader.xml"
    assert f"{source}:/etc/clickhouse-server/users.d/reader.xml:ro" in SERVICES["clickhouse"]["volumes"]
    made = ET.parse(ROOT / source).getroot()
    user = made.find(f"users/{where.username}")
    grants = [f"{query.text} TO {where.username}" for query in user.iter("query")]
    readonly = made.findtext(f"profiles/{user.findtext('profile')}/readonly")
    assert too_much(grants, readonly, where.database) is None
    assert user.find("password").get("from_env") in SERVICES["clickhouse"]["environment"]


@table("name", SERVICES)
def test_ports_are_published_on_this_machine_only(name):
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))


@pytest.mark.parametrize("name", ["kafka", "clickhouse", *MONITORING])
def test_images_are_pinned_by_version_and_digest(name):
    assert re.fullmatch(r"[\w./-]+:v?\d[\w.-]*@sha256:[0-9a-f]{64}", SERVICES[name]["image"])


def test_the_image_runs_without_root_and_signals_reach_the_process():
    assert "USER 10001" in DOCKERFILE
    assert 'ENTRYPOINT ["switchgear"]' in DOCKERFILE


@table("source", re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE, re.MULTILINE))
def test_what_the_dockerfile_copies_exists(source):
    assert all((ROOT / name).exists() for name in source.split())
