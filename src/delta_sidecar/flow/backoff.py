"""How long to wait after failures in a row: longer after each, up to a limit."""

from __future__ import annotations


def backoff(first: float, failures: int, longest: float, base: float = 2.0) -> float:
    """The pause in seconds: `first`, times `base` for each failure, but at most `longest`."""
    try:
        return min(longest, first * base**failures)
    except OverflowError:  # after a thousand failures
        return longest
