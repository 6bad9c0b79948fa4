"""Listings that go on where another one was cut: on every base, exactly, or refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar import DeltaTable, OptionError, PositionError, ScanPosition
from delta_sidecar.limits import PartLimits, ReaderLimits
from delta_sidecar.scan.file_scan import FileScan
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.testing.actions import add, remove
from delta_sidecar.testing.table_builder import LogBuilder
from tests.fuzz.tables import HEAD, INDEXED, QUERIES, deleted, flipped, index, make_table

WITHOUT_INDEX = {"delta.sidecar.enabled": False}


@pytest.fixture(autouse=True)
def cold() -> Iterator[None]:
    shared_cache.clear()
    yield
    shared_cache.clear()


def paths(scan: FileScan) -> list[str]:
    return [path for batch in scan for path in batch.column("path").to_pylist()]


def cut_after(scan: FileScan, batches: int) -> tuple[list[str], ScanPosition]:
    with scan:
        begun = [path for batch in islice(scan, batches) for path in batch.column("path").to_pylist()]
        return begun, scan.position


@pytest.mark.parametrize("in_threads", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize(
    ("checkpoint", "tier", "query"),
    [
        pytest.param(
            checkpoint,
            tier,
            query,
            marks=[] if tier == "index" or not query.arguments else [pytest.mark.slow],
            id=f"{tier} {query.arguments}",
        )
        for checkpoint, tier in ((None, "log"), (2, "checkpoint"), (INDEXED, "index"))
        for query in (QUERIES[0], QUERIES[2], QUERIES[5])
    ],
)
def test_cut_anywhere(tmp_path: Path, checkpoint: int | None, tier: str, query: Any, in_threads: bool) -> None:
    made = make_table(tmp_path, checkpoint=checkpoint, vectors=True)
    limits = ReaderLimits(parts=PartLimits(few_rows=-1, helpers=1)) if in_threads else None
    options = {"delta.sidecar.batch_size": 2} | ({} if tier == "index" else WITHOUT_INDEX)
    table = DeltaTable(made.root, options=options, limits=limits)
    scan = table.scan_files(**query.arguments)
    whole = paths(scan)
    assert scan.metrics.tier == tier
    for batches in range(0, len(whole) + 2, 3):
        begun, position = cut_after(table.scan_files(**query.arguments), batches)
        rest = table.scan_files(**query.arguments, after=ScanPosition.from_json(position.to_json()))
        assert rest.position == position, "nothing was read yet"
        assert begun + paths(rest) == whole


@pytest.mark.slow
@pytest.mark.parametrize(
    ("checkpoint", "damage"),
    [
        (None, deleted),
        (2, flipped),
        pytest.param(None, flipped, marks=pytest.mark.slow),
        pytest.param(2, deleted, marks=pytest.mark.slow),
    ],
)
def test_an_index_that_breaks_in_the_middle(
    tmp_path: Path, checkpoint: int | None, damage: Callable[[Path], None]
) -> None:
    """It breaks again at the same place, and the listing falls back to the same base."""
    made = make_table(tmp_path, checkpoint=checkpoint)
    damage(made.sidecars / made.parts()[2].core_name)
    table = DeltaTable(made.root, options={"delta.sidecar.batch_size": 1})
    whole = paths(table.scan_files())
    seen = set()
    for batches in range(len(whole) + 1):
        begun, position = cut_after(table.scan_files(), batches)
        seen.add(len(position.fallbacks))
        assert begun + paths(DeltaTable(made.root).scan_files(after=position)) == whole
    assert seen == {0, 1}


def test_an_index_that_was_mended_in_between_is_another_order(tmp_path: Path) -> None:
    made = make_table(tmp_path, checkpoint=2)
    core = made.sidecars / made.parts()[2].core_name
    sound = core.read_bytes()
    flipped(core)
    table = DeltaTable(made.root, options={"delta.sidecar.batch_size": 1})
    whole = paths(table.scan_files())
    _, position = cut_after(table.scan_files(), len(whole) - 1)
    assert position.fallbacks
    core.write_bytes(sound)
    with pytest.raises(PositionError, match="not listed in the same order any more; list from the start"):
        paths(table.scan_files(after=position))


@pytest.mark.parametrize("later", [None, "index", "checkpoint"])
def test_the_order_of_a_limit_over_compacted_commits_is_kept(tmp_path: Path, later: str | None) -> None:
    log = LogBuilder(tmp_path).metadata({"x": "long"}).commit(add("f0")).checkpoint()
    for number in range(1, 6):
        log.commit(add(f"f{number}"), add(f"g{number}"))
    log.compact(1, 4)
    table = DeltaTable(tmp_path, options={"delta.sidecar.batch_size": 1})
    begun, of_limited = cut_after(table.scan_files(limit=4), 3)
    unlimited = table.scan_files()
    _, of_all = cut_after(unlimited, 1)
    if later == "index":
        from delta_sidecar import build_index

        build_index(tmp_path)
    elif later == "checkpoint":
        log.checkpoint()
    shared_cache.clear()
    table = DeltaTable(tmp_path)
    in_order = [name for number in range(5, 0, -1) for name in (f"f{number}", f"g{number}")] + ["f0"]
    assert begun + paths(table.scan_files(after=of_limited)) == in_order
    assert begun + paths(table.scan_files(after=of_limited, limit=2)) == in_order[:5]
    together = [f"{kind}{number}" for number in range(1, 5) for kind in "fg"]
    rest = table.scan_files(after=of_all)
    assert rest.plan.commits == 2
    assert paths(rest) == ["g5", *together, "f0"]


@pytest.mark.parametrize("later", ["index", "checkpoint"])
def test_a_better_base_that_came_in_between_is_not_used(tmp_path: Path, later: str) -> None:
    """The order is that of the base that was read; a new one has another."""
    log = LogBuilder(tmp_path).metadata({"x": "long"})
    for number in range(6):
        log.commit(add(f"f{number}"), add(f"g{number}"), *([remove("f0")] if number == 4 else []))
        if number == 2:
            log.checkpoint()
    whole = paths(DeltaTable(tmp_path).scan_files())
    begun, position = cut_after(DeltaTable(tmp_path, options={"delta.sidecar.batch_size": 1}).scan_files(), 8)
    if later == "index":
        from delta_sidecar import build_index

        build_index(tmp_path)
    else:
        log.checkpoint()
    shared_cache.clear()
    table = DeltaTable(tmp_path)
    assert table.scan_files().plan.base != position.base
    rest = table.scan_files(after=position)
    assert rest.plan.base == position.base
    assert begun + paths(rest) == whole


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", [None, 2, HEAD])
def test_an_index_goes_on_after_a_newer_one_was_built(tmp_path: Path, checkpoint: int | None) -> None:
    made = make_table(tmp_path, checkpoint=checkpoint, vectors=True)
    table = DeltaTable(made.root, options={"delta.sidecar.batch_size": 1})
    whole = paths(table.scan_files())
    cuts = [cut_after(table.scan_files(), batches) for batches in range(0, len(whole) + 1, 4)]
    index(made)
    shared_cache.clear()
    newer = DeltaTable(made.root, version=HEAD)
    assert newer.scan_files().plan.base.startswith(f"index {HEAD},")
    for begun, position in cuts:
        rest = newer.scan_files(after=ScanPosition.from_json(position.to_json()))
        assert rest.plan.base == position.base
        assert begun + paths(rest) == whole


def test_an_older_index_that_is_gone_is_named(tmp_path: Path) -> None:
    made = make_table(tmp_path, checkpoint=2)
    _, position = cut_after(DeltaTable(made.root).scan_files(), 2)
    index(made)
    made.manifest.unlink()
    shared_cache.clear()
    with pytest.raises(PositionError, match=r"a listing of index 5, .*, which changed or is gone"):
        DeltaTable(made.root).scan_files(after=position)


def test_a_base_that_is_gone_is_named(tmp_path: Path) -> None:
    made = make_table(tmp_path, checkpoint=2)
    _, position = cut_after(DeltaTable(made.root).scan_files(), 2)
    for file in made.sidecars.iterdir():
        file.unlink()
    shared_cache.clear()
    with pytest.raises(
        PositionError, match=r"the position belongs to a listing of index 5, .*, which changed or is gone"
    ):
        DeltaTable(made.root).scan_files(after=position)


def test_pages(tmp_path: Path) -> None:
    """A limit counts from the position on; the pages are in the order of one listing with a limit."""
    made = make_table(tmp_path)
    index(made)
    table = DeltaTable(made.root)
    newest_first = paths(table.scan_files(limit=1_000))
    found: list[str] = []
    position = None
    while page := paths(scan := table.scan_files(limit=5, after=position)):
        found += page
        position = scan.position
    assert found == newest_first
    assert paths(table.scan_files(limit=0, after=position)) == []


def without_lanes(position: ScanPosition) -> str:
    return position.to_json().replace(f'"lanes":{position.order.lanes}', '"lanes":0')


def test_what_is_refused(tmp_path: Path) -> None:
    made = make_table(tmp_path / "a")
    other = make_table(tmp_path / "b", table_id="t-2")
    table = DeltaTable(made.root)
    _, position = cut_after(table.scan_files("x >= 1"), 1)
    for scan, says in [
        (lambda: DeltaTable(other.root).scan_files("x >= 1", after=position), "belongs to another table"),
        (
            lambda: DeltaTable(made.root, version=6).scan_files("x >= 1", after=position),
            f"belongs to version {HEAD}, this is version 6; open the table with version={HEAD}",
        ),
        (lambda: table.scan_files("x >= 2", after=position), "with another predicate"),
        (lambda: table.scan_files(after=position), "with another predicate"),
        (lambda: table.scan_files("x >= 1", after="later"), "after is a str"),  # type: ignore[arg-type]
        (lambda: ScanPosition.from_json("{}"), "not the JSON of a position"),
        (lambda: ScanPosition.from_json(without_lanes(position)), "not the JSON of a position"),
        (lambda: ScanPosition.from_json(None), "not the JSON of a position"),  # type: ignore[arg-type]
    ]:
        with pytest.raises(PositionError, match=says):
            scan()
    for scan in (
        lambda: table.scan_files("x >= 1", ["size"], after=position),
        lambda: table.scan_files("x >= 1", ["size"]).position,
    ):
        with pytest.raises(OptionError, match="path"):
            scan()


def test_a_position_is_small_and_has_no_secret(tmp_path: Path) -> None:
    made = make_table(tmp_path)
    table = DeltaTable(made.root, storage_options={"aws_secret_access_key": "wJalrXUtnFEMI"})
    with table.scan_files("s = 'b'") as scan:
        text = scan.position.to_json()
        list(scan)
        assert scan.position.files > 0
        text += scan.position.to_json()
    assert "wJalrXUtnFEMI" not in text
    assert len(text) < 1_500
    assert json.loads(scan.position.to_json())["version"] == HEAD
