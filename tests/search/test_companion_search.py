"""Search of a Delta table through its companion: what is found is what a scan of the rows finds."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

tantivy = pytest.importorskip("tantivy", reason="the extra `search` is not installed")

from delta_sidecar import (  # noqa: E402
    DeltaTable,
    PositionError,
    QueryError,
    TableNotFoundError,
    UnknownColumnError,
    UnsupportedFeatureError,
)
from delta_sidecar.search import (  # noqa: E402
    CompanionSearch,
    SearchTable,
    SplitCache,
    follow,
    merge_splits,
    open_search,
)
from delta_sidecar.storage import open_store  # noqa: E402
from delta_sidecar.testing import CountingStore, InStepStore  # noqa: E402
from delta_sidecar.testing.actions import DeletionVector, RemoveFile, add  # noqa: E402
from delta_sidecar.testing.table_builder import LogBuilder  # noqa: E402
from tests.cli.running import invoke  # noqa: E402
from tests.data.test_reader import inline_vector  # noqa: E402
from tests.search.lines import log_lines  # noqa: E402

COLUMNS = {"id": "long", "ts": "timestamp", "host": "string", "body": "string", "ok": "boolean"}
CHOICE: dict[str, Any] = {"text": ["body"], "time_column": "ts", "filters": ["host", "ok"]}
PER_FILE = 40


class Lines:
    """A Delta table of log lines, written by hand: files come and go, and rows are deleted by vectors."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = LogBuilder(root).protocol(3, 7, features=["deletionVectors"]).metadata(COLUMNS)
        self.live: dict[str, tuple[int, set[int], Any]] = {}
        self._next = 0

    def append(self) -> None:
        name = f"part-{self._next}.parquet"
        first = self._next * PER_FILE
        pq.write_table(log_lines(PER_FILE, first).select(list(COLUMNS)), self.root / name, row_group_size=16)
        self._next += 1
        self.log.commit(self._add(name, None))
        self.live[name] = (first, set(), None)

    def _add(self, name: str, vector: Any) -> Any:
        size = (self.root / name).stat().st_size
        return add(name, size=size, dv=vector, stats={"numRecords": PER_FILE})

    def delete(self, name: str, rows: set[int]) -> None:
        first, gone, old = self.live[name]
        every = gone | rows
        made = inline_vector(*sorted(every))
        vector = DeletionVector(made["pathOrInlineDv"], "i", None, made["sizeInBytes"], made["cardinality"])
        self.log.commit(RemoveFile(name, dv=old), self._add(name, vector))
        self.live[name] = (first, every, vector)

    def drop(self, name: str) -> None:
        self.log.commit(RemoveFile(name, dv=self.live.pop(name)[2]))

    def rows(self) -> list[dict[str, Any]]:
        """The live rows by the rules of the test, newest first."""
        found = [
            row
            for first, gone, _ in self.live.values()
            for number, row in enumerate(log_lines(PER_FILE, first).select(list(COLUMNS)).to_pylist())
            if number not in gone
        ]
        return sorted(found, key=lambda row: -row["id"])


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> SplitCache:
    return SplitCache(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    made = Lines(tmp_path / "events")
    for _ in range(4):
        made.append()
    return made


def with_word(rows: list[dict[str, Any]], word: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["body"] is not None and word in row["body"].split()]


def compare(table: CompanionSearch, rows: list[dict[str, Any]], cache: SplitCache, limit: int) -> None:
    """Hits, pages and counts are those of the rows."""
    wanted = with_word(rows, "disk")
    found: list[dict[str, Any]] = []
    after = None
    while True:
        page = table.search("disk", limit=limit, after=after, cache=cache)
        found += page.to_pylist()
        after = page.next_page
        if after is None:
            break
    assert [{name: row[name] for name in COLUMNS} for row in found] == wanted
    assert table.count("disk", cache=cache) == len(wanted)
    assert table.count("*", "ok", cache=cache) == sum(row["ok"] for row in rows)
    hosts = {row["host"]: row["count"] for row in table.top_terms("host", "disk", cache=cache).to_pylist()}
    assert hosts == Counter(row["host"] for row in wanted)
    flags = {row["ok"]: row["count"] for row in table.top_terms("ok", "disk", cache=cache).to_pylist()}
    assert flags == Counter(row["ok"] for row in wanted)
    spans = {row["ts"]: row["count"] for row in table.histogram("1s", "disk", cache=cache).to_pylist()}
    assert spans == Counter(row["ts"].replace(microsecond=0) for row in wanted)
    best = table.search("disk", limit=1000, order="best", columns=["id"], cache=cache).to_table()
    assert sorted(best["id"].to_pylist()) == sorted(row["id"] for row in wanted)


def test_hits_are_rows_of_the_table(lines: Lines, cache: SplitCache) -> None:
    follow(lines.root, **CHOICE)
    table = CompanionSearch(lines.root)
    assert table.notes == ()
    compare(table, lines.rows(), cache, 7)
    row = table.search("disk", "host = 'web-3'", limit=1, highlight=True, cache=cache).to_pylist()[0]
    assert "**disk**" in row["highlight"]["body"]
    assert row["host"] == "web-3"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_histories(lines: Lines, cache: SplitCache, seed: int) -> None:
    """Deleted rows and files, new files, and a follower that comes now and then."""
    dice = random.Random(seed)
    follow(lines.root, **CHOICE)
    known = set(lines.live)
    for _ in range(12):
        roll = dice.random()
        names = list(lines.live)
        if roll < 0.5 and names:
            lines.delete(dice.choice(names), set(dice.sample(range(PER_FILE), dice.randrange(1, 25))))
        elif roll < 0.65 and len(names) > 1:
            lines.drop(dice.choice(names))
        elif roll < 0.85:
            lines.append()
        else:
            follow(lines.root)
            known = set(lines.live)
    behind = CompanionSearch(lines.root)
    assert behind.lag().files == len(set(lines.live) - known)
    assert bool(behind.notes) == bool(behind.lag().files)
    follow(lines.root)
    table = CompanionSearch(lines.root)
    assert sorted(row["id"] for row in lines.rows()) == sorted(
        DeltaTable(lines.root).to_pyarrow_table()["id"].to_pylist()
    )
    compare(table, lines.rows(), cache, 5)


def test_pages_stay_at_their_versions(lines: Lines, cache: SplitCache) -> None:
    follow(lines.root, **CHOICE)
    wanted = [row["id"] for row in with_word(lines.rows(), "disk")]
    first = CompanionSearch(lines.root).search("disk", limit=5, columns=["id"], cache=cache)
    lines.delete("part-3.parquet", set(range(PER_FILE)))
    lines.drop("part-2.parquet")
    lines.append()
    follow(lines.root)
    second = CompanionSearch(lines.root).search("disk", limit=5, columns=["id"], after=first.next_page, cache=cache)
    assert [row["id"] for row in (*first.to_pylist(), *second.to_pylist())] == wanted[:10]


def test_what_is_not_indexed_is_said(lines: Lines, cache: SplitCache) -> None:
    follow(lines.root, **CHOICE)
    lines.append()
    table = CompanionSearch(lines.root)
    hits = table.search("disk", limit=1, cache=cache)
    behind = f"the companion is behind version {table.version} of the table by 1 file (40 rows)"
    assert hits.notes == (f"{behind}, whose rows are not found; run: sidecar splits follow",)
    assert max(row["id"] for row in table.search("*", limit=1000, cache=cache).to_pylist()) < 4 * PER_FILE


def test_what_a_companion_refuses(lines: Lines, cache: SplitCache) -> None:
    with pytest.raises(TableNotFoundError, match="has no companion"):
        open_search(lines.root)
    follow(lines.root, **CHOICE)
    table = open_search(lines.root)
    assert isinstance(table, CompanionSearch)
    with pytest.raises(QueryError, match="id is not indexed in these splits"):
        table.search("disk", "id > 5", cache=cache)
    with pytest.raises(UnknownColumnError):
        table.search("disk", "nothere > 5", cache=cache)
    lines.delete("part-0.parquet", set(range(PER_FILE)))
    with pytest.raises(QueryError, match="words of body are not counted"):
        CompanionSearch(lines.root).top_terms("body", cache=cache)
    plain = SearchTable(lines.root / "_search").search("disk", limit=2, cache=cache)
    with pytest.raises(PositionError, match="without its Delta table"):
        table.search("disk", limit=2, after=plain.next_page, cache=cache)
    with pytest.raises(TableNotFoundError):
        open_search(lines.root / "nothing")


def test_a_stream_of_all_hits(lines: Lines, cache: SplitCache) -> None:
    follow(lines.root, **CHOICE)
    lines.delete("part-1.parquet", {1, 2, 3})
    stream = CompanionSearch(lines.root).search("*", limit=None, columns=["id"], cache=cache)
    assert sorted(pa.table(stream)["id"].to_pylist()) == sorted(row["id"] for row in lines.rows())


def test_requests_of_a_search(tmp_path: Path) -> None:
    """Cold, the newest split alone is fetched, in two requests, and of the table's files only those with hits are read;
    warm, nothing but these."""
    lines = Lines(tmp_path / "events")
    for _ in range(6):
        lines.append()
        follow(lines.root, **CHOICE)
    cache = SplitCache(tmp_path / "cache")
    opening = {"get": 1, "list": 2, "stream": 8}
    for of_splits in ({"range": 2}, {}):
        store = CountingStore(open_store(lines.root))
        splits = CountingStore(open_store(lines.root / "_search"))
        table = CompanionSearch(DeltaTable(store.root_uri, store=store), splits)
        assert table.notes == ()
        # The table was open before in this process: two hints of an index, and a list that shows nothing new.
        assert store.counts() == {"get": 2, "list": 1}
        assert splits.counts() == opening
        for _ in range(2):
            store.reset()
            hits = table.search("disk", limit=3, cache=cache)
            assert (hits.metrics.opened, hits.metrics.splits) == (1, 6)
            assert [(one.verb, one.path) for one in store.requests] == [("get", "part-5.parquet")]
        # The list of its files, then all of them at once.
        assert splits.counts() == opening | of_splits
        assert len({path for path in splits.paths() if path.endswith(".split")}) == len(of_splits)
    assert cache.counts.fetched == 1
    store.reset()
    splits.reset()
    table.count("disk", cache=cache)
    assert splits.counts() == {"range": 2 * 5}
    assert store.requests == []


def test_rows_of_many_files_are_read_side_by_side(tmp_path: Path) -> None:
    """Hits in eight files and two splits take two trips to the table: one for the first file, one for the others."""
    lines = Lines(tmp_path / "events")
    for number in range(8):
        lines.append()
        if number % 4 == 3:
            follow(lines.root, **CHOICE)
    store = CountingStore(InStepStore(open_store(lines.root), 0.05))
    table = CompanionSearch(DeltaTable(store.root_uri, store=store))
    assert table.notes == ()
    store.reset()
    hits = table.search("*", limit=8 * PER_FILE, cache=SplitCache(tmp_path / "cache"))
    assert [row["id"] for row in hits.to_pylist()] == [row["id"] for row in lines.rows()]
    assert store.counts() == {"get": 8}
    assert store.round_trips() == 2


def test_the_command_searches_a_delta_table(lines: Lines) -> None:
    follow(lines.root, **CHOICE)
    lines.append()
    done = invoke("search", lines.root, "disk AND host:web-1", "--columns", "id", "--limit", 2, "--json")
    rows = [row for row in with_word(lines.rows(), "disk") if row["host"] == "web-1" and row["id"] < 4 * PER_FILE]
    assert [hit["id"] for hit in done.objects] == [row["id"] for row in rows[:2]]
    assert "note: the companion is behind version" in done.err
    follow(lines.root, lines.root.parent / "elsewhere", **CHOICE)
    other = invoke("search", lines.root, "disk", "--search", lines.root.parent / "elsewhere", "--count", "--json")
    assert other.objects == [{"count": len(with_word(lines.rows(), "disk"))}]
    counted = invoke("search", lines.root, "disk", "--count")
    assert "note: the companion is behind" in counted.err


def day_and_number(**columns: pa.Array) -> pa.Table:
    return pa.table({"id": [1, 2, 3], "body": ["disk full"] * 3, **columns})


MOMENTS = [datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (0, 5, 23)]
DAYS = pa.array([date(2026, 1, 1)] * 3)
TIMES = pa.array(MOMENTS, pa.timestamp("us", "UTC"))


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        (pa.array([1, 2, 3]), pa.array(["1", "2", "3"]), "was long when it was indexed and is string now"),
        (pa.array([1, 2, 3]), pa.array([1.5, 2.5, 3.5]), "was long when it was indexed and is double now"),
        (pa.array(["a", "b", "c"]), pa.array([1, 2, 3]), "was string when it was indexed and is long now"),
        (pa.array([True, False, None]), pa.array(["a", "b", "c"]), "was boolean when it was indexed and is string now"),
        (DAYS, TIMES, "was date when it was indexed and is timestamp now"),
        (TIMES, DAYS, "was timestamp when it was indexed and is date now"),
    ],
)
def test_a_column_of_another_type_than_when_it_was_indexed_is_refused(
    tmp_path: Path, before: pa.Array, after: pa.Array, kinds: str
) -> None:
    root = tmp_path / "events"
    write_deltalake(str(root), day_and_number(n=before))
    follow(root, text=["body"], key=["id"], filters=["n"])
    write_deltalake(str(root), day_and_number(n=after), mode="overwrite", schema_mode="overwrite")
    table = CompanionSearch(root)
    problem = f"the column n {kinds}.*build the companion anew"
    for query, where in (("n:2026-01-01", None), ("n:*", None), ("*", "n IS NOT NULL"), ("*", "n IS NULL")):
        with pytest.raises(QueryError, match=problem):
            table.search(query, where)
        with pytest.raises(QueryError, match=problem):
            table.count(query, where)
    with pytest.raises(QueryError, match=problem):
        table.top_terms("n")
    assert table.count("disk") == 0  # the new file is not indexed


def test_a_time_column_of_another_type_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "events"
    write_deltalake(str(root), day_and_number(at=DAYS))
    follow(root, text=["body"], time_column="at")
    write_deltalake(str(root), day_and_number(at=TIMES), mode="overwrite", schema_mode="overwrite")
    table = CompanionSearch(root)
    for ask in (lambda: table.search("disk"), lambda: table.histogram("1d"), lambda: table.search("disk", limit=None)):
        with pytest.raises(QueryError, match="the column at was date"):
            ask()
    assert table.search("disk", order="best").to_pylist() == []


def test_a_wider_number_asks_for_a_new_companion(tmp_path: Path) -> None:
    root = tmp_path / "events"
    write_deltalake(str(root), day_and_number(n=pa.array([1, 2, 3], pa.int32())))
    follow(root, text=["body"], filters=["n"])
    write_deltalake(str(root), day_and_number(n=pa.array([2**40, 1, None])), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(UnsupportedFeatureError, match="n of the source is long, and was integer"):
        follow(root)
    shutil.rmtree(root / "_search")
    follow(root, text=["body"], filters=["n"])
    table = CompanionSearch(root)
    assert [table.count(f"n:{2**40}"), table.count("*", "n > 5"), table.count("*", "n IS NULL")] == [1, 1, 1]


def test_tasks_of_spark_search_what_was_planned(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the plan and a task, a merge replaces the splits, the table gets rows, and time passes."""
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed")
    from delta_sidecar.search import spark_source

    follow(lines.root, **CHOICE)
    lines.append()
    follow(lines.root)
    wanted = [row["id"] for row in with_word(lines.rows(), "disk")]
    options = {"path": str(lines.root), "query": "disk", "where": "ts < now()", "columns": "id"}
    source = spark_source.SearchSource(options)
    schema = source.schema()
    for reader in (source.reader(schema), spark_source.SearchSource(options).reader(schema)):
        parts = reader.partitions()
        assert len(parts) == 2
        merge_splits(lines.root / "_search")
        lines.append()
        follow(lines.root)
        monkeypatch.setattr(spark_source.time, "time_ns", lambda: 0)
        found = [one for part in parts for batch in reader.read(part) for one in batch["id"].to_pylist()]
        monkeypatch.undo()
        assert sorted(found) == sorted(wanted)
        wanted = [row["id"] for row in with_word(lines.rows(), "disk")]
