"""Small tables with an index of many parts, ways to damage it, and the check that nothing is lost or told twice.

Every file holds one row whose values its stats tell exactly, so what a predicate must find is known.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from delta_sidecar import DeltaTable
from delta_sidecar.flow.read_ahead import shared_read_ahead
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.format.part_entries import PartEntry
from delta_sidecar.limits import ReaderLimits
from delta_sidecar.scan.scan_metrics import ScanMetrics
from delta_sidecar.storage import Store, open_store
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.testing.actions import AddFile, DeletionVector, Spec, remove
from delta_sidecar.testing.table_builder import LogBuilder
from tests.index.models import manifest_at, small_parts

COLUMNS: Final = {"p": "string", "x": "long", "s": "string", "t": "timestamp"}
FILES: Final = 4
"""Files that each commit adds."""
INDEXED: Final = 5
"""The version of the index."""
HEAD: Final = 7
STRATEGIES: Final = ("reverse", "forward", "auto")
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Query:
    """A listing, and which files it must have: all of them where a predicate is on partitions, else at least them."""

    arguments: Mapping[str, Any]
    matches: Callable[[Row], bool] = lambda row: True
    exact: bool = True


def moment(number: int) -> dt.datetime:
    return dt.datetime(2026, 2, 10, tzinfo=dt.UTC) + dt.timedelta(minutes=20 * number)


QUERIES: Final = (
    Query({}),
    Query({"columns": ["path", "size", "deletion_vector", "num_records"]}),
    Query({"columns": ["path", "size", "deletion_vector", "stats", "tags"]}),
    Query({"predicate": "p >= 'h2'"}, lambda row: row["p"] >= "h2"),
    Query({"predicate": "p = 'h0' OR p = 'h5'"}, lambda row: row["p"] in ("h0", "h5")),
    Query({"predicate": "x >= 2"}, lambda row: row["x"] >= 2, exact=False),
    Query({"predicate": "x = 1 AND p <= 'h4'"}, lambda row: row["x"] == 1 and row["p"] <= "h4", exact=False),
    Query({"predicate": "NOT (s = 'b')"}, lambda row: row["s"] != "b", exact=False),
    Query(
        {"predicate": f"t >= TIMESTAMP '{moment(9).isoformat()}'"},
        lambda row: bool(row["t"] >= moment(9)),
        exact=False,
    ),
    Query(
        {"predicate": f"t < TIMESTAMP '{moment(14).isoformat()}' AND x != 0"},
        lambda row: bool(row["t"] < moment(14) and row["x"] != 0),
        exact=False,
    ),
)
FEW: Final = (QUERIES[0], QUERIES[2], QUERIES[3], QUERIES[6])
"""One of each kind: for what is decided when a table is opened, before any query."""


@dataclass(frozen=True, slots=True)
class Made:
    """A table whose index is at `INDEXED` and whose head is at `HEAD`."""

    builder: LogBuilder
    rows: dict[int, Row]
    """What each file holds, by its size, which no two adds share."""

    @property
    def root(self) -> Path:
        return self.builder.root

    @property
    def store(self) -> Store:
        return open_store(str(self.root))

    @property
    def sidecars(self) -> Path:
        return self.builder.log / "_sidecars"

    @property
    def manifest(self) -> Path:
        return self.sidecars / f"v{INDEXED}.manifest.json"

    @property
    def hint(self) -> Path:
        return self.sidecars / "_last_index"

    def parts(self, version: int = INDEXED) -> list[PartEntry]:
        """In the order in which a listing reads them."""
        return list(reversed(list(manifest_at(self.store, version)[0].parts)))

    def live(self, version: int | None = None) -> dict[int, Mapping[str, Any]]:
        return {body["size"]: body for body in self.builder.state(version).files.values()}


def make_table(
    root: Path, *, vectors: bool = False, checkpoint: int | None = None, single: bool = False, table_id: str = "t-1"
) -> Made:
    """Six commits of four files and an index; then two commits that add, remove, and give files deletion vectors."""
    made = Made(LogBuilder(root), {})
    made.builder.protocol(reader=3, features=["deletionVectors"])
    made.builder.metadata(COLUMNS, partition_by=["p"], table_id=table_id)
    for version in range(HEAD + 1):
        made.builder.commit(*_commit(made, version, vectors))
        if version == checkpoint:
            made.builder.checkpoint()
        if version == INDEXED:
            index(made, single=single)
    return made


def index(made: Made, version: int | None = None, single: bool = False) -> None:
    """An index of the newest version: parts of three files in row groups of two, or one file."""
    limits = small_parts(single=1_000 if single else 1, rows=3, row_group_rows=2)
    build_index(made.store, version, BuildOptions(part_rows=3, limits=limits))


def _commit(made: Made, version: int, vectors: bool) -> Iterator[Spec]:
    for number in range(FILES):
        yield _file(made, version, number, DeletionVector(path=f"v{version}") if vectors and number == 3 else None)
    if version > INDEXED:
        yield remove(_path(version - 5, 0))
        if vectors:
            yield remove(_path(version - 5, 3), dv=DeletionVector(path=f"v{version - 5}"))
            yield _file(made, version - 5, 3, DeletionVector(path=f"w{version}"))
        else:
            yield _file(made, version - 4, 2)


def _path(version: int, number: int) -> str:
    return f"p=h{version}/part-{number}.parquet"


def _file(made: Made, version: int, number: int, vector: DeletionVector | None = None) -> AddFile:
    size = 1000 + len(made.rows)
    row = {"p": f"h{version}", "x": number, "s": "abcd"[number], "t": moment(version * FILES + number)}
    made.rows[size] = row
    values = {name: row[name] for name in ("x", "s", "t")}
    stats = {"numRecords": 1, "minValues": values, "maxValues": values, "nullCount": dict.fromkeys(values, 0)}
    loose = {"tightBounds": False} if vector else {}
    return AddFile(
        _path(version, number),
        size=size,
        modification_time=1_700_000_000_000 + size,
        partition={"p": f"h{version}"},
        stats=stats | loose,
        dv=vector,
        tags={"n": str(size)} if number == 1 else None,
    )


# What a listing must be.


def check_listings(
    made: Made,
    *,
    version: int | None = None,
    store: Store | None = None,
    cold: bool = True,
    thorough: bool = False,
    limits: ReaderLimits | None = None,
    queries: Sequence[Query] = QUERIES,
) -> list[tuple[Query, ScanMetrics]]:
    """Every query gives every file it must, once, and no other; what each scan says it did.

    The listing of all files goes by every strategy, the others by one each in turn, unless `thorough`.
    """
    found: list[tuple[Query, ScanMetrics]] = []
    live = made.live(version)
    for place, query in enumerate(queries):
        strategies = STRATEGIES if thorough or not query.arguments else STRATEGIES[place % 3 :][:1]
        for turn, strategy in enumerate(strategies):
            if cold:
                shared_cache.clear()
            table = DeltaTable(str(made.root), version, store=store, limits=limits)
            found.append((query, check_query(made, table, query, live, strategy)))
            check_limit(made, table, query, live, strategy, (9, 1, len(live) + 1)[turn])
    return found


def check_query(
    made: Made, table: DeltaTable, query: Query, live: Mapping[int, Mapping[str, Any]], strategy: str
) -> ScanMetrics:
    with table.scan_files(strategy=strategy, **query.arguments) as scan:
        rows = [row for batch in scan for row in batch.to_pylist()]
        metrics = scan.metrics
    _assert_files(rows, live)
    wanted = {size for size in live if query.matches(made.rows[size])}
    listed = {row["size"] for row in rows}
    assert wanted <= listed, "a file that matches was lost"
    assert listed == wanted or not query.exact, "a file that cannot match was listed"
    assert metrics.complete
    assert shared_read_ahead.taken == 0
    return metrics


def check_limit(
    made: Made, table: DeltaTable, query: Query, live: Mapping[int, Mapping[str, Any]], strategy: str, limit: int
) -> None:
    wanted = sum(query.matches(made.rows[size]) for size in live)
    with table.scan_files(strategy=strategy, limit=limit, **query.arguments) as scan:
        rows = [row for batch in scan for row in batch.to_pylist()]
    _assert_files(rows, live)
    assert min(limit, wanted) <= len(rows) <= limit
    assert shared_read_ahead.taken == 0


def _assert_files(rows: list[dict[str, Any]], live: Mapping[int, Mapping[str, Any]]) -> None:
    """Live files, each once, with the path and the vector of its add, and what else was asked for."""
    assert len({row["size"] for row in rows}) == len(rows), "a file was listed twice"
    for row in rows:
        body = live[row["size"]]
        vector = body.get("deletionVector") or {}
        assert row["path"] == body["path"]
        assert (row["deletion_vector"] or {}).get("pathOrInlineDv") == vector.get("pathOrInlineDv")
        assert row.get("num_records", 1) == 1
        assert "tags" not in row or dict(row["tags"] or []) == (body.get("tags") or {})


# Damage.


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def cut_by_one(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def grown(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def garbage(path: Path) -> None:
    path.write_bytes(b"PAR1 this is no part PAR1")


def deleted(path: Path) -> None:
    path.unlink()


DAMAGES: Final = (deleted, cut, cut_by_one, emptied, grown, flipped, garbage)
