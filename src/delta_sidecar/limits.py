"""Sizes at which readers and builders change their ways: measured ones by default, small ones in tests.

Answers never depend on them, only time, memory and requests do.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MaskLimits:
    """How the keys of a tail are held, and when they are hashed."""

    recent_keys: int = 16_384
    """Keys held as objects, each twice the size of its bytes; more go into a hashed run."""
    array_keys: int = 500
    """Removed keys that come together from this many on stay in their Arrow array; fewer become objects."""
    joined_arrays: int = 16
    """Arrays of keys that are joined: a look-up goes through all chunks, and joining all at once would double them."""
    search_keys: int = 100
    """Keys that could be compared in the time it takes to find a place in a chunk."""
    keys_per_row: int = 2
    """Up to so many keys for each row of a row group, Arrow's table of all of them costs less than our hashes."""
