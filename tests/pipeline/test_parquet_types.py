"""Parquet files that cannot be ingested, by what their footers say: the error names the file and the column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from delta_sidecar.errors import InputError
from delta_sidecar.pipeline.sources import File, Source, read_rows

NO_SPARK: Any = None
"""The files are refused before Spark is asked."""


def refused(file: Path, message: str) -> None:
    source = Source(str(file.parent), "parquet")
    with pytest.raises(InputError, match=message):
        read_rows(NO_SPARK, source, [File(f"file:{file}", file.stat().st_size)])


@pytest.mark.parametrize("kind", ["Int128", "UInt128"])
def test_integers_of_128_bits_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    import polars as pl

    file = tmp_path / "a.parquet"
    pl.DataFrame(
        {"id": [1], "s": [{"c": 1}]}, schema_overrides={"s": pl.Struct({"c": getattr(pl, kind)})}
    ).write_parquet(file)
    refused(
        file, r"a\.parquet has a type that cannot be read, in s\.c: Integers with more than 64 bits .* as a decimal"
    )
