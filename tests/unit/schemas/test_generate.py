"""The source that is generated from the models is current."""

from switchgear_schemas.generate import SOURCES, main
from tests.support.snippets import REPOSITORY
from tests.support.table import table


@table("name", SOURCES)
def test_the_checked_in_source_is_what_the_models_generate(name):
    assert (REPOSITORY / name).read_text() == SOURCES[name](), "run `make schemas`"


def test_the_command_writes_every_generated_module(tmp_path):
    for name in SOURCES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    main(str(tmp_path))
    written = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {name: source() for name, source in SOURCES.items()}
