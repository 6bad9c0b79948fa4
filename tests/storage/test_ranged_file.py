"""A file read by ranges: right bytes, few requests, little memory."""

from __future__ import annotations

import io
import random
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar.errors import ObjectNotFoundError, StoreUnavailableError
from delta_sidecar.storage import Buffer, ByteRange, Store, open_store
from delta_sidecar.storage.ranged_file import RangedFile
from delta_sidecar.testing.stores import CountingStore, Faults, FaultyStore, InStepStore, SlowStore

K = 1 << 10
M = 1 << 20
DATA = random.Random(0).randbytes(6 * M + 123)


def stored(paced: Callable[[Store], Store] = lambda store: store, data: bytes = DATA) -> CountingStore:
    store = open_store(f"memory://{uuid.uuid4().hex}")
    store.put_if_absent("f", data)
    return CountingStore(paced(store))


def opened(store: Store, size: int = len(DATA), **options: int) -> RangedFile:
    return RangedFile(store, "f", size, **options)


def test_it_is_a_file() -> None:
    file = opened(stored())
    assert (file.readable(), file.seekable(), file.writable(), file.closed) == (True, True, False, False)
    assert bytes(file.read(10)) == DATA[:10]
    assert file.tell() == 10
    assert file.seek(-5, io.SEEK_END) == len(DATA) - 5
    assert bytes(file.read(100)) == DATA[-5:]
    assert bytes(file.read()) == b""
    assert file.seek(5) == 5
    assert file.seek(5, io.SEEK_CUR) == 10
    assert bytes(file.read(0)) == b""
    assert file.size() == len(DATA)
    with pytest.raises(ValueError, match="before the beginning"):
        file.seek(-1)


def test_reading_all_of_it() -> None:
    assert bytes(opened(stored()).read()) == DATA


@pytest.mark.parametrize("seed", range(5))
def test_any_reads_give_the_right_bytes(seed: int) -> None:
    rng = random.Random(seed)
    file = opened(stored(), block_size=100 * K, budget=500 * K)
    if seed % 2:
        file.prepare([ByteRange(rng.randrange(5 * M), rng.randrange(M)) for _ in range(5)])
    for _ in range(200):
        start, length = rng.randrange(len(DATA) + 10), rng.choice([1, 100, 50 * K, 400 * K])
        file.seek(start)
        assert bytes(file.read(length)) == DATA[start : start + length]
        assert file.held_bytes <= 500 * K


def test_a_small_object_is_one_request() -> None:
    store = stored(data=DATA[: 500 * K])
    file = opened(store, 500 * K)
    file.prepare([ByteRange(0, 10), ByteRange(400 * K, 10)])
    for start in (499 * K, 0, 200 * K, 100):
        assert bytes(file.read_at(start, 1000)) == DATA[start : min(start + 1000, 500 * K)]
    assert store.counts() == {"range": 1}


def streams(store: CountingStore, ranges: list[ByteRange], step: int = 50 * K, **options: int) -> int:
    """Read the ranges side by side; the most bytes held meanwhile."""
    most = 0
    with opened(store, **options) as file:
        file.prepare(ranges)
        positions = [r.start for r in ranges]
        while any(p < r.end for p, r in zip(positions, ranges, strict=True)):
            for i, r in enumerate(ranges):
                length = min(step, r.end - positions[i])
                assert bytes(file.read_at(positions[i], length)) == DATA[positions[i] : positions[i] + length]
                positions[i] += length
                most = max(most, file.held_bytes)
    return most


def test_planned_streams_read_each_byte_once() -> None:
    store = stored()
    ranges = [ByteRange(1000, 2 * M), ByteRange(3 * M, M), ByteRange(5 * M, 300 * K)]
    most = streams(store, ranges, block_size=512 * K, budget=4 * M)
    assert store.bytes_read == sum(r.length for r in ranges)
    assert store.counts() == {"range": 4 + 2 + 1}
    assert most <= 4 * M


def test_the_next_blocks_are_on_their_way_while_one_is_read() -> None:
    store = stored(InStepStore)
    streams(store, [ByteRange(0, 2 * M), ByteRange(3 * M, 2 * M)], block_size=512 * K, budget=8 * M)
    assert store.counts() == {"range": 8}
    assert store.round_trips() <= 4


def test_nothing_beyond_a_planned_range_is_read() -> None:
    store = stored()
    with opened(store, block_size=64 * K) as file:
        file.prepare([ByteRange(100, 100 * K)])
        assert bytes(file.read_at(100, 100 * K)) == DATA[100 : 100 + 100 * K]
    assert max(r.start + (r.length or 0) for r in store.requests) == 100 + 100 * K


def test_a_range_read_at_once_is_one_request() -> None:
    store = stored()
    with opened(store, block_size=256 * K) as file:
        file.prepare([ByteRange(1000, 2 * M), ByteRange(4 * M, M)], begin=False)
        assert bytes(file.read_at(1000, 2 * M)) == DATA[1000 : 1000 + 2 * M]
        assert bytes(file.read_at(4 * M, M)) == DATA[4 * M : 5 * M]
    assert max(r.length or 0 for r in store.requests) == 2 * M
    assert len(store.requests) <= 3
    assert store.bytes_read == 3 * M


def test_a_footer_is_read_alone() -> None:
    store = stored()
    with opened(store) as file:
        assert bytes(file.read_at(len(DATA) - 64 * K, 64 * K)) == DATA[-64 * K :]
        assert bytes(file.read_at(len(DATA) - 100_008, 100_000)) == DATA[-100_008:-8]
    assert [r.length for r in store.requests] == [64 * K, 100_000]


def test_an_unplanned_stream_is_noticed() -> None:
    store = stored(InStepStore)
    with opened(store, block_size=256 * K) as file:
        while file.read(64 * K):
            pass
    assert store.counts() == {"range": 25}
    assert store.round_trips() < 25
    assert store.bytes_read == len(DATA)


def test_a_random_read_prefetches_nothing() -> None:
    store = stored()
    with opened(store, block_size=256 * K) as file:
        file.read_at(3 * M, 10)
        file.read_at(M, 10)
    assert store.counts() == {"range": 2}


def test_no_request_after_close() -> None:
    store = stored()
    file = opened(store)
    file.prepare([ByteRange(0, 5 * M)], begin=False)
    file.close()
    assert file.closed
    with pytest.raises(ValueError, match="closed"):
        file.read_at(0, 1)
    assert store.requests == []


def test_failures_reach_the_reader_and_may_be_tried_again() -> None:
    inner = stored()
    file = opened(FaultyStore(inner, 1, Faults(unavailable=1.0, most_in_a_row=1)))
    with pytest.raises(StoreUnavailableError):
        file.read_at(0, 10)
    assert bytes(file.read_at(0, 10)) == DATA[:10]


def test_a_failed_prefetch_reaches_the_reader() -> None:
    store = open_store(f"memory://{uuid.uuid4().hex}")
    file = RangedFile(store, "gone", 10 * M)
    file.prepare([ByteRange(0, 5 * M)])
    with pytest.raises(ObjectNotFoundError):
        file.read_at(0, 10)
    assert file.held_bytes <= M


def test_many_threads() -> None:
    file = opened(stored(lambda store: SlowStore(store, 0.001)), block_size=128 * K, budget=M)
    file.prepare([ByteRange(i * M, M) for i in range(6)])

    def stream(index: int) -> bytes:
        return b"".join(bytes(file.read_at(index * M + at, 32 * K)) for at in range(0, M, 32 * K))

    with ThreadPoolExecutor(6) as pool:
        assert b"".join(pool.map(stream, range(6))) == DATA[: 6 * M]


def test_readers_on_the_request_pool_itself_do_not_wait_for_each_other() -> None:
    from delta_sidecar.flow.pool import request_pool

    file = opened(stored(lambda store: SlowStore(store, 0.001)), block_size=64 * K, budget=2 * M)
    file.prepare([ByteRange(0, 6 * M)])
    answers = list(request_pool().map(lambda i: bytes(file.read_at(i * 64 * K, 64 * K)), range(96)))
    assert b"".join(answers) == DATA[: 6 * M]


def chunk_ranges(metadata: pq.FileMetaData, columns: list[str]) -> list[ByteRange]:
    groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
    chunks = [group.column(i) for group in groups for i in range(metadata.num_columns)]
    return [
        ByteRange(chunk.dictionary_page_offset or chunk.data_page_offset, chunk.total_compressed_size)
        for chunk in chunks
        if chunk.path_in_schema in columns
    ]


@pytest.mark.slow
def test_parquet_by_ranges() -> None:
    rows = 200_000
    rng = random.Random(1)
    table = pa.table({name: [rng.randrange(1 << 60) for _ in range(rows)] for name in "abcd"})
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=100_000, compression="none", use_dictionary=False)
    data: Buffer = sink.getvalue()
    store = stored(data=bytes(data))
    with opened(store, len(data), block_size=256 * K, budget=2 * M) as file:
        parquet = pq.ParquetFile(file, pre_buffer=False, buffer_size=32 * K)
        footer = store.bytes_read
        ranges = chunk_ranges(parquet.metadata, ["a", "c"])
        file.prepare(ranges, streams=2)
        got = pa.Table.from_batches(parquet.iter_batches(10_000, columns=["a", "c"], use_threads=False))
        assert file.held_bytes <= 2 * M
    assert got.equals(table.select(["a", "c"]))
    assert store.bytes_read == footer + sum(r.length for r in ranges)


def test_what_is_read_out_of_order_is_fetched_once() -> None:
    """Threads that share a read may come to the second of two blocks first."""
    data = bytes(range(256)) * (4 * K)
    store = stored(data=data)
    with opened(store, len(data), block_size=256 * K, budget=2 * M) as file:
        file.prepare([ByteRange(0, len(data))])
        pieces = [(0, 100 * K), (256 * K, 50 * K), (100 * K, 156 * K), (512 * K, 256 * K), (306 * K, 206 * K)]
        pieces.append((768 * K, 256 * K))
        for start, length in pieces:
            assert bytes(file.read_at(start, length)) == data[start : start + length]
    assert store.bytes_read == len(data)


def test_seek_and_read_of_one_file_from_several_threads_lose_nothing() -> None:
    file = opened(stored())
    seen: list[int] = []
    lock = threading.Lock()

    def drain(_: int) -> None:
        while chunk := file.read(100 * K):
            with lock:
                seen.append(len(chunk))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(drain, range(4)))
    assert sum(seen) == len(DATA)
