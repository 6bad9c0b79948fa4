"""Which row goes to which file, planned purely."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar.pipeline.file_layout import BatchLayout, files_of, needs_estimate, plan_layout

COUNTS = st.dictionaries(st.none() | st.integers(-(10**6), 10**6), st.integers(1, 10**7), min_size=1, max_size=60)
"""Rows by bucket. With rows of up to 5,000 bytes a bucket is up to 500 files of 100 MB."""


@given(COUNTS, st.floats(0, 5_000), st.integers(10**8, 10**9), st.integers(1, 300))
def test_no_two_files_of_a_bucket_meet_in_a_task(
    counts: dict[int | None, int], width: float, target: int, parallelism: int
) -> None:
    layout = plan_layout(counts, width, target, parallelism)
    assert layout.tasks >= 1
    for key, files in layout.split.items():
        tasks = {((key or 0) + file) % layout.tasks for file in range(files)}
        assert len(tasks) == files > 1
        assert counts[key] * width > target


@given(st.floats(0, 10**12), st.integers(10**3, 10**9))
def test_files_are_of_the_target_or_little_above(size: float, target: int) -> None:
    files = files_of(size, target)
    assert size / files <= target * 1.16
    assert files == 1 or size / (files - 1) > target


def test_a_bucket_below_the_target_is_one_file() -> None:
    assert plan_layout({1: 1000, 2: 900}, 1.0, 1000, 8).split == {}
    assert files_of(1.1, 1) == 1
    assert files_of(1.2, 1) == 2


def test_hours_in_a_row_are_dealt_evenly() -> None:
    layout = plan_layout(dict.fromkeys(range(491_000, 491_048), 200_000), 20, 128_000_000, 200)
    assert layout == BatchLayout(48, {})
    every_other = plan_layout(dict.fromkeys(range(0, 96, 2), 200_000), 20, 128_000_000, 24)
    assert every_other.tasks % 2 == 1, "an even number would leave half of the tasks without work"


def test_sql_of_a_layout() -> None:
    assert BatchLayout(4).partition_sql("n", ["a"]) == "CAST(pmod(coalesce(n, 0), 4) AS INT)"
    split = BatchLayout(5, {7: 2, 9: 2, None: 3}).partition_sql("n", ["a", "b c"])
    row = "xxhash64(`a`, `b c`)"
    assert split == (
        f"CAST(pmod(coalesce(n, 0) + CASE WHEN n IN (7, 9) THEN pmod({row}, 2) "
        f"WHEN n IS NULL THEN pmod({row}, 3) ELSE 0 END, 5) AS INT)"
    )


@pytest.mark.parametrize(("rows", "needed"), [(0, False), (7_000, False), (10_000, True)])
def test_few_rows_need_no_estimate(rows: int, needed: bool) -> None:
    assert needs_estimate({1: rows} if rows else {}, 128_000_000) == needed
