"""One pass over a batch before it is written: rows per bucket, new fields, records and times that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta_sidecar.pipeline.contract import BAD_TIME, PROBLEMS, REASON
from delta_sidecar.pipeline.file_layout import Counted
from delta_sidecar.pipeline.parsing import decode_problems
from delta_sidecar.pipeline.records.terms import Problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Survey:
    """What a batch holds."""

    counted: Counted
    """Rows that can be written."""
    bad_records: int = 0
    bad_times: int = 0
    problems: tuple[Problem, ...] = ()

    @property
    def bad_rows(self) -> int:
        return self.bad_records + self.bad_times


def survey(frame: DataFrame, number: str) -> Survey:
    """Look at every row once. `number` is SQL that counts buckets; only what it needs is read of a columnar source."""
    from pyspark.sql import functions as f

    def column(name: str, kind: str) -> str:
        return name if name in frame.columns else f"CAST(NULL AS {kind})"

    rows = frame.selectExpr(
        f"{number} AS bucket",
        "spark_partition_id() AS place",
        f"{column(REASON, 'STRING')} IS NOT NULL AS bad_record",
        f"coalesce({column(BAD_TIME, 'BOOLEAN')}, false) AS bad_time",
        f"{column(PROBLEMS, 'STRING')} AS problems",
    )
    groups = (
        rows.groupBy("bucket", "bad_record", "bad_time")
        .agg(f.count(f.lit(1)), f.min("place"), f.max("place"), f.collect_list("problems"))
        .toArrow()
        .to_pylist()
    )
    good: dict[int | None, int] = {}
    gathered, bad_records, bad_times = True, 0, 0
    problems: list[Problem] = []
    for bucket, bad_record, bad_time, count, first, last, texts in (tuple(row.values()) for row in groups):
        problems.extend(problem for text in texts for problem in decode_problems(text))
        if bad_record:
            bad_records += count
        elif bad_time:
            bad_times += count
        else:
            good[bucket] = count
            gathered = gathered and first == last
    return Survey(Counted(good, gathered), bad_records, bad_times, tuple(problems))
