"""Reading ClickHouse's syntax trees."""

import pytest

from switchgear_sinks.api.readonly.syntax import UnreadableTreeError, parse_tree

TREE = """\
SelectWithUnionQuery (children 1)
 ExpressionList (children 1)
  SelectQuery (children 2)
   ExpressionList (children 2)
    Function file (alias f) (children 1)
     ExpressionList (children 1)
      Literal 'a (children 9)'
    Literal UInt64_1 (alias x y)
   TablesInSelectQuery (children 1)
    TablesInSelectQueryElement (children 1)
     TableExpression (children 1)
      TableIdentifier system.users (alias u)
"""


def test_every_line_is_a_node_under_the_one_it_is_indented_below():
    tree = parse_tree(TREE)
    kinds = [(node.kind, node.name) for node in tree.walk() if node.name]
    assert kinds == [
        ("Function", "file"),
        ("Literal", "'a (children 9)'"),
        ("Literal", "UInt64_1"),
        ("TableIdentifier", "system.users"),
    ]
    assert [node.kind for node in tree.walk()].count("ExpressionList") == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        TREE[:-60],  # cut off
        TREE.replace("Query (children 2)", "Query (children 3)"),
        TREE + "Function second\n",  # two roots
        TREE.replace("      TableIdentifier", "          TableIdentifier"),  # a level is missing
        TREE.replace("(alias x y)", "(alias x\n Function y)"),  # a line break in a name
        " SelectQuery\n",
        "SelectQuery\n\u2028!",
    ],
)
def test_a_tree_that_is_cut_or_forged_is_no_tree(text):
    with pytest.raises(UnreadableTreeError):
        parse_tree(text)
