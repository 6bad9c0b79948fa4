"""Many files at once: order, bounds on what is in flight, errors in order, and an end to all I/O."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

from delta_sidecar.data.row_scan import read_rows
from delta_sidecar.data.row_stream import RowStream
from delta_sidecar.errors import ConsumedStreamError, CorruptDataError, OptionError
from delta_sidecar.limits import ReaderLimits
from delta_sidecar.storage import Store, open_store
from delta_sidecar.testing.stores import CountingStore
from tests.data.listing import Listing
from tests.data.made import column, made_table, struct
from tests.data.test_reader import SCHEMA, counted, keys


def made(root: Path, files: int, rows: int = 10) -> Listing:
    return made_table(root, SCHEMA, [counted(rows, i * rows) for i in range(files)])


def workers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "delta-sidecar-rows"]


def test_rows_come_in_the_order_of_the_files(tmp_path: Path) -> None:
    listing = made(tmp_path, 40)
    for threads in (1, 2, 7):
        assert keys(listing.table(threads=threads)) == list(range(400))
    assert not workers()


def test_a_small_remote_file_is_one_request(tmp_path: Path) -> None:
    store = CountingStore(open_store(tmp_path))
    assert keys(made(tmp_path, 5).table("k > 3", store=store)) == list(range(4, 50))
    assert store.counts() == {"get": 5}


BY_RANGES = ReaderLimits(small_file=1000)


def test_a_large_remote_file_is_read_by_ranges(tmp_path: Path) -> None:
    wide = counted(50_000).append_column("x", pa.array([f"{i * 7919 % 99991:060}" for i in range(50_000)]))
    schema = struct(*SCHEMA.fields, column("x", "string"))
    listing = made_table(tmp_path, schema, [wide], use_dictionary=False, compression="none", row_group_size=10_000)
    store = CountingStore(open_store(tmp_path))
    assert keys(listing.table("k = 25000", store=store, columns=["k"], limits=BY_RANGES)) == [25_000]
    assert "get" not in store.counts()
    assert store.bytes_read < listing.rows[0]["size"] / 2
    assert listing.table(store=store, limits=BY_RANGES).equals(wide)


def test_other_columns_are_read_only_where_a_row_matches(tmp_path: Path) -> None:
    """Statistics cannot tell: every row group may hold the value, one does."""
    keys_ = [(i * 2 if i != 31_000 else 4_001) % 20_000 for i in range(50_000)]
    wide = pa.table({"k": keys_, "s": [f"{i:0100}" for i in range(50_000)]})
    listing = made_table(
        tmp_path,
        SCHEMA,
        [wide],
        use_dictionary=False,
        compression="none",
        row_group_size=10_000,
        write_page_index=False,
    )
    store = CountingStore(open_store(tmp_path))
    with listing.read("k = 4001", store=store, limits=BY_RANGES) as stream:
        assert [b.to_pylist() for b in stream] == [[{"k": 4001, "s": f"{31_000:0100}"}]]
        assert stream.metrics.row_groups_read == 5
    key_bytes, row_group = 50_000 * 8, 10_000 * 108
    assert store.bytes_read < key_bytes + row_group + 2 * (1 << 20)


def test_a_large_remote_file_cut_short_is_named(tmp_path: Path) -> None:
    listing = made(tmp_path, 1, rows=10_000)
    path = tmp_path / "part-00000.parquet"
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(CorruptDataError, match=r"part-00000.*shorter than"):
        listing.table(store=CountingStore(open_store(tmp_path)), limits=BY_RANGES)
    path.unlink()
    with pytest.raises(CorruptDataError, match=r"part-00000.*missing"):
        listing.table(store=CountingStore(open_store(tmp_path)), limits=BY_RANGES)


def test_a_closed_stream_makes_no_further_request(tmp_path: Path) -> None:
    store = CountingStore(open_store(tmp_path))
    stream = made(tmp_path, 100).read(store=store, threads=3)
    next(stream)
    stream.close()
    made_so_far = len(store.requests)
    assert made_so_far <= 1 + 2 * 3 + 3
    assert not workers()
    time.sleep(0.05)
    assert len(store.requests) == made_so_far
    for again in (list, next, lambda s: s.to_reader(), pa.table):
        with pytest.raises(ConsumedStreamError, match="closed"):
            again(stream)
    stream.close()


def test_a_limit_stops_the_list_and_the_reading(tmp_path: Path) -> None:
    store = CountingStore(open_store(tmp_path))
    listing = made(tmp_path, 100)
    listed: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for i, batch in enumerate(listing.batches(1)):
                listed.append(i)
                yield batch
        finally:
            listed.append(-1)

    with read_rows(batches(), store, SCHEMA, [], limit=25, threads=2) as stream:
        assert sum(b.num_rows for b in stream) == 25
    assert listed == [0, 1, 2, -1]
    assert len(store.requests) == 3


@pytest.mark.parametrize(("limit", "most"), [(1, 1), (10, 1), (11, 3), (60, 11)])
def test_a_limit_opens_few_files_where_the_log_says_no_counts(tmp_path: Path, limit: int, most: int) -> None:
    store = CountingStore(open_store(tmp_path))
    listing = made(tmp_path, 100)
    files = (batch.drop_columns(["num_records"]) for batch in listing.batches(1))
    with read_rows(files, store, SCHEMA, [], limit=limit, threads=4) as stream:
        assert sum(b.num_rows for b in stream) == limit
    assert len(set(store.paths())) <= most


def test_a_forgotten_stream_ends_its_threads(tmp_path: Path) -> None:
    stream = made(tmp_path, 50).read(threads=2)
    next(stream)
    assert workers()
    del stream
    gc.collect()
    assert not workers()


def test_rows_flow_while_the_list_is_still_coming(tmp_path: Path) -> None:
    listing = made(tmp_path, 2)
    first, second = listing.batches(1)
    asked = threading.Event()

    def batches() -> Iterator[pa.RecordBatch]:
        yield first
        assert asked.wait(10)
        yield second

    with read_rows(batches(), open_store(tmp_path), SCHEMA, [], threads=2) as stream:
        assert keys(next(stream)) == list(range(10))
        asked.set()
        assert keys(next(stream)) == list(range(10, 20))


def test_a_stream_that_another_thread_closes_does_not_look_complete(tmp_path: Path) -> None:
    first, second = made(tmp_path, 2).batches(1)
    asked, closed = threading.Event(), threading.Event()

    def batches() -> Iterator[pa.RecordBatch]:
        yield first
        asked.set()
        assert closed.wait(10)
        yield second

    def close() -> None:
        assert asked.wait(10)
        threading.Timer(0.05, closed.set).start()
        stream.close()

    stream = read_rows(batches(), open_store(tmp_path), SCHEMA, [], threads=2)
    assert keys(next(stream)) == list(range(10))
    closer = threading.Thread(target=close)
    closer.start()
    with pytest.raises(ConsumedStreamError, match="closed"):
        next(stream)
    closer.join()


def test_an_error_comes_after_the_rows_before_it(tmp_path: Path) -> None:
    listing = made(tmp_path, 6)
    (tmp_path / "part-00003.parquet").write_bytes(b"nothing")
    with listing.read(threads=3) as stream:
        assert [keys(next(stream))[0] for _ in range(3)] == [0, 10, 20]
        with pytest.raises(CorruptDataError, match="part-00003"):
            next(stream)
    assert not workers()


def test_an_error_of_the_list_is_raised(tmp_path: Path) -> None:
    listing = made(tmp_path, 1)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from listing.batches()
        raise RuntimeError("the list broke off")

    with read_rows(batches(), open_store(tmp_path), SCHEMA, []) as stream:
        assert keys(next(stream)) == list(range(10))
        with pytest.raises(RuntimeError, match="broke off"):
            next(stream)


@pytest.mark.slow
def test_what_is_ready_and_not_taken_is_bounded(tmp_path: Path) -> None:
    """A consumer that does not take: the workers stop at the budget, however many files there are."""
    listing = made(tmp_path, 60, rows=20_000)
    file_bytes = counted(20_000).nbytes
    before = pa.total_allocated_bytes()
    with listing.read(threads=4, memory_budget=3 * file_bytes) as stream:
        next(stream)
        _until_steady()
        assert pa.total_allocated_bytes() - before < (3 + 1 + 4 + 4) * file_bytes * 1.3
        assert keys(next(stream))[0] == 20_000


def _until_steady() -> None:
    """Wait until the workers have stopped allocating."""
    last = -1
    while (now := pa.total_allocated_bytes()) != last:
        last = now
        time.sleep(0.1)


def test_the_stream_is_an_arrow_stream(tmp_path: Path) -> None:
    reader = pa.RecordBatchReader.from_stream(made(tmp_path, 3).read())
    assert keys(reader.read_all()) == list(range(30))


READINGS: list[Callable[[RowStream], list[int]]] = [
    lambda stream: keys(pa.Table.from_batches(list(stream), stream.schema)),
    lambda stream: keys(stream.to_reader().read_all()),
    lambda stream: keys(pa.table(stream)),
    lambda stream: keys(pa.RecordBatchReader.from_stream(stream).read_all()),
]


@pytest.mark.parametrize("limit", [None, 0, 25, 2**70])
def test_a_stream_is_read_once(tmp_path: Path, limit: int | None) -> None:
    """An empty answer would look like an empty table."""
    listing = made(tmp_path, 3)
    for first, again in product(READINGS, READINGS):
        stream = listing.read(limit=limit)
        assert first(stream) == list(range(30))[:limit]
        with pytest.raises(ConsumedStreamError, match="stream of rows"):
            again(stream)


def test_a_stream_may_be_read_on_where_its_reader_stopped(tmp_path: Path) -> None:
    stream = made(tmp_path, 3).read()
    first = next(stream)
    assert keys(pa.Table.from_batches([first, *stream])) == list(range(30))
    assert next(stream, None) is None


def test_a_stream_closed_under_its_reader_does_not_look_complete(tmp_path: Path) -> None:
    stream = made(tmp_path, 3).read()
    reader = stream.to_reader()
    reader.read_next_batch()
    stream.close()
    with pytest.raises((ConsumedStreamError, pa.ArrowException), match="closed"):
        reader.read_all()


def test_options_out_of_range_are_refused(tmp_path: Path) -> None:
    listing = made(tmp_path, 1)
    for options in ({"limit": -1}, {"threads": 0}, {"batch_size": 0}, {"memory_budget": 0}):
        with pytest.raises(OptionError, match=next(iter(options))):
            listing.read(**options)


def _memory_copy(root: Path) -> Store:
    store = open_store("memory://rows-of-a-table/t")
    for path in root.glob("*.parquet"):
        store.put_if_absent(path.name, path.read_bytes())
    return store


def test_any_store_will_do(tmp_path: Path) -> None:
    listing = made(tmp_path, 4)
    assert keys(listing.table(store=_memory_copy(tmp_path))) == list(range(40))
