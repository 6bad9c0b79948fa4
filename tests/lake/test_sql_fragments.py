"""Pieces of SQL stay within their place in a statement."""

from __future__ import annotations

import pytest

from delta_sidecar.errors import OptionError
from delta_sidecar.lake import MergeClause
from delta_sidecar.lake.sql_fragments import fragment, new_value


@pytest.mark.parametrize(
    "text",
    ["id = 3", "note = '-- none'", 'note = "a \'b"', "`odd -- name` = 1", r"s = 'it\'s' OR (a - -b) > 0", r"p = r'\'"],
)
def test_what_ends_where_it_should_is_taken(text: str) -> None:
    assert fragment("the condition", text) == f"({text})"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("1 -- the new value", "comment"),
        ("1 /* x", "comment"),
        ("id = 3 */", "comment"),
        (r"r'\' -- x '", "comment"),
        ("note = 'open", "quote"),
        ("`open", "quote"),
        ("1) WHERE (true", "parenthesis"),
        ("(1", "parenthesis"),
        ("1; DROP TABLE t", "semicolon"),
        ("  ", "empty"),
    ],
)
def test_what_would_swallow_the_rest_is_refused(text: str, word: str) -> None:
    with pytest.raises(OptionError, match=word):
        fragment("the condition", text)


def test_values_and_clauses() -> None:
    assert new_value("the value of a", " default ") == "DEFAULT"
    assert MergeClause.insert({"a": "s.a", "b": "DEFAULT"}).sql == (
        "WHEN NOT MATCHED THEN INSERT (`a`, `b`) VALUES ((s.a), DEFAULT)"
    )
    with pytest.raises(OptionError, match="the value of v has a comment"):
        _ = MergeClause.update({"v": "s.v -- newest"}).sql


def test_clauses_of_rows_that_are_only_in_the_table() -> None:
    assert MergeClause.update_unmatched({"gone": "true", "odd name": "t.a + 1"}).sql == (
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET `gone` = (true), `odd name` = (t.a + 1)"
    )
    assert MergeClause.update_unmatched({"gone": "true"}, condition="NOT t.gone").sql == (
        "WHEN NOT MATCHED BY SOURCE AND (NOT t.gone) THEN UPDATE SET `gone` = (true)"
    )
    assert MergeClause.delete_unmatched().sql == "WHEN NOT MATCHED BY SOURCE THEN DELETE"
    assert MergeClause.delete_unmatched(condition="t.at < current_date()").sql == (
        "WHEN NOT MATCHED BY SOURCE AND (t.at < current_date()) THEN DELETE"
    )
    with pytest.raises(OptionError, match="the condition of a merge clause has a comment"):
        _ = MergeClause.delete_unmatched(condition="true -- all").sql
