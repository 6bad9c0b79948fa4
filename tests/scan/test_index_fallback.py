"""A damaged, foreign or misplaced index: the right files by the next tier, each once, and the reason said."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.errors import CorruptIndexError
from delta_sidecar.index.build.build import build_index
from delta_sidecar.index.format.index_names import SIDECARS
from delta_sidecar.index.format.manifest import decode, encode
from delta_sidecar.index.read.finder import read_single
from delta_sidecar.index.read.part_file import PartFile
from delta_sidecar.index.read.part_rows import read_file_keys
from delta_sidecar.limits import PartLimits, ReaderLimits
from delta_sidecar.scan.scan_metrics import ScanMetrics
from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.testing.actions import add, remove
from delta_sidecar.testing.table_builder import LogBuilder
from tests.fuzz.tables import (
    DAMAGES,
    FEW,
    HEAD,
    INDEXED,
    Made,
    Query,
    check_listings,
    cut,
    deleted,
    flipped,
    index,
    make_table,
)

Damage = Callable[[Path], None]
Metrics = list[tuple[Query, ScanMetrics]]
REPEATED = pytest.mark.long
"""Of a case that others stand for: `make thorough` runs it."""
WITH_THREADS = ReaderLimits(parts=PartLimits(few_rows=-1, helpers=1))


def some_of(values: Iterable[int], *checked: int) -> list[Any]:
    """Parameters of which `make test` takes some."""
    return [pytest.param(value, marks=[] if value in checked else [REPEATED]) for value in values]


some_damages = pytest.mark.parametrize(
    "damage",
    [pytest.param(damage, marks=[] if damage in (deleted, cut, flipped) else [REPEATED]) for damage in DAMAGES],
)
"""Where a test has other parameters, too, a file that is gone, short or changed stands for the others."""
bases = pytest.mark.parametrize(
    "checkpoint", [None, 2, *(pytest.param(version, marks=pytest.mark.long) for version in (INDEXED, HEAD - 1))]
)
with_vectors = pytest.mark.parametrize(
    "vectors", [pytest.param(False, id="plain", marks=REPEATED), pytest.param(True, id="vectors")]
)


@pytest.fixture(autouse=True)
def cold() -> Iterator[None]:
    shared_cache.clear()
    yield
    shared_cache.clear()


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.long)], ids=["alone", "threads"])
def limits(request: pytest.FixtureRequest) -> ReaderLimits:
    """Parts decoded by the consumer's thread alone, or by another one, too."""
    return WITH_THREADS if request.param else ReaderLimits()


def tiers(found: Metrics) -> set[str]:
    return {metrics.tier for _, metrics in found}


def assert_fell_back(found: Metrics, checkpoint: int | None, reason: str) -> None:
    """Every scan went to the next tier and says why."""
    assert tiers(found) == {"log" if checkpoint is None else "checkpoint"}
    for _, metrics in found:
        assert reason in (metrics.fallback_reason or "")
        assert "\n" not in (metrics.fallback_reason or "")


def reads_stats(query: Query) -> bool:
    """Whether a query needs what stands in the stats files alone."""
    predicate = query.arguments.get("predicate", "")
    return "stats" in query.arguments.get("columns", ()) or "x " in predicate or "s " in predicate


# Nothing is wrong.


@pytest.mark.slow
@bases
@with_vectors
def test_a_sound_index_is_used(tmp_path: Path, checkpoint: int | None, vectors: bool, limits: ReaderLimits) -> None:
    found = check_listings(make_table(tmp_path, vectors=vectors, checkpoint=checkpoint), thorough=True, limits=limits)
    assert tiers(found) == {"index"}
    assert {metrics.fallback_reason for _, metrics in found} == {None}


def test_turned_off(tmp_path: Path) -> None:
    made = make_table(tmp_path)
    with DeltaTable(str(made.root), options={"delta.sidecar.enabled": False}).scan_files() as scan:
        assert sorted(size for batch in scan for size in batch["size"].to_pylist()) == sorted(made.live())
        assert scan.metrics.tier == "log"
        assert scan.metrics.fallback_reason is None
        assert scan.plan.notes == ("delta.sidecar.enabled is false: no index was looked for",)


def test_a_manifest_that_denies_a_commit_file_that_is_there(tmp_path: Path) -> None:
    made = make_table(tmp_path)
    manifest = decode(made.manifest.read_bytes(), "m")
    made.manifest.write_bytes(encode(msgspec.structs.replace(manifest, commit=None)))
    assert_fell_back(check_listings(made, queries=FEW), None, "did not exist, but it does now")


@pytest.mark.parametrize("checkpoint", [None, 2])
def test_the_commits_of_a_fallback_are_counted(tmp_path: Path, checkpoint: int | None) -> None:
    made = make_table(tmp_path, checkpoint=checkpoint)
    for part in made.parts():
        deleted(made.sidecars / part.core_name)
    with DeltaTable(str(made.root)).scan_files() as scan:
        scan.read_all()
    done = scan.metrics
    assert done.fallback_reason
    assert done.commits_scanned == done.commits_total == HEAD - (-1 if checkpoint is None else checkpoint)
    assert f"{done.commits_total} of {done.commits_total} commits" in scan.explain()


# Damage.


@some_damages
@pytest.mark.parametrize("checkpoint", [None, 2])
def test_a_damaged_manifest(tmp_path: Path, damage: Damage, checkpoint: int | None) -> None:
    made = make_table(tmp_path, checkpoint=checkpoint)
    damage(made.manifest)
    assert_fell_back(check_listings(made, queries=FEW), checkpoint, f"v{INDEXED}.manifest.json")


@pytest.mark.slow
@some_damages
def test_a_damaged_manifest_of_a_single_part(tmp_path: Path, damage: Damage) -> None:
    made = make_table(tmp_path, checkpoint=2, single=True)
    damage(made.manifest)
    found = check_listings(made, queries=FEW)
    assert tiers(found) == {"footer"}
    assert all(f"v{INDEXED}.manifest.json" in (metrics.fallback_reason or "") for _, metrics in found)


@some_damages
@with_vectors
@pytest.mark.parametrize("with_manifest", [True, False])
def test_a_damaged_single_part(tmp_path: Path, damage: Damage, vectors: bool, with_manifest: bool) -> None:
    made = make_table(tmp_path, checkpoint=2, single=True, vectors=vectors)
    damage(made.sidecars / f"v{INDEXED}.parquet")
    if not with_manifest:
        made.manifest.unlink()
    reason = f"v{INDEXED}.parquet" if with_manifest else f"v{INDEXED}.manifest.json"
    assert_fell_back(check_listings(made), 2, reason)


@some_damages
@pytest.mark.parametrize("checkpoint", [None, 2])
def test_damaged_stats(tmp_path: Path, damage: Damage, checkpoint: int | None) -> None:
    """Who does not need the stats does not notice."""
    made = make_table(tmp_path, checkpoint=checkpoint, vectors=checkpoint is None)
    for part in made.parts()[2:]:
        damage(made.sidecars / part.stats_name)
    for query, metrics in check_listings(made):
        if reads_stats(query):
            assert metrics.tier == ("log" if checkpoint is None else "checkpoint")
            assert ".stats.parquet" in (metrics.fallback_reason or "")
        else:
            assert (metrics.tier, metrics.fallback_reason) == ("index", None)


def breaking() -> Iterator[Any]:
    """Every part with vectors and one thread; the first, the last and one between without vectors, or with threads.
    The others are repeats."""
    for broken, vectors, checkpoint, threads in product(range(8), (True, False), (None, 2), (False, True)):
        differences = threads + (not vectors)
        tells = differences == 0 or (differences == 1 and broken in (0, 4, 7))
        marks = [] if tells else [REPEATED]
        kind = f"{'threads' if threads else 'alone'}-{'vectors' if vectors else 'plain'}-{checkpoint}-{broken}"
        yield pytest.param(broken, vectors, checkpoint, threads, marks=marks, id=kind)


@pytest.mark.slow
@pytest.mark.parametrize(("broken", "vectors", "checkpoint", "threads"), list(breaking()))
def test_a_core_that_breaks_after_files_are_out(
    tmp_path: Path, broken: int, vectors: bool, checkpoint: int | None, threads: bool
) -> None:
    """The newer parts are sound and their files are out: the next tier gives the others, and none of those again."""
    limits = WITH_THREADS if threads else ReaderLimits()
    made = make_table(tmp_path, checkpoint=checkpoint, vectors=vectors)
    parts = made.parts()
    assert len(parts) == 8
    flipped(made.sidecars / parts[broken].core_name)
    found = check_listings(made, thorough=broken == 4, limits=limits)
    everything = [metrics for query, metrics in found if not query.arguments]
    assert {metrics.tier for metrics in everything} == {"log" if checkpoint is None else "checkpoint"}
    assert all(parts[broken].core_name in (metrics.fallback_reason or "") for metrics in everything)


@pytest.mark.slow
@pytest.mark.parametrize("broken", some_of([0, 1, 4, 7], 0, 7))
@with_vectors
def test_stats_that_break_after_files_are_out(tmp_path: Path, broken: int, vectors: bool, limits: ReaderLimits) -> None:
    made = make_table(tmp_path, checkpoint=2, vectors=vectors)
    part = made.parts()[broken]
    flipped(made.sidecars / part.stats_name)
    for query, metrics in check_listings(made, limits=limits):
        if "stats" in query.arguments.get("columns", ()):
            assert metrics.tier == "checkpoint"
            assert part.stats_name in (metrics.fallback_reason or "")


@pytest.mark.slow
@some_damages
def test_damage_behind_a_warm_cache(tmp_path: Path, damage: Damage) -> None:
    made = make_table(tmp_path, checkpoint=2, vectors=True)
    check_listings(made, cold=False)
    for part in made.parts()[4:]:
        damage(made.sidecars / part.core_name)
    check_listings(made, cold=False)
    damage(made.manifest)
    check_listings(made, cold=False)


def test_a_table_opened_before_the_damage(tmp_path: Path) -> None:
    """What is out when the other parts go is known by the parts that are left."""
    made = make_table(tmp_path, checkpoint=2)
    table = DeltaTable(str(made.root))
    for part in made.parts()[3:]:
        deleted(made.sidecars / part.core_name)
    with table.scan_files() as scan:
        assert sorted(size for batch in scan for size in batch["size"].to_pylist()) == sorted(made.live())
    assert scan.metrics.tier == "checkpoint"


@pytest.mark.parametrize("batches", some_of(range(1, 9), 1, 4, 8))
def test_an_index_that_goes_while_it_is_read(tmp_path: Path, batches: int) -> None:
    """What is out is known by parts that are gone, too: the right files, or one clear error, but no guess."""
    made = make_table(tmp_path, checkpoint=2, vectors=True)
    with DeltaTable(str(made.root)).scan_files() as scan:
        found = [size for batch in islice(scan, batches) for size in batch["size"].to_pylist()]
        shutil.rmtree(made.sidecars)
        complete = True
        try:
            for batch in scan:
                found += batch["size"].to_pylist()
        except CorruptIndexError:
            complete = False
    assert not complete or sorted(found) == sorted(made.live())
    assert len(found) == len(set(found))
    assert set(found) <= set(made.live())
    with DeltaTable(str(made.root)).scan_files() as again:
        assert sorted(size for batch in again for size in batch["size"].to_pylist()) == sorted(made.live())
    assert again.metrics.fallback_reason is None, "the index that is gone was forgotten"


@with_vectors
def test_keys_of_a_part_that_speaks_for_itself(tmp_path: Path, vectors: bool) -> None:
    made = make_table(tmp_path, single=True, vectors=vectors)
    manifest = read_single(made.store, SIDECARS, INDEXED)
    assert manifest is not None
    keys = read_file_keys(made.store, SIDECARS, manifest.parts[0])
    assert sorted(keys.column("path").to_pylist()) == sorted(body["path"] for body in made.live(INDEXED).values())
    assert (keys.column("deletion_vector").null_count < keys.num_rows) == vectors


@with_vectors
def test_an_older_index_that_breaks_gives_way_to_a_newer_checkpoint(tmp_path: Path, vectors: bool) -> None:
    """The commits between are far smaller than the checkpoint: the index is the better base until it breaks."""
    made = make_table(tmp_path, checkpoint=HEAD - 1, vectors=vectors)
    flipped(made.sidecars / made.parts()[3].core_name)
    everything = [metrics for query, metrics in check_listings(made) if not query.arguments]
    assert {metrics.tier for metrics in everything} == {"checkpoint"}


@pytest.mark.slow
@pytest.mark.parametrize("broken", [0, 4, 7])
def test_a_checkpoint_that_is_broken_too(tmp_path: Path, broken: int) -> None:
    made = make_table(tmp_path, checkpoint=INDEXED, vectors=True)
    made.builder.break_checkpoint(0)
    flipped(made.sidecars / made.parts()[broken].core_name)
    everything = [metrics for query, metrics in check_listings(made) if not query.arguments]
    assert {metrics.tier for metrics in everything} == {"log"}


# Another's index.


@pytest.mark.slow
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("checkpoint", [None, 2])
def test_the_index_of_another_table(tmp_path: Path, single: bool, checkpoint: int | None) -> None:
    made = make_table(tmp_path / "a", checkpoint=checkpoint)
    other = make_table(tmp_path / "b", checkpoint=checkpoint, single=single, vectors=True, table_id="t-2")
    shutil.rmtree(made.sidecars)
    shutil.copytree(other.sidecars, made.sidecars)
    assert_fell_back(check_listings(made, queries=FEW), checkpoint, f"v{INDEXED}.manifest.json")


def test_the_index_of_another_table_with_commits_of_one_size_and_time(tmp_path: Path) -> None:
    made, other = make_table(tmp_path / "a"), make_table(tmp_path / "b", table_id="t-2")
    for builder in (made.builder, other.builder):
        builder.touch(INDEXED, 1_700_000_000_000)
    index(other)
    shutil.rmtree(made.sidecars)
    shutil.copytree(other.sidecars, made.sidecars)
    assert_fell_back(check_listings(made, queries=FEW), None, "another table")


def test_a_table_dropped_and_made_again(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    shutil.copytree(make_table(tmp_path / "t").sidecars, kept)
    shutil.rmtree(tmp_path / "t")
    made = make_table(tmp_path / "t", table_id="t-2", vectors=True)
    shutil.rmtree(made.sidecars)
    shutil.copytree(kept, made.sidecars)
    assert_fell_back(check_listings(made, queries=FEW), None, f"v{INDEXED}.manifest.json")
    index(made)
    assert tiers(check_listings(made, queries=FEW)) == {"index"}


def test_a_log_set_back_and_written_on(tmp_path: Path) -> None:
    """The same table, by its id, with another history after some version: the index is of the one that is gone."""
    made = make_table(tmp_path)
    for version in range(3, HEAD + 1):
        made.builder.drop(version)
    del made.builder.history[3:]
    for version in range(3, HEAD + 1):
        made.builder.commit(remove(f"p=h{version - 3}/part-1.parquet"))
    assert_fell_back(check_listings(made, queries=FEW), None, f"v{INDEXED}.manifest.json")


@pytest.mark.slow
def test_a_copied_table_keeps_its_index(tmp_path: Path) -> None:
    made = make_table(tmp_path / "a", checkpoint=2, vectors=True)
    shutil.copytree(made.root, tmp_path / "b")
    copy = Made(LogBuilder(tmp_path / "b"), made.rows)
    copy.builder.history.extend(made.builder.history)
    os.utime(copy.builder.log / f"{INDEXED:020}.json", (1, 1))
    assert tiers(check_listings(copy)) == {"index"}


@pytest.mark.parametrize("older", [2, 4])
def test_the_manifest_of_another_version_under_this_name(tmp_path: Path, older: int) -> None:
    made = make_table(tmp_path, checkpoint=1)
    index(made, older)
    shutil.copyfile(made.sidecars / f"v{older}.manifest.json", made.manifest)
    assert_fell_back(check_listings(made, queries=FEW), 1, f"holds the manifest of version {older}")


def test_a_plan_on_a_manifest_with_keys_of_another_type(tmp_path: Path) -> None:
    """Its checksum is right, so only the choice of parts sees it: the plan says so, and does not raise."""
    made = make_table(tmp_path, checkpoint=2)
    body = made.manifest.read_bytes().partition(b'"manifest":')[2][:-1]
    body = body.replace(b'"key_min":["h5"', b'"key_min":[5')
    made.manifest.write_bytes(b'{"crc32":"%08x","manifest":%s}' % (zlib.crc32(body), body))
    scan = DeltaTable(str(made.root)).scan_files()
    assert "another base instead: a manifest has keys that are not of type" in scan.explain()
    assert scan.plan.parts == ()
    assert scan.plan.as_dict()["damage"] == scan.plan.damage
    assert scan.headline().startswith("reads another base instead of index 5")
    assert scan.read_all().num_rows == len(made.builder.state().files)
    assert scan.metrics.tier == "checkpoint"
    assert scan.explain().startswith("fell back to classic checkpoint 2")


def test_stats_with_fewer_rows_than_their_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_table(tmp_path, checkpoint=2)
    monkeypatch.setattr(PartFile, "batches", lambda *_: iter(()))
    scan = DeltaTable(str(made.root)).scan_files(columns=["path", "stats"])
    assert scan.read_all().num_rows == len(made.builder.state().files)
    assert "has fewer rows than its core" in (scan.metrics.fallback_reason or "")


# Hints.


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"version":-1}',
        *(
            pytest.param(text, marks=REPEATED)
            for text in ("null", "[]", '"5"', '{"version":1e99}', '{"version":99999999999999999999}', "\0")
        ),
    ],
)
def test_a_broken_hint(tmp_path: Path, text: str) -> None:
    made = make_table(tmp_path, checkpoint=2)
    made.hint.write_text(text)
    assert_fell_back(check_listings(made, queries=FEW), 2, "_last_index")


@pytest.mark.parametrize(
    ("checkpoint", "version"),
    [
        pytest.param(checkpoint, version, marks=[] if checkpoint == 2 or version in (4, HEAD, 2**62) else [REPEATED])
        for checkpoint in (None, 2)
        for version in (4, 6, HEAD, HEAD + 1, 10**6, 2**62)
    ],
)
def test_a_hint_to_nowhere(tmp_path: Path, version: int, checkpoint: int | None) -> None:
    made = make_table(tmp_path, checkpoint=checkpoint)
    made.hint.write_text(json.dumps({"version": version}))
    found = check_listings(made, queries=FEW)
    # Without a checkpoint the whole log is listed, and the name of the manifest with it.
    assert tiers(found) == {"index" if checkpoint is None else "checkpoint"}
    # A hint beyond the newest version names nothing that could have been used.
    assert all(f"v{version}.manifest.json" in (m.fallback_reason or "") for _, m in found if version <= HEAD)


@pytest.mark.parametrize("older", [0, 2, 4])
def test_a_stale_hint(tmp_path: Path, older: int) -> None:
    """An older index with all commits since is a sound base."""
    made = make_table(tmp_path)
    index(made, older)
    made.hint.write_text(json.dumps({"version": older}))
    found = check_listings(made, queries=FEW)
    assert tiers(found) == {"index"}
    assert {metrics.commits_total for _, metrics in found} == {HEAD - older}


@pytest.mark.slow
def test_no_hint(tmp_path: Path) -> None:
    """Without it an index is found beside the checkpoint of its version alone."""
    made = make_table(tmp_path, checkpoint=INDEXED)
    made.hint.unlink()
    assert tiers(check_listings(made, queries=FEW)) == {"index"}
    other = make_table(tmp_path / "other", checkpoint=2)
    other.hint.unlink()
    assert tiers(check_listings(other, queries=FEW)) == {"checkpoint"}


def test_an_older_index_whose_tail_has_a_gap(tmp_path: Path) -> None:
    made = make_table(tmp_path, checkpoint=HEAD - 1)
    made.builder.cleanup(HEAD)
    assert tiers(check_listings(made, queries=FEW)) == {"checkpoint"}


# A process that remembers the table.


@pytest.mark.slow
def test_a_remembered_table_dropped_and_made_again(tmp_path: Path) -> None:
    check_listings(make_table(tmp_path, checkpoint=2, vectors=True), cold=False)
    for other in ("t-2", "t-1"):
        shutil.rmtree(tmp_path)
        made = make_table(tmp_path, table_id=other, vectors=other == "t-1")
        assert tiers(check_listings(made, cold=False)) == {"index"}


@pytest.mark.slow
@pytest.mark.parametrize("kept", [INDEXED, HEAD - 1])
def test_a_remembered_table_set_back(tmp_path: Path, kept: int) -> None:
    made = make_table(tmp_path)
    check_listings(made, cold=False)
    for version in range(kept + 1, HEAD + 1):
        made.builder.drop(version)
    del made.builder.history[kept + 1 :]
    assert tiers(check_listings(made, cold=False)) == {"index"}
    made.builder.commit(remove("p=h1/part-1.parquet")).commit(remove("p=h2/part-2.parquet"))
    assert tiers(check_listings(made, cold=False)) == {"index"}


@pytest.mark.slow
def test_a_remembered_table_with_a_newer_index(tmp_path: Path) -> None:
    made = make_table(tmp_path, vectors=True)
    check_listings(made, cold=False)
    index(made)
    made.builder.commit(remove("p=h3/part-1.parquet"))
    assert tiers(check_listings(made, cold=False)) == {"index"}


# What else lies about.


@pytest.mark.slow
def test_garbage_beside_the_index(tmp_path: Path) -> None:
    made = make_table(tmp_path, checkpoint=2, vectors=True)
    for name in ("v5.parquet", "v6.manifest.json", "v007.manifest.json", "x.parquet", "v9-1.core.parquet", "_last"):
        (made.sidecars / name).write_bytes(b"garbage")
    (made.sidecars / "v7.manifest.json").mkdir()
    (made.builder.log / "_sidecar_index").mkdir()
    (made.builder.log / "_sidecar_index" / "_last_index").write_bytes(b"{}")
    (made.builder.log / "_sidecar_index" / "v5.manifest.json").write_bytes(b"{}")
    assert tiers(check_listings(made)) == {"index"}


@pytest.mark.parametrize(
    ("checkpoint", "version"),
    [
        pytest.param(checkpoint, version, marks=[] if version in (1, 2, INDEXED, HEAD) else [REPEATED])
        for checkpoint in (None, 2)
        for version in range(HEAD + 1)
    ],
)
def test_versions_before_and_after_the_index(tmp_path: Path, version: int, checkpoint: int | None) -> None:
    made = make_table(tmp_path, checkpoint=checkpoint, vectors=True)
    has_checkpoint = checkpoint is not None and version >= checkpoint
    expected = "index" if version >= INDEXED else "checkpoint" if has_checkpoint else "log"
    assert tiers(check_listings(made, version=version, queries=FEW)) == {expected}


def test_a_log_set_back_and_written_on_is_not_listed_by_its_old_index(tmp_path: Path) -> None:
    """The same table id, and a commit file of the same size at the index's version: only its bytes tell."""
    log = LogBuilder(tmp_path).metadata({"x": "long"})
    for version in range(6):
        log.commit(add(f"a{version}.parquet", size=version + 100))
    build_index(open_store(str(tmp_path)))
    for version in (4, 5):
        log.drop(version)
    del log.history[4:]
    for version in (4, 5):
        log.commit(add(f"b{version}.parquet", size=version + 200))
    with DeltaTable(str(tmp_path)).scan_files() as scan:
        found = {path for batch in scan for path in batch.column("path").to_pylist()}
    assert found == {"a0.parquet", "a1.parquet", "a2.parquet", "a3.parquet", "b4.parquet", "b5.parquet"}
    assert scan.metrics.tier == "log"
    assert "different commit file" in str(scan.metrics.fallback_reason)
