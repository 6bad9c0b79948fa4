"""`sidecar changes --cursor` and `sidecar cursors`: consumers that continue where they stopped."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing

import msgspec

from delta_sidecar.cli.failures import say_line
from delta_sidecar.cli.output import write_facts, write_json, write_table
from delta_sidecar.cli.rows import write_rows
from delta_sidecar.cli.sinks import Sink
from delta_sidecar.errors import OptionError
from delta_sidecar.lake.change_feed import CdfReadOptions
from delta_sidecar.lake.cursors import CdfCursor, CdfCursorStore, state_beside
from delta_sidecar.lake.table_changes import changes_by_cursor
from delta_sidecar.table import DeltaTable
from delta_sidecar.texts import printable


def cursors_at(table: str | None, state: str | None, storage_options: Mapping[str, str]) -> CdfCursorStore:
    """The cursors below `--state`, or beside a table."""
    if state is not None:
        return CdfCursorStore(state, storage_options)
    if table is None:
        raise OptionError("name the table that holds the cursors, or their location with --state")
    return CdfCursorStore(state_beside(table), storage_options)


def print_by_cursor(
    table: DeltaTable,
    cursors: CdfCursorStore,
    name: str,
    peek: bool,
    options: CdfReadOptions,
    where: str | None,
    columns: Sequence[str] | None,
    sink: Sink,
) -> None:
    """Print or write what is new since the cursor. It moves when everything is written."""
    if sink.path is not None and not peek and os.path.isfile(sink.path):
        raise OptionError(
            f"{sink.path} already exists, and its changes would not come again; move it, or name another file"
        )
    changes = changes_by_cursor(table, cursors, name, options, where, columns)
    if changes.found.is_empty:
        changes.batches.close()
        say_line("nothing is new" + ("" if sink.path is None else f"; {sink.path} is not written"), {})
        return
    with closing(changes.batches) as batches:
        write_rows(changes.schema, batches, sink)
    if not peek:
        changes.commit()


def list_cursors(cursors: CdfCursorStore, as_json: bool) -> None:
    """Print all cursors of a place."""
    found = (cursor for name in cursors.names() if (cursor := cursors.load(name)) is not None)
    if as_json:
        for cursor in found:
            write_json({key: value for key, value in msgspec.to_builtins(cursor).items() if key != "other"})
    else:
        write_table(["cursor", "version", "moved", "table"], map(_cells, found), ["version"])


def _cells(cursor: CdfCursor) -> list[str]:
    version = "none" if cursor.last_version < 0 else str(cursor.last_version)
    texts = (cursor.dataset_name, version, cursor.last_timestamp or "", cursor.table_id or "")
    return list(map(printable, texts))


def reset_cursor(cursors: CdfCursorStore, name: str, version: int | None) -> None:
    """Delete a cursor, or set it to a version."""
    cursors.reset(name, version)
    what = "deleted: the next run starts with all rows" if version is None else f"at version {version}"
    write_facts([(name, what)])
