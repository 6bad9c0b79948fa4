"""A checkpoint of any kind: its protocol and metadata, and its files as a stream of rows.

Classic, multi-part and V2 checkpoints hold the same rows in different files: a *top* (one file, or all
parts of one) and, for V2, *sidecars* that the top names. A classic-named file may be V2 inside, so sidecars are
looked for in every single-file checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from delta_sidecar.arrays import pc
from delta_sidecar.errors import CorruptLogError, ObjectNotFoundError
from delta_sidecar.flow.pool import side_by_side
from delta_sidecar.flow.read_ahead import READ_AHEAD_BYTES
from delta_sidecar.log import actions
from delta_sidecar.log.checkpoint_rows import FileColumns, rows_of_checkpoint
from delta_sidecar.log.commits import add_rows
from delta_sidecar.log.dialect import DELTA, Dialect
from delta_sidecar.log.lines import decode_lines
from delta_sidecar.log.log_parquet import LogParquet
from delta_sidecar.log.segment import CheckpointFiles, CheckpointState
from delta_sidecar.storage.store import ObjectMeta, Store

_PATH = FileColumns(("path",))
_COUNTED_ROWS = 20_000


@dataclass(slots=True)
class CheckpointCost:
    """What reading it has cost so far; requests and bytes only where pyarrow read local files itself."""

    requests: int = 0
    bytes_read: int = 0
    row_groups_total: int = 0
    row_groups_read: int = 0


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group of a checkpoint's file."""

    file: ObjectMeta
    number: int
    rows: int


@dataclass(slots=True)
class Checkpoint:
    """An open checkpoint: footers read, sidecars found; rows are read on demand."""

    store: Store
    files: CheckpointFiles
    parquet: list[LogParquet]
    """Every Parquet file that may hold adds; the top comes first."""
    known: CheckpointState | None = None
    """Protocol and metadata, if they have been read."""
    inline: list[actions.Add] = field(default_factory=list)
    """Adds of a JSON top file."""
    transactions: list[actions.Transaction] = field(default_factory=list)
    """`txn` actions of a JSON top file."""

    def lanes(self, columns: FileColumns, batch_size: int, most: int) -> list[Iterator[pa.RecordBatch]]:
        """The adds of the checkpoint as rows of the asked-for columns, in up to `most` streams that share the row
        groups between them and may be read at the same time."""
        groups = [(file, group) for file in self.parquet for group in file.groups_with("add.path")]
        shares = [groups[lane::most] for lane in range(most)]
        lanes = [_lane(share, columns, batch_size, READ_AHEAD_BYTES // most) for share in shares if share]
        return [iter([add_rows(self.inline, columns.names)]), *lanes] if self.inline else lanes

    def groups(self) -> list[RowGroup]:
        """Every row group that may hold adds, for readers in other processes; `read_groups` reads them."""
        return [
            RowGroup(file.meta, group, file.metadata.row_group(group).num_rows)
            for file in self.parquet
            for group in file.groups_with("add.path")
        ]

    def count(self) -> int:
        """The number of adds: by the footers, and where their statistics do not tell, by reading the paths."""
        total = len(self.inline)
        for file in self.parquet:
            groups = file.groups_with("add.path")
            known = {group: file.values(group, "add.path") for group in groups}
            total += sum(values for values in known.values() if values is not None)
            unknown = [(file, group) for group, values in known.items() if values is None]
            total += sum(rows.num_rows for rows in _lane(unknown, _PATH, _COUNTED_ROWS, READ_AHEAD_BYTES))
        return total

    def rows(self, columns: FileColumns, batch_size: int) -> Iterator[pa.RecordBatch]:
        """The adds of the checkpoint, as rows of the asked-for columns, in one stream."""
        for lane in self.lanes(columns, batch_size, 1):
            yield from lane

    def state(self) -> CheckpointState:
        """Protocol and metadata. A round trip, so asked for only where neither a checksum nor the tail has them."""
        if self.known is None:
            self.known = self.parquet[0].guarded(_find_state, self.parquet)
        return self.known

    def newest_transaction(self, is_wanted: Callable[[str], bool]) -> actions.Transaction | None:
        """How far the applications of some names had written, by the checkpoint's `txn` rows: the one that was
        farthest."""
        rows = (fields for file in self.parquet for fields in _structs(file, "txn", "appId"))
        found = [actions.Transaction(row["appId"], int(row["version"])) for row in rows if is_wanted(row["appId"])]
        found += [transaction for transaction in self.transactions if is_wanted(transaction.appId)]
        return max(found, key=lambda transaction: transaction.version, default=None)

    @property
    def cost(self) -> CheckpointCost:
        return CheckpointCost(
            requests=sum(f.requests for f in self.parquet),
            bytes_read=sum(f.bytes_read for f in self.parquet),
            row_groups_total=sum(f.metadata.num_row_groups for f in self.parquet),
            row_groups_read=sum(f.row_groups_read for f in self.parquet),
        )

    def reopened(self) -> Checkpoint:
        """The same checkpoint for another reader, without reading its footers again."""
        return replace(self, parquet=[file.reopened() for file in self.parquet])

    def close(self) -> None:
        for file in self.parquet:
            file.close()


def read_groups(
    store: Store, groups: Sequence[RowGroup], columns: FileColumns, batch_size: int
) -> Iterator[pa.RecordBatch]:
    """The adds of some row groups of a checkpoint, as rows of the asked-for columns."""
    for meta, of_file in groupby(groups, key=attrgetter("file")):
        file = LogParquet(store, meta)
        try:
            yield from _lane([(file, group.number) for group in of_file], columns, batch_size, READ_AHEAD_BYTES)
        finally:
            file.close()


def _lane(
    share: Sequence[tuple[LogParquet, int]], columns: FileColumns, batch_size: int, budget: int
) -> Iterator[pa.RecordBatch]:
    """Rows of some row groups, through readers of its own: a Parquet reader serves one thread."""
    for file, pairs in groupby(share, key=itemgetter(0)):
        own = file.reopened(budget)
        groups = [group for _, group in pairs]
        leaves = _needed_leaves(own, groups, columns)
        try:
            for batch in own.batches(groups, leaves, batch_size):
                rows = own.guarded(rows_of_checkpoint, batch, columns)
                if rows.num_rows:
                    yield rows
        finally:
            file.absorb(own)
            own.close()


def _needed_leaves(file: LogParquet, groups: Sequence[int], columns: FileColumns) -> list[str]:
    """The leaves to read: without those that are all null by the statistics, and without the text of stats if all are
    typed."""
    leaves = columns.leaves(file.leaves)
    if not set(groups) & set(file.groups_with("add.deletionVector.storageType")):
        leaves = [leaf for leaf in leaves if not leaf.startswith("add.deletionVector.")]
    typed = columns.typed_leaves()
    if typed and all(file.as_full_as(group, leaf, "add.path") for group in groups for leaf in typed):
        leaves = [leaf for leaf in leaves if leaf != "add.stats"]
    return leaves


def open_checkpoint(store: Store, files: CheckpointFiles, dialect: Dialect = DELTA) -> Checkpoint:
    """Open a checkpoint; `CorruptLogError` if any file of it is missing or broken."""
    try:
        if files.files[0].path.endswith(".json"):
            return _open_json(store, files, dialect)
        return _open_parquet(store, files, dialect)
    except ObjectNotFoundError as error:
        raise CorruptLogError(f"checkpoint {files.version} is not complete ({error})") from None


def _open_json(store: Store, files: CheckpointFiles, dialect: Dialect) -> Checkpoint:
    top = files.files[0]
    text = bytes(store.get(top.path))
    lines = [line for block in decode_lines([text], actions.TopLine, top.path) for line in block]
    state = CheckpointState(
        protocol=next((line.protocol for line in lines if line.protocol), None),
        metadata=next((line.metaData for line in lines if line.metaData), None),
    )
    sidecars = [line.sidecar for line in lines if line.sidecar]
    return Checkpoint(
        store,
        files,
        parquet=_open_sidecars(store, sidecars, dialect),
        known=state,
        inline=[line.add for line in lines if line.add],
        transactions=[line.txn for line in lines if line.txn],
    )


def _open_parquet(store: Store, files: CheckpointFiles, dialect: Dialect) -> Checkpoint:
    top = _open_all(store, files.files)
    sidecars = top[0].guarded(_find_sidecars, top[0]) if len(top) == 1 else []
    return Checkpoint(store, files, top + _open_sidecars(store, sidecars, dialect))


def _open_all(store: Store, metas: Sequence[ObjectMeta]) -> list[LogParquet]:
    return side_by_side([partial(LogParquet, store, meta) for meta in metas])


def _open_sidecars(store: Store, sidecars: Sequence[actions.Sidecar], dialect: Dialect) -> list[LogParquet]:
    return _open_all(store, [_sidecar_meta(store, s, dialect) for s in sidecars]) if sidecars else []


def _sidecar_meta(store: Store, sidecar: actions.Sidecar, dialect: Dialect) -> ObjectMeta:
    """A sidecar's place: the last segment of its (URI-encoded) path counts."""
    name = unquote(sidecar.path.rpartition("/")[2])
    path = f"{dialect.directory}/_sidecars/{name}"
    if sidecar.sizeInBytes is None:
        return store.head(path)
    return ObjectMeta(path, sidecar.sizeInBytes, 0)


def _find_sidecars(top: LogParquet) -> list[actions.Sidecar]:
    structs = _structs(top, "sidecar", "path")
    return [actions.Sidecar(s["path"], s.get("sizeInBytes")) for s in structs]


def _find_state(files: Sequence[LogParquet]) -> CheckpointState:
    """Protocol and metadata, read together from whatever row groups hold them."""
    state = CheckpointState(None, None)
    for file in files:
        groups = {*file.groups_with("protocol.minReaderVersion"), *file.groups_with("metaData.id")}
        for batch in file.batches(sorted(groups), file.select("protocol", "metaData"), 65_536):
            state = CheckpointState(
                state.protocol or next(map(_protocol, _actions(batch, "protocol", "minReaderVersion")), None),
                state.metadata or next(map(_metadata, _actions(batch, "metaData", "id")), None),
            )
            if state.protocol and state.metadata:
                return state
    return state


def _protocol(fields: dict[str, Any]) -> actions.Protocol:
    return actions.Protocol(
        minReaderVersion=fields["minReaderVersion"],
        minWriterVersion=fields.get("minWriterVersion") or 0,
        readerFeatures=fields.get("readerFeatures"),
        writerFeatures=fields.get("writerFeatures"),
    )


def _metadata(fields: dict[str, Any]) -> actions.Metadata:
    table_format = fields.get("format") or {}
    return actions.Metadata(
        id=fields["id"],
        schemaString=fields.get("schemaString"),
        partitionColumns=fields.get("partitionColumns") or [],
        configuration=dict(fields.get("configuration") or []),
        name=fields.get("name"),
        description=fields.get("description"),
        createdTime=fields.get("createdTime"),
        format=actions.Format(table_format.get("provider") or "parquet"),
    )


def _structs(file: LogParquet, action: str, marker: str) -> Iterator[dict[str, Any]]:
    """The rows of an action, found by a leaf that is set in each of them."""
    for batch in file.batches(file.groups_with(f"{action}.{marker}"), file.select(action), 65_536):
        yield from _actions(batch, action, marker)


def _actions(batch: pa.RecordBatch, action: str, marker: str) -> Iterator[dict[str, Any]]:
    if batch.schema.get_field_index(action) < 0:
        return
    column = batch.column(action)
    filled = pc.indices_nonzero(column.field(marker).is_valid())
    yield from (row for i in filled.to_pylist() if (row := column[i].as_py()) is not None)
