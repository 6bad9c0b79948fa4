"""Commits as streams of lines, and their bytes within a budget."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from delta_sidecar.errors import CorruptLogError, ObjectNotFoundError
from delta_sidecar.limits import CommitLimits
from delta_sidecar.log.commits import CommitBatch, CommitBytes, file_batches, whole_lines
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.file_schema import FILE_SCHEMA
from delta_sidecar.storage import ObjectMeta, open_store
from delta_sidecar.testing.actions import DeletionVector, add, cdc, commit_info, remove, txn, unknown_action
from delta_sidecar.testing.stores import CountingStore
from delta_sidecar.testing.table_builder import json_lines

COLUMNS = [name for name in FILE_SCHEMA.names if name != "num_records"]


def parsed(text: bytes, columns: list[str] | None = None) -> list[CommitBatch[pa.RecordBatch]]:
    return list(file_batches(whole_lines([text], 256 << 10), "c.json", columns or COLUMNS, KeyMaker("file:///t")))


def test_an_add_comes_out_whole() -> None:
    spec = add(
        "p=1/a.parquet",
        size=7,
        modification_time=8,
        partition={"p": "1", "q": None},
        stats='{"numRecords": 3}',
        dv=DeletionVector("x", "u", 1, 36, 2),
        tags={"k": "v"},
        base_row_id=5,
        default_row_commit_version=6,
        clustering_provider="liquid",
    )
    (batch,) = parsed(json_lines([spec.wire()]))
    assert batch.adds.schema.names == COLUMNS
    assert batch.adds.to_pylist() == [
        {
            "path": "p=1/a.parquet",
            "size": 7,
            "modification_time": 8,
            "partition_values": [("p", "1"), ("q", None)],
            "deletion_vector": {
                "storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 36, "cardinality": 2,
            },
            "stats": '{"numRecords": 3}',
            "tags": [("k", "v")],
            "base_row_id": 5,
            "default_row_commit_version": 6,
            "clustering_provider": "liquid",
        }
    ]  # fmt: skip
    for name in COLUMNS:
        assert batch.adds.schema.field(name).type == FILE_SCHEMA.field(name).type, name


def test_a_bare_add_is_enough() -> None:
    (batch,) = parsed(b'{"add":{"path":"a"}}\n')
    row = batch.adds.to_pylist()[0]
    assert (row["path"], row["partition_values"], row["deletion_vector"], row["tags"]) == ("a", [], None, None)


def test_other_actions_and_fields_do_not_matter() -> None:
    body = [commit_info(), txn(), cdc(), unknown_action(a=[1, {"b": None}]), add("a").wire(), remove("b").wire()]
    body[4]["add"]["fromTheFuture"] = {"x": 1}  # type: ignore[index]
    (batch,) = parsed(json_lines(body))
    assert batch.adds.column("path").to_pylist() == ["a"]
    assert (list(batch.add_keys), batch.remove_keys.to_pylist()) == ([b"a"], [b"b"])


@pytest.mark.parametrize("text", [b"", b"\n", b" \n\n", json_lines([commit_info()])])
def test_a_commit_without_files(text: bytes) -> None:
    assert parsed(text) == []


@pytest.mark.parametrize("ending", [b"\n", b"", b"\r\n", b"\n\n"])
def test_line_ends_of_every_kind(ending: bytes) -> None:
    text = b'{"add":{"path":"a"}}' + (ending or b"\n") + b'{"remove":{"path":"b"}}' + ending
    paths = [path for batch in parsed(text) for path in batch.adds.column("path").to_pylist()]
    assert paths == ["a"]


@pytest.mark.parametrize("bad", [b'{"add":', b'{"add":{"size":1}}', b"[1]", b'{"add":{"path":"\xff"}}', b"nonsense"])
def test_a_bad_line_is_named(bad: bytes) -> None:
    text = b'{"add":{"path":"a"}}\n\n' + bad + b'\n{"add":{"path":"c"}}\n'
    with pytest.raises(CorruptLogError, match=r"^c\.json, line 3: "):
        parsed(text)


def test_lines_are_cut_at_line_ends_whatever_the_chunks() -> None:
    lines = [b"x" * n + b"\n" for n in (1, 40, 0, 15, 16, 17)] + [b"last"]
    text = b"".join(lines)
    for size in (1, 7, 16, 1000):
        blocks = list(whole_lines((text[at : at + size] for at in range(0, len(text), size)), block=16))
        assert b"".join(bytes(block) for block in blocks) == text
        assert all(bytes(block).endswith(b"\n") for block in blocks[:-1])


def put(root: Path, name: str, text: bytes) -> ObjectMeta:
    (root / name).write_bytes(text)
    return ObjectMeta(name, len(text), 0)


def test_a_commit_is_fetched_once_and_held(tmp_path: Path) -> None:
    store = CountingStore(open_store(str(tmp_path)))
    commits, meta = CommitBytes(store), put(tmp_path, "a", b"1\n2\n")
    commits.prefetch([meta, meta])
    for _ in range(2):
        assert [bytes(block) for block in commits.blocks(meta)] == [b"1\n2\n"]
    assert store.counts() == {"get": 1}
    commits.discard(meta)
    list(commits.blocks(meta))
    assert store.counts() == {"get": 2}


def test_held_bytes_stay_within_the_budget(tmp_path: Path) -> None:
    store = CountingStore(open_store(str(tmp_path)))
    commits = CommitBytes(store, CommitLimits(held_bytes=10))
    first, second = put(tmp_path, "a", b"123456\n"), put(tmp_path, "b", b"123456\n")
    for meta in (first, second, first, second):
        list(commits.blocks(meta))
    assert store.paths() == ["a", "b", "b"], "the second did not fit"


def test_a_guess_of_another_size_is_refused(tmp_path: Path) -> None:
    store = CountingStore(open_store(str(tmp_path)))
    commits, meta = CommitBytes(store), put(tmp_path, "a", b"12\n")
    assert not commits.hold(meta, b"1234\n")
    assert [bytes(block) for block in commits.blocks(meta)] == [b"12\n"]


def test_a_large_commit_is_streamed(tmp_path: Path) -> None:
    store = CountingStore(open_store(str(tmp_path)))
    commits, meta = CommitBytes(store, CommitLimits(whole_commit=10)), put(tmp_path, "a", b"1\n" * 20)
    commits.prefetch([meta])
    assert b"".join(map(bytes, commits.blocks(meta))) == b"1\n" * 20
    assert store.counts() == {"stream": 1}


def test_a_commit_that_is_gone_says_so(tmp_path: Path) -> None:
    commits = CommitBytes(open_store(str(tmp_path)))
    commits.prefetch([ObjectMeta("gone", 3, 0)])
    with pytest.raises(ObjectNotFoundError):
        list(commits.blocks(ObjectMeta("gone", 3, 0)))


def test_many_adds_come_in_several_batches() -> None:
    text = "".join(json.dumps({"add": {"path": f"{n:060}"}}) + "\n" for n in range(30_000)).encode()
    batches = parsed(text, ["path"])
    assert len(batches) > 1
    assert pa.Table.from_batches([b.adds for b in batches]).column("path").to_pylist() == [
        f"{n:060}" for n in range(30_000)
    ]


def test_the_line_of_an_error_is_counted_through_blocks_and_blank_lines() -> None:
    blocks = [b'{"remove":{"path":"a"}}\n\n\n', b'{"remove":{"path":"b"}}\nbad\n']
    with pytest.raises(CorruptLogError, match=r"c\.json, line 5"):
        list(file_batches(blocks, "c.json", COLUMNS, KeyMaker("file:///t")))
