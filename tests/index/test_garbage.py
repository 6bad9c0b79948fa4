"""What garbage collection deletes, and above all what it does not."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from delta_sidecar.index.build import garbage
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.build.garbage import MEMORY, GarbageReport, collect_garbage, collect_if_due
from delta_sidecar.index.format.index_names import SIDECARS
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.storage import open_store
from delta_sidecar.storage.store import Buffer, Store
from delta_sidecar.testing import CountingStore, LogBuilder, add, remove
from tests.index.models import assert_index_is, manifest_at, small_parts

NONE = timedelta(0)
DAY = 86_400
LEASE = "0123456789abcdef0123456789abcdef.lease.json"


MANY_PARTS = BuildOptions(part_rows=1, limits=small_parts(single=0, small=0, most=100))


class Table:
    """A table that grows by one file and is indexed at every version."""

    def __init__(self, root: Path) -> None:
        self.log = LogBuilder(root)
        self.store: Store = open_store(str(root))
        self.directory = root / "_delta_log" / "_sidecars"

    def grow(self, versions: int, options: BuildOptions = MANY_PARTS) -> None:
        for _ in range(versions):
            number = self.log.version + 1
            self.log.commit(add(f"f{number}.parquet"))
            build_index(self.store, options=options)

    def age(self, days: float, *names: str) -> None:
        """Everything, or what is named, becomes so much older."""
        for path in [self.directory / n for n in names] if names else list(self.directory.iterdir()):
            then = time.time() - days * DAY
            os.utime(path, (then, then))

    @property
    def names(self) -> set[str]:
        return {path.name for path in self.directory.iterdir()}

    @property
    def manifests(self) -> list[int]:
        return sorted(int(n[1:].split(".")[0]) for n in self.names if n.endswith(".manifest.json"))

    def parts_of(self, version: int) -> set[str]:
        manifest, _ = manifest_at(self.store, version)
        return {name for part in manifest.parts for name in part.names}

    def collect(self, **options: object) -> GarbageReport:
        return collect_garbage(self.store, **options)  # type: ignore[arg-type]

    def check(self) -> None:
        assert verify_index(self.store).ok
        assert_index_is(self.store, self.log.version, self.log.state().files.values())


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table(tmp_path)
    made.grow(4)
    return made


def test_what_is_young_stays(table: Table) -> None:
    before = table.names
    assert table.collect(retain=1).deleted == ()
    assert table.names == before


def test_old_manifests_go_and_the_newest_stay(table: Table) -> None:
    table.age(10)
    done = table.collect()
    assert table.manifests == [2, 3]
    assert {Path(path).name for path in done.deleted} == {"v0.manifest.json", "v1.manifest.json"}
    assert done.bytes > 0
    table.check()


def test_retention_keeps_more_than_the_newest(table: Table) -> None:
    table.age(10, "v0.manifest.json")
    table.age(3, "v1.manifest.json")
    table.collect(retain=1)
    assert table.manifests == [1, 2, 3]


def test_a_dry_run_deletes_nothing_and_says_the_same(table: Table) -> None:
    table.age(10)
    before = table.names
    dry = table.collect(dry_run=True)
    assert table.names == before
    assert dry.deleted == table.collect().deleted
    assert dry.dry_run


def test_parts_go_a_grace_period_after_their_manifest(table: Table) -> None:
    (file,) = [body["path"] for body in table.log.state(0).files.values()]
    only_before = table.parts_of(3)
    table.log.commit(remove(file))
    table.grow(1)
    gone = only_before - table.parts_of(5)
    assert gone, "the part of the removed file is named by older manifests only"
    table.age(30)
    table.collect(retain=1)
    assert table.manifests == [5]
    assert gone <= table.names, "someone may still read them"
    table.collect(retain=1)
    assert gone <= table.names, "another run at once changes nothing"
    memory = json.loads((table.directory / "_garbage").read_text())
    (table.directory / "_garbage").write_text(
        json.dumps({"parts": {n: t - DAY * 1000 for n, t in memory["parts"].items()}})
    )
    done = table.collect(retain=1)
    assert {Path(path).name for path in done.deleted} == gone
    assert not gone & table.names
    table.check()


def test_the_newest_usable_manifest_stays_whatever_is_newer(table: Table) -> None:
    usable = table.parts_of(2)
    for name in table.parts_of(3) - usable:
        (table.directory / name).unlink()
    table.age(30)
    table.collect(retain=1, retention=NONE, grace=NONE)
    assert 2 in table.manifests
    assert usable <= table.names


def test_orphans_of_a_dead_build_go_after_the_grace_period(table: Table) -> None:
    orphan = "v9-" + "a" * 32 + "-12.core.parquet"
    (table.directory / orphan).write_bytes(b"orphan")
    table.collect()
    assert orphan in table.names, "a build may be about to name it"
    table.age(2, orphan)
    assert [Path(path).name for path in table.collect().deleted] == [orphan]
    table.check()


def test_while_a_build_is_at_work_manifests_and_parts_stay(table: Table) -> None:
    orphan = "v9-" + "a" * 32 + "-12.core.parquet"
    (table.directory / orphan).write_bytes(b"orphan")
    table.age(30)
    (table.directory / LEASE).write_text("{}")
    before = table.names
    done = table.collect()
    assert (done.deleted, table.names) == ((), before)
    assert "a build is running" in " ".join(done.notes)
    table.age(2, LEASE)
    table.collect()
    assert LEASE not in table.names, "a lease that old is of a build that died"
    assert orphan not in table.names


def test_drafts_of_dead_writers_go(table: Table) -> None:
    draft = "." + "b" * 32 + ".tmp"
    (table.directory / draft).write_bytes(b"half")
    table.collect()
    assert draft in table.names
    table.age(2, draft)
    table.collect()
    assert draft not in table.names


def test_what_is_not_ours_is_never_touched(table: Table) -> None:
    foreign = [
        "016ae953-37a9-438e-8683-9a9a4a79a395.parquet",
        "readme.txt",
        "v3.parquet.bak",
        "00000000000000000003.checkpoint.0d0a.parquet",
        "vx.manifest.json",
        "_last_index",
    ]
    for name in foreign:
        (table.directory / name).write_bytes(b'{"version":3}')
    (table.directory / "below").mkdir()
    (table.directory / "below" / "v1.parquet").write_bytes(b"?")
    for path in table.directory.rglob("*"):
        os.utime(path, (0, 0))
    table.collect(retain=1, retention=NONE, grace=NONE)
    assert set(foreign) <= table.names
    assert (table.directory / "below" / "v1.parquet").exists()


def test_no_part_goes_while_a_retained_manifest_cannot_be_read(table: Table) -> None:
    orphan = "v9-" + "a" * 32 + "-12.core.parquet"
    (table.directory / orphan).write_bytes(b"orphan")
    (table.directory / "v3.manifest.json").write_bytes(b"{")
    table.age(30)
    done = table.collect()
    assert orphan in table.names
    assert table.parts_of(2) <= table.names
    assert "cannot be read" in " ".join(done.notes)


def test_the_index_of_a_table_that_was_made_again_goes(tmp_path: Path) -> None:
    old = Table(tmp_path)
    old.grow(4)
    for path in old.log.log.glob("*.json"):
        path.unlink()
    new = Table(tmp_path)
    new.log.metadata(table_id="another-table")
    new.grow(1)
    new.age(30)
    new.collect(grace=NONE)
    assert new.manifests == [0]
    new.collect(grace=NONE)
    new.check()
    assert {n for n in new.names if n.endswith(".parquet")} == new.parts_of(0)


def test_a_single_file_newer_than_every_manifest_stays(tmp_path: Path) -> None:
    made = Table(tmp_path)
    made.grow(2, BuildOptions())
    (made.directory / "v1.manifest.json").unlink()
    made.age(30)
    made.collect(retain=1, retention=NONE, grace=NONE)
    assert "v1.parquet" in made.names


def test_a_build_collects_what_older_ones_left(table: Table) -> None:
    table.age(10)
    table.grow(1)
    assert table.manifests == [3, 4]
    table.check()


def test_a_build_leaves_what_is_not_a_day_beyond_its_time(table: Table) -> None:
    """So that an index a minute costs one collection a day."""
    table.age(7.5)
    table.grow(1)
    assert table.manifests == [0, 1, 2, 3, 4]
    assert table.collect().files == 3


def test_a_build_collects_parts_a_day_after_their_manifest(table: Table) -> None:
    lost = table.parts_of(3)
    table.log.commit(*[remove(f"f{n}.parquet") for n in range(4)], add("new.parquet"))
    build_index(table.store, options=replace(MANY_PARTS, full=True))
    table.grow(1)
    table.age(10)
    table.grow(1)
    assert lost <= table.names
    table.age(0, *(name for name in table.names if name.endswith(".manifest.json")))
    memory = table.directory / MEMORY
    memory.write_text(json.dumps({"parts": dict.fromkeys(lost, 0)}))
    table.grow(1)
    assert lost <= table.names
    table.age(2, MEMORY)
    table.grow(1)
    assert lost.isdisjoint(table.names)
    table.check()


def test_a_build_collects_what_a_dead_one_left(table: Table) -> None:
    (table.directory / LEASE).write_text("{}")
    table.grow(1)
    assert LEASE in table.names
    table.age(2, LEASE)
    table.grow(1)
    assert LEASE not in table.names


def test_to_find_nothing_due_costs_one_listing(table: Table) -> None:
    store = CountingStore(table.store)
    assert collect_if_due(store, SIDECARS) is None
    assert store.counts() == {"list": 1}


def test_a_build_that_finds_its_index_collects_nothing(table: Table) -> None:
    table.age(10)
    assert build_index(table.store, options=MANY_PARTS).mode == "current"
    assert table.manifests == [0, 1, 2, 3]


def test_a_collection_that_fails_does_not_fail_the_build(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object, **more: object) -> GarbageReport:
        raise RuntimeError("out of order")

    monkeypatch.setattr(garbage, "collect_garbage", broken)
    table.age(10)
    table.grow(1)
    assert table.manifests == [0, 1, 2, 3, 4]
    table.check()


class PublishedMeanwhile(CountingStore):
    """A store in which a build publishes its manifest, and ends, after the collector has listed the index."""

    def __init__(self, inner: Store, table: Table, manifest: bytes) -> None:
        super().__init__(inner)
        self._table = table
        self._manifest = manifest

    def get(self, path: str) -> Buffer:
        if path == f"{SIDECARS}/{MEMORY}":
            (self._table.directory / "v2.manifest.json").write_bytes(self._manifest)
            (self._table.directory / LEASE).unlink()
        return super().get(path)


def test_a_build_that_ends_while_garbage_is_collected_keeps_its_parts(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.grow(3)
    parts = table.parts_of(2)
    manifest = table.directory / "v2.manifest.json"
    data = manifest.read_bytes()
    manifest.unlink()
    table.age(2)
    (table.directory / LEASE).write_text("{}")
    report = collect_garbage(PublishedMeanwhile(table.store, table, data), grace=timedelta(days=1))
    assert parts <= table.names
    assert any("just ended" in note for note in report.notes)
    assert verify_index(table.store, 2).ok
