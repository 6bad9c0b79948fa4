"""Thresholds of readers and builders: the defaults were measured, tests use small ones.

They change time, memory and requests, but never results.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """How commits are fetched, and how many bytes of them are kept."""

    parallelism: int = 10
    """Commits fetched at once. In a `DeltaTable` the option `delta.commit.parallelism` sets it."""
    held_bytes: int = 32 << 20
    """Bytes of commits kept in memory: half uncompressed, half compressed. 0 keeps none. In a `DeltaTable` it is half
    of the option `delta.sidecar.memory_budget`."""
    whole_commit: int = 4 << 20
    """A commit larger than this is streamed, and held only compressed."""
    block: int = 256 << 10
    """Bytes of text parsed at a time."""
    guesses: int = 8
    """Commits fetched at the same time as the LIST, before it is known whether they exist. More saves round trips."""
    unhinted_guess: int = 256 << 10
    """Bytes fetched of each such commit if no hint names a base, because the first commits may be large."""
    known_tail: int = 4 << 20
    """A replayed tail of at most this many bytes of commits is kept in the cache for the next listing. 0 keeps none."""


@dataclass(frozen=True, slots=True)
class MaskLimits:
    """How the file keys of the tail are stored, and when they are hashed."""

    recent_keys: int = 16_384
    """Keys kept as objects, which take twice their bytes; more keys go into a hashed run."""
    array_keys: int = 500
    """At least this many removed keys of one commit stay in an Arrow array; fewer become objects."""
    joined_arrays: int = 16
    """Arrays of keys to join at a time. More makes look-ups faster, but doubles more memory while joining."""
    search_keys: int = 100
    """Keys that can be compared in the time of one binary search in a chunk."""
    keys_per_row: int = 2
    """Up to this many keys per row of a row group, Arrow's own hash table is cheaper than our hashes."""


@dataclass(frozen=True, slots=True)
class PartLimits:
    """How the parts of an index are fetched and decoded."""

    whole_stats: int = 1 << 20
    """A stats file up to this many bytes is fetched whole: one round trip instead of two."""
    whole_core: int = 256 << 10
    """On a local disk, a core up to this many bytes is read whole; a remote core always is."""
    ahead: int = 3
    """Remote parts fetched ahead at once, at most; the byte budget of the read-ahead also applies. Local parts are not
    read ahead."""
    few_parts: int = 4
    """If a scan reads at most this many parts, their cores go into the cache, because it is likely to be repeated; with
    a predicate, local ones are read by ranges. As many cores that were read by ranges are kept until the scan ends."""
    few_rows: int = 30_000
    """Up to this many rows are decoded without a second thread, which would take longer to start."""
    helpers: int = min(1, (os.cpu_count() or 1) - 1)
    """Threads that decode beside the consumer's own. More take more memory and soon wait for each other."""
    stats_rows: int = 10_000
    """Rows decoded at a time if all their stats are requested, at most."""
    stats_cells: int = 1 << 21
    """Values decoded at a time in that case, at most."""


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What engines are handed for their own Parquet scanners; beyond it the dataset serves."""

    files: int = 10_000
    """Files of a list; a longer one takes longer to plan than to prune when the query is run."""
    unfiltered_files: int = 1_000
    """The same without a predicate: the engine's own filter may leave out most, and only the dataset sees it."""
    deleted_rows: int = 5_000_000
    """Deleted rows by file and position; more take more memory than the scan itself."""
    scans: int = 64
    """Scans of one frame, one for each combination of partition values; beyond it these are joined by path."""


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """All limits of a reader."""

    commits: CommitLimits = field(default_factory=CommitLimits)
    mask: MaskLimits = field(default_factory=MaskLimits)
    parts: PartLimits = field(default_factory=PartLimits)
    engines: EngineLimits = field(default_factory=EngineLimits)
    small_file: int = 4 << 20
    """A remote data file up to this many bytes is fetched whole, in one request instead of three."""


@dataclass(frozen=True, slots=True)
class BuildLimits:
    """How an index is divided into parts, and how much a build in one process does and keeps in memory."""

    row_group_rows: int = 10_000
    """Rows per row group."""
    part_rows: int = 100_000
    """Rows per part, at most."""
    single_rows: int = 20_000
    """A table of at most this many files has one part, in one file."""
    small_rows: int = 20_000
    """A part with fewer rows counts as small."""
    small_parts: int = 8
    """If there are more small parts than this, they are merged."""
    tail_bytes: int = 512 << 20
    """Bytes of commits that one process replays to extend an index; with more, the index is rebuilt."""
    process_files: int = 5_000_000
    """Up to this many files, the engine `auto` builds in one process."""
    threads: int = min(4, os.cpu_count() or 1)
    """Threads beside the one that reads; each holds a batch, a run or a part in memory."""
    batch_rows: int = 5_000
    """Files whose stats are converted to typed columns at a time."""
    run_bytes: int = 32 << 20
    """Bytes of rows sorted in memory at once. A table that fits needs no temporary file; many runs slow the merge."""
    block_bytes: int = 1 << 20
    """Bytes per block of a run: the merge holds at most one block of each run."""
    merge_bytes: int = 16 << 20
    """Bytes of rows that the merge sorts at a time, in addition to those that wait."""
    part_bytes: int = 128 << 20
    """Bytes of rows per part in memory, at most, unless the part has only one row group."""
