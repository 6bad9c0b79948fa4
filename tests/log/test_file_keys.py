"""Replay keys: every spelling of a file gives one key, and different files give different ones."""

from __future__ import annotations

import pyarrow as pa
import pytest

from delta_sidecar.log.actions import DeletionVector
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.file_schema import DELETION_VECTOR

LOCAL, S3 = KeyMaker("file:///data/t"), KeyMaker("s3://bucket/t")


@pytest.mark.parametrize(
    ("maker", "spellings"),
    [
        (LOCAL, ["a.parquet", "./a.parquet", "x/../a.parquet", "%61.parquet", "a%2Eparquet"]),
        (LOCAL, ["p=a%20b/f", "p=a b/f", "p=%61%20b//f"]),
        (LOCAL, ["p=%C3%BC/f", "p=ü/f", "p=%c3%bc/f"]),
        (LOCAL, ["/x/a", "file:/x/a", "file:///x/a", "FILE:///x/a", "/x/./a", "/x/y/../a"]),
        (S3, ["/x/a", "s3://bucket/x/a", "s3a://bucket/x/a", "s3n://bucket/x/a", "s3://bucket//x/a"]),
        (LOCAL, ["p=a%2fb/f", "p=a%2Fb/f"]),
        (KeyMaker("s3a://bucket/t"), ["/x/a", "s3://bucket/x/a"]),
        (LOCAL, ["p=1:2/f", "p=1%3A2/f"]),
    ],
)
def test_spellings_of_one_file(maker: KeyMaker, spellings: list[str]) -> None:
    assert len({maker.key(path, None) for path in spellings}) == 1
    assert len(set(maker.keys(pa.array(spellings), None).to_pylist())) == 1


@pytest.mark.parametrize(
    ("maker", "paths"),
    [
        (LOCAL, ["a", "A", "b/a", "/a", "file:///b/a"]),
        (LOCAL, ["p=a%2Fb/f", "p=a/b/f", "p=a%2F/b/f", "p=a%FF/b/f", "p=a%FF%2Fb/f", "p=a%2F%2Fb/f"]),
        (LOCAL, ["x/a%2F../f", "x/f"]),
        (LOCAL, ["a%2561", "a%61", "a%252561"]),
        (LOCAL, ["a", "/data/t/a"]),
        (S3, ["s3://bucket/x", "s3://other/x", "gs://bucket/x"]),
        (LOCAL, ["a+b", "a b", "a%2Bb%20"]),
        (LOCAL, ["..", "../a", "../../a"]),
    ],
)
def test_different_files(maker: KeyMaker, paths: list[str]) -> None:
    assert len({maker.key(path, None) for path in paths}) == len(paths)


def test_the_id_of_a_vector_is_its_text_as_it_is() -> None:
    inline = DeletionVector("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L")
    at = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 4)
    assert inline.unique_id == "iwi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    assert at.unique_id == "uab^-aqEH.-t@S}K{vb[*k^@4"
    assert DeletionVector("u", "x", 0).unique_id == "ux@0"


def test_vectors_tell_keys_apart_and_their_sizes_do_not() -> None:
    vectors = [
        None,
        DeletionVector("u", "x"),
        DeletionVector("u", "x", 0),
        DeletionVector("u", "x", 1),
        DeletionVector("p", "x"),
    ]
    keys = [LOCAL.key("a", vector) for vector in vectors]
    assert len(set(keys)) == len(keys)
    assert LOCAL.key("a", DeletionVector("u", "x", 1, 36, 5)) == keys[3]


def test_keys_of_arrays_equal_keys_of_objects() -> None:
    paths = ["a", "p=%20/b", "/abs/c", "d", "e%2Ff"]
    vectors = [None, DeletionVector("u", "x", 1), None, DeletionVector("i", "y"), None]
    rows = [
        v and {"storageType": v.storageType, "pathOrInlineDv": v.pathOrInlineDv, "offset": v.offset} for v in vectors
    ]
    found = LOCAL.keys(pa.array(paths), pa.array(rows, DELETION_VECTOR)).to_pylist()
    assert found == [LOCAL.key(path, vector) for path, vector in zip(paths, vectors)]


def test_a_slice_of_an_array_has_its_own_keys() -> None:
    paths = pa.array(["a", "b%20", "c", "d"]).slice(1, 2)
    assert LOCAL.keys(paths, None).to_pylist() == [b"b ", b"c"]
