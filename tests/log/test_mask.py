"""The mask is exact, whatever its size and whatever its hashes do."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar.log import mask as module
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.file_schema import DELETION_VECTOR
from delta_sidecar.log.key_chunks import OrderedKeys
from delta_sidecar.log.mask import Mask


def seen(mask: Mask, keys: list[bytes]) -> list[bool]:
    flags = mask.seen(pa.array(keys, pa.binary()))
    return [False] * len(keys) if flags is None else flags.tolist()


def test_an_empty_mask_has_seen_nothing() -> None:
    assert Mask().seen(pa.array([b"a", b""], pa.binary())) is None
    assert Mask().seen_list([b"a"]) is None


@pytest.mark.parametrize("seal", [False, True])
def test_members_and_only_members(seal: bool) -> None:
    mask = Mask()
    mask.add([b"", b"a", b"ab", b"12345678", b"123456789", b"x" * 100])
    if seal:
        mask.seal()
    asked = [b"", b"a", b"b", b"ab", b"ba", b"a\0", b"12345678", b"1234567", b"123456789", b"x" * 99, b"x" * 100]
    expected = [True, True, False, True, False, False, True, False, True, False, True]
    assert seen(mask, asked) == expected
    assert mask.seen_list(asked) is not None
    assert [bool(flag) for flag in mask.seen_list(asked)] == expected  # type: ignore[union-attr]


@given(members=st.lists(st.binary(max_size=20)), asked=st.lists(st.binary(max_size=20)), seal=st.booleans())
def test_it_is_a_set(members: list[bytes], asked: list[bytes], seal: bool) -> None:
    mask = Mask()
    mask.add(members)
    if seal:
        mask.seal()
    asked = asked + members[:3]
    assert seen(mask, asked) == [key in set(members) for key in asked]


def test_a_large_mask_is_exact() -> None:
    mask = Mask()
    for start in range(0, 300_000, 50_000):
        mask.add([f"part-{n:08}.parquet".encode() for n in range(start, start + 50_000)])
    mask.seal()
    inside = [f"part-{n:08}.parquet".encode() for n in range(0, 300_000, 7)]
    outside = [f"part-{n:08}.parquet".encode() for n in range(300_000, 600_000, 7)]
    assert all(seen(mask, inside))
    assert not any(seen(mask, outside))
    assert len(mask) == 300_000


def test_keys_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "hash_keys", lambda keys: np.zeros(len(keys), np.uint64))
    mask = Mask()
    mask.add([b"a", b"b", b"c"])
    mask.seal()
    assert seen(mask, [b"c", b"d", b"a", b"b", b""]) == [True, False, True, True, False]


def test_absorbed_keys_are_seen() -> None:
    mask, other = Mask(), Mask()
    other.add([b"x"])
    other.seal()
    other.add([b"y"])
    mask.absorb(other)
    assert seen(mask, [b"x", b"y", b"z"]) == [True, True, False]


def test_a_slice_of_an_array_is_looked_up_by_its_own_rows() -> None:
    mask = Mask()
    mask.add([b"b"])
    mask.seal()
    flags = mask.seen(pa.array([b"b", b"a", b"b"], pa.binary()).slice(1, 2))
    assert flags is not None
    assert flags.tolist() == [False, True]


NAMES = [f"part-{i:05d}.parquet" for i in range(12)]
DIRECTORIES = [
    "",
    "d/",
    "d//",
    "./d/",
    "d/./",
    "/abs/",
    "file:/abs/",
    "file:///abs/",
    "e/../d/",
    "d/e/",
    "ts=12%3A00/",
    "ts=12:00/",
]
long_named = st.builds("{}{}".format, st.sampled_from(DIRECTORIES), st.sampled_from(NAMES))
spelled = st.one_of(
    long_named,
    st.builds("{}{}".format, st.sampled_from(DIRECTORIES), st.sampled_from(["x", "a.", "longer-name."])),
    st.builds("{}{}".format, long_named, st.sampled_from(["/", "/.", "/..", "//"])),
    long_named.map(lambda path: path.replace("-", "%2D")),
)


@pytest.mark.parametrize("members", [long_named, spelled])
def test_a_file_is_hidden_however_it_is_spelled(members: st.SearchStrategy[str]) -> None:
    maker = KeyMaker("file:///t")

    @given(st.lists(members, min_size=1, max_size=20), st.lists(spelled, min_size=1, max_size=30))
    def check(masked: list[str], asked: list[str]) -> None:
        keys = [maker.key(path, None) for path in masked]
        mask = Mask()
        mask.add(keys)
        mask.seal()
        paths = pa.array(["before", *asked], pa.string()).slice(1)
        flags = mask.hidden(paths, pa.nulls(len(asked), DELETION_VECTOR), maker)
        expected = [maker.key(path, None) in set(keys) for path in asked]
        assert ([False] * len(asked) if flags is None else flags.tolist()) == expected

    check()


plain_paths = st.builds("{}/{}".format, st.sampled_from("abc"), st.sampled_from(NAMES))


@given(
    masked=st.lists(plain_paths, max_size=40),
    vectors=st.lists(st.sampled_from([None, "u1"]), min_size=12, max_size=12),
    asked=st.lists(plain_paths, min_size=1, max_size=12),
    more=st.lists(plain_paths, max_size=3),
    per_row=st.sampled_from([0, 2]),
)
def test_a_mask_in_order_hides_what_a_set_would(
    masked: list[str], vectors: list[str | None], asked: list[str], more: list[str], per_row: int
) -> None:
    maker = KeyMaker("file:///t")
    mask = Mask()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PER_ROW", per_row)
        patch.setattr(module, "_MANY", 8)
        patch.setattr(module, "_TOGETHER", 2)
        for keys in (masked, more):
            mask.collect(pa.array([maker.key(path, None) for path in keys], pa.binary()))
            flags = mask.seen_list([path.encode() for path in asked])
            members = _keys(maker, masked) | _keys(maker, keys)
            expected = [path.encode() in members for path in asked]
            assert (flags is None) == (not any(expected))
            assert flags is None or flags.tolist() == expected
            mask.put_in_order()
            _hides(mask, members, asked, maker)
            _hides(mask, members, asked, maker, vectors)


def _keys(maker: KeyMaker, paths: list[str]) -> set[bytes]:
    return {maker.key(path, None) for path in paths}


def _hides(
    mask: Mask, expected: set[bytes], asked: list[str], maker: KeyMaker, ids: list[str | None] | None = None
) -> None:
    """The rows of a base that lie within two paths, some of them with deletion vectors."""
    found = [None if ids is None else ids[i] for i in range(len(asked))]
    vectors = pa.array(
        [None if v is None else {"storageType": "u", "pathOrInlineDv": v, "offset": 1} for v in found], DELETION_VECTOR
    )
    within = (min(asked).encode(), max(asked).encode())
    flags = mask.hidden(pa.array(asked), vectors, maker, within)
    hidden = [v is None and maker.key(path, None) in expected for path, v in zip(asked, found, strict=True)]
    assert ([False] * len(asked) if flags is None else flags.tolist()) == hidden
    assert len(mask) >= len(expected)


def test_names_that_begin_with_others() -> None:
    """`a.parquet` comes after `a-1.parquet`, though `a` comes before `a-1`."""
    maker = KeyMaker("file:///t")
    names = [f"{stem}{more}.parquet" for stem in ("a", "b") for more in ("", "-1", " (1)")]
    for masked in names:
        mask = Mask()
        mask.add([name.encode() for name in names if name != masked])
        mask.put_in_order()
        for asked in names:
            flags = mask.hidden(pa.array([asked]), pa.nulls(1, DELETION_VECTOR), maker, (asked.encode(),) * 2)
            assert (flags is not None) == (asked != masked)


def test_many_commits_of_removes_are_soon_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    between = OrderedKeys.between
    monkeypatch.setattr(
        OrderedKeys, "between", lambda self, *ends: searched.append(len(self.chunks)) or between(self, *ends)
    )
    mask = Mask()
    for commit in range(100):
        assert mask.seen_list([f"new {commit}".encode()]) is None
        mask.collect(pa.array([f"{n * 7919 % 600:04} {commit}".encode() for n in range(600)], pa.binary()))
    assert sum(searched) < 1_000


def test_an_empty_path_at_the_end() -> None:
    mask = Mask()
    mask.add([b"abcdefgh.parquet"])
    mask.seal()
    flags = mask.hidden(pa.array(["abcdefgh.parquet", ""]), pa.nulls(2, DELETION_VECTOR), KeyMaker("file:///t"))
    assert flags is not None
    assert flags.tolist() == [True, False]
