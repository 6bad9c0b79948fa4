"""Names of tables in SQL: `lake/eu/clicks` is the table `clicks` in the schema `eu` of the catalog `lake`.

A table just below its root is in the schema `main`: `lake/events` is `lake.main.events`, and `lake.events` for short. A
root that is a table itself is a table of its own name. Any table may also be written as the server names it, quoted:
`"lake/events"`. Callers with one root may leave it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

MAIN: Final = "main"


class SqlName(NamedTuple):
    """Where a table is for SQL, or how a statement names it; parts that it does not name are empty."""

    catalog: str
    schema: str
    table: str

    def __str__(self) -> str:
        return ".".join(part for part in self if part)


def sql_name(table: str) -> SqlName:
    """The name in SQL of a table of the server."""
    root, *below = table.split("/")
    if not below:
        return SqlName(root, MAIN, root)
    return SqlName(root, "/".join(below[:-1]) or MAIN, below[-1])


def meanings(name: SqlName, roots: Sequence[str]) -> list[str]:
    """The tables of the server that a name may mean to a caller with these roots, the best first."""
    catalog, schema, table = name
    if not catalog and not schema and "/" in table:
        return [table]
    if not catalog and schema in roots:
        catalog, schema = schema, MAIN
    elif not catalog and len(roots) == 1:
        catalog = roots[0]
    if catalog not in roots or "/" in table:
        return []
    if schema and schema != MAIN:
        return [f"{catalog}/{schema}/{table}"]
    itself = [catalog] if table == catalog else []
    return [f"{catalog}/{table}", *itself, f"{catalog}/{MAIN}/{table}"]


def place_of(name: SqlName, roots: Sequence[str]) -> SqlName:
    """Where a session must hold what a statement names so. The catalog is empty for the session's own."""
    if not name.catalog and name.schema in roots:
        return SqlName(name.schema, MAIN, name.table)
    return SqlName(name.catalog, name.schema or MAIN, name.table)
