"""What a query from outside may use: the rules alone. The real engine's trees are in integration."""

import time

import pytest

from switchgear_api.readonly.catalog import Function, catalog_of
from switchgear_api.readonly.gate import classify
from switchgear_api.readonly.rules import resolved_violation, table_violation, violation
from tests.support.table import table


def scalar(name, categories="Arithmetic", alias="", origin="System"):
    return Function(name, alias, categories, origin, "0")


CATALOG = catalog_of(
    [
        scalar("plus"),
        scalar("tuple", "Tuple"),
        scalar("absolute", "", "plus"),
        scalar("mixed", "Arithmetic, Introspection"),
        scalar("file", "Other"),
        scalar("toTypeName", "Other"),
        scalar("newInOther", "Other"),
        scalar("uncategorised", ""),
        scalar("newCategory", "Brand New"),
        scalar("user", "Other"),
        scalar("aiEmbed", "AI"),
        scalar("AIEmbed2", "", "aiEmbed"),
        scalar("orphan", "", "gone"),
        scalar("mine", origin="ExecutableUserDefined"),
        scalar("mineToo", origin="SQLUserDefined"),
        Function("sum", "", "", "System", "1"),
        Function("groupArray", "", "", "System", "1"),
        Function("flameGraph", "", "", "System", "1"),
        Function("mySum", "", "", "WasmUserDefined", "1"),
    ],
    ["If", "State", "SimpleState", "OrNull", "Array"],
    ["switchgear", "system", "default", "INFORMATION_SCHEMA"],
    "switchgear",
)


def tree(*lines):
    return "\n".join(["QUERY id: 0", "  PROJECTION", *(f"    {line}" for line in lines), ""])


def called(name, alias=""):
    return tree(f"FUNCTION id: 1, {alias and f'alias: {alias}, '}function_name: {name}, function_type: ordinary")


def named(name):
    return tree(f"IDENTIFIER id: 1, identifier: {name}")


@table(
    "name",
    ["plus", "PLUS", "absolute", "toTypeName", "sum", "sumIf", "groupArrayArrayIf", "sumSimpleState", "SUMORNULL"],
)
def test_functions_that_only_compute_may_be_used(name):
    assert CATALOG.allows_function(name)
    assert violation(called(name), CATALOG) is None
    assert resolved_violation(called(name), CATALOG) is None


@table(
    "name",
    [
        "file", "newInOther", "uncategorised", "newCategory", "mixed", "aiEmbed", "AIEmbed2", "orphan", "mine", "mineToo",
        "flameGraph", "flameGraphIf", "mySum", "mySumIf", "unheardOf", "If", "sumUnless", "fileIf", "plusState", "",
    ],
)  # fmt: skip
def test_any_other_function_is_refused_by_its_name_before_and_after_it_is_resolved(name):
    assert not CATALOG.allows_function(name)
    for problem in (violation(called(name), CATALOG), resolved_violation(called(name), CATALOG)):
        assert problem is not None
        assert f"{name}()" in problem


@pytest.mark.parametrize("name", ["file", "FILE", "mine", "aiembed2"])
def test_a_name_of_a_refused_function_is_refused_without_a_call(name):
    assert name in (violation(named(name), CATALOG) or "")


@table("name", ["plus", "tool_name", "user", "t.file", "error rate / h", "sum"])
def test_names_of_columns_and_of_allowed_functions_are_allowed_without_a_call(name):
    assert violation(named(name), CATALOG) is None


@table(
    "name",
    [
        "system.users", "System.Users", "system.users.name", "default.t", "/etc/hostname", "./x.csv", "~/x", "http://x/y",
        "information_schema.engines", "_temporary_and_external_tables._tmp_1", "system.users, final: 1",
    ],
)  # fmt: skip
def test_tables_of_others_and_files_are_refused_by_their_name(name):
    assert "may not be read" in (violation(named(name), CATALOG) or "")


@pytest.mark.parametrize(
    "name", ["switchgear.tool_metrics", "system.tables.name", "information_schema.tables", "t.a.b"]
)
def test_tables_that_may_be_read_and_columns_with_dots_are_allowed(name):
    assert violation(named(name), CATALOG) is None


@table(
    ("table", "allowed"),
    [
        ("tool_metrics", True),
        ("switchgear.tool_metrics", True),
        ("system.tables", True),
        ("INFORMATION_SCHEMA.columns", True),
        ("system.users", False),
        ("other.tool_metrics", False),
        ("a b", False),
        ("switchgear.a/b", False),
        ("/etc/hostname", False),
        ("", False),
    ],
)
def test_described_table_and_selected_table_have_the_same_rule(table, allowed):
    found = tree(f"TABLE id: 3, alias: __table1, table_name: {table}")
    assert (table_violation(table, CATALOG) is None) is allowed
    assert (resolved_violation(found, CATALOG) is None) is allowed


def test_only_the_engines_own_name_of_a_recursion_is_allowed():
    inside = "_temporary_and_external_tables._tmp_a4c771e3-c781-4b2b-85ae-082a14cba91d"
    assert resolved_violation(tree(f"TABLE id: 3, table_name: {inside}"), CATALOG) is None
    assert resolved_violation(tree(f"TABLE id: 3, table_name: {inside}x"), CATALOG) is not None
    assert violation(named(inside), CATALOG) is not None


@table(
    "alias",
    [
        "a, function_name: plus",
        "a'",
        "a\n  CONSTANT id: 1, constant_value: 1, constant_value_type: x",
        "a\n  CONSTANT id: 1, constant_value: '",
        "a\n  FUNCTION id: 1, function_name: plus",
        "SETTINGS",
        "x" * 400,
    ],
)
def test_alias_hides_no_refused_name(alias):
    assert violation(called("file", alias), CATALOG) is not None
    assert resolved_violation(called("file", alias), CATALOG) is not None
    assert violation(tree(f"IDENTIFIER id: 1, alias: {alias}, identifier: system.users"), CATALOG) is not None
    assert resolved_violation(tree(f"TABLE id: 1, alias: {alias}, table_name: system.users"), CATALOG) is not None


@pytest.mark.parametrize("text", ["function_name: file", "it\\'s, identifier: system.users", "SETTINGS a = 1"])
def test_the_text_of_a_literal_names_nothing(text):
    literal = tree(f"CONSTANT id: 1, constant_value: '{text}', constant_value_type: String")
    assert violation(literal, CATALOG) is None
    assert resolved_violation(literal, CATALOG) is None


@table("line", ["SETTINGS max_threads=1", "PIVOT id: 3", "UDF id: 4, name: x", "file(x)", "function: file", "WHEREVER"])
def test_unknown_line_of_a_syntax_tree_is_refused(line):
    assert violation(tree(line), CATALOG) is not None


@pytest.mark.slow
@table("text", ["identifier", "identifier: ", "CONSTANT id: 1, constant_value_type: ", " ", "(", "function_name: "])
def test_long_name_is_checked_within_seconds(text):
    started = time.thread_time()
    assert violation(called("file", text * (200_000 // len(text))), CATALOG) is not None
    resolved_violation(called("sum" + "If" * 100_000, text * (200_000 // len(text))), CATALOG)
    assert time.thread_time() - started < 10


def test_a_lambda_with_a_name_may_be_called_and_hides_no_function():
    lines = ("LAMBDA id: 1, alias: {}", "FUNCTION id: 2, function_name: {}, function_type: ordinary")
    assert violation(tree(*(line.format("next") for line in lines)), CATALOG) is None
    assert violation(tree(*(line.format("file") for line in lines)), CATALOG) is not None


def values(first, name="values"):
    return tree(
        f"TABLE_FUNCTION id: 6, table_function_name: {name}",
        "  ARGUMENTS",
        "    LIST id: 7, nodes: 2",
        f"      {first}",
    )


def structure(text):
    return f"CONSTANT id: 8, constant_value: '{text}', constant_value_type: String"


@table(
    "first",
    [
        structure("a String, b String ALIAS file(\\'x\\')"),
        structure("a alias plus(1)"),
        structure("a String default 1"),
        structure("a String TTL now()"),
        structure('a "String"'),
        structure("a `String`"),
        "CONSTANT id: 8, alias: s, constant_value: 'a String', constant_value_type: String",
        "FUNCTION id: 8, function_name: plus, function_type: ordinary",
        "IDENTIFIER id: 8, identifier: s",
        "QUERY id: 8, is_subquery: 1",
    ],
)
@table("name", ["values", "VALUES"])
def test_structure_of_values_must_be_plain_names_and_types(first, name):
    assert "values()" in (violation(values(first, name), CATALOG) or "")


@pytest.mark.parametrize(
    "first",
    [
        structure("a UInt8, b Array(Nullable(String)), c Enum8(\\'x\\' = -1), d DateTime64(3)"),
        "CONSTANT id: 8, constant_value: Tuple_(UInt64_1, 'a'), constant_value_type: Tuple(UInt8, String)",
        "CONSTANT id: 8, constant_value: UInt64_1, constant_value_type: UInt8",
        "FUNCTION id: 8, function_name: tuple, function_type: ordinary",
    ],
)
def test_values_with_rows_or_a_plain_structure_is_allowed(first):
    assert violation(values(first), CATALOG) is None


@table("name", ["file", "url", "merge", "view", "viewExplain", "brandNew", "generateRandom", "plus"])
def test_table_functions_that_do_more_than_make_rows_up_are_refused(name):
    lines = tree(f"TABLE_FUNCTION id: 6, table_function_name: {name}")
    assert f"{name}()" in (violation(lines, CATALOG) or "")
    assert f"{name}()" in (resolved_violation(lines, CATALOG) or "")


@table(
    ("canonical", "select", "table"),
    [
        ("SELECT 1", "SELECT 1", None),
        ("WITH 1 AS x SELECT x", "WITH 1 AS x SELECT x", None),
        ("(SELECT 1) UNION ALL (SELECT 2)", "(SELECT 1) UNION ALL (SELECT 2)", None),
        ("EXPLAIN SELECT 1", "SELECT 1", None),
        ("EXPLAIN PLAN indexes = 1 SELECT 1", "SELECT 1", None),
        ("SHOW TABLES", None, None),
        ("DESCRIBE TABLE `tool_metrics`", None, "tool_metrics"),
        ("SHOW CREATE TABLE system.users", None, "system.users"),
    ],
)
def test_statements_that_read_are_classified_by_what_is_left_to_check(canonical, select, table):
    statement = classify(canonical)
    assert statement is not None
    assert (statement.text, statement.select, statement.table) == (canonical, select, table)


@table(
    "canonical",
    [
        "INSERT INTO t FORMAT Values",
        "SELECTED 1",
        "SHOW TABLES FROM system",
        "DESCRIBE TABLE file('x')",
        "DESCRIBE TABLE t SETTINGS a = 1",
        "SHOW CREATE TABLE t INTO OUTFILE 'x'",
        "EXPLAIN AST SELECT 1",
        "EXPLAIN INSERT INTO t SELECT 1",
        "EXPLAIN SYNTAX SELECT 1",
        "EXPLAIN QUERY TREE SELECT 1",
        "SYSTEM SHUTDOWN",
        "SET readonly = 0",
        "KILL QUERY WHERE 1",
        "EXECUTE AS default SELECT 1",
        "",
    ],
)
def test_other_statements_may_not_run(canonical):
    assert classify(canonical) is None
