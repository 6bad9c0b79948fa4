"""What the first paint of the page costs, and that it does not grow with the table."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest

from delta_sidecar.index.build.build_job import Build
from delta_sidecar.index.format.index_layout import IndexLayout
from delta_sidecar.index.format.index_names import HINT, directory_for, manifest_name, new_build_id, part_id
from delta_sidecar.index.format.manifest import Hint, encode
from delta_sidecar.index.format.part_entries import FileEntry, PartEntry
from delta_sidecar.log.snapshot import load_snapshot
from delta_sidecar.server.loopback import is_loopback
from delta_sidecar.server.page.access import Door
from delta_sidecar.server.page.application import PageService
from delta_sidecar.server.page.running_page import RunningPage
from delta_sidecar.server.page.shown_tables import ShownTables
from delta_sidecar.server.roots import Root, Roots
from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.storage.uri import parse_location
from delta_sidecar.testing.stores import CountingStore
from delta_sidecar.testing.table_builder import LogBuilder
from tests.costs.counted import counted
from tests.costs.hourly import BUCKET, bucket, columns_by_hour, file, moment

MOST_BYTES, MOST_REQUESTS = 200_000, 10
"""The goal, at ten million files."""
PART_ROWS = 80_000


def table_of(root: Path, files: int, index: int = 25, head: int = 30, with_crc: bool = True) -> Path:
    """A table whose index says that it has so many files. Its parts do not exist: a first look reads none."""
    log = LogBuilder(root).protocol(writer=4).metadata(columns_by_hour(), partition_by=[BUCKET])
    for version in range(head + 1):
        log.commit(*(file(version, number) for number in range(4)))
        if version == 20:
            log.checkpoint()
        if version == index:
            _index(root, files)
    if with_crc:
        log.crc()
    return root


def _index(root: Path, files: int) -> None:
    store = open_store(str(root))
    snapshot = load_snapshot(store)
    layout = IndexLayout.of(snapshot.schema, snapshot.partition_columns)
    build = Build(snapshot, layout, directory_for(snapshot.protocol), new_build_id())
    parts = [_part(build, number) for number in range(files // PART_ROWS)]
    store.put_if_absent(f"{build.directory}/{manifest_name(snapshot.version)}", encode(build.manifest(parts)))
    store.put_if_absent(f"{build.directory}/{HINT}", msgspec.json.encode(Hint(snapshot.version)))


def _part(build: Build, number: int) -> PartEntry:
    """Three hours each."""
    low, high = (int(moment(3 * number + more).timestamp() * 1e6) for more in (0, 3))
    return PartEntry(
        id=part_id(build.version, build.id),
        rows=PART_ROWS,
        bytes=PART_ROWS * 40_000_000,
        core=FileEntry(3_900_000, 9_000, 1 << 31, 1 << 30),
        stats=FileEntry(12_000_000, 30_000, 1 << 31, 1 << 30),
        row_groups=8,
        records=PART_ROWS * 10_000,
        key=(bucket(3 * number), bucket(3 * number + 2)),
        time=(low, high),
        path=(f"{BUCKET}={bucket(3 * number)}/p", f"{BUCKET}={bucket(3 * number + 2)}/p"),
    )


class FirstPaint:
    """Everything that a browser asks for before anyone does anything."""

    def __init__(self, root: Path) -> None:
        shared_cache.clear()
        self.store: CountingStore = counted(root)
        place = Root("big", parse_location(root), {}, lambda location: self.store)
        tables = ShownTables(Roots([place]), only="big")
        self.bytes = 0
        with RunningPage("127.0.0.1", 0, PageService(tables, Door(is_loopback("127.0.0.1"), None))) as page:
            self._get(page, "/"), self._get(page, "/favicon.svg"), self._get(page, "/api/tables")
            self.overview = self._get(page, "/api/overview", table="big")

    def _get(self, page: RunningPage, path: str, **asked: Any) -> Any:
        body = json.dumps(asked).encode() if asked else None
        request = urllib.request.Request(f"{page.url}{path}", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            data = answer.read()
        self.bytes += len(data)
        return json.loads(data) if path.startswith("/api") else data


def test_the_first_paint_of_ten_million_files(tmp_path: Path) -> None:
    paint = FirstPaint(table_of(tmp_path, 10_000_000))
    assert paint.overview["index"]["files"] == 10_000_000
    assert len(paint.overview["map"]["columns"]) == 125
    assert paint.overview["map"]["row_groups"] == 1_000
    assert [each[0] for each in paint.overview["log"]["commits"]] == list(range(31))
    assert paint.bytes <= MOST_BYTES
    assert len(paint.store.requests) <= MOST_REQUESTS, paint.store.paths()
    assert not [path for path in paint.store.paths() if path.endswith(".parquet")], "no checkpoint, no part"


@pytest.mark.parametrize("tail", [0, 2])
def test_without_checksums_each_commit_of_the_tail_is_one_request(tmp_path: Path, tail: int) -> None:
    """Protocol and metadata may have changed in it; no guess is made."""
    paint = FirstPaint(table_of(tmp_path, 10_000_000, head=25 + tail, with_crc=False))
    fixed = len(paint.store.requests) - tail
    assert fixed == 8, paint.store.paths()


@pytest.mark.slow
def test_it_does_not_grow_with_the_number_of_files(tmp_path: Path) -> None:
    """A thousand times as many files: more parts than a page has columns, and neighbours share one."""
    small = FirstPaint(table_of(tmp_path / "1 M", 1_040_000))
    large = FirstPaint(table_of(tmp_path / "1 G", 1_000_000_000))
    assert large.overview["map"]["parts"] == 12_500
    assert len(large.overview["map"]["columns"]) <= 360
    assert large.bytes <= MOST_BYTES
    assert len(large.store.requests) == len(small.store.requests)
    assert len(large.store.requests) <= MOST_REQUESTS
