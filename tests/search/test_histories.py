"""Random histories against a dumb model: in memory and on disk, with stores that fail and writers that give up."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from delta_sidecar import StoreUnavailableError
from delta_sidecar.search import (
    SearchTable,
    append,
    checkpoint,
    clean_log,
    create_table,
    overwrite,
    purge,
    replace,
    skip,
    upgrade_protocol,
)
from delta_sidecar.storage import RetryingStore, RetryPolicy, Store, StoreSettings, open_store
from delta_sidecar.testing.stores import Faults, FaultyStore
from tests.properties.settings import examples
from tests.search.made import FAR, SCHEMA, splits

STEPS = 14
OFTEN = {"checkpoint.interval": 3}
KINDS = ("append", "append", "append", "overwrite", "merge", "skip", "checkpoint", "clean", "purge", "up")
Call = tuple[Callable[[], object], frozenset[str] | None, str | None]


@dataclass
class Model:
    """What the table must be, version by version."""

    versions: list[frozenset[str]] = field(default_factory=lambda: [frozenset()])
    skips: dict[str, int] = field(default_factory=dict)
    names: int = 0

    @property
    def live(self) -> frozenset[str]:
        return self.versions[-1]

    def fresh(self, count: int) -> list[str]:
        self.names += count
        return [f"d={number % 3}/{number}.split" for number in range(self.names - count, self.names)]


def operation(model: Model, drawn: random.Random, store: Store, plain: Store) -> Call:
    """A random call, the live splits if it commits (None if it never does), and the split that it skips."""
    live = sorted(model.live)
    kind = drawn.choice(
        ["append", "append", "append", "overwrite", "merge", "skip", "checkpoint", "clean", "purge", "up"]
    )
    if kind in ("merge", "skip") and not live:
        kind = "append"
    if kind in ("append", "overwrite", "merge"):
        new = model.fresh(drawn.randint(1, 3))
        for path in new:
            plain.put_if_absent(path, b"split")
        made = splits(*new, numRecords=drawn.randint(0, 3))
        if kind == "append":
            return lambda: append(store, made, options=OFTEN), model.live | set(new), None
        if kind == "overwrite":
            return lambda: overwrite(store, made, options=OFTEN), frozenset(new), None
        old = drawn.sample(live, drawn.randint(1, len(live)))
        return lambda: replace(store, old, made, options=OFTEN), (model.live - set(old)) | set(new), None
    if kind == "skip":
        path = drawn.choice(live)
        return lambda: skip(store, path, "broken", options=OFTEN), model.live, path
    if kind == "up":
        return lambda: upgrade_protocol(store, features=["parquetCheckpoint"]), model.live, None
    if kind == "checkpoint":
        return lambda: checkpoint(store, large=drawn.randint(1, 3)), None, None
    retention = {"logRetention.duration": 0, "checkpointRetention.duration": 0}
    if kind == "clean":
        return lambda: clean_log(store, options=retention, now_ms=FAR), None, None
    return lambda: purge(store, retention=timedelta(0), now_ms=FAR), None, None


def check(model: Model, plain: Store) -> None:
    """All that can still be opened is right, and all that is live is there."""
    table = SearchTable(plain)
    assert table.version == len(model.versions) - 1
    kept = table.versions()
    assert kept[-1] == table.version
    assert kept[0] == 0
    for version in kept[-4:]:
        opened = SearchTable(plain, version)
        assert frozenset(split.path for split in opened.splits()) == model.versions[version], version
    counts = {found.path: found.skipCount for found in table.skips()}
    assert counts == {path: count for path, count in model.skips.items() if path in model.live}
    for split in table.splits():
        plain.head(table.split_path(split))


def run(plain: Store, store: Store, seed: int, may_fail: bool) -> int:
    """One history; gives the number of calls that failed."""
    drawn, model, failed = random.Random(seed), Model(), 0
    create_table(plain, SCHEMA)
    for _ in range(STEPS):
        call, after, skipped = operation(model, drawn, store, plain)
        try:
            call()
        except StoreUnavailableError:
            assert may_fail
            failed += 1
        grown = SearchTable(plain).version - (len(model.versions) - 1)
        assert grown in (0, 1)
        if grown:
            assert after is not None
            model.versions.append(after)
            model.skips = {path: count for path, count in model.skips.items() if path in after}
            if skipped is not None:
                model.skips[skipped] = model.skips.get(skipped, 0) + 1
        check(model, plain)
    return failed


def place(kind: str, tmp_path: Path) -> Store:
    return open_store(f"memory://{uuid.uuid4().hex}/t" if kind == "memory" else str(tmp_path / uuid.uuid4().hex))


CASES = range(examples(12))


@pytest.mark.parametrize("kind", ["memory", pytest.param("local", marks=pytest.mark.slow)])
def test_histories(kind: str, tmp_path: Path) -> None:
    for seed in CASES:
        plain = place(kind, tmp_path)
        assert run(plain, plain, seed, may_fail=False) == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", pytest.param("local", marks=pytest.mark.slow)])
def test_histories_on_a_store_that_fails_and_is_asked_again(kind: str, tmp_path: Path) -> None:
    """With the retries of real stores nothing shows, though puts succeed without an answer."""
    for seed in CASES:
        plain = place(kind, tmp_path)
        faulty = FaultyStore(plain, seed, Faults(unavailable=0.1, reset=0.15, truncated=0.05, most_in_a_row=3))
        settings = StoreSettings(retry=RetryPolicy(max_retries=4))
        assert run(plain, RetryingStore(faulty, settings, sleep=lambda seconds: None), seed, may_fail=False) == 0
        assert sum(faulty.failures.values()) > 0


@pytest.mark.slow
def test_histories_of_writers_that_give_up(tmp_path: Path) -> None:
    """Without retries calls fail at any request. Each either committed or did not: nothing in between, no gap."""
    failed = 0
    for seed in CASES:
        plain = place("local", tmp_path)
        failed += run(plain, FaultyStore(plain, seed, Faults(unavailable=0.02, reset=0.06)), seed, may_fail=True)
    assert failed > 0
