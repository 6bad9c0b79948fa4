"""Tables that IndexTables writes: packed version files, and states in Avro."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import fastavro
import pytest

from delta_sidecar import CorruptLogError, InputError, LogGapError, UnsupportedFeatureError, VersionNotFoundError
from delta_sidecar.search import SearchTable, append, purge
from delta_sidecar.storage import open_store
from tests.golden import WHY_NO_SEARCH, golden_search_names, golden_search_root
from tests.search.made import LOG, V0, added, lines, metadata, packed, paths, removed, splits, version_path
from tests.search.states import TheirTable, entry, state_path


@pytest.fixture
def their(tmp_path: Path) -> TheirTable:
    """Three states: two appends, and a merge that left a tombstone."""
    made = TheirTable(tmp_path)
    made.manifest("manifests/m1.avro", entry("a.split", docMappingRef="X1"), entry("b.split"))
    made.manifest("manifests/m2.avro", entry("c.split", companionSourceFiles=["f.parquet"], companionDeltaVersion=7))
    made.state(1, {"manifests/m1.avro": 2}, schemaRegistry={"X1": "[1]"})
    made.state(2, {"manifests/m1.avro": 2, "manifests/m2.avro": 1}, schemaRegistry={"X1": "[1]"})
    made.state(3, {"manifests/m1.avro": 2, "manifests/m2.avro": 1}, tombstones=["b.split"])
    return made


def test_every_state_is_a_version(their: TheirTable) -> None:
    assert SearchTable(their.uri).versions() == [0, 1, 2, 3]
    assert [paths(their.uri, v) for v in range(4)] == [
        set(),
        {"a.split", "b.split"},
        {"a.split", "b.split", "c.split"},
        {"a.split", "c.split"},
    ]
    opened = SearchTable(their.uri)
    assert (opened.version, opened.protocol.minReaderVersion, opened.notes) == (3, 4, ())
    assert opened.schema().names == ["id", "content"]


def test_doc_mappings_and_companion_fields(their: TheirTable) -> None:
    by_path = {split.path: split for split in SearchTable(their.uri, 2).splits()}
    assert (by_path["a.split"].docMappingRef, by_path["a.split"].docMappingJson) == ("X1", "[1]")
    assert (by_path["c.split"].companionSourceFiles, by_path["c.split"].companionDeltaVersion) == (["f.parquet"], 7)
    assert by_path["b.split"].docMappingJson is None


def test_doc_mappings_from_the_table_configuration(tmp_path: Path) -> None:
    made = TheirTable(tmp_path, configuration={"docMappingSchema.X1": "[2]"})
    made.manifest("manifests/m1.avro", entry("a.split", docMappingRef="X1", somethingNew="kept"))
    (split,) = SearchTable(made.state(1, {"manifests/m1.avro": 1}).uri).splits()
    assert (split.docMappingJson, split.extra) == ("[2]", {"somethingNew": "kept"})


def test_version_files_after_a_state_are_replayed_on_it(their: TheirTable) -> None:
    their.file(version_path(4), packed(lines(added("d.split"), removed("a.split"))))
    their.file(version_path(5), lines(added("e.split")))
    assert [paths(their.uri, v) for v in (3, 4, 5)] == [
        {"a.split", "c.split"},
        {"c.split", "d.split"},
        {"c.split", "d.split", "e.split"},
    ]
    assert SearchTable(their.uri).versions() == [0, 1, 2, 3, 4, 5]
    their.manifest("manifests/m3.avro", entry("f.split")).state(6, {"manifests/m3.avro": 1})
    assert paths(their.uri) == {"f.split"}


def test_a_gap_after_a_state_is_an_error(their: TheirTable) -> None:
    their.file(version_path(5), lines(added("e.split")))
    with pytest.raises((LogGapError, VersionNotFoundError), match="cannot be rebuilt"):
        SearchTable(their.uri)
    assert len(paths(their.uri, 3)) == 2


def test_a_version_that_is_not_kept_is_named(their: TheirTable) -> None:
    (their.root / state_path(2) / "_manifest.avro").unlink()
    with pytest.raises(VersionNotFoundError, match=r"version 2 of .* cannot be rebuilt; kept are 0, 1, 3"):
        SearchTable(their.uri, 2)
    with pytest.raises(VersionNotFoundError, match=r"no version 9 at .*; the newest is 3"):
        SearchTable(their.uri, 9)


@pytest.mark.parametrize("hint", [None, b"nonsense", b'{"version":1,"format":"avro-state"}', b'{"version":9}'])
def test_the_hint_is_only_a_hint(their: TheirTable, hint: bytes | None) -> None:
    path = their.root / LOG / "_last_checkpoint"
    path.unlink() if hint is None else path.write_bytes(hint)
    assert (SearchTable(their.uri).version, paths(their.uri)) == (3, {"a.split", "c.split"})


@pytest.mark.parametrize("wrapped", [False, True])
def test_version_0_may_be_gone_if_the_state_has_the_metadata(their: TheirTable, wrapped: bool) -> None:
    content = metadata(name="from the state")
    text = json.dumps({"metaData": content} if wrapped else content)
    their.state(4, {"manifests/m2.avro": 1}, metadata=text).drop(0)
    opened = SearchTable(their.uri)
    assert (opened.metadata.name, paths(opened), opened.versions()) == ("from the state", {"c.split"}, [1, 2, 3, 4])
    with pytest.raises(CorruptLogError, match="holds no metadata, and no version file up to it does"):
        SearchTable(their.uri, 3)


def test_newer_metadata_counts(their: TheirTable) -> None:
    their.state(4, {"manifests/m2.avro": 1}, metadata=json.dumps(metadata(name="of state 4")))
    their.file(version_path(5), lines({"metaData": metadata(name="of version 5")}))
    names = [SearchTable(their.uri, v).metadata.name for v in (3, 4, 5)]
    assert names == [None, "of state 4", "of version 5"]


def test_manifests_by_their_bare_names_are_beside_the_state(their: TheirTable) -> None:
    their.manifest(f"{state_path(4)[len(LOG) + 1 :]}/m.avro", entry("z.split")).state(4, {"m.avro": 1})
    assert paths(their.uri) == {"z.split"}


def test_of_a_path_that_is_named_twice_the_later_entry_counts(their: TheirTable) -> None:
    their.manifest("manifests/m3.avro", entry("a.split", size=77))
    their.state(4, {"manifests/m1.avro": 2, "manifests/m3.avro": 1})
    sizes = {split.path: split.size for split in SearchTable(their.uri).splits()}
    assert sizes == {"a.split": 77, "b.split": 5}


def test_absolute_and_relative_spellings_are_one_split(their: TheirTable) -> None:
    their.file(version_path(4), lines(removed(f"{their.uri}/a.split"), removed(f"file://{their.uri}/c.split")))
    assert paths(their.uri) == set()


@pytest.mark.parametrize("damaged", ["manifests/m1.avro", f"{state_path(3)[len(LOG) + 1 :]}/_manifest.avro"])
@pytest.mark.parametrize("damage", ["gone", "cut", "empty"])
def test_damage_is_an_error_never_a_part_of_the_table(their: TheirTable, damaged: str, damage: str) -> None:
    path = their.root / LOG / damaged
    data = path.read_bytes()
    path.unlink() if damage == "gone" else path.write_bytes(data[: len(data) // 2] if damage == "cut" else b"")
    if "state" in damaged and damage in ("gone", "empty"):
        assert SearchTable(their.uri).version == 2, "as if it had never been written"
        return
    with pytest.raises(CorruptLogError):
        SearchTable(their.uri).splits()


def test_fewer_entries_than_the_state_says(their: TheirTable) -> None:
    their.state(4, {"manifests/m1.avro": 3})
    with pytest.raises(CorruptLogError, match="holds 2 splits, its state says 3"):
        SearchTable(their.uri).splits()


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"formatVersion": 2}, "has format version 2, this reader knows 1"), ({"protocolVersion": 5}, "reader version 5")],
)
def test_newer_formats_are_refused(their: TheirTable, fields: dict[str, int], message: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=message):
        SearchTable(their.state(4, {"manifests/m1.avro": 2}, **fields).uri)


def test_unknown_codecs_are_refused(tmp_path: Path) -> None:
    made = TheirTable(tmp_path).file(V0, b"\x01\x07" + b"whatever")
    with pytest.raises(UnsupportedFeatureError, match="is packed with codec 0x07; known is 0x01, gzip"):
        SearchTable(made.uri)


def test_bare_gzip_and_plain_text_are_read(tmp_path: Path) -> None:
    made = TheirTable(tmp_path)
    made.file(version_path(1), packed(lines(added("a.split")))[2:]).file(version_path(2), lines(added("b.split")))
    assert paths(made.uri) == {"a.split", "b.split"}


def test_they_are_only_read(their: TheirTable) -> None:
    for write in (lambda: append(their.uri, splits("x.split")), lambda: purge(their.uri)):
        with pytest.raises(UnsupportedFeatureError, match="protocol 4 are only read"):
            write()


def test_history_tells_of_states(their: TheirTable) -> None:
    newest, *_, oldest = SearchTable(their.uri).history()
    assert (newest["version"], newest["splits"], oldest["version"], oldest["added"]) == (3, 2, 0, 0)


def test_the_extra_is_named_where_it_is_missing(their: TheirTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fastavro", None)
    with pytest.raises(InputError, match=r"needs fastavro; run: pip install 'delta-sidecar\[search\]'"):
        SearchTable(their.uri)


@pytest.fixture
def golden_search() -> Path:
    root = golden_search_root()
    if root is None:
        pytest.skip(WHY_NO_SEARCH)
    return root


@pytest.mark.parametrize("name", golden_search_names() or ["none"])
def test_golden_tables(golden_search: Path, name: str) -> None:
    """Every state holds as many splits as it says; each split of the newest is there, of the size the log says."""
    root = golden_search / name
    counts = {}
    for path in (root / LOG).glob("state-v*/_manifest.avro"):
        with path.open("rb") as file:
            (content,) = fastavro.reader(file)
        counts[int(path.parent.name.removeprefix("state-v"))] = content["numFiles"]
    newest = SearchTable(root)
    assert newest.version >= max(counts)
    assert set(newest.versions()) >= set(counts)
    for version, count in counts.items():
        opened = SearchTable(root, version)
        assert (len(opened.splits()), opened.notes) == (count, ()), version
        assert opened.metadata.id == newest.metadata.id
    for split in newest.splits():
        assert newest.store.head(newest.split_path(split)).size == split.size
        assert split.docMappingRef is None or split.docMappingJson
        assert set(split.partitionValues) <= set(newest.partition_columns)


def test_golden_pruning_is_typed(golden_search: Path) -> None:
    """Ids 1 to 505 as texts: 99 is not greater than 100."""
    for name in ("02_five_appends", "08_ten_writes_at_checkpoint"):
        table = SearchTable(golden_search / name)
        bounds = [(int((s.minValues or {})["id"] or 0), int((s.maxValues or {})["id"] or 0)) for s in table.splits()]
        for limit in (99, 100, 250, 1000):
            expected = sum(high > limit for _, high in bounds)
            assert len(table.splits(f"id > {limit}")) == expected


def test_states_are_found_in_an_object_store(their: TheirTable) -> None:
    """Where a listing is by prefix and page, not by directory."""
    store = open_store(f"memory://{uuid.uuid4().hex}/t")
    for path in their.root.rglob("*"):
        if path.is_file():
            store.put_if_absent(path.relative_to(their.root).as_posix(), path.read_bytes())
    assert (SearchTable(store).versions(), paths(store)) == ([0, 1, 2, 3], {"a.split", "c.split"})
