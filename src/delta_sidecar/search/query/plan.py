"""What is asked of each split: query and predicate as lookups in the fields of the engine.

A plan is made once for a search and holds nothing of a split. Names are those of the engine's fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from delta_sidecar.predicates.expression import Expression


@dataclass(frozen=True, slots=True)
class Lookup:
    """One of these values."""

    name: str
    values: tuple[str | int | bool, ...]


@dataclass(frozen=True, slots=True)
class WordSequence:
    """Words at these distances from the first one: at least two."""

    name: str
    words: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Matching:
    """A word that matches the engine's regular expression as a whole."""

    name: str
    regex: str


@dataclass(frozen=True, slots=True)
class MatchingSequence:
    """Words one after the other, each of which matches its regular expression: at least two."""

    name: str
    regexes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Near:
    """A word that differs in a few characters."""

    name: str
    text: str
    distance: int


@dataclass(frozen=True, slots=True)
class Interval:
    """Numbers from `low` to `high`, both included."""

    name: str
    low: int | float
    high: int | float


@dataclass(frozen=True, slots=True)
class Present:
    """The field has a value; found in the column of values, or as any term."""

    name: str
    is_fast: bool


@dataclass(frozen=True, slots=True)
class OfSplit:
    """A condition on the partition values, which are the same for every row of a split."""

    condition: Expression


@dataclass(frozen=True, slots=True)
class Always:
    """Every row."""


@dataclass(frozen=True, slots=True)
class Never:
    """No row."""


@dataclass(frozen=True, slots=True)
class AllOf:
    plans: tuple[Plan, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    plans: tuple[Plan, ...]


@dataclass(frozen=True, slots=True)
class Except:
    """Every row that the plan does not find."""

    plan: Plan


Plan: TypeAlias = (
    Lookup
    | WordSequence
    | Matching
    | MatchingSequence
    | Near
    | Interval
    | Present
    | OfSplit
    | Always
    | Never
    | AllOf
    | AnyOf
    | Except
)
