"""Every record of a random landing is in the table, in the bad-row table, or stops the batch: value by value.

`make ingest-cases CASES=2000` tries many, `make test` the first few; one again:
`DELTA_SIDECAR_INGEST_FIRST_CASE=17 DELTA_SIDECAR_INGEST_CASES=1 python -m pytest -s tests/integration/ingest`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.ingest.cases import case
from tests.integration.ingest.run import CaseError, check_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = int(os.environ.get("DELTA_SIDECAR_INGEST_CASES", "2"))
FIRST = int(os.environ.get("DELTA_SIDECAR_INGEST_FIRST_CASE", "0"))
SHARD = 20
"""Cases of one test function."""


def _shards() -> Iterator[object]:
    """The first case of each function, which two workers share."""
    for turn, first in enumerate(range(FIRST, FIRST + CASES, SHARD)):
        yield pytest.param(first, marks=pytest.mark.xdist_group(("second-spark", "spark")[turn % 2]))


@pytest.mark.parametrize("first", list(_shards()))
def test_every_record_has_its_place(
    spark: SparkSession, tmp_path: Path, first: int, record_property: Callable[[str, object], None]
) -> None:
    failures = []
    tried: Counter[str] = Counter()
    for number in range(first, min(first + SHARD, FIRST + CASES)):
        try:
            check_case(spark, case(number), tmp_path / str(number), tried)
        except CaseError as error:
            failures.append(str(error))
    record_property("tried", dict(tried))
    if failures:
        pytest.fail(f"{len(failures)} cases failed\n\n" + "\n\n".join(failures), pytrace=False)
