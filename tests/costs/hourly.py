"""A table of a few files an hour, one commit an hour, and an index of it with one part an hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.format.part_entries import PartEntry
from delta_sidecar.storage import Store, open_store
from delta_sidecar.testing.actions import AddFile, add, column
from delta_sidecar.testing.stores import CountingStore
from delta_sidecar.testing.table_builder import LogBuilder
from delta_sidecar.values.bucket_columns import GENERATION_EXPRESSION, bucket_expression
from tests.index.models import manifest_at, small_parts

BUCKET = "_event_hour"
FILES = 4
"""Files an hour."""
_START = datetime(2026, 2, 10, tzinfo=UTC)


def moment(hour: int, minutes: int = 0) -> datetime:
    return _START + timedelta(hours=hour, minutes=minutes)


def bucket(hour: int) -> str:
    return moment(hour).strftime("%Y%m%d%H")


def paths(*hours: int) -> set[str]:
    """The files of some hours."""
    return {_path(hour, number) for hour in hours for number in range(FILES)}


def _path(hour: int, number: int) -> str:
    return f"{BUCKET}={bucket(hour)}/f{hour}-{number}.parquet"


def file(hour: int, number: int) -> AddFile:
    """A file of a quarter of an hour, in which `m` is the number of its hour."""
    low, high = moment(hour, 15 * number), moment(hour, 15 * number + 14)
    bounds: dict[str, Any] = {"minValues": {"ts": low, "m": hour}, "maxValues": {"ts": high, "m": hour}}
    stats = {"numRecords": 10, **bounds, "nullCount": {"ts": 0, "m": 0}}
    return add(_path(hour, number), partition={BUCKET: bucket(hour)}, stats=stats)


def columns_by_hour() -> list[dict[str, Any]]:
    """The schema: the bucket is generated from `ts`."""
    generated = {GENERATION_EXPRESSION: bucket_expression("ts", "hour")}
    return [column("ts", "timestamp"), column("m", "long"), column(BUCKET, "string", metadata=generated)]


def hourly(root: Path, head: int, checkpoint: int | None = None, index: int | None = None, v2: bool = False) -> Path:
    """A log up to version `head`, each of an hour; an index of a version, and a checkpoint of one."""
    log = LogBuilder(root)
    if v2:
        log.protocol(reader=3, features=["v2Checkpoint"], writer_features=["v2Checkpoint", "generatedColumns"])
    else:
        log.protocol(writer=4)
    log.metadata(columns_by_hour(), partition_by=[BUCKET])
    for version in range(head + 1):
        log.commit(*(file(version, number) for number in range(FILES)))
        if version == checkpoint:
            log.checkpoint("v2-parquet" if v2 else "classic")
        if version == index:
            indexed(open_store(str(root)))
    return root


def indexed(store: Store) -> None:
    """An index of the newest version, one part an hour."""
    build_index(store, options=BuildOptions(part_rows=FILES, full=True, limits=small_parts(single=1)))


def parts_of(root: Path, version: int) -> list[PartEntry]:
    """The parts of an index, those of the oldest hour first."""
    return list(manifest_at(open_store(str(root)), version)[0].parts)[::-1]


def parts_asked(store: CountingStore) -> list[str]:
    """The names of the files of parts that were requested, in order."""
    return [path.rpartition("/")[2] for path in store.paths() if path.endswith((".core.parquet", ".stats.parquet"))]
