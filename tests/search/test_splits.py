"""Splits: written, unpacked, searched; their bounds; damage; the cache."""

from __future__ import annotations

import errno
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

tantivy = pytest.importorskip("tantivy", reason="the extra `search` is not installed")

from delta_sidecar import (  # noqa: E402
    CorruptDataError,
    InputError,
    MissingDataError,
    OptionError,
    StorageError,
    UnknownColumnError,
)
from delta_sidecar.search import (  # noqa: E402
    SearchTable,
    Split,
    SplitCache,
    SplitFields,
    SplitWriter,
    append,
    create_table,
)
from delta_sidecar.search.splits.cache import _key  # noqa: E402
from delta_sidecar.search.splits.file import read_split_list, unpack_split  # noqa: E402
from delta_sidecar.storage import Store, open_store  # noqa: E402
from delta_sidecar.values.arrow_types import table_schema  # noqa: E402
from tests.search.lines import SCHEMA, log_lines  # noqa: E402
from tests.search.made import flipped  # noqa: E402

ALL = SplitFields.choose(
    SCHEMA, text=["body"], key=["id"], time="ts", filters=["host", "ratio", "ok", "day"], stored=["body"]
)


def made(store: Store, rows: pa.Table, fields: SplitFields = ALL, **partition: str | None) -> Split:
    with SplitWriter(fields, heap=15_000_000) as writer:
        writer.add(rows)
        return writer.finish(store, partition)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "table")


@pytest.fixture
def split(store: Store) -> Split:
    return made(store, log_lines(1000))


def documents(cache: SplitCache, store: Store, split: Split) -> list[dict[str, Any]]:
    opened = cache.open_split(store, split)
    hits = opened.searcher.search(tantivy.Query.all_query(), limit=10_000).hits
    addresses = [address for _, address in hits]
    columns = {name: opened.searcher.fast_field_values(name, addresses) for name in ("id", "ts", "ratio", "ok", "day")}
    stored = [opened.searcher.doc(address).to_dict() for address in addresses]
    rows = [
        {name: values[number] for name, values in columns.items()}
        | {name: values[0] for name, values in stored[number].items()}
        for number in range(len(addresses))
    ]
    return sorted(rows, key=lambda row: row["id"])


def test_every_value_comes_back(store: Store, split: Split) -> None:
    found = documents(SplitCache(), store, split)
    expected = []
    for row in log_lines(1000).to_pylist():
        row["ts"] = int(row["ts"].timestamp() * 1_000_000)
        row["day"] = (row["day"] - date(1970, 1, 1)).days
        expected.append(row)
    for row, document in zip(expected, found, strict=True):
        assert row == {"body": None, "ratio": None, **document}


def test_what_the_log_says_of_it(store: Store, split: Split) -> None:
    assert split.numRecords == 1000
    assert split.minValues is not None
    assert split.maxValues is not None
    assert (split.minValues["id"], split.maxValues["id"]) == ("0", "999")
    assert (split.minValues["host"], split.maxValues["host"]) == ("web-0", "web-4")
    assert (split.minValues["ratio"], split.maxValues["ratio"]) == ("0.0", "249.75")
    assert (split.minValues["day"], split.maxValues["day"]) == ("2026-01-01", "2026-01-01")
    assert (split.timeRangeStart, split.timeRangeEnd) == ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:36.963000Z")
    assert "body" not in split.minValues
    assert split.size == store.head(split.path).size == split.footerEndOffset
    assert (split.hotcacheStartOffset, split.hotcacheLength) == (split.size - 4, 0)
    assert split.docMappingJson == ALL.to_json()


def test_bounds_prune(store: Store) -> None:
    columns = table_schema(SCHEMA)
    create_table(store, columns.to_json(), configuration={"sidecar.timeColumn": "ts"})
    append(store, [made(store, log_lines(100)), made(store, log_lines(100, first=100))])
    table = SearchTable(store)
    for where, count in [
        ("id < 100", 1),
        ("id = 99 OR id = 100", 2),
        ("ts >= '2026-01-01T00:00:03.700Z'", 1),
        ("ratio > 1000", 0),
        ("host = 'web-9'", 0),
        ("day = '2026-01-02'", 0),
        ("ratio IS NULL", 2),
        ("id IS NULL", 0),
    ]:
        assert len(table.splits(where)) == count, where


def test_bounds_that_are_none(store: Store) -> None:
    rows = pa.table(
        {
            "long": ["x" * 40, "a" * 40],
            "ratio": [float("nan"), 1.0],
            "late": pa.array([datetime(2026, 1, 1), None], pa.timestamp("ms")),
            "empty": pa.array([None, None], pa.int64()),
        }
    )
    split = made(store, rows, SplitFields.choose(rows.schema, filters=["long", "ratio", "late", "empty"]))
    assert split.minValues == {"long": "a" * 31, "late": "2026-01-01T00:00:00.000000"}
    assert split.maxValues == {"late": "2026-01-01T00:00:00.000000"}


@pytest.mark.parametrize("kind", ["id", "body"])
def test_rows_that_do_not_fit(store: Store, kind: str) -> None:
    rows = log_lines(10)
    wrong = {"id": pa.array(["x"] * 10), "body": pa.array(range(10))}[kind]
    with SplitWriter(ALL, heap=15_000_000) as writer:
        with pytest.raises(InputError, match=f"column {kind}"):
            writer.add(rows.set_column(rows.schema.get_field_index(kind), kind, wrong))
        with pytest.raises(UnknownColumnError, match=kind):
            writer.add(rows.drop_columns([kind]))


def test_the_partition_names_a_directory(store: Store) -> None:
    fields = SplitFields.choose(SCHEMA, text=["body"], partition_columns=["host"])
    split = made(store, log_lines(10), fields, host="../web 7/ä")
    assert split.path.startswith("host=")
    assert ".." not in split.path.split("/")
    assert split.partitionValues == {"host": "../web 7/ä"}
    assert made(store, log_lines(10), fields, host=None).path.startswith("host=__HIVE_DEFAULT_PARTITION__/")


def test_nothing_of_the_writer_is_left(store: Store, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with SplitWriter(ALL, heap=15_000_000, folder=scratch) as writer:
        writer.add(log_lines(10))
        writer.finish(store)
    with SplitWriter(ALL, heap=15_000_000, folder=scratch) as writer:
        writer.add(log_lines(10))
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("damage", ["cut", "flip", "missing"])
def test_damage_is_found(store: Store, split: Split, tmp_path: Path, damage: str) -> None:
    path = Path(str(store.local_path(split.path)))
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(data[:-100])
    else:
        data[1000] ^= 1
        path.write_bytes(data)
    cache = SplitCache(tmp_path / "cache")
    error = {"missing": MissingDataError, "flip": CorruptDataError, "cut": Exception}[damage]
    with pytest.raises(error):
        cache.open_split(store, split)
    assert cache.size == 0
    assert [name for name in (tmp_path / "cache").iterdir() if not name.name.startswith(".")] == []


NAMES = [(b".pos", -1), (b".fast", 1), (b".fieldnorm", -2), (b".idx", 1), (b".term", -1), (b".store", 1)]


@pytest.mark.parametrize(("wanted", "at"), [*NAMES, (b"meta.json", 0), (b'"start":', 8)])
@pytest.mark.parametrize("is_older", [False, True])
def test_damage_in_the_list_of_files(store: Store, split: Split, wanted: bytes, at: int, is_older: bool) -> None:
    path = Path(str(store.local_path(split.path)))
    if is_older:
        path.write_bytes(path.read_bytes().replace(b'"listChecksum"', b'"lostChecksum"'))
    read_split_list(store, split.path, split)
    flipped(path, wanted, at)
    if is_older and wanted == b'"start":':
        return
    with pytest.raises(CorruptDataError, match=r"list of files|cannot be in it"):
        read_split_list(store, split.path, split)


def test_a_split_is_unpacked_once(store: Store, split: Split, tmp_path: Path) -> None:
    cache = SplitCache(tmp_path / "cache")
    gate = threading.Barrier(8)

    def opened(_: int) -> Any:
        gate.wait()
        return cache.open_split(store, split)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(opened, range(8)))
    assert len({id(one) for one in found}) == 1
    assert (cache.counts.fetched, cache.counts.opened) == (1, 1)
    later = SplitCache(tmp_path / "cache")
    assert later.holds(store, split)
    assert later.open_split(store, split).searcher.num_docs == 1000
    assert later.counts.fetched == 0


def test_the_budget_holds(store: Store, tmp_path: Path) -> None:
    splits = [made(store, log_lines(500, first=500 * number)) for number in range(4)]
    size = read_split_list(store, splits[0].path, splits[0]).size
    cache = SplitCache(tmp_path / "cache", budget=2 * size + size // 2)
    searchers = []
    for split in [*splits, splits[3], splits[0]]:
        searchers.append(cache.open_split(store, split).searcher)
        assert cache.size <= cache.budget
    assert cache.counts.fetched == 5
    # What was dropped from the disk stays readable for those who have it open.
    assert [searcher.num_docs for searcher in searchers] == [500] * 6
    assert [len(s.search(tantivy.Query.all_query(), limit=3).hits) for s in searchers] == [3] * 6
    small = SplitCache(tmp_path / "small", budget=1)
    assert [small.open_split(store, split).searcher.num_docs for split in splits] == [500] * 4
    with pytest.raises(OptionError):
        SplitCache(budget=0)


def test_a_directory_that_others_delete(store: Store, split: Split, tmp_path: Path) -> None:
    SplitCache(tmp_path / "cache").open_split(store, split)
    broken = next(path for path in (tmp_path / "cache").iterdir())
    (broken / "meta.json").unlink()
    cache = SplitCache(tmp_path / "cache")
    assert cache.open_split(store, split).searcher.num_docs == 1000
    assert cache.counts.fetched == 1


def test_a_remote_split_is_fetched_in_few_requests(tmp_path: Path) -> None:
    from delta_sidecar.testing import CountingStore

    local = open_store(tmp_path / "table")
    split = made(local, log_lines(1000))
    memory = open_store("memory:///splits-test")
    memory.put_if_absent(split.path, local.get(split.path))
    counting = CountingStore(memory)
    folder = tmp_path / "unpacked"
    folder.mkdir()
    unpack_split(counting, read_split_list(counting, split.path, split), folder)
    assert tantivy.Index.open(str(folder)).searcher().num_docs == 1000
    assert sum(counting.counts().values()) == 2


def test_other_processes_find_a_remote_split(split: Split) -> None:
    def key(endpoint: str, **more: str) -> str:
        given = {"region": "r", "access_key_id": "a", "secret_access_key": "b", "allow_http": "true", **more}
        return _key(open_store("s3://bucket/logs", {"endpoint_url": endpoint, **given}), split)

    here = key("http://127.0.0.1:1")
    assert key("http://127.0.0.1:1", timeout="7s") == here
    assert key("http://127.0.0.1:2") != here


def test_a_disk_that_is_full(store: Store, split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rename(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(StorageError, match=r"No space left on device.*name another directory"):
        SplitCache(tmp_path / "cache").open_split(store, split)


def test_what_is_being_unpacked_counts(store: Store, split: Split, tmp_path: Path) -> None:
    other = made(store, log_lines(500, first=5000))
    sizes = [read_split_list(store, one.path, one).size for one in (split, other)]
    cache = SplitCache(tmp_path / "cache", budget=sum(sizes))
    cache.open_split(store, split)
    (tmp_path / "cache" / f".draft-{sizes[1]}").mkdir()
    cache.open_split(store, other)
    assert not cache.holds(store, split)


def test_threads_wait_for_each_other(tmp_path: Path) -> None:
    cache = SplitCache(tmp_path / "cache")
    inside: list[int] = []
    most: list[int] = []

    def enter(number: int) -> None:
        with cache._alone("key"):
            inside.append(number)
            most.append(len(inside))
            time.sleep(0.005)
            inside.remove(number)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(enter, range(40)))
    assert max(most) == 1
    assert cache._opening == {}
