"""Index the files of a companion's table on Spark: each task reads its own files, and writes one split for each
group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.data.data_files import DataFile
from delta_sidecar.pipeline.failures import spark_failures
from delta_sidecar.pipeline.reach import check_reach
from delta_sidecar.pipeline.session import spark_session
from delta_sidecar.pipeline.shipping import ship
from delta_sidecar.search.companion.following import index_files, live_files
from delta_sidecar.search.log.actions import Split, from_wire, to_wire
from delta_sidecar.search.table import SearchTable
from delta_sidecar.storage.store import Store
from delta_sidecar.storage.uri import parse_location
from delta_sidecar.table import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RECEIPT: Final = "receipt binary"


@dataclass(frozen=True)
class CompanionTask:
    """What tasks know: the tables, and which files go together."""

    table: str
    version: int
    search: str
    storage_options: Mapping[str, str] | None = field(repr=False)
    groups: tuple[tuple[str, ...], ...]

    def write(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A split for each numbered group, and a receipt for each."""
        wanted = [number for batch in numbers for number in batch.column("id").to_pylist()]
        if not wanted:
            return
        table = DeltaTable(self.table, self.version, self.storage_options)
        search = SearchTable(self.search, None, self.storage_options)
        paths = {path for number in wanted for path in self.groups[number]}
        files = {file.path: file for _, file in live_files(table) if file.path in paths}
        for number in wanted:
            made = index_files(table, search, [files[path] for path in self.groups[number]])
            receipt = arrays.binaries([msgspec.json.encode(to_wire(made))])
            yield pa.RecordBatch.from_arrays([receipt], names=["receipt"])


def build_groups(
    stack: ExitStack,
    table: DeltaTable,
    store: Store,
    groups: Sequence[Sequence[DataFile]],
    spark: SparkSession | None,
    master: str | None,
    conf: Mapping[str, str] | None,
    storage_options: Mapping[str, str] | None,
) -> list[Split]:
    """Splits of groups of files, one task each."""
    uri = parse_location(store.root_uri).text
    if spark is None:
        places = [table.table_uri, uri]
        session = spark_session(master, conf, storage_options, places, app_name="delta-sidecar splits")
        spark = stack.enter_context(session)
    check_reach(spark, uri)
    ship(spark)
    paths = tuple(tuple(file.path for file in group) for group in groups)
    task = CompanionTask(table.table_uri, table.version(), uri, storage_options, paths)
    with spark_failures(f"{uri}: the splits were not built"):
        numbers = spark.range(0, len(groups), 1, len(groups))
        found = numbers.mapInArrow(task.write, _RECEIPT).toArrow().column("receipt").to_pylist()
    return [from_wire(Split, msgspec.json.decode(receipt), uri) for receipt in found]
