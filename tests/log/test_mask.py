"""A mask hides what a set of its keys would, whatever its size and whatever its hashes do."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar import arrays
from delta_sidecar.arrays import Flags
from delta_sidecar.limits import MaskLimits
from delta_sidecar.log import mask as module
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.file_schema import DELETION_VECTOR
from delta_sidecar.log.key_chunks import KeyChunk, OrderedKeys
from delta_sidecar.log.mask import HashedMask, HashRun, MaskBuilder, OrderedMask

MAKER = KeyMaker("file:///t")
small_limits = st.builds(
    MaskLimits,
    recent_keys=st.sampled_from([1, 3, 16_384]),
    array_keys=st.sampled_from([1, 2, 500]),
    joined_arrays=st.sampled_from([1, 2, 16]),
    search_keys=st.sampled_from([0, 1, 100]),
    keys_per_row=st.sampled_from([0, 2]),
)


def mask_of(keys: Iterable[bytes]) -> HashedMask:
    builder = MaskBuilder()
    builder.add(list(keys))
    return builder.hashed_mask()


def listed(flags: Flags | None, count: int) -> list[bool]:
    """One flag for each row; None stands for no row, and nothing else does."""
    assert flags is None or flags.any()
    return [False] * count if flags is None else flags.tolist()


def seen(mask: HashedMask, keys: list[bytes]) -> list[bool]:
    return listed(mask.seen(pa.array(keys, pa.binary())), len(keys))


def seen_by(builder: MaskBuilder, keys: list[bytes]) -> list[bool]:
    return listed(builder.seen_list(keys), len(keys))


def hidden(mask: HashedMask | OrderedMask, paths: list[str], ids: Sequence[str | None] | None = None) -> list[bool]:
    """Which files of a base are hidden; one that is in order is told within which paths they lie."""
    objects = [dv and {"storageType": "u", "pathOrInlineDv": dv, "offset": 1} for dv in ids or [None] * len(paths)]
    vectors = pa.array(objects, DELETION_VECTOR)
    if isinstance(mask, HashedMask):
        return listed(mask.hidden(pa.array(paths), vectors, MAKER), len(paths))
    within = (min(paths).encode(), max(paths).encode())
    return listed(mask.hidden(pa.array(paths), vectors, MAKER, within), len(paths))


def test_an_empty_mask_hides_nothing() -> None:
    builder = MaskBuilder()
    assert builder.seen_list([b"a"]) is None
    assert builder.hashed_mask().seen(pa.array([b"a", b""], pa.binary())) is None
    for mask in (builder.hashed_mask(), builder.ordered_mask(), builder.ordered_mask().hashed):
        assert len(mask) == 0
        assert hidden(mask, ["a", "b"]) == [False, False]


def test_members_and_only_members() -> None:
    builder = MaskBuilder()
    builder.add([b"", b"a", b"ab", b"12345678", b"123456789", b"x" * 100])
    asked = [b"", b"a", b"b", b"ab", b"ba", b"a\0", b"12345678", b"1234567", b"123456789", b"x" * 99, b"x" * 100]
    expected = [True, True, False, True, False, False, True, False, True, False, True]
    assert seen_by(builder, asked) == expected
    assert seen(builder.hashed_mask(), asked) == expected
    assert seen_by(builder, asked) == expected
    assert seen(builder.ordered_mask().hashed, asked) == expected
    assert seen_by(builder, asked) == expected


@given(members=st.lists(st.binary(max_size=20)), asked=st.lists(st.binary(max_size=20)), limits=small_limits)
def test_it_is_a_set(members: list[bytes], asked: list[bytes], limits: MaskLimits) -> None:
    builder = MaskBuilder(limits)
    builder.add(members)
    asked = asked + members[:3]
    expected = [key in set(members) for key in asked]
    assert seen_by(builder, asked) == expected
    assert seen(builder.hashed_mask(), asked) == expected
    assert seen_by(builder, asked) == expected


@pytest.mark.slow
def test_a_large_mask_is_exact() -> None:
    builder = MaskBuilder()
    for start in range(0, 300_000, 50_000):
        builder.add([f"part-{n:08}.parquet".encode() for n in range(start, start + 50_000)])
    mask = builder.hashed_mask()
    inside = [f"part-{n:08}.parquet".encode() for n in range(0, 300_000, 7)]
    outside = [f"part-{n:08}.parquet".encode() for n in range(300_000, 600_000, 7)]
    assert all(seen(mask, inside))
    assert not any(seen(mask, outside))
    assert len(mask) == len(builder) == 300_000


def test_keys_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "hash_keys", lambda keys: np.zeros(len(keys), np.uint64))
    mask = mask_of([b"a", b"b", b"c"])
    assert seen(mask, [b"c", b"d", b"a", b"b", b""]) == [True, False, True, True, False]


def test_absorbed_keys_are_seen() -> None:
    builder, other = MaskBuilder(), MaskBuilder()
    other.add([b"x"])
    other.hashed_mask()
    other.add([b"y"])
    builder.absorb(other)
    assert seen_by(builder, [b"x", b"y", b"z"]) == [True, True, False]
    assert seen(builder.hashed_mask(), [b"x", b"y", b"z"]) == [True, True, False]


def test_a_slice_of_an_array_is_looked_up_by_its_own_rows() -> None:
    flags = mask_of([b"b"]).seen(pa.array([b"b", b"a", b"b"], pa.binary()).slice(1, 2))
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
    @given(st.lists(members, min_size=1, max_size=20), st.lists(spelled, min_size=1, max_size=30))
    def check(masked: list[str], asked: list[str]) -> None:
        keys = [MAKER.key(path, None) for path in masked]
        mask = mask_of(keys)
        paths = pa.array(["before", *asked], pa.string()).slice(1)
        flags = mask.hidden(paths, pa.nulls(len(asked), DELETION_VECTOR), MAKER)
        expected = [MAKER.key(path, None) in set(keys) for path in asked]
        assert listed(flags, len(asked)) == expected

    check()


plain_paths = st.builds("{}/{}".format, st.sampled_from("abc"), st.sampled_from([*NAMES, "x"]))
file_ids = st.tuples(plain_paths, st.sampled_from([None, None, "u1"]))
Files: TypeAlias = list[tuple[str, str | None]]
files = st.lists(file_ids, max_size=12)
steps = st.tuples(st.sampled_from(["add", "collect", "absorb", "ask", "hashed", "ordered"]), files)


def key_of(path: str, dv: str | None) -> bytes:
    return path.encode() if dv is None else path.encode() + b"\0u" + dv.encode() + b"@1"


@given(walk=st.lists(steps, max_size=12), asked=st.lists(file_ids, min_size=1, max_size=12), limits=small_limits)
def test_a_builder_and_its_masks_are_sets(walk: list[tuple[str, Files]], asked: Files, limits: MaskLimits) -> None:
    """Keys come in every way, with questions and masks between them; a mask has the keys of its moment for good."""
    builder, model = MaskBuilder(limits), set[bytes]()
    masks: list[tuple[HashedMask | OrderedMask, set[bytes]]] = []
    for step, some in [*walk, ("ask", []), ("ordered", []), ("hashed", [])]:
        keys = [key_of(*file) for file in some]
        match step:
            case "ask":
                questions = [key_of(*file) for file in asked] + keys
                assert seen_by(builder, questions) == [key in model for key in questions]
            case "hashed":
                masks.append((builder.hashed_mask(), set(model)))
            case "ordered":
                masks.append((builder.ordered_mask(), set(model)))
            case _:
                mark(builder, step, keys, limits)
                model |= set(keys)
        assert len(builder) >= len(model)
    paths, ids = [path for path, _ in asked], [dv for _, dv in asked]
    for mask, keys_then in masks:
        assert len(mask) >= len(keys_then)
        assert hidden(mask, paths) == [path.encode() in keys_then for path in paths]
        assert hidden(mask, paths, ids) == [key_of(*file) in keys_then for file in asked]


def mark(builder: MaskBuilder, way: str, keys: list[bytes], limits: MaskLimits) -> None:
    if way == "add":
        builder.add(keys)
    elif way == "collect":
        builder.collect(pa.array(keys, pa.binary()))
    else:
        other = MaskBuilder(limits)
        other.add(keys[::2])
        other.collect(pa.array(keys[1::2], pa.binary()))
        builder.absorb(other)


def test_the_model_spells_keys_as_the_log_does() -> None:
    vector = pa.array([{"storageType": "u", "pathOrInlineDv": "u1", "offset": 1}], DELETION_VECTOR)
    assert MAKER.keys(pa.array(["a/b"]), vector).to_pylist() == [key_of("a/b", "u1")]
    assert MAKER.keys(pa.array(["a/b"]), None).to_pylist() == [key_of("a/b", None)]


def test_names_that_begin_with_others() -> None:
    """`a.parquet` comes after `a-1.parquet`, though `a` comes before `a-1`."""
    names = [f"{stem}{more}.parquet" for stem in ("a", "b") for more in ("", "-1", " (1)")]
    for left_out in names:
        builder = MaskBuilder()
        builder.add([name.encode() for name in names if name != left_out])
        mask = builder.ordered_mask()
        for asked in names:
            assert hidden(mask, [asked]) == [asked != left_out]


@pytest.mark.parametrize("keys_per_row", [0, 2])
def test_threads_ask_a_mask_at_once(monkeypatch: pytest.MonkeyPatch, keys_per_row: int) -> None:
    """Each gets the right answer, and the hashes are made once for all of them."""
    runs: list[int] = []
    of = HashRun.of
    monkeypatch.setattr(HashRun, "of", lambda chunks: runs.append(len(chunks)) or of(chunks))
    names = [f"d/part-{n:05}.parquet" for n in range(4_000)]
    builder = MaskBuilder(MaskLimits(recent_keys=500, array_keys=50, joined_arrays=2, keys_per_row=keys_per_row))
    for start in range(0, 4_000, 200):
        builder.collect(pa.array([name.encode() for name in names[start : start + 200 : 2]], pa.binary()))
    ordered = builder.ordered_mask()
    runs.clear()
    together = Barrier(4)

    def ask(thread: int) -> list[list[bool]]:
        together.wait()
        rows = [names[at : at + 100] for at in range(100 * thread, 4_000, 400)]
        return [hidden(ordered, paths) for paths in rows] + [hidden(ordered.hashed, paths) for paths in rows]

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, range(4)))
    assert answers == [[[True, False] * 50] * 20] * 4
    assert len(runs) == 1


def test_a_mask_does_not_change_when_more_keys_come() -> None:
    builder = MaskBuilder(MaskLimits(recent_keys=4, array_keys=2, joined_arrays=2, search_keys=0))
    builder.collect(pa.array([b"b", b"a"], pa.binary()))
    first = builder.ordered_mask()
    builder.add([b"c"])
    second = builder.hashed_mask()
    builder.add([b"d", b"e", b"f", b"g", b"h"])
    third = builder.ordered_mask()
    asked = ["a", "b", "c", "d", "i"]
    assert hidden(first, asked) == hidden(first.hashed, asked) == [True, True, False, False, False]
    assert hidden(second, asked) == [True, True, True, False, False]
    assert hidden(third, asked) == [True, True, True, True, False]


def test_masks_share_their_keys() -> None:
    """After half a million removes and a broken index, a mask for the next base costs hashes, not the keys again."""
    pool = arrays.streaming_pool() or pa.default_memory_pool()
    builder = MaskBuilder()
    for start in range(0, 50_000, 5_000):
        keys = [f"d/{n * 7919 % 50_000:032x}.parquet".encode() for n in range(start, start + 5_000)]
        builder.collect(pa.array(keys, pa.binary()))
        del keys
    before = pool.bytes_allocated()
    ordered = builder.ordered_mask()
    hashed = builder.hashed_mask()
    assert len(ordered) == len(ordered.hashed) == len(hashed) == 50_000
    assert pool.bytes_allocated() - before < 50_000 * 45 * 1.2
    again = pool.bytes_allocated()
    last = builder.ordered_mask()
    assert len(last) == 50_000
    assert pool.bytes_allocated() == again


def test_chunks_are_put_in_order_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All keys are never held twice: each chunk is let go before the next is copied."""
    builder = MaskBuilder(MaskLimits(recent_keys=10))
    for start in range(0, 80, 10):
        builder.add([f"{n:02}.parquet".encode() for n in range(start, start + 10)])
    run = builder.hashed_mask().run
    assert run is not None
    unordered = [weakref.ref(chunk.stems) for chunk in run.chunks]
    del run
    alive: list[int] = []
    ascending = KeyChunk.ascending

    def counted(chunk: KeyChunk) -> KeyChunk:
        alive.append(sum(stems() is not None for stems in unordered))
        return ascending(chunk)

    monkeypatch.setattr(KeyChunk, "ascending", counted)
    mask = builder.ordered_mask()
    assert len(mask) == 80
    assert alive == [8, 7, 6, 5, 4, 3, 2, 1]


def test_many_commits_of_removes_are_soon_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    between = OrderedKeys.between
    monkeypatch.setattr(
        OrderedKeys, "between", lambda self, *ends: searched.append(len(self.chunks)) or between(self, *ends)
    )
    builder = MaskBuilder()
    for commit in range(100):
        assert builder.seen_list([f"new {commit}".encode()]) is None
        builder.collect(pa.array([f"{n * 7919 % 600:04} {commit}".encode() for n in range(600)], pa.binary()))
    assert sum(searched) < 1_000


def test_an_empty_path_at_the_end() -> None:
    assert hidden(mask_of([b"abcdefgh.parquet"]), ["abcdefgh.parquet", ""]) == [True, False]
