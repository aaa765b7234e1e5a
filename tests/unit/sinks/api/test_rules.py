"""What a query from outside may use: the rules alone, on trees written by hand. The real engine's are in integration."""

import pytest

from switchgear_sinks.api.readonly.rules import Catalog, refused_functions, table_violation, violation
from switchgear_sinks.api.readonly.statement import classify
from switchgear_sinks.api.readonly.syntax import Node

CATALOG = Catalog(frozenset({"file", "aigenerate"}), frozenset({"file", "merge", "numbers"}), "switchgear")


def node(kind, name="", *children):
    return Node(kind, name, len(children), list(children))


def called(name, *arguments):
    return node("Function", name, node("ExpressionList", "", *arguments))


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        (node("Set"), "SETTINGS"),
        (called("FILE"), "FILE()"),
        (called("sum", called("aiGenerate")), "aiGenerate()"),
        (node("TableExpression", "", called("merge")), "merge()"),
        (node("TableExpression", "", called("brandNewTableFunction")), "brandNewTableFunction()"),
        (node("TableIdentifier", "system.users"), "system.users"),
        (node("TableIdentifier", "other.tool_metrics"), "other.tool_metrics"),
        (node("TableIdentifier", "/etc/passwd"), "/etc/passwd"),
        (node("TableIdentifier", "secret.csv"), "secret.csv"),
        (node("TableIdentifier", "tool metrics"), "tool metrics"),
        (called("in", node("Identifier", "a"), node("Identifier", "system.users")), "system.users"),
        (called("globalNotIn", node("Identifier", "a"), called("merge")), "merge()"),
    ],
)
def test_what_is_not_allowed_is_named(tree, told):
    problem = violation(node("SelectQuery", "", tree), CATALOG)
    assert problem is not None
    assert told in problem


@pytest.mark.parametrize(
    "tree",
    [
        called("quantileIf"),
        node("TableExpression", "", called("numbers")),
        node("TableExpression", "", called("generateSeries")),
        node("TableIdentifier", "tool_metrics"),
        node("TableIdentifier", "switchgear.tool_metrics"),
        node("TableIdentifier", "system.tables"),
        node("TableIdentifier", "INFORMATION_SCHEMA.columns"),
        called("in", node("Identifier", "a"), node("Literal", "Tuple_(1)")),
        called("in", node("Identifier", "a"), node("Identifier", "a_with_name")),
        called("in"),
    ],
)
def test_what_only_reads_the_store_may_run(tree):
    assert violation(node("SelectQuery", "", tree), CATALOG) is None


def test_functions_are_refused_by_category_and_unknown_ones_by_default():
    refused = refused_functions(
        [
            ("abs", "", "Arithmetic", "System"),
            ("file", "", "Other", "System"),
            ("toTypeName", "", "Other", "System"),
            ("aiEmbed", "", "AI", "System"),
            ("AIEmbed2", "aiEmbed", "", "System"),
            ("absolute", "abs", "", "System"),
            ("orphan", "gone", "", "System"),
            ("newInOther", "", "Other", "System"),
            ("uncategorised", "", "", "System"),
            ("mixed", "", "Arithmetic, Introspection", "System"),
            ("mine", "", "Arithmetic", "ExecutableUserDefined"),
        ]
    )
    assert refused == {"file", "aiembed", "aiembed2", "orphan", "newinother", "uncategorised", "mixed", "mine"}


@pytest.mark.parametrize(("table", "allowed"), [("tool_metrics", True), ("system.users", False), ("a b", False)])
def test_a_described_table_is_judged_like_a_selected_one(table, allowed):
    assert (table_violation(table, CATALOG) is None) is allowed


@pytest.mark.parametrize(
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
def test_statements_that_read_are_known_by_what_is_left_to_check(canonical, select, table):
    statement = classify(canonical)
    assert statement is not None
    assert (statement.text, statement.select, statement.table) == (canonical, select, table)


@pytest.mark.parametrize(
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
        "SYSTEM SHUTDOWN",
        "SET readonly = 0",
        "KILL QUERY WHERE 1",
        "EXECUTE AS default SELECT 1",
        "",
    ],
)
def test_other_statements_may_not_run(canonical):
    assert classify(canonical) is None
