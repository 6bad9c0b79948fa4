"""Manifests: every damage is noticed, and what is written is what is read."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import msgspec
import pytest

from delta_sidecar.errors import CorruptIndexError
from delta_sidecar.index.build.build import build_index
from delta_sidecar.index.format.index_names import SIDECARS, is_part, manifest_version, part_id
from delta_sidecar.index.format.manifest import CommitIdentity, Manifest, Sort, decode, encode, layout_of, totals
from delta_sidecar.storage import open_store
from delta_sidecar.storage.store import ObjectMeta
from delta_sidecar.testing import LogBuilder, add
from tests.index.models import manifest_at


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    root = tmp_path_factory.mktemp("table")
    columns = {"é.": "string", "t": "timestamp", "p": "double"}
    log = LogBuilder(root).metadata(columns, ["p"])
    log.commit(*(add(f"f{n}", partition={"p": v}) for n, v in enumerate(["1.5", "NaN", None, "Infinity"])))
    store = open_store(str(root))
    build_index(store)
    return manifest_at(store, 0)[0]


def test_a_manifest_comes_back(manifest: Manifest) -> None:
    data = encode(manifest)
    assert decode(data, "m") == manifest
    assert data.startswith(b'{"crc32":"')
    assert json.loads(data)["manifest"]["format"] == 1


@pytest.mark.parametrize("schema", ["", "x" * 100_000, ',"parts_last":true,"parts":'], ids=["short", "long", "tricky"])
def test_parts_come_last_or_anywhere(manifest: Manifest, schema: str) -> None:
    metadata = msgspec.structs.replace(manifest.metadata, schemaString=schema)
    written = msgspec.structs.replace(manifest, metadata=metadata)
    found = json.loads(encode(written))["manifest"]
    assert list(found)[-2:] == ["parts_last", "parts"]
    moved = {"parts": found.pop("parts"), **found} | {"parts_last": False}
    inner = json.dumps(moved).encode()
    elsewhere = b'{"crc32":"%08x","manifest":%s}' % (zlib.crc32(inner), inner)
    for data in (encode(written), elsewhere):
        read = decode(data, "m")
        assert read.metadata == metadata
        assert list(read.parts) == list(manifest.parts)


def test_every_flipped_bit_is_noticed(manifest: Manifest) -> None:
    data = encode(manifest)
    for place in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[place] ^= 1 << bit
            with pytest.raises(CorruptIndexError):
                decode(bytes(damaged), "m")


def test_every_truncation_is_noticed(manifest: Manifest) -> None:
    data = encode(manifest)
    for length in range(len(data)):
        with pytest.raises(CorruptIndexError):
            decode(data[:length], "m")


def test_text_behind_a_manifest_is_noticed(manifest: Manifest) -> None:
    with pytest.raises(CorruptIndexError):
        decode(encode(manifest) + b"x", "m")


def test_a_newer_format_is_named(manifest: Manifest) -> None:
    with pytest.raises(CorruptIndexError, match="format 2"):
        decode(encode(msgspec.structs.replace(manifest, format=2)), "m")


def test_totals(manifest: Manifest) -> None:
    assert totals(manifest.parts) == (manifest.files, manifest.bytes, manifest.records)
    assert totals([]) == (0, 0, 0)


def test_keys_that_are_not_numbers(manifest: Manifest) -> None:
    (part,) = manifest.parts
    assert (part.key, part.key_unknown) == ((1.5, "Infinity"), 2), "null and NaN are unknown"


def test_the_layout_is_the_builders(manifest: Manifest) -> None:
    layout = layout_of(manifest)
    assert (layout.sort.kind, layout.sort.path) == ("partition", ("p",))
    assert layout.time is not None
    assert layout.time.path == ("t",)


@pytest.mark.parametrize("wrong", [{"sort": Sort("min", ["none"])}, {"time_column": ["p"]}])
def test_a_layout_that_is_not_the_tables(manifest: Manifest, wrong: dict[str, object]) -> None:
    with pytest.raises(CorruptIndexError, match="schema"):
        layout_of(msgspec.structs.replace(manifest, **wrong))


def test_identity_of_a_commit_file() -> None:
    seen = ObjectMeta("x", 5, 1000, "a")
    identity = CommitIdentity.of(seen)
    assert identity.is_of(seen)
    assert identity.is_of(ObjectMeta("x", 5, 2000, "a")), "the etag counts, where there is one"
    assert not identity.is_of(ObjectMeta("x", 5, 1000, "b"))
    assert identity.is_of(ObjectMeta("x", 5, 1000)), "else the time"
    assert not identity.is_of(ObjectMeta("x", 5, 1001))
    assert not identity.is_of(ObjectMeta("x", 6, 1000, "a"))


def test_names_are_safe_from_others_cleaners(manifest: Manifest, tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    for number in range(3):
        log.commit(add(f"f{number}"))
        build_index(open_store(str(tmp_path)))
    names = [path.name for path in (tmp_path / SIDECARS).iterdir()]
    assert len(names) == 7
    assert not any(".checkpoint." in name or name[:20].isdigit() for name in names)


@pytest.mark.parametrize(
    ("name", "version", "part"),
    [
        ("v12.manifest.json", 12, False),
        ("v012345678901234567890.manifest.json", None, False),
        ("v12.parquet", None, True),
        (f"v12-{'a' * 32}-7.core.parquet", None, True),
        (f"v12-{'a' * 32}-7.stats.parquet", None, True),
        ("016ae953-37a9-438e-8683-9a9a4a79a395.parquet", None, False),
        ("v12.checkpoint.parquet", None, False),
        ("v12.manifest.json.tmp", None, False),
        ("_last_index", None, False),
    ],
)
def test_names(name: str, version: int | None, part: bool) -> None:
    assert (manifest_version(name), is_part(name)) == (version, part)


def test_the_ids_of_parts_have_one_length() -> None:
    """Footers hold them: the sizes of two files of the same columns would differ by chance otherwise."""
    assert len({len(part_id(7, "a" * 32)) for _ in range(1_000)}) == 1
