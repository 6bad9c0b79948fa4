"""A predicate as it was written: names not yet looked up, literals not yet of a column's type.

Made by `predicate_sql` and `predicate_tuples`; `binding` turns it into an `Expression`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from delta_sidecar.predicates.expression import Operator
from delta_sidecar.predicates.literals import Literal


@dataclass(frozen=True, slots=True)
class Name:
    """A column's name, part by part. A `dotted` one came as one string and may be a path, too."""

    parts: tuple[str, ...]
    dotted: bool = False


@dataclass(frozen=True, slots=True)
class DayOf:
    """`date(column)`: the day of a timestamp, in UTC."""

    name: Name


Operand: TypeAlias = Name | DayOf | Literal


@dataclass(frozen=True, slots=True)
class Comparison:
    left: Operand
    op: Operator
    right: Operand


@dataclass(frozen=True, slots=True)
class Sameness:
    """`IS NOT DISTINCT FROM`, `<=>`: equal, or both null."""

    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Membership:
    """`IN`."""

    operand: Operand
    options: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Likeness:
    """`LIKE`."""

    operand: Operand
    pattern: str
    escape: str = "\\"


@dataclass(frozen=True, slots=True)
class Nullness:
    """`IS NULL`."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Truth:
    """`IS TRUE`, `IS FALSE`, `IS NULL` of a condition: never unknown."""

    condition: Condition
    value: bool | None


@dataclass(frozen=True, slots=True)
class Negation:
    condition: Condition


@dataclass(frozen=True, slots=True)
class All:
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Any:
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Bare:
    """A boolean column or literal standing alone."""

    operand: Operand


Condition: TypeAlias = Comparison | Sameness | Membership | Likeness | Nullness | Truth | Negation | All | Any | Bare
