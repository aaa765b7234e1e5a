"""A policy file that can't be read gives one sentence that names the file."""

from __future__ import annotations

import os

import pytest

from switchgear.policies import PolicyError, PolicySet

DIGITS = "9" * 5000


def _refused(path) -> str:
    with pytest.raises(PolicyError) as caught:
        PolicySet.load(path)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert str(path) in sentence
    assert len(sentence) < 1000
    return sentence


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("p.toml", f"[default]\njitter = {DIGITS}", "a number or a date that can't be read: Exceeds the limit"),
        ("p.toml", "[default]\njitter = " + "[" * 100_000, "nested too deeply"),
        (
            "p.toml",
            "[default]\njitter = 0.1\njitter = 0.2\n[tools]",
            "Cannot overwrite a value (at line 3, column 13).",
        ),
        ("p.toml", "# " + "x" * 1_000_000, "more than 1,000,000 bytes"),
        ("p.yaml", f"default: {{jitter: {DIGITS}}}", "a number or a date that can't be read: Exceeds the limit"),
        ("p.yaml", "default: " + "[" * 100_000, "nested too deeply"),
        ("p.yaml", "default: {jitter: 0.1, jitter: 0.2}", "the key jitter is given twice"),
        ("p.yaml", "default: {jitter: 0.1}\n'default': {jitter: 0.2}", "the key default is given twice"),
        ("p.yaml", "--- {}\n--- {}", "but found another document"),
        ("p.yaml", "default: !!python/object/apply:os.getpid []", "could not determine a constructor"),
        ("p.yaml", "default: {jitter: !!timestamp abc}", "a number or a date that can't be read"),
        ("p.yaml", "default: {jitter: !!int ''}", "a number or a date that can't be read"),
        ("p.yaml", "default: {jitter: 2024-99-99}", "a number or a date that can't be read"),
        ("p.yaml", "1: 2", "top level: unknown key 1"),
        (
            "p.yaml",
            "tools: {1: {jitter: 0.1}}",
            "'1' is not a tool's name. A name is text of 1 to 256 characters: put a number in quotes",
        ),
        ("p.yaml", "default: {null: 1}", "unknown key None"),
        ("p.yaml", "tools: {'': {}}", "'' is not a tool's name"),
    ],
)
def test_a_file_of_damaged_or_hostile_text_is_refused(tmp_path, name, text, says):
    path = tmp_path / name
    path.write_text(text)
    assert says in _refused(path)


def test_a_pipe_without_a_writer_a_folder_and_a_device_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    (tmp_path / "folder.toml").mkdir()
    for name in ("pipe.toml", "zero.yaml", "folder.toml"):
        assert "is not a regular file" in _refused(tmp_path / name)


def test_a_sparse_file_of_many_gigabytes_is_refused_by_its_size(tmp_path):
    path = tmp_path / "sparse.toml"
    path.touch()
    os.truncate(path, 10 * 2**30)
    assert "more than 1,000,000 bytes" in _refused(path)


def test_text_that_is_not_utf_8_and_a_path_with_a_nul_are_refused(tmp_path):
    path = tmp_path / "p.toml"
    path.write_bytes("[default]\n".encode("utf-16"))
    assert "is not UTF-8" in _refused(path)
    _refused(tmp_path / "a\0b.toml")


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text("\ufeff[default]\njitter = 0.25\n")
    assert PolicySet.load(path).effective("a").jitter == 0.25


def test_a_file_may_share_values_by_anchors_and_merge_keys(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(
        "default: &d {jitter: 0.25}\ntools: {a: &a {<<: *d, minimum_reporters: 3}, b: {<<: *a, jitter: 0.5}}"
    )
    policies = PolicySet.load(path)
    assert (policies.effective("a").jitter, policies.effective("a").minimum_reporters) == (0.25, 3)
    assert (policies.effective("b").jitter, policies.effective("b").minimum_reporters) == (0.5, 3)
