"""What records must fit, and what becomes of a batch of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pyarrow as pa

from delta_sidecar.pipeline.records.inference import merged
from delta_sidecar.texts import printable
from delta_sidecar.values.column_names import folded

ELEMENTS: Final = 0
"""In a path: the elements of a list."""
VALUES: Final = 1
"""In a path: the values of a map."""
Path: TypeAlias = tuple[str | int, ...]
_LONGEST_EXAMPLE: Final = 200
NOT_IN_ENCODING: Final = "it is not in the encoding of the file"
"""The reason of a record whose bytes are no text."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The contract of a parse."""

    columns: pa.Schema
    time_column: str | None = None
    """This column is taken as text, whatever it will be in the table: times are parsed later, all in one place."""

    def __post_init__(self) -> None:
        names = [folded(name) for name in self.columns.names]
        assert len(set(names)) == len(names)


@dataclass(frozen=True, slots=True)
class Problem:
    """A field that the contract lacks (`kind` is its type so far), or a value that does not fit its column's type."""

    path: Path
    kind: pa.DataType | None
    example: str

    @property
    def is_new(self) -> bool:
        return self.kind is not None

    @property
    def name(self) -> str:
        """The path for people."""
        return ".".join(str(step) for step in self.path if isinstance(step, str))


@dataclass(slots=True)
class Report:
    """Problems of a task, each reported once; a new field again when its type grows."""

    known: dict[Path, pa.DataType | None] = field(default_factory=dict)

    def new(self, path: Path, kind: pa.DataType, example: str) -> Problem | None:
        before = self.known.get(path)
        after = kind if before is None else merged(before, kind)
        if path in self.known and after == before:
            return None
        self.known[path] = after
        return Problem(path, after, shortened(example))

    def misfit(self, path: Path, example: str) -> Problem | None:
        if path in self.known:
            return None
        self.known[path] = None
        return Problem(path, None, shortened(example))


def shortened(text: str) -> str:
    """A text that fits into a message: not too long, and nothing in it that moves a terminal's cursor."""
    cut = text if len(text) <= _LONGEST_EXAMPLE else text[: _LONGEST_EXAMPLE - 1] + "…"
    return printable(cut)


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that does not parse."""

    line: int
    reason: str
    raw: str | None = None
    """Its text, where it is not the whole line."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """What lines became. Rows are in the order of their lines."""

    columns: Sequence[pa.Array]
    """One for each column of the contract."""
    lines: Sequence[int]
    """The line of each row."""
    rescued: dict[int, str] = field(default_factory=dict)
    """By row: JSON text of what the contract has no place for."""
    problems: dict[int, list[Problem]] = field(default_factory=dict)
    """By row: what is wrong with it, where the task has not said so before."""
    misfits: frozenset[int] = frozenset()
    """Rows with any value or field that has no place, reported or not."""
    bad: Sequence[BadRecord] = ()
    texts: dict[int, str] = field(default_factory=dict)
    """By row: its own text, where its line holds other records, too."""
