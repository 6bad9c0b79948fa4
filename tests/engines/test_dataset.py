"""One dataset for every engine: filters leave out files, the rows are exact, and nothing is read that nobody wants."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds
import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.engines.dataset import TableDataset
from delta_sidecar.errors import InputError, PredicateError, UnknownColumnError
from delta_sidecar.index.build.build import build_index
from delta_sidecar.storage import open_store
from delta_sidecar.testing.actions import DeletionVector, add, column
from delta_sidecar.testing.data_files import write_data_file
from delta_sidecar.testing.stores import CountingStore, SlowStore
from delta_sidecar.testing.table_builder import LogBuilder
from tests.data.test_reader import inline_vector

FILES, ROWS = 20, 10
_places = count()

Query = Callable[[pds.Dataset, str], list[int]]


def by_duckdb(dataset: pds.Dataset, where: str) -> list[int]:
    import duckdb

    with duckdb.connect() as connection:
        connection.register("events", dataset)
        return [row[0] for row in connection.execute(f"select id from events where {where}").fetchall()]


def by_polars(dataset: pds.Dataset, where: str) -> list[int]:
    import polars as pl

    frame = pl.scan_pyarrow_dataset(dataset).filter(pl.sql_expr(where)).select("id")
    return frame.collect()["id"].to_list()


def by_datafusion(dataset: pds.Dataset, where: str) -> list[int]:
    from datafusion import SessionContext

    context = SessionContext()
    context.register_dataset("events", dataset)
    found = context.sql(f"select id from events where {where}").to_pydict()
    return list(found.get("id", []))


ENGINES: list[Query] = [by_duckdb, by_polars, by_datafusion]


def mapped(name: str, kind: str, number: int) -> dict[str, Any]:
    mapping = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
    return column(name, kind, metadata=mapping)


def rows_of(number: int) -> pa.Table:
    ids = range(number * ROWS, (number + 1) * ROWS)
    return pa.table({"id": ids, "text": [f"t{n:04}" for n in ids], "ratio": [float(n) for n in ids]})


def write_events(root: Path, kind: str) -> None:
    """Files of ten rows each; with deletion vectors, the first row of every file is deleted."""
    columns = {"id": "long", "text": "string", "ratio": "double", "p": "integer"}
    if kind == "mapped":
        log = LogBuilder(root).protocol(2, 5)
        configuration = {"delta.columnMapping.mode": "name"}
        fields = [mapped(name, kind, number) for number, (name, kind) in enumerate(columns.items())]
        log.metadata(fields, ["p"], configuration=configuration)
    else:
        log = LogBuilder(root).protocol(3, 7, features=["deletionVectors"]).metadata(columns, ["p"])
    entries = []
    for number in range(FILES):
        rows, partition = rows_of(number), {"p": str(number % 4)}
        if kind == "mapped":
            rows, partition = rows.rename_columns([f"col-{n}" for n in range(3)]), {"col-3": str(number % 4)}
        entries.append(write_data_file(root, f"f{number:02}.parquet", rows, partition=partition, dv=vector(kind)))
    log.commit(*entries)


def vector(kind: str) -> DeletionVector | None:
    if kind != "vectors":
        return None
    row = inline_vector(0)
    return DeletionVector(row["pathOrInlineDv"], "i", None, row["sizeInBytes"], row["cardinality"])


class Events:
    """A table in a store that counts."""

    def __init__(self, root: Path, kind: str = "plain", latency_s: float = 0.0, **options: Any) -> None:
        write_events(root, kind)
        place = f"memory://dataset-{next(_places)}/t"
        memory = open_store(place)
        for path in root.rglob("*.*"):
            memory.put_if_absent(str(path.relative_to(root)), path.read_bytes())
        self.store = CountingStore(SlowStore(memory, latency_s) if latency_s else memory)
        self.kind = kind
        self.table = DeltaTable(place, store=self.store, options=options)
        self.dataset = self.table.to_pyarrow_dataset()

    def ids(self, ids: Sequence[int]) -> list[int]:
        """Those that are not deleted."""
        return [n for n in ids if self.kind != "vectors" or n % ROWS]

    def read(self) -> list[str]:
        """The data files that were asked for since the last time."""
        paths = sorted({path for path in self.store.paths() if "_delta_log" not in path})
        self.store.reset()
        return paths


@pytest.fixture(params=["plain", "vectors", "mapped"])
def events(tmp_path: Path, request: pytest.FixtureRequest) -> Events:
    return Events(tmp_path, request.param)


@pytest.fixture
def plain(tmp_path: Path) -> Events:
    return Events(tmp_path)


QUERIES: list[tuple[str, Sequence[int], int]] = [
    ("id < 15", range(15), 2),
    ("id >= 195", range(195, 200), 1),
    ("id in (3, 57, 1000)", [3, 57], 2),
    ("id = 42", [42], 1),
    ("id between 42 and 44 or id = 101", [42, 43, 44, 101], 2),
    ("text = 't0042'", [42], 1),
    ("p = 3 and id < 60", range(30, 40), 1),
    ("not (id > 4)", range(5), 1),
    ("id is null", [], 0),
    ("id > 1000", [], 0),
]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_filters_leave_out_files(events: Events, engine: Query) -> None:
    events.read()
    for where, ids, files in QUERIES:
        assert sorted(engine(events.dataset, where)) == events.ids(ids), where
        assert len(events.read()) == files, where


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_no_term_is_dropped(plain: Events, engine: Query) -> None:
    """DuckDB wraps IN in an `if_else` and does not look again at the rows. Terms that say nothing of files count."""
    for where, ids in (
        ("id in (3, 57) and ratio in (3.0, 4.0)", [3]),
        ("ratio in (3.0, 57.0)", [3, 57]),
        ("id not in (3, 57) and id < 5", [0, 1, 2, 4]),
        ("id % 50 = 7 and id in (7, 8, 57, 58)", [7, 57]),
        ("text like '%7' and id < 30", [7, 17, 27]),
        ("ratio > 197.5 or ratio < 0.5", [0, 198, 199]),
    ):
        assert sorted(engine(plain.dataset, where)) == ids, where


def test_pyarrow_and_pandas(events: Events) -> None:
    field, table = pds.field("id"), events.table
    for expression, ids, files in (
        (field < 15, range(15), 2),
        (field.isin([3, 57]), [3, 57], 2),
        ((field < 15) & (field * 2 > 20), range(11, 15), 2),
        (pc.match_like(pds.field("text"), "t004%"), range(40, 50), 1),
    ):
        events.read()
        expected = events.ids(ids)
        assert events.dataset.to_table(columns=["id"], filter=expression)["id"].to_pylist() == expected
        assert len(events.read()) == files
        assert sorted(table.to_pandas(columns=["id"], filters=expression)["id"]) == expected
        assert len(events.read()) == files
        assert events.dataset.count_rows(expression) == len(expected)
        assert len(events.dataset.get_fragments(expression)) == files
        assert len(table.file_uris(predicate=expression)) == files
        assert len(list(table.file_infos(expression))) == files


def test_projection(plain: Events) -> None:
    dataset, field = plain.dataset, pds.field("id")
    assert dataset.to_table(columns=["ratio", "p", "id"], filter=field == 42).to_pylist() == [
        {"ratio": 42.0, "p": 0, "id": 42}
    ]
    assert dataset.to_table(columns={"twice": field * 2, "p": pds.field("p")}, filter=field == 42).to_pylist() == [
        {"twice": 84, "p": 0}
    ]
    assert dataset.to_table(columns={"one": pc.scalar(1)}, filter=field < 3).to_pydict() == {"one": [1, 1, 1]}
    assert dataset.to_table(columns=[], filter=field < 3).num_rows == 3
    twice = dataset.to_table(columns=["id", "id"], filter=field < 2)
    assert (twice.column_names, twice.column(1).to_pylist()) == (["id", "id"], [0, 1])
    assert dataset.scanner(columns=["id"], batch_size=4).to_table().num_rows == FILES * ROWS
    assert max(batch.num_rows for batch in dataset.to_batches(batch_size=4)) == 4
    assert dataset.to_table(filter=pc.scalar(True)).num_rows == FILES * ROWS
    assert dataset.to_table(filter=pc.scalar(None)).num_rows == 0
    assert dataset.to_table(filter=pc.field(0) == 42, columns=["id"]).to_pydict() == {"id": [42]}, "a column by number"
    with pytest.raises(pa.ArrowInvalid, match="nope"):
        dataset.to_table(columns=["nope"])
    with pytest.raises(UnknownColumnError, match="'nope'"):
        dataset.to_table(filter=pds.field("nope") == 1)
    with pytest.raises(InputError, match="__filename"):
        dataset.to_table(columns=["__filename"])
    with pytest.raises(TypeError, match="batch_sise"):
        dataset.scanner(batch_sise=3)


def test_scans_that_are_almost_the_same(tmp_path: Path) -> None:
    """pyarrow's own comparison of expressions takes these for equal."""
    LogBuilder(tmp_path).metadata({"x": "double"}).commit(
        write_data_file(tmp_path, "f.parquet", pa.table({"x": [0.0, -0.0, 1.0]}))
    )
    dataset = DeltaTable(tmp_path).to_pyarrow_dataset()
    zeros = [pds.field("x").isin([zero]) for zero in (0.0, -0.0)]
    assert zeros[0].equals(zeros[1])
    found = [str(dataset.to_table(filter=zero)["x"].to_pylist()) for zero in (*zeros, *zeros)]
    assert found == ["[0.0]", "[-0.0]"] * 2
    named = [dataset.replace_schema(dataset.schema.with_metadata({"n": str(n)})) for n in range(2)]
    assert [each.to_table().schema.metadata for each in named] == [{b"n": b"0"}, {b"n": b"1"}]


def test_nothing_is_read_before_a_scan(plain: Events) -> None:
    import duckdb

    plain.store.reset()
    dataset = plain.table.to_pyarrow_dataset(partitions=[("p", "=", 3)])
    scanner = dataset.scanner(columns=["id"], filter=pds.field("id") > 7)
    filtered = dataset.filter(pds.field("id") > 7)
    assert scanner.projected_schema.names == ["id"]
    assert filtered.schema == dataset.schema
    with duckdb.connect() as connection:
        connection.register("events", dataset)
    repr(dataset)
    shown = filtered.explain(pds.field("id") * 2 > 7)
    assert "predicate  ((p = 3)) AND (id > 7)\n" in shown, "what is not understood is not there"
    guesses = [request for request in plain.store.requests if request.failed]
    assert all(request.path.startswith("_delta_log/") for request in guesses), "commits that do not exist, at the open"
    assert plain.store.requests == guesses


def test_rows_are_counted_by_the_log(plain: Events) -> None:
    plain.read()
    assert plain.dataset.count_rows() == FILES * ROWS
    assert plain.dataset.count_rows(pds.field("p") == 3) == FILES * ROWS // 4
    assert plain.dataset.to_table(columns=["p"]).num_rows == FILES * ROWS
    assert plain.read() == []


def test_what_dataset_and_scanner_offer(events: Events) -> None:
    dataset, field = events.dataset, pds.field("id")
    first = events.ids(range(ROWS))
    assert dataset.head(3, columns=["id"])["id"].to_pylist() == first[:3]
    assert dataset.take([0, 2], columns=["id"])["id"].to_pylist() == [first[0], first[2]]
    assert dataset.sort_by([("id", "descending")]).head(1)["id"].to_pylist() == [199]
    some = dataset.filter(field < 30).filter(field > 10)
    assert some.to_table(filter=field != 11)["id"].to_pylist() == events.ids(range(12, 30))
    assert len(some.get_fragments()) == 2
    small = dataset.replace_schema(pa.schema([("id", pa.int32())]))
    assert small.head(1).schema == pa.schema([("id", pa.int32())])
    joined = some.replace_schema(pa.schema([("id", pa.int64())])).join(some, "id")
    assert joined.count_rows() == len(events.ids(range(11, 30)))
    scanner = some.scanner(columns=["id"])
    expected = events.ids(range(11, 30))
    for _ in range(2):
        assert scanner.to_table()["id"].to_pylist() == expected
        assert scanner.to_reader().read_all()["id"].to_pylist() == expected
        assert pa.table(scanner)["id"].to_pylist() == expected
        assert scanner.count_rows() == len(expected)
        assert scanner.head(2).num_rows == 2
    assert isinstance(dataset, pds.Dataset)
    with pytest.raises(InputError, match="get_fragments"):
        dataset.children


def test_fragments(events: Events) -> None:
    dataset, field = events.dataset, pds.field("id")
    fragments = dataset.get_fragments(field < 15)
    assert [fragment.path[-11:] for fragment in fragments] == ["f00.parquet", "f01.parquet"]
    assert [fragment.path for fragment in fragments] == events.table.file_uris(predicate=field < 15)
    one = fragments[1]
    assert one.physical_schema == dataset.schema
    assert one.count_rows() == len(events.ids(range(10, 20)))
    assert one.count_rows(field < 15) == len(events.ids(range(10, 15)))
    assert one.to_table(filter=field < 15, columns=["id", "p"])["id"].to_pylist() == events.ids(range(10, 15))
    assert sum(batch.num_rows for batch in one.to_batches(columns=["id"])) == one.count_rows()
    assert one.head(2, columns=["id"]).num_rows == 2
    assert one.take([1], columns=["id"]).num_rows == 1
    assert str(one.partition_expression) == "(p == 1)"
    assert one.scanner(pa.schema([("id", pa.int16())])).to_table().schema == pa.schema([("id", pa.int16())])
    assert len(dataset.get_fragments(pds.field("p") == 3)) == FILES // 4


def test_an_index_serves_it(tmp_path: Path) -> None:
    write_events(tmp_path, "vectors")
    build_index(open_store(tmp_path))
    dataset = DeltaTable(tmp_path).to_pyarrow_dataset()
    assert by_duckdb(dataset, "id in (41, 42)") == [41, 42]
    assert len(dataset.get_fragments(pds.field("id") == 42)) == 1


def test_files_outside_of_the_table(tmp_path: Path) -> None:
    root = tmp_path / "table"
    entry = write_data_file(tmp_path, "elsewhere.parquet", pa.table({"id": [1, 2]}))
    LogBuilder(root).metadata({"id": "long"}).commit(
        add((tmp_path / entry.path).as_uri(), size=entry.size, stats=entry.stats)
    )
    dataset = DeltaTable(root).to_pyarrow_dataset()
    assert dataset.to_table(filter=pds.field("id") > 1).to_pydict() == {"id": [2]}
    assert [fragment.path for fragment in dataset.get_fragments()] == [str(tmp_path / "elsewhere.parquet")]


# Stopping


def by_reader(dataset: pds.Dataset) -> Any:
    return dataset.scanner(columns=["id"], filter=pds.field("id") >= 0).to_reader().read_next_batch()


def by_batches(dataset: pds.Dataset) -> Any:
    return next(iter(dataset.to_batches(filter=pds.field("id") >= 0)))


def by_head(dataset: pds.Dataset) -> Any:
    return dataset.head(1)


def by_duckdb_limit(dataset: pds.Dataset) -> Any:
    import duckdb

    with duckdb.connect() as connection:
        connection.register("events", dataset)
        return connection.execute("select id from events where id >= 0 limit 1").fetchall()


def by_duckdb_cursor(dataset: pds.Dataset) -> Any:
    """A cursor that is closed in the middle; DuckDB fills a buffer before it gives the first rows."""
    import duckdb

    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("events", dataset)
        connection.execute("set streaming_buffer_size = '10 bytes'")
        reader = connection.sql("select id from events where id >= 0").to_arrow_reader(1)
        return reader.read_next_batch()


def by_polars_limit(dataset: pds.Dataset) -> Any:
    import polars as pl

    return pl.scan_pyarrow_dataset(dataset).head(1).collect()


@pytest.mark.slow
@pytest.mark.parametrize("stop", [by_reader, by_batches, by_head, by_duckdb_limit, by_duckdb_cursor, by_polars_limit])
def test_who_stops_early_stops_the_requests(tmp_path: Path, stop: Callable[[pds.Dataset], Any]) -> None:
    events = Events(tmp_path, latency_s=0.02, **{"delta.sidecar.read_threads": 1})
    events.read()
    assert len(stop(events.dataset)) == 1 or stop is by_reader or stop is by_batches
    closed = time.perf_counter()
    time.sleep(0.2)
    assert [request for request in events.store.requests if request.t_start > closed] == []
    assert len(events.read()) < FILES // 2


def test_two_scans_at_once(events: Events) -> None:
    """Also in one query: a table joined with itself."""
    import duckdb

    readers = [events.dataset.scanner(columns=["id"]).to_reader() for _ in range(2)]
    counted = [0, 0]
    for batches in zip(*map(iter_batches, readers), strict=True):
        counted = [sum(pair) for pair in zip(counted, [b.num_rows for b in batches], strict=True)]
    assert counted == [len(events.ids(range(FILES * ROWS)))] * 2
    with duckdb.connect() as connection:
        connection.register("events", events.dataset)
        query = "select count(*) from events a join events b on a.id = b.id + 10 where a.id < 50"
        assert connection.execute(query).fetchall() == [(len(events.ids(range(10, 50))),)]


def iter_batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    yield from reader


# Elsewhere


def test_pickling(tmp_path: Path) -> None:
    write_events(tmp_path, "vectors")
    table = DeltaTable(tmp_path)
    dataset = table.to_pyarrow_dataset(partitions=[("p", "=", 0)]).filter(pds.field("id") < 45)
    again = pickle.loads(pickle.dumps(dataset))
    assert isinstance(again, TableDataset)
    assert again.to_table() == dataset.to_table()
    assert again.to_table(columns=["id"])["id"].to_pylist() == [*range(1, 10), *range(41, 45)]
    fragments = pickle.loads(pickle.dumps(dataset.get_fragments()))
    assert [fragment.to_table() for fragment in fragments] == [f.to_table() for f in dataset.get_fragments()]


def test_a_dataset_stays_at_its_version(tmp_path: Path) -> None:
    write_events(tmp_path, "plain")
    table = DeltaTable(tmp_path)
    dataset = table.to_pyarrow_dataset()
    LogBuilder(tmp_path / "other")
    log = tmp_path / "_delta_log" / f"{1:020}.json"
    log.write_text('{"remove":{"path":"f00.parquet","dataChange":true}}\n')
    table.update_incremental()
    assert (table.version(), table.to_pyarrow_dataset().count_rows()) == (1, FILES * ROWS - ROWS)
    assert dataset.count_rows() == FILES * ROWS
    assert pickle.loads(pickle.dumps(dataset)).count_rows() == FILES * ROWS


@pytest.mark.parametrize(
    "read",
    [
        lambda dataset: pds.Scanner.from_dataset(dataset).to_table(),
        lambda dataset: pds.dataset([dataset, dataset]).to_table(),
        lambda dataset: pds.dataset([dataset, dataset]).count_rows(),
        lambda dataset: pds.InMemoryDataset(pa.table({"id": [1]})).join(dataset, "id").to_table(),
    ],
)
def test_what_asks_for_a_dataset_of_pyarrow_is_refused(plain: Events, read: Callable[[pds.Dataset], Any]) -> None:
    """Without an answer in C++ the process would end, or no row would come."""
    with pytest.raises(InputError, match="use its methods"):
        read(plain.dataset)


def test_writing_it_elsewhere(plain: Events, tmp_path: Path) -> None:
    pds.write_dataset(plain.dataset.scanner().to_reader(), tmp_path / "written", format="parquet")
    assert pds.dataset(tmp_path / "written").count_rows() == FILES * ROWS


# Expressions wherever a predicate is


def test_expressions_as_predicates(events: Events) -> None:
    table, field = events.table, pds.field("id")
    odd = (field > 33) & (field * 3 % 2 == 1) if hasattr(field, "__mod__") else (field > 33) & (field * 3 > 120)
    expected = events.ids([n for n in range(34, 200) if n * 3 > 120])
    assert [n for b in table.to_batches(["id"], odd) for n in b["id"].to_pylist()] == expected
    assert [n for b in table.to_batches(["id"], odd, limit=3) for n in b["id"].to_pylist()] == expected[:3]
    assert sum(batch.num_rows for batch in table.to_batches([], odd)) == len(expected)
    assert table.scan(["ID"], odd).schema.names == ["id"]
    plan = table.scan_files(odd).plan
    assert plan.predicate == "id > 33"
    assert "id > 33" in str(plan)
    assert table.scan_files(field * 3 > 120).plan.predicate is None, "nothing was understood"
    rows = table.to_pyarrow_table(pds.field("p") == 3, ["id"], filters="id < 60")
    assert rows["id"].to_pylist() == events.ids(range(30, 40))
    dataset = table.to_pyarrow_dataset(pds.field("p") * 1 == 3, file_pruning_predicate=field < 60)
    assert dataset.to_table(columns=["id"])["id"].to_pylist() == events.ids(range(30, 40))
    assert len(table.partitions(pds.field("p") == 3)) == 1
    for call in (table.scan_files, lambda e: table.to_batches(predicate=e), lambda e: table.to_pandas(filters=e)):
        with pytest.raises(UnknownColumnError, match="'nope'"):
            call(pds.field("nope") > 1)
        with pytest.raises(UnknownColumnError, match="did you mean"):
            call(pds.field("ID") > 1)
        with pytest.raises(PredicateError, match="is int64"):
            call(field)
        with pytest.raises(PredicateError, match="pyarrow cannot evaluate"):
            call(field > "x")
