"""What finding files through an index costs in sequential round trips, and exactly which files of it are requested."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from delta_sidecar.flow.read_ahead import shared_read_ahead
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.format.index_names import DIRECTORIES, SIDECAR_INDEX, SIDECARS
from delta_sidecar.limits import PartLimits, ReaderLimits
from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.testing.stores import CountingStore
from tests.costs.counted import counted, opened
from tests.costs.hourly import FILES, bucket, hourly, moment, parts_asked, parts_of, paths
from tests.index.models import small_parts


@pytest.fixture(autouse=True)
def cold() -> Iterator[None]:
    """Nothing is remembered from before."""
    limit = shared_cache.limit
    shared_cache.clear()
    yield
    shared_cache.clear()
    shared_cache.resize(limit)


HINTS = {"_delta_log/_last_checkpoint", *(f"{directory}/_last_index" for directory in DIRECTORIES)}


def manifests(store: CountingStore) -> set[str]:
    return {path for path in store.paths() if path.endswith(".manifest.json")}


def settled(store: CountingStore) -> list[str]:
    """All that was asked for, once nothing is under way any more."""
    known = -1
    while store.under_way or known != len(store.requests):
        known = len(store.requests)
        time.sleep(0.1)
    return store.paths()


LAYOUTS = {
    "index beside the checkpoint": {"checkpoint": 5, "index": 5},
    "index newer than the checkpoint": {"checkpoint": 2, "index": 5},
    "index and no checkpoint": {"index": 5},
    "index of a table with V2 checkpoints": {"checkpoint": 5, "index": 5, "v2": True},
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_two_trips_to_the_first_file(tmp_path: Path, layout: dict[str, int]) -> None:
    hourly(tmp_path, head=12, **layout)
    store = counted(tmp_path, in_step=True)
    files = opened(store).file_infos()
    assert next(files).path in paths(12)
    assert store.round_trips() == 2, "the hints; the listing beside commits and manifests"
    assert set(store.paths()) >= HINTS
    files.close()
    assert not [path for path in settled(store) if ".checkpoint." in path or path.endswith(".crc")]


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_three_trips_to_the_first_file_of_the_base(tmp_path: Path, layout: dict[str, int]) -> None:
    at_once = ReaderLimits(parts=PartLimits(ahead=8))  # all parts: what is read ahead is no trip
    hourly(tmp_path, head=9, **layout)
    store = counted(tmp_path, in_step=True)
    table = opened(store, limits=at_once)
    tail = paths(*range(layout["index"] + 1, 10))
    with table.scan_files() as scan:
        found = (path for batch in scan for path in batch.column("path").to_pylist())
        first = next(path for path in found if path not in tail)
        assert store.round_trips() == 3, "the hints; the listing beside commits and manifests; the first parts"
        assert first in paths(layout["index"]), "the newest hour comes first"
        assert scan.metrics.tier == "index"
        assert not [path for path in store.paths() if ".checkpoint." in path]


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_every_request_of_a_whole_listing(tmp_path: Path, layout: dict[str, int]) -> None:
    hourly(tmp_path, head=9, **layout)
    store = counted(tmp_path, in_step=True)
    assert {f.path for f in opened(store).file_infos()} == paths(*range(10))
    asked = Counter(settled(store))
    assert max(asked.values()) == 1, "nothing is asked for twice"
    cores = sorted(part.core_name for part in parts_of(tmp_path, layout["index"]))
    assert sorted(parts_asked(store)) == cores, "each core once, no stats"
    hinted = {layout["index"], layout.get("checkpoint", layout["index"])}
    asked_for = {f"{directory}/v{version}.manifest.json" for directory in DIRECTORIES for version in hinted}
    assert manifests(store) <= asked_for
    commits = [path for path in asked if path.endswith(".json") and "manifest" not in path]
    assert len(commits) <= 8 + 1, "on a guess, after the newer of the two hints; one between them"
    assert len(asked) == len(HINTS) + 1 + len(manifests(store)) + len(commits) + len(cores)


def test_an_older_index_costs_one_trip_for_the_commits_before_the_checkpoint(tmp_path: Path) -> None:
    """Commits are guessed at from the newer of the two hints on."""
    hourly(tmp_path, head=9, checkpoint=5, index=4)
    store = counted(tmp_path, in_step=True)
    with opened(store).scan_files() as scan:
        assert set(next(iter(scan)).column("path").to_pylist()) == paths(5, 6, 7, 8, 9)
        assert store.round_trips() == 3
        assert not [path for path in store.paths() if ".checkpoint." in path]
    assert scan.plan.base.startswith("index 4")


def test_where_the_index_is_looked_for(tmp_path: Path) -> None:
    """The hint is in one directory; the checkpoint's own manifest is asked for in both."""
    hourly(tmp_path / "plain", head=9, checkpoint=2, index=5)
    store = counted(tmp_path / "plain", in_step=True)
    opened(store)
    settled(store)
    assert manifests(store) == {
        f"{SIDECARS}/v5.manifest.json",
        f"{SIDECARS}/v2.manifest.json",
        f"{SIDECAR_INDEX}/v2.manifest.json",
    }
    hourly(tmp_path / "v2", head=9, index=5, v2=True)
    store = counted(tmp_path / "v2", in_step=True)
    opened(store)
    settled(store)
    assert manifests(store) == {f"{SIDECAR_INDEX}/v5.manifest.json"}


def test_what_a_table_without_an_index_pays(tmp_path: Path) -> None:
    """Two hints in the first trip; beside a checkpoint two manifests in the second. No trip more."""
    for checkpoint, manifests_asked in ((None, 0), (5, 2)):
        root = hourly(tmp_path / str(checkpoint), head=9, checkpoint=checkpoint)
        costs: dict[bool, tuple[int, set[str]]] = {}
        for enabled in (True, False):
            store = counted(root, in_step=True)
            table = opened(store, options={"delta.sidecar.enabled": enabled})
            assert {f.path for f in table.file_infos()} == paths(*range(10))
            trips = store.round_trips()
            costs[enabled] = trips, set(settled(store))
        (trips, asked), (trips_without, asked_without) = costs[True], costs[False]
        assert trips == trips_without
        extra = asked - asked_without
        assert extra >= {f"{directory}/_last_index" for directory in DIRECTORIES}
        assert len(extra) == 2 + manifests_asked


# Which parts.


def cores(root: Path, *hours: int, version: int = 9) -> list[str]:
    found = parts_of(root, version)
    return [found[hour].core_name for hour in hours]


@pytest.fixture
def indexed_head(tmp_path: Path) -> Path:
    """Ten hours in ten parts; the index is of the newest version."""
    return hourly(tmp_path, head=9, checkpoint=9, index=9)


def text(hour: int, minutes: int = 0) -> str:
    return f"'{moment(hour, minutes):%Y-%m-%dT%H:%M:%SZ}'"


LAST_HOUR = {
    "by the bucket": (f"_event_hour >= '{bucket(9)}'", 4),
    "by one bucket": (f"_event_hour = '{bucket(9)}'", 4),
    "by the time column": (f"ts >= {text(9)}", 4),
    "by the second half of it": (f"ts >= {text(9, 30)}", 2),
    "by both": (f"_event_hour >= '{bucket(9)}' and ts >= {text(9, 30)}", 2),
}


@pytest.mark.parametrize(("predicate", "files"), LAST_HOUR.values(), ids=LAST_HOUR)
def test_the_last_hour_is_one_part(indexed_head: Path, predicate: str, files: int) -> None:
    store = counted(indexed_head, in_step=True)
    with opened(store).scan_files(predicate=predicate) as scan:
        found = scan.read_all().column("path").to_pylist()
    assert set(found) <= paths(9)
    assert len(found) == files
    settled(store)
    assert parts_asked(store) == cores(indexed_head, 9)
    assert (scan.metrics.tier, scan.metrics.parts_read, scan.metrics.parts_total) == ("index", 1, 10)
    assert store.round_trips() == 3


@pytest.mark.parametrize(
    ("predicate", "hours"),
    [
        (f"_event_hour in ('{bucket(2)}', '{bucket(7)}')", (7, 2)),
        (f"ts >= {text(3, 50)} and ts < {text(5, 10)}", (5, 4, 3)),
        (f"_event_hour < '{bucket(2)}'", (1, 0)),
        (f"_event_hour = '{bucket(2)}' or ts > {text(9, 40)}", (9, 2)),
        ("_event_hour = '1999010100'", ()),
        (f"ts < {text(0)}", ()),
    ],
)
def test_a_range_reads_its_parts_newest_first(indexed_head: Path, predicate: str, hours: tuple[int, ...]) -> None:
    store = counted(indexed_head)
    found = list(opened(store).file_infos(predicate=predicate))
    assert {f.path for f in found} <= paths(*hours)
    assert sorted(parts_asked(store)) == sorted(cores(indexed_head, *hours))
    order = [f.partition_values["_event_hour"] for f in found]
    assert order == sorted(order, reverse=True)


@pytest.mark.parametrize(("limit", "hours"), [(1, (9,)), (4, (9,)), (5, (9, 8)), (11, (9, 8, 7))])
def test_a_limit_reads_the_parts_it_needs(indexed_head: Path, limit: int, hours: tuple[int, ...]) -> None:
    store = counted(indexed_head, in_step=True)
    found = [f.partition_values["_event_hour"] for f in opened(store).file_infos(limit=limit)]
    assert found == [bucket(hour) for hour in (9, 8, 7) for _ in range(FILES)][:limit]
    settled(store)
    needed = cores(indexed_head, *hours)
    one_more = cores(indexed_head, hours[-1] - 1)
    assert parts_asked(store) in (needed, needed + one_more), "the next part may be on its way while one is consumed"


def test_a_limit_that_the_tail_fills_reads_no_part(tmp_path: Path) -> None:
    hourly(tmp_path, head=9, checkpoint=5, index=5)
    store = counted(tmp_path, in_step=True)
    assert len(list(opened(store).file_infos(limit=FILES))) == FILES
    settled(store)
    assert parts_asked(store) == []
    assert store.round_trips() == 2


def test_a_stats_predicate_reads_stats_and_only_the_cores_with_a_match(indexed_head: Path) -> None:
    store = counted(indexed_head, in_step=True)
    with opened(store).scan_files(predicate="m = 3") as scan:
        assert set(scan.read_all().column("path").to_pylist()) == paths(3)
    settled(store)
    stats = [part.stats_name for part in parts_of(indexed_head, 9)]
    assert sorted(parts_asked(store)) == sorted(stats + cores(indexed_head, 3))
    assert (scan.metrics.parts_read, scan.metrics.parts_total) == (1, 10)


def test_a_bucket_narrows_which_stats_are_read(indexed_head: Path) -> None:
    store = counted(indexed_head, in_step=True)
    found = opened(store).file_infos(predicate=f"_event_hour >= '{bucket(7)}' and m = 8")
    assert {f.path for f in found} == paths(8)
    settled(store)
    stats = [part.stats_name for part in parts_of(indexed_head, 9)[7:]]
    assert sorted(parts_asked(store)) == sorted(stats + cores(indexed_head, 8))


def test_a_stats_predicate_without_a_match_reads_no_core(indexed_head: Path) -> None:
    store = counted(indexed_head)
    assert list(opened(store).file_infos(predicate="m = 77")) == []
    assert sorted(parts_asked(store)) == sorted(part.stats_name for part in parts_of(indexed_head, 9))


@pytest.mark.parametrize("in_step", [False, True], ids=["local", "remote"])
def test_a_part_in_one_file_is_fetched_once(tmp_path: Path, in_step: bool) -> None:
    """Its stats are in its core, which nothing but the scan itself keeps."""
    root = hourly(tmp_path, head=2)
    build_index(open_store(str(root)), options=BuildOptions(limits=small_parts(single=100)))
    (part,) = parts_of(root, 2)
    store = counted(root, in_step=in_step)
    with opened(store, options={"delta.sidecar.cache_size": 0}).scan_files("m = 1") as scan:
        assert set(scan.read_all().column("path").to_pylist()) == paths(1)
    assert part.stats is None
    assert [path for path in settled(store) if path.endswith(part.core_name)] == [f"{SIDECARS}/{part.core_name}"]


def test_the_stats_of_files_cost_one_file_more_a_part(indexed_head: Path) -> None:
    store = counted(indexed_head)
    with opened(store).scan_files(columns=["path", "stats"], predicate=f"_event_hour = '{bucket(9)}'") as scan:
        assert scan.read_all().num_rows == FILES
    assert sorted(parts_asked(store)) == sorted(parts_of(indexed_head, 9)[9].names)


# Who stops.


@pytest.mark.parametrize("predicate", [None, "m >= 0"], ids=["all files", "a stats predicate"])
def test_a_closed_stream_asks_no_more(tmp_path: Path, predicate: str | None) -> None:
    hourly(tmp_path, head=29, checkpoint=29, index=29)
    store = counted(tmp_path, in_step=True)
    taken = shared_read_ahead.taken
    with opened(store).scan_files(predicate=predicate) as scan:
        next(iter(scan))
    closed = time.perf_counter()
    settled(store)
    assert not [request for request in store.requests if request.t_start > closed]
    cores = [name for name in parts_asked(store) if name.endswith(".core.parquet")]
    stats = [name for name in parts_asked(store) if name.endswith(".stats.parquet")]
    assert len(cores) < 15, "a few parts are on their way at once, not all thirty"
    assert len(stats) < 20
    assert not scan.metrics.complete
    assert shared_read_ahead.taken == taken, "what was read ahead is given back"


@pytest.mark.parametrize("predicate", [None, "m >= 0"], ids=["all files", "a stats predicate"])
def test_a_whole_listing_gives_its_read_ahead_back(indexed_head: Path, predicate: str | None) -> None:
    taken = shared_read_ahead.taken
    assert len(list(opened(counted(indexed_head, in_step=True)).file_infos(predicate=predicate))) == 10 * FILES
    assert shared_read_ahead.taken == taken
