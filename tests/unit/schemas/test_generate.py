"""The source that is generated from the models is current."""

from pathlib import Path

import switchgear_schemas
from switchgear_schemas.generate import main, plain_policy

PACKAGE = Path(switchgear_schemas.__file__).parent


def test_the_checked_in_plain_policy_is_what_the_model_generates():
    assert (PACKAGE / "plain_policy.py").read_text() == plain_policy(), "run `make schemas`"


def test_the_command_writes_the_generated_modules_into_the_package(tmp_path):
    (tmp_path / "switchgear_schemas").mkdir()
    main(str(tmp_path))
    assert (tmp_path / "switchgear_schemas" / "plain_policy.py").read_text() == plain_policy()
