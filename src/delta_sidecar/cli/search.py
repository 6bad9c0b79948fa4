"""`sidecar search`: hits as a table, as text with marks, or as JSON; counts instead of hits."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import click
import pyarrow as pa

from delta_sidecar.cli.output import bold, write_json
from delta_sidecar.cli.rows import json_values, write_rows
from delta_sidecar.cli.sinks import Sink
from delta_sidecar.texts import counted, printable

if TYPE_CHECKING:
    from delta_sidecar.search.companion.searching import CompanionSearch
    from delta_sidecar.search.query.searching import SearchHits
    from delta_sidecar.search.table import SearchTable

    Searchable: TypeAlias = SearchTable | CompanionSearch

_BEFORE, _BEHIND = "\x02", "\x03"
"""Marks that a text hardly has; they never reach the terminal."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a search is asked for."""

    query: str
    where: str | None
    limit: int
    columns: list[str] | None
    best: bool
    highlight: bool
    after: str | None
    verbose: bool


def print_hits(table: Searchable, wanted: Wanted, sink: Sink) -> None:
    """Print or write a page of hits, and say how to get the next one."""
    is_shown = wanted.highlight and sink.format is None
    marks: bool | tuple[str, str] = (_BEFORE, _BEHIND) if is_shown else wanted.highlight
    hits = table.search(
        wanted.query,
        wanted.where,
        limit=wanted.limit,
        order="best" if wanted.best else "newest",
        columns=wanted.columns,
        highlight=marks,
        after=wanted.after,
    )
    found = hits.to_table()
    if is_shown:
        sys.stdout.writelines(f"{line}\n" for line in _shown(found))
    else:
        write_rows(found.schema, iter(found.to_batches()), sink)
    _say_notes(hits.notes)
    if wanted.verbose or sys.stderr.isatty():
        _say_rest(hits, found.num_rows)


def _say_notes(notes: Sequence[str]) -> None:
    for note in notes:
        click.echo(f"note: {printable(note)}", err=True)


def _say_rest(hits: SearchHits, count: int) -> None:
    """For people, and for scripts that ask."""
    metrics = hits.metrics
    click.echo(
        f"{counted(count, 'hit')} in {counted(metrics.opened, 'split')} of {metrics.splits}, version {hits.version}",
        err=True,
    )
    if hits.next_page is not None:
        click.echo(f"more: --after {hits.next_page}", err=True)


def _shown(found: pa.Table) -> Iterator[str]:
    """For each hit a line of its values, then its texts with marks."""
    texts = found.schema.field("highlight").type.names
    plain = [name for name in found.column_names if name not in ("highlight", *texts)]
    for batch in found.to_batches():
        values = {
            name: json_values(batch.column(name))
            for name in (*plain, *texts, "highlight")
            if name in batch.schema.names
        }
        for row in range(batch.num_rows):
            cells = [f"{name}={_cell(values[name][row])}" for name in plain if values[name][row] is not None]
            yield printable("  ".join(cells))
            for name in texts:
                marked = (values["highlight"][row] or {}).get(name)
                text = marked if marked is not None else values.get(name, [None] * batch.num_rows)[row]
                if text is not None:
                    yield f"    {_marked(text)}"


def _cell(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _marked(text: str) -> str:
    """In bold on a terminal that can, otherwise between stars. Nothing else of the text steers the terminal."""
    parts = []
    for number, piece in enumerate(text.split(_BEFORE)):
        found, behind, rest = piece.partition(_BEHIND)
        if number == 0 or not behind:
            parts.append(printable(piece))
            continue
        strong = bold(printable(found))
        parts += [strong if strong != found else f"**{strong}**", printable(rest)]
    return "".join(parts)


def print_count(table: Searchable, query: str, where: str | None, as_json: bool) -> None:
    """Print how many rows a query finds."""
    number = table.count(query, where)
    _say_notes(table.notes)
    if as_json:
        write_json({"count": number})
    else:
        click.echo(number)


def print_histogram(table: Searchable, interval: str, query: str, where: str | None, sink: Sink) -> None:
    """Print how many rows fall into each span of time."""
    _print(table.histogram(interval, query, where), sink)
    _say_notes(table.notes)


def print_top_terms(table: Searchable, column: str, query: str, where: str | None, limit: int, sink: Sink) -> None:
    """Print the most frequent values of a column."""
    _print(table.top_terms(column, query, where, limit=limit), sink)
    _say_notes(table.notes)


def _print(found: pa.Table, sink: Sink) -> None:
    write_rows(found.schema, iter(found.to_batches()), sink)
