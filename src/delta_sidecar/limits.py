"""Sizes at which readers and builders change their ways: measured ones by default, small ones in tests.

Answers never depend on them, only time, memory and requests do.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """How the bytes of commits come, and how many of them stay."""

    parallelism: int = 10
    """Commits fetched at once."""
    held_bytes: int = 32 << 20
    """Bytes of commits that are held: half of them as they are, half of them compressed. 0: each is read once."""
    whole_commit: int = 4 << 20
    """A commit larger than this is streamed, and held only compressed."""
    block: int = 256 << 10
    """Bytes of text parsed at a time."""
    guesses: int = 8
    """Commits that are fetched beside the listing, before it says whether they are there."""
    unhinted_guess: int = 256 << 10
    """Bytes of a commit that is fetched so where no hint names a base: the first commits may have any size."""


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
    """Keys for each row of a row group up to which Arrow's own hash table is cheaper than our hashes."""


@dataclass(frozen=True, slots=True)
class PartLimits:
    """How the parts of an index are fetched and decoded."""

    whole_stats: int = 1 << 20
    """A stats file up to this size comes whole: one trip instead of two."""
    whole_core: int = 256 << 10
    """A core up to this size comes whole wherever it lies."""
    ahead: int = 3
    """Parts on their way at once, at most; the bytes of the read-ahead bound them, too. Local ones are read when it is
    their turn."""
    few_parts: int = 4
    """A scan of so few parts may be asked again: their cores go into the cache."""
    few_rows: int = 30_000
    """So few rows are decoded before a thread has begun."""
    helpers: int = min(1, (os.cpu_count() or 1) - 1)
    """Threads that decode beside the consumer's own: more cost memory in proportion and soon wait for each other."""
    stats_rows: int = 10_000
    """Rows decoded at a time where all their stats are wanted, at most."""
    stats_cells: int = 1 << 21
    """Values decoded at a time there, at most."""


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """All of a reader's."""

    commits: CommitLimits = field(default_factory=CommitLimits)
    mask: MaskLimits = field(default_factory=MaskLimits)
    parts: PartLimits = field(default_factory=PartLimits)
    small_file: int = 4 << 20
    """Up to here a remote data file comes whole, in one request: a footer and its columns would be three."""


@dataclass(frozen=True, slots=True)
class BuildLimits:
    """How an index is cut, how much a build in one process does, and holds in memory on the way."""

    row_group_rows: int = 10_000
    """Rows of a row group."""
    part_rows: int = 100_000
    """Rows of a part, at most."""
    single_rows: int = 20_000
    """A table of at most this many files has one part, in one file."""
    small_rows: int = 20_000
    """A part of fewer rows is small."""
    small_parts: int = 8
    """More small parts than this are merged."""
    tail_bytes: int = 512 << 20
    """Bytes of commits that one process replays; more are left to an engine."""
    process_files: int = 5_000_000
    """Files up to which `auto` builds in one process."""
    threads: int = min(4, os.cpu_count() or 1)
    """Threads beside the one that reads; each holds a batch, a run or a part."""
    batch_rows: int = 5_000
    """Files that are typed at a time."""
    run_bytes: int = 32 << 20
    """Memory of the rows that are sorted at once. Less of them needs no file; more runs cost more in the merge."""
    block_bytes: int = 1 << 20
    """Memory of a block: the merge holds one of each run, at most."""
    merge_bytes: int = 16 << 20
    """Memory of the rows that the merge sorts at a time, beside those that wait."""
    part_bytes: int = 128 << 20
    """Memory of the rows of a part, at most, unless it has one row group alone."""
