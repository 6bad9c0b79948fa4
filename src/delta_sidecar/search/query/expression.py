"""A search query as a value, before it is bound to the fields of a table.

`query_text` makes it from text, `query_engine` makes the engine's query of it. `at` is where a part stands in the
text, for messages; two queries are equal wherever their parts stood.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

ANY: Final = "*"
"""The wildcard for any characters."""
ONE: Final = "?"
"""The wildcard for one character."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word without quotes. The analyzer may divide it; then its words follow one another."""

    field: str | None
    text: str
    at: int = dataclasses.field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words in this order, with at most `slop` others between them in all."""

    field: str | None
    text: str
    slop: int = 0
    at: int = dataclasses.field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Wild:
    """The wildcard at a place of a pattern."""

    sign: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """A word with wildcards: texts and `Wild`, in order."""

    field: str | None
    parts: tuple[str | Wild, ...]
    at: int = dataclasses.field(default=0, compare=False)

    def __str__(self) -> str:
        return "".join(part.sign if isinstance(part, Wild) else part for part in self.parts)


@dataclass(frozen=True, slots=True)
class Fuzzy:
    """A word, or one that differs in at most `distance` characters."""

    field: str | None
    text: str
    distance: int
    at: int = dataclasses.field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Regex:
    """A regular expression that matches a whole word of the index."""

    field: str | None
    pattern: str
    at: int = dataclasses.field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Range:
    """Values between two texts; None is open."""

    field: str
    low: str | None
    high: str | None
    includes_low: bool = True
    includes_high: bool = True
    at: int = dataclasses.field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Exists:
    """The field has a value."""

    field: str
    at: int = dataclasses.field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Everything:
    """Every document."""


@dataclass(frozen=True, slots=True)
class Both:
    """All of the queries match."""

    queries: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """At least one of the queries matches."""

    queries: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class Without:
    """The query does not match."""

    query: Query


Leaf: TypeAlias = Word | Phrase | Pattern | Fuzzy | Regex | Range | Exists
Query: TypeAlias = Leaf | Everything | Both | Either | Without


def leaves(query: Query, wanted: bool = True) -> Iterator[tuple[Leaf, bool]]:
    """Every leaf, and whether it is wanted: False below an odd number of negations."""
    match query:
        case Both(queries) | Either(queries):
            for one in queries:
                yield from leaves(one, wanted)
        case Without(one):
            yield from leaves(one, not wanted)
        case Everything():
            return
        case _:
            yield query, wanted
