"""Random logs, indexes and predicates: the same files as Python's reader lists, newest first; and damaged indexes."""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from delta_sidecar import DeltaTable
from delta_sidecar.errors import DeltaSidecarError, PredicateError
from delta_sidecar.storage.cache import shared_cache
from tests.native import library
from tests.native.library import BAD_PREDICATE, CORRUPT, NO_INDEX, OK, tried
from tests.properties.indexed import Build, build_indexed, builds
from tests.properties.predicates import Predicate, predicates
from tests.properties.scenarios import LITERALS, PARTITION_VALUES, BuiltLog, Scenario, scenarios
from tests.properties.settings import random_cases, shards

pytestmark = library.needed()

MEMORY = Path("/dev/shm")
COLUMNS = ("path", "size", "modification_time", "partition_values", "deletion_vector", "num_records")
LIMIT = 3
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Damage:
    """What befalls a file of an index."""

    which: int
    what: str
    where: float
    bit: int

    @contextmanager
    def done(self, file: Path) -> Iterator[str]:
        """The file is damaged within the block, and whole again after it."""
        whole = file.read_bytes()
        data, at = bytearray(whole), min(int(self.where * len(whole)), len(whole) - 1)
        match self.what:
            case "flip":
                data[at] ^= 1 << self.bit
            case "cut":
                del data[at:]
            case "grow":
                data += b"\0"
        if self.what == "delete":
            file.unlink()
        else:
            file.write_bytes(data)
        try:
            yield f"{file.name}: {self.what} at {at}"
        finally:
            file.write_bytes(whole)


damages = st.builds(
    Damage,
    which=st.integers(0, 1000),
    what=st.sampled_from(["flip", "flip", "flip", "cut", "delete", "grow"]),
    where=st.floats(0, 1),
    bit=st.integers(0, 7),
)
wanted_predicates = st.lists(predicates({**PARTITION_VALUES, **LITERALS}), min_size=3, max_size=6)


@pytest.fixture(scope="module", autouse=True)
def garbage_is_looked_for_less_often() -> Iterator[None]:
    """Not again and again in the libraries that are loaded: that is a fifth of the time."""
    often = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    yield
    gc.set_threshold(*often)
    gc.unfreeze()


def row_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """A file of either reader, in one form."""
    vector = row["deletion_vector"]
    kept = vector and tuple(sorted((k, v) for k, v in vector.items() if v is not None))
    texts = tuple(sorted(dict(row["partition_values"]).items()))
    return row["path"], row["size"], row["modification_time"], texts, kept, row["num_records"]


class Python:
    """What Python's reader lists of a table as it is now. A table is opened once for each way to read it, and listed
    once for each predicate: most of the time of a case goes there."""

    def __init__(self, root: Path) -> None:
        shared_cache.clear()
        self._root = root
        self._tables: dict[bool, DeltaTable | None] = {}
        self._listed: dict[tuple[str | None, bool], Rows | None] = {}
        self._by_index: set[str | None] = set()

    def rows(self, predicate: str | None, index: bool = True) -> Rows | None:
        """Through an index or by the log alone; None if it cannot read the log."""
        if (predicate, index) not in self._listed:
            self._listed[predicate, index] = self._rows(predicate, index)
        return self._listed[predicate, index]

    def goes_by_the_index(self, predicate: str | None) -> bool:
        """Whether an index served. Where the commits after it are larger than a checkpoint, that does."""
        self.rows(predicate)
        return predicate in self._by_index

    def _rows(self, predicate: str | None, index: bool) -> Rows | None:
        try:
            if index not in self._tables:
                self._tables[index] = None
                self._tables[index] = DeltaTable(self._root, options={} if index else {"delta.sidecar.enabled": False})
            table = self._tables[index]
            if table is None:
                return None
            with table.scan_files(predicate, list(COLUMNS)) as scan:
                rows = [row_of(row) for row in scan.read_all().to_pylist()]
            if scan.metrics.tier == "index":
                self._by_index.add(predicate)
            return rows
        except PredicateError:
            raise
        except DeltaSidecarError:
            return None


def listed(root: Path, **request: Any) -> tuple[int, Rows]:
    """What the native reader answers, and the files it gave."""
    code, found = library.answered(root, **request)
    return code, [row_of(row) for row in found]


def in_both(root: Path, python: Python, predicate: str | None, stats_dropped: bool, threads: int) -> None:
    """Compare the readers: through an index if the native reader can use it, else by the log. Where a checkpoint has no
    statistics, what is known of a file depends on the base, and each reader may choose its own."""
    expected = python.rows(predicate)
    request = {} if predicate is None else {"predicate": predicate}
    code, with_log = listed(root, **request, fallback="log", threads=threads)
    if code == BAD_PREDICATE:
        assert any(word in str(predicate) for word in ("INTERVAL", "date", "DATE", "now()")), library.last_error()
        tried["predicates it refuses"] += 1
        return
    if code != OK:
        assert expected is None, f"{library.last_error()} where Python lists {expected}"
        tried["broken logs"] += 1
        return
    assert expected is not None, f"Python cannot read this log, and the native reader lists {with_log}"
    tried["cases"] += 1
    assert len(set(with_log)) == len(with_log)
    if stats_dropped:
        agrees(with_log, python, predicate, stats_dropped)
        assert files(with_log) <= files(python.rows(None) or [])
        return
    assert set(with_log) <= set(python.rows(None) or ())
    code, found = listed(root, **request, threads=1)
    if code != OK:
        assert code in (NO_INDEX, CORRUPT), library.last_error()
        assert Counter(with_log) == Counter(python.rows(predicate, index=False) or ()), predicate
        return
    assert found == with_log
    if python.goes_by_the_index(predicate):
        tried["by an index"] += 1
        assert Counter(found) == Counter(expected), f"{predicate}: {set(found) ^ set(expected)}"
    else:
        tried["by an index where Python goes by the log"] += 1
        agrees(found, python, predicate, stats_dropped)
    _, some = listed(root, **request, limit=LIMIT, threads=threads)
    assert len(some) == min(LIMIT, len(found))
    assert set(some) <= set(found)


def index_files(built: BuiltLog) -> list[Path]:
    """The files of indexes, without hints: manifests and parts."""
    directories = (built.builder.log / name for name in ("_sidecars", "_sidecar_index"))
    return sorted(p for d in directories if d.is_dir() for p in d.iterdir() if p.name.startswith("v"))


def in_spite_of_damage(root: Path, python: Python, asked: Sequence[str | None], built: BuiltLog, threads: int) -> None:
    """A damaged index never gives a wrong list. What Python lists was asked for before the damage."""
    everything = python.rows(None)
    for predicate in asked:
        request = {} if predicate is None else {"predicate": predicate}
        for fallback in ("none", "log"):
            code, rows = listed(root, **request, fallback=fallback, threads=threads)
            assert len(set(rows)) == len(rows)
            if code != OK:
                allowed = (NO_INDEX, CORRUPT, BAD_PREDICATE) if fallback == "none" else (BAD_PREDICATE,)
                rebuilds = python.rows(predicate) is not None and built.can_rebuild(built.head)
                assert code in allowed or not rebuilds, library.last_error()
                continue
            tried["with a damaged index"] += 1
            agrees(rows, python, predicate, built.stats_dropped)
            assert everything is None or files(rows) <= files(everything)


@pytest.mark.parametrize("shard", shards(40))
@random_cases(40)
@given(
    scenario=scenarios,
    wanted=st.lists(builds, max_size=3),
    asked=wanted_predicates,
    threads=st.integers(1, 4),
    damages=st.lists(damages, min_size=1, max_size=3),
)
def test_the_same_files_as_python(
    shard: int,
    scenario: Scenario,
    wanted: list[Build],
    asked: Sequence[Predicate],
    threads: int,
    damages: Sequence[Damage],
) -> None:
    """With the index as it was built, and then with one of its files damaged, in some ways, each by itself. Both are
    tried on one log, for to make it and to list it by Python takes most of the time."""
    root = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    try:
        built, _ = build_indexed(scenario, root, wanted, lambda built: None)
        note(f"log: {sorted(str(p.relative_to(built.builder.log)) for p in built.builder.log.rglob('*'))}")
        python, predicates = Python(root), [None, *map(str, asked)]
        for predicate in predicates:
            in_both(root, python, predicate, built.stats_dropped, threads)
        found = index_files(built)
        for damage in damages if found else ():
            with damage.done(found[damage.which % len(found)]) as what:
                note(what)
                in_spite_of_damage(root, python, predicates, built, threads)
    finally:
        shutil.rmtree(root)


def files(rows: Rows) -> set[tuple[Any, ...]]:
    """Rows without what statistics tell."""
    return {row[:-1] for row in rows}


def agrees(rows: Rows, python: Python, predicate: str | None, stats_dropped: bool) -> None:
    """A base may know less than another: an index without the null counts of its time column at hand, a checkpoint
    without statistics. So a file that either of Python's listings leaves out may be left out; and if
    statistics were dropped, the native reader may know more by another base than both."""
    expected = python.rows(predicate)
    if expected is None or Counter(rows) == Counter(expected):
        return
    by_log = python.rows(predicate, index=False)
    if by_log is None:
        return
    if not (stats_dropped and predicate is not None):
        assert files(expected) & files(by_log) <= files(rows)
    if not stats_dropped:
        assert {row for row in rows if row[:-1] in files(expected) | files(by_log)} <= {*expected, *by_log}
