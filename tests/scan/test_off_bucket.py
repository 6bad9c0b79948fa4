"""A bucket is believed only where a file's own time bounds do not contradict it: in tail, checkpoint and index."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from delta_sidecar import DeltaTable
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.testing.actions import AddFile, add, column
from delta_sidecar.testing.table_builder import LogBuilder
from delta_sidecar.values.bucket_columns import GENERATION_EXPRESSION, bucket_expression
from tests.index.models import manifest_at, small_parts
from tests.properties.settings import random_cases

START = datetime(2026, 2, 10, tzinfo=UTC)
MEMORY = Path("/dev/shm")
tried: Counter[str] = Counter()


@dataclass(frozen=True)
class File:
    """A file of one time (None: unknown) in a bucket, which may be another's or no bucket at all."""

    minutes: int | None
    bucket: str | None
    nulls: int = 0

    @property
    def time(self) -> datetime | None:
        return None if self.minutes is None else START + timedelta(minutes=self.minutes)

    def add(self, number: int) -> AddFile:
        bounds: dict[str, Any] = {} if self.time is None else {"ts": self.time}
        stats = {"numRecords": 3, "minValues": bounds, "maxValues": bounds, "nullCount": {"ts": self.nulls}}
        return add(f"f{number}", size=number, partition={"hour": self.bucket}, stats=stats)

    @property
    def interval(self) -> tuple[datetime, datetime] | None:
        """The hour that the bucket tells; None where it tells none."""
        if len(self.bucket or "") != 10:
            return None
        try:
            start = datetime.strptime(self.bucket or "", "%Y%m%d%H").replace(tzinfo=UTC)
        except ValueError:
            return None
        return start, start + timedelta(hours=1)

    @property
    def is_believed(self) -> bool:
        if self.bucket is None:
            return self.time is None
        within = self.interval
        if within is None or self.nulls:
            return False
        return self.time is None or within[0] <= self.time < within[1]

    def must_be_kept(self, low: datetime) -> bool:
        """For `ts >= low`: it may hold such a row, by its own bounds, or else by its bucket, if that can be true."""
        if self.time is not None:
            return self.time >= low
        if self.bucket is None:
            return False
        return bool(self.nulls) or self.interval is None or self.interval[1] > low


HOURS = [f"20260210{hour:02}" for hour in range(4)]
files = st.builds(
    File,
    minutes=st.one_of(st.none(), st.integers(0, 239)),
    bucket=st.sampled_from([*HOURS, None, "yyyyMMddHH", "2026021099", "20260210", "zz"]),
    nulls=st.sampled_from([0, 0, 0, 1]),
)
honest = st.integers(0, 239).map(lambda minutes: File(minutes, HOURS[minutes // 60]))


@pytest.fixture(scope="module", autouse=True)
def report() -> Iterator[None]:
    yield
    print("\nbuckets:", ", ".join(f"{count} {what}" for what, count in sorted(tried.items())))


def made(root: Path, found: list[File], kind: str) -> DeltaTable:
    """The files as a tail, below a checkpoint, or in an index."""
    log = LogBuilder(root).protocol(writer=4)
    generated = {GENERATION_EXPRESSION: bucket_expression("ts", "hour")}
    log.metadata([column("ts", "timestamp"), column("hour", "string", metadata=generated)], partition_by=["hour"])
    log.commit(*(file.add(number) for number, file in enumerate(found)))
    if kind == "checkpoint":
        log.checkpoint("classic")
    if kind in ("index", "footer"):
        build_index(
            open_store(str(root)),
            options=BuildOptions(part_rows=3, limits=small_parts(single=99 if kind == "footer" else 0, rows=3)),
        )
    if kind == "footer":
        (root / "_delta_log" / "_sidecars" / "v0.manifest.json").unlink()
    shared_cache.clear()
    return DeltaTable(str(root))


@pytest.mark.parametrize("kind", ["log", "checkpoint", "index", "footer"])
@random_cases(25)
@given(found=st.lists(st.one_of(honest, files), min_size=1, max_size=9), minutes=st.integers(0, 260))
@example(found=[File(None, HOURS[0], nulls=1)], minutes=200)
@example(found=[File(0, HOURS[0]), File(30, HOURS[0], nulls=1), File(90, HOURS[1])], minutes=0)
def test_no_file_is_lost_to_another_bucket(kind: str, found: list[File], minutes: int) -> None:
    root = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    try:
        table = made(root, found, kind)
        low = START + timedelta(minutes=minutes)
        with table.scan_files(f"ts >= '{low:%Y-%m-%dT%H:%M:%SZ}'") as scan:
            sizes = {size for batch in scan for size in batch["size"].to_pylist()}
        assert scan.metrics.tier == kind
        tried[kind] += 1
        for number, file in enumerate(found):
            if file.must_be_kept(low):
                assert number in sizes, file
            elif file.is_believed:
                assert number not in sizes or (file.interval is not None and file.interval[1] > low), file
            tried["contradictions"] += not file.is_believed
        nulls = {size for info in table.file_infos("ts IS NULL") for size in [info.size]}
        assert nulls >= {number for number, file in enumerate(found) if file.nulls}
    finally:
        shutil.rmtree(root)


@random_cases(30)
@given(found=st.lists(st.one_of(honest, files), min_size=1, max_size=9))
def test_the_builder_counts_what_contradicts_and_verify_says_so(found: list[File]) -> None:
    root = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    try:
        made(root, found, "index")
        store = open_store(str(root))
        manifest, _ = manifest_at(store, 0)
        off = sum(not file.is_believed for file in found)
        assert sum(manifest.parts.off_bucket) == off
        report = verify_index(store)
        assert report.problems == ()
        assert any("contradict" in note for note in report.notes) == (off > 0)
    finally:
        shutil.rmtree(root)


def test_one_file_off_its_bucket_costs_only_its_part(tmp_path: Path) -> None:
    """Other parts are passed over by their buckets as before."""
    found = [File(minutes, HOURS[minutes // 60]) for minutes in range(0, 240, 20)]
    found[1] = File(230, HOURS[0])
    table = made(tmp_path, found, "index")
    with table.scan_files("ts >= '2026-02-10T03:30:00Z'") as scan:
        sizes = sorted(size for batch in scan for size in batch["size"].to_pylist())
    assert sizes == [1, 11]
    assert (scan.metrics.parts_read, scan.metrics.parts_total) == (2, 4)
