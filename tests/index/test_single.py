"""The single part of a small table: it describes itself, and any damage to it is seen."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar.errors import CorruptIndexError
from delta_sidecar.index.build.build import build_index
from delta_sidecar.index.format.index_names import SIDECARS
from delta_sidecar.index.format.manifest import FORMAT, Manifest
from delta_sidecar.index.format.part_format import MANIFEST_KEY
from delta_sidecar.index.format.seals import SEAL, is_whole, sealed
from delta_sidecar.index.read.finder import read_single
from delta_sidecar.storage import open_store
from delta_sidecar.storage.store import Store
from delta_sidecar.testing.actions import DeletionVector, add
from delta_sidecar.testing.table_builder import LogBuilder
from tests.index.models import index_rows_at, manifest_at

NAME = f"{SIDECARS}/v1.parquet"


@pytest.fixture
def log(tmp_path_factory: pytest.TempPathFactory) -> LogBuilder:
    log = LogBuilder(tmp_path_factory.mktemp("single")).protocol(reader=3, features=["deletionVectors"])
    log.metadata({"x": "long", "p": "string"}, partition_by=["p"])
    for n in range(2):
        stats = {"numRecords": 5, "minValues": {"x": n}, "maxValues": {"x": n}, "nullCount": {"x": 0}}
        log.commit(add(f"f{n}", partition={"p": f"p{n}"}, stats=stats, dv=DeletionVector() if n else None))
    build_index(open_store(str(log.root)))
    return log


@pytest.fixture
def store(log: LogBuilder) -> Store:
    return open_store(str(log.root))


def test_it_says_what_its_manifest_says(store: Store) -> None:
    found = read_single(store, SIDECARS, 1)
    said, _ = manifest_at(store, 1)
    assert found is not None
    left_out = {"parts_json": found.parts_json, "bytes": 0, "records": None, "built_at": 0}
    assert msgspec.structs.replace(found, **left_out) == msgspec.structs.replace(said, **left_out)
    (part,), (entry,) = list(found.parts), list(said.parts)
    assert (part.core, part.rows, part.core_name) == (entry.core, entry.rows, entry.core_name)
    assert (part.key_unknown, part.time_unknown, part.vectors) == (2, 2, 2), "nothing is passed over by it"


def test_there_may_be_none(store: Store) -> None:
    assert read_single(store, SIDECARS, 0) is None


def test_a_seal_changes_nothing_for_parquet(store: Store) -> None:
    data = bytes(store.get(NAME))
    assert is_whole(data)
    assert pq.read_table(pa.BufferReader(data)).column("path").to_pylist() == ["f1", "f0"]
    assert len(index_rows_at(store, 1)) == 2


def test_every_flipped_bit_is_seen(store: Store) -> None:
    data = bytearray(store.get(NAME))
    assert is_whole(data)
    for at in range(len(data)):
        for bit in (0, 3, 7):
            data[at] ^= 1 << bit
            assert not is_whole(data), f"bit {bit} of byte {at}"
            data[at] ^= 1 << bit
    assert is_whole(data)


def test_every_cut_is_seen(store: Store) -> None:
    data = bytes(store.get(NAME))
    assert not any(is_whole(data[:end]) for end in range(len(data)))
    assert not is_whole(data + b"\0")
    assert not is_whole(b"\0" + data)


@pytest.mark.parametrize("at", [0, 4, 100, -1, -5, -9, -200])
def test_a_damaged_one_is_an_error_that_names_it(store: Store, at: int) -> None:
    data = bytearray(store.get(NAME))
    data[at] ^= 0x10
    store.replace(NAME, bytes(data), None)
    with pytest.raises(CorruptIndexError, match=r"v1\.parquet is damaged"):
        read_single(store, SIDECARS, 1)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" * 10, SEAL * 20, b"\xff" * 64, b"\0" * 64])
def test_what_is_no_part_is_damaged(store: Store, data: bytes) -> None:
    store.replace(NAME, data, None)
    with pytest.raises(CorruptIndexError, match="damaged"):
        read_single(store, SIDECARS, 1)


def parquet_saying(store: Store, said: bytes | None) -> bytes:
    """A sealed file with the same rows, that says something else of itself."""
    table = pq.read_table(pa.BufferReader(store.get(NAME)))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        if said is not None:
            writer.add_key_value_metadata({MANIFEST_KEY: said})
    return bytes(sealed(sink.getvalue()))


def described(store: Store, **changes: object) -> bytes:
    found = read_single(store, SIDECARS, 1)
    assert found is not None
    return msgspec.json.encode(msgspec.structs.replace(found, **changes))


def test_a_sealed_file_that_says_the_same_is_as_good(store: Store) -> None:
    store.replace(NAME, parquet_saying(store, described(store)), None)
    found = read_single(store, SIDECARS, 1)
    assert isinstance(found, Manifest)
    assert found.files == 2


@pytest.mark.parametrize("said", [None, b"", b"{}", b"no JSON", b'{"format": 1}', b"\xff\xfe"])
def test_a_sealed_file_that_does_not_describe_itself(store: Store, said: bytes | None) -> None:
    store.replace(NAME, parquet_saying(store, said), None)
    with pytest.raises(CorruptIndexError, match="has no valid manifest inside"):
        read_single(store, SIDECARS, 1)


@pytest.mark.parametrize("changes", [{"format": FORMAT + 1}, {"version": 7}, {"files": 3}])
def test_a_sealed_file_of_another_index(store: Store, changes: dict[str, int]) -> None:
    store.replace(NAME, parquet_saying(store, described(store, **changes)), None)
    with pytest.raises(CorruptIndexError, match="not the index of version 1"):
        read_single(store, SIDECARS, 1)
