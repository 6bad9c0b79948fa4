"""What a statement names, before it is run: one SELECT, tables of the roots, and no function that looks elsewhere.

DuckDB's own parser gives the tree. What the tree may hold is listed here; whatever else it holds is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from delta_sidecar.errors import NotOfferedError, QueryError
from delta_sidecar.server.sql.names import SqlName

_ONLY: Final = "this server runs one SELECT at a time"
_NODES: Final = frozenset(("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"))
_SOURCES: Final = frozenset(("BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EXPRESSION_LIST", "EMPTY"))
"""What a FROM may hold."""
_TABLE_FUNCTIONS: Final = frozenset(("range", "generate_series", "unnest"))
_REFUSED_FUNCTIONS: Final = frozenset(
    ("current_setting", "getenv", "getvariable", "write_log", "nextval", "currval", "json_execute_serialized_sql")
)
"""Functions of values that look at the session or the process."""


def tables_in(tree: str) -> list[SqlName]:
    """The tables that a statement names, as it names them; `tree` is what `json_serialize_sql` makes of it."""
    try:
        told = msgspec.json.decode(tree)
    except (msgspec.DecodeError, RecursionError):
        raise QueryError("the statement is nested too deeply") from None
    if told["error"]:
        if told.get("error_type") == "not implemented":
            raise NotOfferedError(f"{_ONLY}, and this statement is not a SELECT")
        raise QueryError(f"the statement cannot be parsed: {told.get('error_message')}")
    statements = told["statements"]
    if len(statements) != 1:
        raise NotOfferedError(f"{_ONLY}; this text has {len(statements)} statements")
    named: dict[SqlName, None] = {}
    defined: set[str] = set()
    for node in _nodes(statements[0]):
        _check(node)
        if "cte_map" in node:
            defined.update(each["key"].lower() for each in node["cte_map"]["map"])
        if node.get("type") == "BASE_TABLE" and "table_name" in node:
            named[_name(node)] = None
    return [name for name in named if name.catalog or name.schema or name.table.lower() not in defined]


def _nodes(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All objects of a tree."""
    left: list[Any] = [tree]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            yield each
            left += each.values()
        elif isinstance(each, list):
            left += each


def _check(node: dict[str, Any]) -> None:
    """Refuse what is not offered."""
    kind, sort = str(node.get("type", "")), node.get("class")
    if kind.endswith("_NODE") and kind not in _NODES:
        raise NotOfferedError(f"{_ONLY}; {kind.removesuffix('_NODE')} is not offered")
    sources = [node["from_table"]] if "from_table" in node else []
    if kind == "JOIN" and sort is None:
        sources += [node.get("left"), node.get("right")]
    for source in sources:
        if isinstance(source, dict) and source.get("type") not in _SOURCES:
            raise NotOfferedError(f"{_ONLY}; {source.get('type')} is not offered")
    if kind == "TABLE_FUNCTION" and sort is None:
        name = str(node["function"]["function_name"])
        if name.lower() not in _TABLE_FUNCTIONS:
            raise NotOfferedError(f"the function {name} is not offered; tables are read by their names")
    elif sort == "FUNCTION" and str(node.get("function_name", "")).lower() in _REFUSED_FUNCTIONS:
        raise NotOfferedError(f"the function {node['function_name']} is not offered")
    elif sort == "PARAMETER":
        raise NotOfferedError("parameters are not offered; write the value into the statement")


def _name(node: dict[str, Any]) -> SqlName:
    if node.get("at_clause") is not None:
        raise NotOfferedError("AT is not offered: SQL reads the newest version of a table")
    path = node.get("qualified_name", {}).get("path", ())
    if len(path) > 3:
        raise QueryError(f"{'.'.join(path)} has too many parts; a table is catalog.schema.table")
    return SqlName(node.get("catalog_name") or "", node.get("schema_name") or "", node["table_name"])
