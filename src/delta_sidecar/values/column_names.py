"""Which names mean one column: those that differ in case alone, as Spark has it.

Spark compares names in lower case. A fold of Unicode would take more of them for one: `straße` and `strasse` are two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def folded(name: str) -> str:
    """What two names of one column have in common."""
    return name.lower()


def named_twice(names: Iterable[str]) -> str | None:
    """The first of the names that another one of them is the same as."""
    given = list(names)
    counts = Counter(map(folded, given))
    return next((name for name in given if counts[folded(name)] > 1), None)
