"""Verify an index: every byte, every count, and every file and bound against a simple replay of the log.

Both sides become digests (a few dozen bytes per file), so ten million files do not need an object each. Files whose
digests differ are read once more, to report the difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from delta_sidecar.errors import (
    CorruptIndexError,
    CorruptLogError,
    CorruptTableError,
    ObjectNotFoundError,
    VersionNotFoundError,
)
from delta_sidecar.index.build.build_job import schema_hash
from delta_sidecar.index.format.index_columns import PARTITION, STATS_JSON, one_array, path_of
from delta_sidecar.index.format.index_layout import IndexLayout
from delta_sidecar.index.format.index_names import manifest_name
from delta_sidecar.index.format.manifest import Manifest, layout_of, totals
from delta_sidecar.index.format.part_entries import PartEntry
from delta_sidecar.index.format.sort_keys import PartOrder
from delta_sidecar.index.read.manifests import commit_crc32, commit_meta, listed_manifests, read_hint, read_manifest
from delta_sidecar.index.read.whole_part import completed, decoded_part, part_files, read_part
from delta_sidecar.index.stats.index_rows import conformed, off_bucket
from delta_sidecar.index.verify.digests import key_digests
from delta_sidecar.index.verify.part_check import check_embedded, check_entry, check_files, check_floats
from delta_sidecar.index.verify.plain_replay import (
    LOST,
    MORE,
    SILENT,
    Digested,
    DigestList,
    LogRows,
    RowReader,
    live_digests,
    live_rows_of,
)
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.snapshot import Snapshot, load_snapshot
from delta_sidecar.storage.store import Store

_AT_ONCE: Final = 10_000
"""Files that are checked again at a time."""
_EXTRA_KEY: Final = "extra\0"
_EXTRA: Final = 8
"""Of an index row: it has stats of a column that the table does not have any more."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of `verify_index`: the index that was checked, and its differences from the log.

    Example:
        >>> from delta_sidecar import build_index, verify_index
        >>> version = build_index("events").version
        >>> report = verify_index("events")
        >>> report.ok, report.version == version, report.files
        (True, True, 4)
    """

    version: int | None
    """The version of the index; None if there is no index."""
    files: int
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """Findings that are not problems."""
    manifest: str | None = None
    """Path of the manifest, relative to the table."""
    parts: int = 0
    user_metadata: Mapping[str, str] = field(default_factory=dict)
    """Your own metadata in the manifest."""

    @property
    def ok(self) -> bool:
        """Whether the index agrees with the log."""
        return not self.problems


Progress: TypeAlias = Callable[[str], None]


def verify_index(
    store: Store, version: int | None = None, most_named: int = 20, progress: Progress = lambda message: None
) -> VerifyReport:
    """Check the index of a version, or the newest one; at most `most_named` files that differ are named."""
    head = load_snapshot(store, version)
    manifests = [entry for entry in listed_manifests(store) if version is None or entry[0] == version]
    if not manifests:
        what = "no index" if version is None else f"no index of version {version}"
        return VerifyReport(version, 0, (f"{what}; build it with `sidecar build`",))
    notes = [
        f"{directory}/{manifest_name(newer)} belongs to an earlier table: its version is above the newest, "
        f"{head.version}; it is ignored"
        for newer, directory, _ in manifests
        if newer > head.version
    ]
    newest, directory, _ = manifests[min(len(notes), len(manifests) - 1)]
    path = f"{directory}/{manifest_name(newest)}"
    if newest > head.version:
        stale = f"{path} is stale: the table's newest version is {head.version}; build the index again"
        return VerifyReport(newest, 0, (stale,), (), path)
    try:
        manifest = read_manifest(store, directory, newest)
        _ = manifest.parts
        snapshot = head if newest == head.version else _at(store, newest, path)
        check = _Check(snapshot, directory, manifest, layout_of(manifest), most_named, version is None, progress)
    except CorruptIndexError as error:
        return VerifyReport(newest, 0, (str(error),), (), path)
    check.notes += notes
    check.run()
    if newest < head.version:
        behind = head.version - newest
        check.notes.append(
            f"the table is at version {head.version}: {behind:,} newer {'commit is' if behind == 1 else 'commits are'} "
            "read from the log; `sidecar build` adds them to the index"
        )
    return VerifyReport(
        version=newest,
        files=manifest.files,
        problems=tuple(check.problems),
        notes=tuple(check.notes),
        manifest=path,
        parts=len(manifest.parts),
        user_metadata=manifest.user_metadata,
    )


def _at(store: Store, version: int, path: str) -> Snapshot:
    try:
        return load_snapshot(store, version)
    except (CorruptTableError, VersionNotFoundError, ObjectNotFoundError) as error:
        raise CorruptIndexError(f"{path} is stale: its version can no longer be rebuilt ({error})") from None


@dataclass(slots=True)
class _Check:
    snapshot: Snapshot
    directory: str
    manifest: Manifest
    layout: IndexLayout
    most_named: int
    latest: bool
    progress: Progress
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def store(self) -> Store:
        return self.snapshot.store

    @property
    def name(self) -> str:
        return manifest_name(self.manifest.version)

    def run(self) -> None:
        self._bound()
        if self.problems:
            return
        self.problems += self._state()
        self.problems += self._sums()
        if self.latest:
            self._hint()
        reader = RowReader(self.layout)
        rows = self._parts(reader)
        if rows is not None:
            self.problems += _Comparison(self, reader, rows).differences()

    def _bound(self) -> None:
        """To the very commit file, or at least to the table's id."""
        if self.manifest.table_id != self.snapshot.metadata.id:
            self.problems.append(
                f"{self.name} is stale: it belongs to table {self.manifest.table_id}, and this is table "
                f"{self.snapshot.metadata.id}; build the index again"
            )
            return
        meta = commit_meta(self.snapshot.store, self.snapshot.listing, self.manifest.version)
        built_at = self.manifest.commit
        if meta is None:
            self.notes.append(f"{self.name} is bound by the table's id alone: its commit file is gone")
        elif built_at is None:
            self.problems.append(
                f"{self.name} says that commit {self.manifest.version} did not exist when the index was built, but it "
                "does now; build the index again"
            )
        elif meta.size != built_at.size:
            self.problems.append(
                f"{self.name} is stale: commit {self.manifest.version} has {meta.size} bytes, and had {built_at.size} "
                "when the index was built; build it again"
            )
        elif not built_at.is_of(meta) and built_at.crc32 not in (None, commit_crc32(self.store, meta)):
            self.problems.append(
                f"{self.name} is stale: commit {self.manifest.version} has other bytes than when the index was built; "
                "build it again"
            )
        elif not built_at.is_of(meta):
            self.notes.append(f"{self.name} is bound by the table's id alone: its commit file was copied or touched")

    def _state(self) -> Iterator[str]:
        manifest, known = self.manifest, self.snapshot
        if _protocol(manifest.protocol) != _protocol(known.protocol):
            yield f"{self.name} has another protocol than version {manifest.version} of the table"
        if _metadata(manifest.metadata) != _metadata(known.metadata):
            yield f"{self.name} has other metadata than version {manifest.version} of the table"
        if manifest.schema_hash != schema_hash(manifest.metadata.schemaString):
            yield f"{self.name}: its schema hash does not match its schema"

    def _sums(self) -> Iterator[str]:
        manifest = self.manifest
        if (manifest.files, manifest.bytes, manifest.records) != totals(manifest.parts):
            yield f"{self.name}: its totals do not match its parts"
        names = Counter(part.id for part in manifest.parts)
        yield from (f"{self.name} names part {name} twice" for name in sorted(n for n in names if names[n] > 1))
        try:
            highs = PartOrder.of(manifest.parts, self.layout.sort).highs
        except CorruptIndexError as error:
            yield f"{self.name}: {error}"
            return
        if any(left is None or left < right for left, right in pairwise(highs) if right is not None):
            yield f"{self.name}: its parts are not sorted by key"

    def _hint(self) -> None:
        hint = read_hint(self.store, self.directory)
        if hint != self.manifest.version:
            state = "there is none" if hint is None else f"it names {hint}"
            self.notes.append(f"the hint {self.directory}/_last_index does not name this index ({state})")

    def _parts(self, reader: RowReader) -> Digested | None:
        """The digests of all rows; None if a part cannot be read."""
        digests = DigestList()
        broken = False
        for number, part in enumerate(self.manifest.parts):
            self.progress(f"{number:,} of {len(self.manifest.parts):,} parts of the index checked")
            try:
                files = part_files(self.store, self.directory, part)
                check_files(files, part)
                rows = completed(decoded_part(files, part, self.layout))
                self.problems += check_entry(rows, part, self.layout)
                self.problems += check_floats(rows, part, self.layout)
                self._note_off_bucket(rows, part)
                if part.stats is None:
                    self.problems += check_embedded(files, part, self.manifest)
            except CorruptIndexError as error:
                self.problems.append(str(error))
                broken = True
                continue
            columns, extra = self.columns(rows)
            digests.add(self.keys(columns), columns, reader, extra)
        return None if broken else digests.close()

    def _note_off_bucket(self, rows: pa.Table, part: PartEntry) -> None:
        """The table's own fault, not the index's: readers go by the files' bounds there."""
        off = np.flatnonzero(off_bucket(rows, self.layout))
        if len(off):
            path = rows.column("path")[int(off[0])].as_py()
            self.notes.append(
                f"part {part.id}: the time bounds of {len(off):,} files contradict their bucket (for example {path}); "
                "readers do not prune by the bucket there; check which writer wrote them"
            )

    def rows(self, part: PartEntry) -> pa.Table:
        return completed(read_part(self.store, self.directory, part, self.layout))

    def columns(self, rows: pa.Table) -> tuple[dict[str, pa.Array], NDArray[np.uint8]]:
        """The columns in the types that the table has now, and which rows have stats of columns it had before."""
        now = conformed(rows, self.layout)
        extra = np.zeros(rows.num_rows, np.bool_)
        leaves = {leaf.path: leaf for leaf in self.layout.leaves}
        for name in rows.column_names:
            kind, *path = path_of(name)
            if path and kind != PARTITION:
                leaf = leaves.get(tuple(path))
                if leaf is None or rows.column(name).type != now.column(name).type:
                    extra |= np.asarray(one_array(rows.column(name)).is_valid())
        return {name: one_array(now.column(name)) for name in now.column_names}, extra.astype(np.uint8) * _EXTRA

    def keys(self, columns: dict[str, pa.Array]) -> list[bytes]:
        maker = KeyMaker(self.store.root_uri)
        keys: list[bytes] = maker.keys(columns["path"], columns["deletion_vector"]).to_pylist()
        return keys


def _protocol(protocol: Protocol) -> tuple[Any, ...]:
    features = (set(protocol.readerFeatures or ()), set(protocol.writerFeatures or ()))
    return protocol.minReaderVersion, protocol.minWriterVersion, *features


def _metadata(metadata: Metadata) -> tuple[Any, ...]:
    """What counts of the metadata, the same from a commit and from a checkpoint."""
    return metadata.id, metadata.schemaString or "", list(metadata.partitionColumns), metadata.properties


@dataclass(slots=True)
class _Comparison:
    """Compares index rows with the log's."""

    check: _Check
    reader: RowReader
    index: Digested

    def differences(self) -> list[str]:
        """The differences; the first ones are named file by file."""
        log = self._log()
        suspects = _suspects(log, self.index)
        lines: list[str] = []
        for at in range(0, len(suspects), _AT_ONCE):
            self.check.progress(f"{at:,} of {len(suspects):,} differing files checked again")
            lines += self._look(suspects[at : at + _AT_ONCE])
            if len(lines) > (most := self.check.most_named):
                rest = len(lines) - most + max(0, len(suspects) - at - _AT_ONCE)
                return [*lines[:most], f"and {rest:,} more files may differ"]
        return lines

    def _log(self) -> Digested:
        """The log's rows. A broken checkpoint means the next base, as for every reader."""
        while True:
            try:
                return live_digests(self.check.snapshot, self.reader, self._say_replayed)
            except CorruptLogError as error:
                if self.check.snapshot.segment.base is None:
                    raise
                self.check.notes.append(f"{self.check.snapshot.segment.base} was not used: {error}")
                self.check.snapshot, _ = self.check.snapshot.on_older_base()

    def _say_replayed(self, adds: int) -> None:
        self.check.progress(f"{adds:,} of about {self.check.manifest.files:,} files of the log replayed")

    def _look(self, keys: Sequence[bytes]) -> list[str]:
        wanted = set(keys)
        logged = live_rows_of(self.check.snapshot, self.reader, wanted)
        indexed = self._indexed(wanted)
        lines: list[str] = []
        for key in keys:
            ours = indexed.get(key, [])
            if key not in logged:
                lines += [f"{_name(ours[0])} is in the index but not live" if ours else "a file is not live"]
            elif len(ours) != 1:
                rows, row = logged[key]
                path = rows.columns["path"][row].as_py()
                lines.append(f"{path} is {'missing from the index' if not ours else f'in the index {len(ours)} times'}")
            else:
                lines += _differences(logged[key], ours[0], self.reader)
        return lines

    def _indexed(self, wanted: set[bytes]) -> dict[bytes, list[dict[str, Any]]]:
        rows_by_key: dict[bytes, list[dict[str, Any]]] = {}
        for part in self.check.manifest.parts:
            columns, extra = self.check.columns(self.check.rows(part))
            digests = key_digests(self.check.keys(columns))
            for row, key in enumerate(map(bytes, digests)):
                if key in wanted:
                    values = {name: _plain(array, row) for name, array in columns.items()}
                    rows_by_key.setdefault(key, []).append(values | {_EXTRA_KEY: bool(extra[row])})
        return rows_by_key


def _suspects(log: Digested, index: Digested) -> list[bytes]:
    """Keys that are not on both sides once, or whose rows are not the same."""
    keys = np.concatenate([log.keys, index.keys])
    order = np.lexsort((np.arange(len(keys)), keys[:, 0], keys[:, 1]))
    ordered = keys[order]
    begins = np.ones(len(keys), np.bool_)
    begins[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    starts = np.flatnonzero(begins)
    first, second = order[starts], order[np.minimum(starts + 1, len(keys) - 1)]
    paired = (np.diff(np.append(starts, len(keys))) == 2) & (first < len(log)) & (second >= len(log))
    fine = _agree(log.take(first[paired]), index.take(second[paired] - len(log)))
    odd = np.concatenate([starts[~paired], starts[paired][~fine]])
    return [key.tobytes() for key in ordered[odd]]


def _agree(log: Digested, index: Digested) -> NDArray[np.bool_]:
    """Whether rows say the same: by typed stats or by the text, which the index keeps where it must."""
    must_keep = (log.flags & LOST != 0) | ((log.flags & MORE != 0) & (index.flags & _EXTRA == 0))
    text = (index.texts == log.texts) | ((index.texts == 0) & ~must_keep)
    stats = ((index.stats == log.stats) | (index.stats == log.said)) & text
    same: NDArray[np.bool_] = (index.core == log.core) & (stats | (log.flags & SILENT != 0))
    return same


def _name(row: dict[str, Any]) -> str:
    return str(row["path"])


def _plain(array: pa.Array | None, row: int) -> Any:
    """A value that compares: maps as dictionaries, times as the numbers they are stored as, nothing as None."""
    value = None if array is None else array[row]
    if value is None or not value.is_valid:
        return None
    if pa.types.is_temporal(value.type):
        return value.cast(pa.int32() if pa.types.is_date(value.type) else pa.int64()).as_py()
    return (dict(value.as_py()) or None) if pa.types.is_map(value.type) else value.as_py()


def _differences(logged: tuple[LogRows, int], ours: dict[str, Any], reader: RowReader) -> list[str]:
    """What differs of one file. A checkpoint may have dropped stats that the index still knows."""
    rows, row = logged
    text, kept, flags = _plain(rows.columns[STATS_JSON], row), ours.get(STATS_JSON), int(rows.flags[row])
    lines: list[str] = []
    for name in (*reader.core, *reader.stats):
        said = {"": _plain(rows.columns.get(name), row), "text": _plain(rows.texts.get(name), row)}
        dropped = text is None and said[""] is None and name in reader.stats
        if not dropped and ours.get(name) not in (said[""], said["text"] if said["text"] is not None else said[""]):
            lines.append(f"{_name(ours)}: {'.'.join(path_of(name))} is {ours.get(name)!r}, the log says {said['']!r}")
    if text is not None and kept is not None and kept != text:
        lines.append(f"{_name(ours)}: its stats_json is not the text of the log")
    if kept is None and (flags & LOST or (flags & MORE and not ours[_EXTRA_KEY])):
        lines.append(f"{_name(ours)}: its stats have values that the index lacks, and their text was not kept")
    return lines
