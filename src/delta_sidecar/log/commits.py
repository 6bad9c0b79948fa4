"""A commit as a stream: its lines are parsed in blocks, so a commit of a million adds needs little memory.

Commits are read twice: once for protocol and metadata, which must be known before the first file is emitted, and once
for the files. So commits are kept in memory, up to a budget: the first ones as they are, later and large ones
compressed to about a fifth. Commits that do not fit are fetched again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeAlias, TypeVar

import pyarrow as pa
from msgspec import Struct

from delta_sidecar import arrays
from delta_sidecar.errors import CorruptLogError
from delta_sidecar.limits import CommitLimits
from delta_sidecar.log.actions import Add, BareAdd, BareFileLine, CompactedLine, FileLine
from delta_sidecar.log.dialect import DELTA, Dialect
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.file_schema import DEFAULT_COLUMNS, FILE_SCHEMA
from delta_sidecar.log.lines import decode_lines, whole_lines
from delta_sidecar.log.mask import MaskBuilder
from delta_sidecar.storage.requests import begin
from delta_sidecar.storage.store import Buffer, ObjectMeta, Store

_CODEC = "zstd"
_NOT_WORTH = 2_000
"""A commit of fewer bytes is not worth compressing."""
_WORST_RATIO = 3
"""A commit is compressed while it streams only if its size divided by this would fit."""


_BARE_COLUMNS = frozenset(DEFAULT_COLUMNS)


T = TypeVar("T")
Adds: TypeAlias = list[Add] | list[BareAdd]


class CommitBatch(Struct, Generic[T], frozen=True):
    """Some of a commit's file actions: the adds as objects or as rows."""

    adds: T
    add_keys: list[bytes]
    remove_keys: pa.BinaryArray


class _Packed(Struct, frozen=True):
    """A commit in compressed pieces, each with its size."""

    pieces: tuple[tuple[bytes, int], ...]

    def __len__(self) -> int:
        return sum(len(piece) for piece, _ in self.pieces)

    def chunks(self) -> Iterator[Buffer]:
        return (pa.decompress(piece, size, _CODEC, asbytes=True) for piece, size in self.pieces)

    @classmethod
    def of(cls, data: Buffer, block: int) -> _Packed:
        view = memoryview(data)
        cut = (view[at : at + block] for at in range(0, len(view), block))
        return cls(tuple(map(_packed, cut)))


def _packed(piece: Buffer) -> tuple[bytes, int]:
    return pa.compress(piece, _CODEC, asbytes=True), len(piece)


class CommitBytes:
    """The bytes of commits: fetched in parallel, kept within a budget, streamed when large."""

    def __init__(self, store: Store, limits: CommitLimits | None = None, dialect: Dialect = DELTA) -> None:
        self._store = store
        self._dialect = dialect
        self.limits = limits or CommitLimits()
        self._lock = threading.Lock()
        self._held: dict[str, Buffer | _Packed] = {}
        self._held_bytes = 0
        self._under_way: dict[str, Future[Buffer]] = {}

    def through(self, store: Store, limits: CommitLimits) -> CommitBytes:
        """The same bytes for readers of another store of the same table."""
        other = CommitBytes(store, limits, self._dialect)
        with self._lock:
            other._held, other._held_bytes = dict(self._held), self._held_bytes
        return other

    def compact(self, budget: int) -> CommitBytes:
        """The same bytes in little memory: large commits compressed, those that do not fit left out."""
        other = CommitBytes(self._store, self.limits, self._dialect)
        with self._lock:
            held = dict(self._held)
        is_small = self._held_bytes <= min(budget, self.limits.whole_commit)
        for path, data in held.items():
            packed = data
            if not is_small and not isinstance(data, _Packed):
                if other._held_bytes + len(data) // _WORST_RATIO > budget:
                    continue
                packed = _Packed.of(data, self.limits.block)
            if other._held_bytes + len(packed) <= budget:
                other._held[path] = packed
                other._held_bytes += len(packed)
        return other

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._held_bytes

    def hold(self, meta: ObjectMeta, data: Buffer) -> bool:
        """Keep bytes that were fetched before the listing was known, unless their size differs from the listed one."""
        if len(data) != meta.size:
            return False
        with self._lock:
            is_held = meta.path in self._held
            as_it_is = self._held_bytes + len(data) <= self.limits.held_bytes // 2 or len(data) <= _NOT_WORTH
            may_fit = self._held_bytes + len(data) // _WORST_RATIO <= self.limits.held_bytes
        if not is_held and (as_it_is or may_fit):
            self._keep(meta, data if as_it_is else _Packed.of(data, self.limits.block))
        return True

    def _keep(self, meta: ObjectMeta, data: Buffer | _Packed) -> None:
        with self._lock:
            if self._held_bytes + len(data) <= self.limits.held_bytes and meta.path not in self._held:
                self._held[meta.path] = data
                self._held_bytes += len(data)

    def holds(self, metas: Iterable[ObjectMeta]) -> bool:
        """Whether commits can be read without another request."""
        with self._lock:
            return all(meta.path in self._held or meta.path in self._under_way for meta in metas)

    def prefetch(self, metas: Iterable[ObjectMeta]) -> None:
        """Start fetching commits that will be read next."""
        for meta in metas:
            if meta.size > self.limits.whole_commit:
                continue
            with self._lock:
                if meta.path in self._held or meta.path in self._under_way:
                    continue
                self._under_way[meta.path] = begin(self._store, self._store.get, meta.path)

    def discard(self, meta: ObjectMeta) -> None:
        """Release a commit that will not be read again."""
        with self._lock:
            data = self._held.pop(meta.path, None)
            self._held_bytes -= 0 if data is None else len(data)

    def cancel(self) -> None:
        """Cancel requests that have not started."""
        with self._lock:
            for future in self._under_way.values():
                future.cancel()
            self._under_way.clear()

    def blocks(self, meta: ObjectMeta, keep: bool = True) -> Iterator[bytes]:
        """The commit's text in blocks of whole lines. Without `keep` it is not held for another reading."""
        with self._lock:
            held = self._held.get(meta.path)
            future = self._under_way.pop(meta.path, None)
        if held is not None:
            yield from self._lines(held.chunks() if isinstance(held, _Packed) else [held], meta)
        elif meta.size > self.limits.whole_commit:
            chunks = self._streamed(meta) if keep else self._store.get_stream(meta.path, self.limits.block)
            yield from self._lines(chunks, meta)
        else:
            # A fetch no thread has begun is done here rather than waited for.
            data = self._store.get(meta.path) if future is None or future.cancel() else future.result()
            if keep:
                self.hold(meta, data)
            yield from self._lines([data], meta)

    def _lines(self, chunks: Iterable[Buffer], meta: ObjectMeta) -> Iterator[bytes]:
        unpack = self._dialect.unpack
        return whole_lines(chunks if unpack is None else unpack(chunks, meta.path), self.limits.block)

    def _streamed(self, meta: ObjectMeta) -> Iterator[Buffer]:
        """Stream a large commit; keep it, compressed, if it is read to its end and fits."""
        room = self.limits.held_bytes - self._held_bytes
        pieces: list[tuple[bytes, int]] | None = [] if meta.size // _WORST_RATIO <= room else None
        for chunk in self._store.get_stream(meta.path, self.limits.block):
            if pieces is not None:
                pieces.append(_packed(chunk))
                room -= len(pieces[-1][0])
                pieces = pieces if room >= 0 else None
            yield chunk
        if pieces is not None and sum(size for _, size in pieces) == meta.size:
            self._keep(meta, _Packed(tuple(pieces)))


def are_bare(columns: Sequence[str]) -> bool:
    """Whether these columns of `FILE_SCHEMA` need neither stats nor tags: then adds are read without them."""
    return _BARE_COLUMNS.issuperset(columns)


def file_actions(
    blocks: Iterable[bytes], path: str, columns: Sequence[str], maker: KeyMaker
) -> Iterator[CommitBatch[Adds]]:
    """A commit's adds and removes, a batch for each block; the adds have what `columns` of `FILE_SCHEMA` need."""
    line_type: type[Any] = BareFileLine if are_bare(columns) else FileLine
    for lines in decode_lines(blocks, line_type, path):
        adds: Any = [line.add for line in lines if line.add is not None]
        removes = [line.remove for line in lines if line.remove is not None]
        if adds or removes:
            yield CommitBatch(adds, maker.key_list(adds), maker.key_array(removes))


def file_batches(
    blocks: Iterable[bytes], path: str, columns: Sequence[str], maker: KeyMaker
) -> Iterator[CommitBatch[pa.RecordBatch]]:
    """As `file_actions`, with the adds as rows of `columns`."""
    for batch in file_actions(blocks, path, columns, maker):
        yield CommitBatch(rows_of_adds([(path, batch.adds)], columns), batch.add_keys, batch.remove_keys)


def rows_of_adds(adds: Sequence[tuple[str, Adds]], columns: Sequence[str]) -> pa.RecordBatch:
    """Rows of adds out of several commits, each with its path."""
    try:
        return add_rows([add for _, commit_adds in adds for add in commit_adds], columns)
    except OverflowError:
        if len(adds) > 1:
            for one in adds:
                rows_of_adds([one], columns)
        raise CorruptLogError(f"{adds[0][0]} holds a number that is out of its range; restore the file") from None


def is_reconciled(blocks: Iterable[bytes], path: str, maker: KeyMaker) -> bool:
    """Whether a compacted file has each action once, as the protocol says.

    Some writers only concatenate commits, in either order. Then it is unknown which of two actions is newer.
    """
    seen = MaskBuilder()
    states = 0
    for lines in decode_lines(blocks, CompactedLine, path):
        files = [line.add or line.remove for line in lines]
        keys = [maker.key(f.path, f.deletionVector) for f in files if f is not None]
        states += sum(line.metaData is not None for line in lines)
        if len(set(keys)) < len(keys) or seen.seen_list(keys) is not None or states > 1:
            return False
        seen.add(keys)
    return True


def add_rows(adds: Sequence[Add | BareAdd], columns: Sequence[str]) -> pa.RecordBatch:
    """Rows of `FILE_SCHEMA` for adds that are Python objects."""
    values = {name: _VALUES[name](adds) for name in columns}
    return arrays.record_batch(values, FILE_SCHEMA)


_VALUES: dict[str, Callable[[Sequence[Any]], list[Any]]] = {
    "path": lambda adds: [a.path for a in adds],
    "size": lambda adds: [a.size for a in adds],
    "modification_time": lambda adds: [a.modificationTime for a in adds],
    "partition_values": lambda adds: [a.partitionValues or {} for a in adds],
    "deletion_vector": lambda adds: [a.deletionVector for a in adds],
    "stats": lambda adds: [a.stats for a in adds],
    "tags": lambda adds: [a.tags for a in adds],
    "base_row_id": lambda adds: [a.baseRowId for a in adds],
    "default_row_commit_version": lambda adds: [a.defaultRowCommitVersion for a in adds],
    "clustering_provider": lambda adds: [a.clusteringProvider for a in adds],
}
