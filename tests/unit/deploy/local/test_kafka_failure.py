"""The reason why the broker ended, from what it wrote."""

import pytest

from switchgear_cli.local.kafka import explain, server_properties


@pytest.fixture
def why(tmp_path):
    def reason(output="", log="", log_start=0):
        (tmp_path / "kafka.out").write_text(output)
        (tmp_path / "kafka.log").write_text(log)
        return str(
            explain(
                1,
                port=9092,
                data_dir=tmp_path,
                output=tmp_path / "kafka.out",
                log_file=tmp_path / "kafka.log",
                log_start=log_start,
            )
        )

    return reason


def test_a_full_disk_is_named_as_the_reason_for_a_broker_that_ended(why):
    assert "the disk of" in why(log="java.io.IOException: No space left on device")


@pytest.mark.parametrize(
    "said", ["java.net.BindException: Address already in use", "Socket server failed to bind to 1"]
)
def test_a_port_in_use_names_the_flag(why, said):
    assert why(log=said) == "Port 9092 is in use. Choose another by --kafka-port."


def test_anything_else_quotes_the_last_error_and_names_the_log(why):
    reason = why(output="Exception in thread main java.lang.NoSuchMethodError: x\n\tat y\n")
    assert "code 1: Exception in thread main java.lang.NoSuchMethodError: x" in reason
    assert "kafka.log" in reason


def test_a_silent_end_names_the_log(why):
    assert why().startswith("Kafka ended with code 1. Its log:")


def test_what_an_earlier_run_wrote_is_not_the_reason(why):
    before = "java.net.BindException: Address already in use\n"
    assert "Port" not in why(log=before + "ERROR something else\n", log_start=len(before))


def test_a_log_that_was_rotated_since_is_read_whole(why):
    assert "disk" in why(log="No space left on device", log_start=10_000)


def test_the_last_error_is_found_at_the_end_of_a_long_log(why):
    assert "disk" in why(log="x" * 200_000 + "\nNo space left on device\n")


def test_the_broker_listens_on_this_machine_alone(tmp_path):
    text = server_properties(tmp_path, 9092, 40_000)
    listeners = dict(line.split("=", 1) for line in text.splitlines())["listeners"]
    assert listeners == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:40000"
    assert "auto.create.topics.enable=false" in text


def test_a_data_folder_may_have_any_letter_but_a_comma(tmp_path):
    assert r"log.dirs=/d\u00e9j\u00e0 vu/\\x" in server_properties(type(tmp_path)("/déjà vu/\\x"), 1, 2)
    with pytest.raises(ValueError, match="comma"):
        server_properties(tmp_path / "a,b", 1, 2)
