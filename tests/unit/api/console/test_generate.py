"""What the pages know of the server is what the server declares."""

from datetime import UTC, datetime

from switchgear_api.console import page_shapes, shapes
from switchgear_api.console.figures import Figures
from switchgear_api.console.generate import HERE, SOURCES, main
from switchgear_api.console.now import tool_row
from switchgear_api.console.records import no_circuit
from switchgear_api.readonly.runner import SqlResult
from switchgear_api.replay.what_if import WhatIf
from switchgear_schemas.emitter_clocks import WrongClock
from tests.support.table import table

NOW = datetime(2026, 11, 26, tzinfo=UTC)


@table("name", list(SOURCES))
def test_the_checked_in_file_is_what_the_declarations_generate(name):
    assert (HERE / name).read_text() == SOURCES[name](), "run `make schemas`"


def test_the_command_writes_the_files(tmp_path):
    (tmp_path / "assets" / "js").mkdir(parents=True)
    main(tmp_path)
    assert [(tmp_path / name).read_text() for name in SOURCES] == [source() for source in SOURCES.values()]


def test_docstrings_optional_fields_lists_and_tables_become_types():
    types = SOURCES["types.d.ts"]()
    assert "/** A row of the page `now`. */\nexport interface Tool {\n  tool: string;" in types
    assert '  kind?: "down" | "rejects_arguments" | null;\n' in types
    assert "  p50_ms: (number | null)[];\n" in types
    assert "  tools: Record<string, Numbers>;\n" in types


def test_a_row_has_the_declared_fields_and_no_others():
    row = tool_row(no_circuit("a", None), "a", Figures(NOW, 60, {}, {}, {}, {}, {}, None), None)
    assert row.keys() == shapes.Tool.__annotations__.keys()
    assert row["stats"].keys() == shapes.Stats.__annotations__.keys()


def test_other_packages_answer_with_the_declared_fields():
    assert WhatIf(lambda _: None).run([]).keys() == page_shapes.ReplayResult.__annotations__.keys()
    assert SqlResult([], [], False, 0.0).to_dict().keys() == page_shapes.SqlAnswer.__annotations__.keys()
    assert shapes.WrongClock.__annotations__.keys() - set(WrongClock._fields) == {"emitter_id", "service"}
