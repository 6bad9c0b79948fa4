"""What every base must do, whatever it is: a checkpoint of each kind, an index in parts, an index in one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar.errors import CorruptIndexError, CorruptTableError
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.read.opening import open_snapshot
from delta_sidecar.limits import CommitLimits
from delta_sidecar.listing.base import BasePlan
from delta_sidecar.listing.live_files import plan_base
from delta_sidecar.listing.request import FileRequest
from delta_sidecar.log.actions import Add
from delta_sidecar.log.commits import add_rows
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.replay import Replay
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.predicates.binding import bind_predicate
from delta_sidecar.settings import Settings
from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.testing.actions import add
from delta_sidecar.testing.stores import CountingStore, Request
from delta_sidecar.testing.table_builder import LogBuilder
from tests.index.models import small_parts

FILES = 24
PARTITIONS = 4
COLUMNS = {"p": "string", "x": "long"}


def index(log: LogBuilder, single: bool) -> None:
    limits = small_parts(single=FILES if single else 0, rows=7, row_group_rows=2)
    build_index(open_store(str(log.root)), options=BuildOptions(part_rows=7, limits=limits))


BASES: dict[str, Callable[[LogBuilder], Any]] = {
    "classic": lambda log: log.checkpoint(),
    "in several files": lambda log: log.checkpoint("multi-part", parts=3),
    "V2": lambda log: log.checkpoint("v2-parquet", parts=2),
    "index": lambda log: index(log, single=False),
    "single": lambda log: index(log, single=True),
}


def path_of(number: int) -> str:
    return f"p={number % PARTITIONS}/f{number:02}.parquet"


@dataclass(frozen=True, slots=True)
class Table:
    """A version that is a base and nothing else, read through a store that counts."""

    root: Path
    store: CountingStore
    snapshot: Snapshot
    opened: int
    """Requests that opening it took."""

    @property
    def requests(self) -> list[Request]:
        return self.store.requests[self.opened :]

    def plan(self, predicate: str | None = None, columns: list[str] | None = None, limit: int | None = None) -> Any:
        bound = bind_predicate(predicate, self.snapshot.schema, self.snapshot.partition_columns)
        request = FileRequest.of(self.snapshot, Settings(), bound, columns, limit)
        plan = plan_base(self.snapshot, request)
        assert plan is not None
        return plan

    def replay(self, *hidden: int) -> Replay:
        """One that has seen the keys of some files."""
        replay = Replay(KeyMaker(self.snapshot.store.root_uri))
        replay.hide([add_rows([Add(path_of(number)) for number in hidden], ["path", "deletion_vector"])])
        return replay

    @property
    def files_of_base(self) -> list[Path]:
        log = self.root / "_delta_log"
        found = [*log.glob("*checkpoint*.parquet"), *log.glob("_sidecars/*.parquet")]
        return sorted(path for path in found if path.stat().st_size)


@pytest.fixture(params=BASES)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Table]:
    log = LogBuilder(tmp_path).protocol(3, features=["v2Checkpoint"]).metadata(COLUMNS, partition_by=["p"])
    for first in range(0, FILES, 8):
        stats = [{"numRecords": 1, "minValues": {"x": n}, "maxValues": {"x": n}} for n in range(first, first + 8)]
        numbered = zip(range(first, first + 8), stats, strict=True)
        log.commit(*(add(path_of(n), partition={"p": str(n % PARTITIONS)}, stats=said) for n, said in numbered))
    BASES[request.param](log)
    shared_cache.clear()
    store = CountingStore(open_store(str(tmp_path)))
    snapshot = open_snapshot(store, None, CommitLimits())
    assert snapshot.segment.base is not None
    assert not snapshot.segment.commits
    yield Table(tmp_path, store, snapshot, len(store.requests))
    shared_cache.clear()


def paths(plan: BasePlan, replay: Replay) -> list[str]:
    return [path for live in plan.rows(replay) for path in live.rows.column("path").to_pylist()]


def test_a_plan_reads_nothing(table: Table) -> None:
    plan = table.plan("p = '1'")
    _ = plan.parts, plan.at_most, plan.tier, plan.counts
    plan.close()
    # What opening guessed at may still be on its way.
    assert [request.path for request in table.requests if request.path.endswith(".parquet")] == []


def test_all_files_once(table: Table) -> None:
    assert sorted(paths(table.plan(), table.replay())) == sorted(map(path_of, range(FILES)))


@pytest.mark.parametrize("hidden", [[0], [3, 11, 23], range(FILES)], ids=["one", "some", "all"])
def test_what_newer_commits_decided_is_left_out(table: Table, hidden: list[int]) -> None:
    left = sorted(path_of(n) for n in range(FILES) if n not in hidden)
    assert sorted(paths(table.plan(), table.replay(*hidden))) == left


def test_files_that_cannot_match_are_left_out_and_counted(table: Table) -> None:
    plan = table.plan("p = '1'")
    live = list(plan.rows(table.replay()))
    assert sorted(path for each in live for path in each.rows.column("path").to_pylist()) == [
        path_of(n) for n in sorted(range(1, FILES, PARTITIONS))
    ]
    assert all(each.considered >= each.rows.num_rows for each in live)
    assert {path_of(7)} <= set(paths(table.plan("x = 7"), table.replay()))


def test_it_costs_no_more_than_it_said(table: Table) -> None:
    for predicate, columns in ((None, None), ("p = '1'", None), ("x < 5", ["path", "stats"])):
        plan = table.plan(predicate, columns)
        most = plan.at_most
        before = len(table.requests)
        paths(plan, table.replay())
        read = [request for request in table.requests[before:] if request.path.endswith(".parquet")]
        assert most.row_groups is None or plan.counts.row_groups_read <= most.row_groups
        assert plan.counts.row_groups_read <= plan.counts.row_groups_total
        if plan.parts:
            assert {Path(request.path).name.split(".")[0] for request in read} <= set(plan.parts)
            assert sum(request.bytes for request in read) <= most.bytes


def test_begun_twice_is_begun_once(table: Table) -> None:
    plan = table.plan()
    plan.begin()
    plan.begin()
    assert sorted(paths(plan, table.replay())) == sorted(map(path_of, range(FILES)))


def test_closed_it_sends_for_nothing_more(table: Table) -> None:
    plan = table.plan()
    rows = plan.rows(table.replay())
    next(rows)
    rows.close()
    plan.close()
    sent = len(table.store.requests)
    plan.close()
    assert len(table.store.requests) == sent


def test_another_base_goes_on_without_those_that_are_out(table: Table) -> None:
    """Or it says that it cannot."""
    plan, replay = table.plan(), table.replay()
    rows = plan.rows(replay)
    out = next(rows).rows.column("path").to_pylist()
    rows.close()
    if plan.hide_rows_out(replay):
        rest = paths(table.plan(), replay)
        assert sorted(out + rest) == sorted(map(path_of, range(FILES)))
    fresh = table.plan()
    assert fresh.hide_rows_out(table.replay()), "nothing is out"


def test_broken_bytes_are_an_error_and_never_fewer_files(table: Table) -> None:
    for file in table.files_of_base:
        whole = file.read_bytes()
        file.write_bytes(whole[:-40] + bytes(40))
        shared_cache.clear()
        try:
            found = paths(table.plan(columns=["path", "stats"]), table.replay())
        except (CorruptTableError, CorruptIndexError):
            continue
        else:
            assert sorted(found) == sorted(map(path_of, range(FILES))), file.name
        finally:
            file.write_bytes(whole)
