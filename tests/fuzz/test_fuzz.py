"""Random bytes of an index changed, cut or lost: the right files or the next tier, no crash, no hang, no wrong list.

`make fuzz CASES=10000` tries many; `make test` the first few. A case is its number: `check_case(tables, number)`.
"""

from __future__ import annotations

import faulthandler
import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.limits import PartLimits, ReaderLimits
from delta_sidecar.storage.cache import shared_cache
from tests.fuzz.damage import damaged
from tests.fuzz.tables import QUERIES, STRATEGIES, Made, check_limit, check_query, make_table
from tests.properties.settings import share

CASES = int(os.environ.get("DELTA_SIDECAR_CASES", share(80)))
FIRST = int(os.environ.get("DELTA_SIDECAR_FIRST_CASE", "0"))
SHARD = 500
"""Cases of one test function: more of them are split, so that workers share them."""
HANG_S = 300
"""A shard's case that takes so long hangs; the process ends and shows where."""
tried: Counter[str] = Counter()


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Made]:
    """With and without deletion vectors, a checkpoint, parts in one file."""
    return [
        make_table(tmp_path_factory.mktemp("t"), vectors=vectors, checkpoint=checkpoint, single=single)
        for vectors, checkpoint, single in product([False, True], [None, 2], [False, True])
    ]


@pytest.fixture(scope="module", autouse=True)
def report() -> Iterator[None]:
    """Say how much was tried; damage that every scan noticed, or none did, was not random."""
    yield
    print("\nfuzz:", ", ".join(f"{count} {what}" for what, count in sorted(tried.items())))
    assert tried["tier index"]
    assert tried["tier checkpoint"] + tried["tier log"]


@pytest.mark.parametrize("shard", range(-(-CASES // SHARD)))
def test_random_damage(tables: Sequence[Made], shard: int) -> None:
    for number in range(shard * SHARD, min(CASES, (shard + 1) * SHARD)):
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        try:
            check_case(tables, FIRST + number)
        finally:
            faulthandler.cancel_dump_traceback_later()


def check_case(tables: Sequence[Made], number: int) -> None:
    """One table, one damage; all files, and those of a predicate on each kind of column."""
    drawn = random.Random(number)
    made = drawn.choice(tables)
    tried["cases"] += 1
    with damaged(made, drawn) as told:
        parts = PartLimits(whole_stats=0, whole_core=0) if drawn.random() < 0.7 else PartLimits()
        parts = replace(parts, few_rows=-1, helpers=1) if drawn.random() < 0.3 else parts
        try:
            _check_listings(made, drawn, ReaderLimits(parts=parts))
        except BaseException as error:
            error.add_note(f"case {number}: {'; '.join(told)}")
            raise


def _check_listings(made: Made, drawn: random.Random, limits: ReaderLimits) -> None:
    shared_cache.clear()
    live = made.live()
    table = DeltaTable(str(made.root), limits=limits)
    for query in QUERIES:
        strategy = drawn.choice(STRATEGIES)
        metrics = check_query(made, table, query, live, strategy)
        tried[f"tier {metrics.tier}"] += 1
        tried["fallbacks"] += metrics.fallback_reason is not None
        if drawn.random() < 0.2:
            check_limit(made, table, query, live, strategy, drawn.randint(1, 12))
