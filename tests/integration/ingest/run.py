"""One case through the real ingest: its files are written, taken in batch by batch, and both readers' rows compared."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from delta_sidecar import DeltaTable
from delta_sidecar.errors import InputError
from delta_sidecar.pipeline.ingest_job import IngestSummary, ingest
from delta_sidecar.pipeline.streaming import await_end, ingest_stream
from tests.integration.ingest.cases import Batch, Case, lenient
from tests.integration.ingest.compare import bad_row_differences, row_differences
from tests.integration.ingest.model import (
    EPOCH,
    RESCUED,
    Done,
    File,
    Options,
    Refusal,
    State,
    TextFile,
    TypedFile,
    UnclearError,
    applied,
)  # fmt: skip
from tests.integration.ingest.types import (
    NTZ,
    TIMESTAMP,
    Map,
    Struct,
    Type,
    ddl_of_columns,
    differences,
    of_spark,
    settled,
    to_arrow,
    to_spark,
)  # fmt: skip
from tests.integration.spark.oracle import with_setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZONES = ["UTC", "America/Los_Angeles", "Asia/Kolkata"]
"""Zones of the session, which must not matter."""
FRUGAL = {"spark.sql.adaptive.enabled": "false"}
"""What makes jobs of ten rows cheap, and is no part of what a batch means."""
USUAL = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.codegen.wholeStage": "true",
}
"""As Spark has it by itself: every tenth case, for code that is generated may differ from code that is interpreted."""


class CaseError(AssertionError):
    """A case that went otherwise than the model says."""


@dataclass
class Run:
    """A case on its way: its places, and the state of the table by the model."""

    spark: SparkSession
    case: Case
    root: Path
    tally: Counter[str]
    state: State | None = None
    summaries: list[IngestSummary] = field(default_factory=list)

    @property
    def table(self) -> Path:
        return self.root / "table"

    @property
    def bad(self) -> Path:
        return self.root / "bad"


def check_case(spark: SparkSession, case: Case, root: Path, tally: Counter[str]) -> None:
    """Run the case; raise with all differences, its number and what it is made of."""
    settings = {"spark.sql.session.timeZone": ZONES[case.number % len(ZONES)]}
    settings["spark.sql.shuffle.partitions"] = str(1 + case.number % 2)
    settings |= USUAL if case.number % 10 == 5 else FRUGAL
    run = Run(spark, case, root, tally)
    try:
        with ExitStack() as stack:
            for name, value in settings.items():
                stack.enter_context(with_setting(spark, name, value))
            _check_batches(run)
    except UnclearError:
        tally["cases that ended where the guide is silent"] += 1
    except Exception as error:
        lines = str(error).splitlines() or [repr(error)]
        told = "\n".join([f"case {case.number}: {type(error).__name__}", *lines[:20], str(case)])
        raise CaseError(told) from (None if isinstance(error, CaseError) else error)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _check_batches(run: Run) -> None:
    case, tally = run.case, run.tally
    tally["cases"] += 1
    tally[f"cases of {case.batches[0].options.source_format}"] += 1
    tally["streams"] += case.stream
    if case.stream and case.number % 4 == 0 and case.batches[0].options.source_format != "delta":
        (run.root / "landing").mkdir(parents=True)
        _taken(run, case.batches[0], 0)
        if run.summaries and run.summaries[-1].rows:
            raise CaseError("an empty landing directory gave rows")
        run.summaries.clear()
    for place, batch in enumerate(case.batches):
        write_files(
            batch.files,
            _source(run, place) / ("" if not case.stream or _is_delta(batch) else f"drop {place}"),
            _is_delta(batch),
        )
        if not _check_batch(run, batch, place):
            return
    _check_repeat(run, batch, place)


def _is_passed_over(run: Run, file: File) -> bool:
    """Whether Spark does not show a file to a stream: an empty one, and only in Parquet is that no file."""
    return run.case.stream and isinstance(file, TypedFile) and file.broken == b""


def _is_delta(batch: Batch) -> bool:
    return batch.options.source_format == "delta"


def _source(run: Run, place: int) -> Path:
    return run.root / ("landing" if run.case.stream else f"landing {place}")


def _check_batch(run: Run, batch: Batch, place: int) -> bool:
    """Take one batch in, with all options that help if it is refused; whether the case goes on."""
    batch = replace(batch, files=tuple(file for file in batch.files if not _is_passed_over(run, file)))
    outcome = applied(run.state, batch.files, batch.options)
    before = _logs(run)
    try:
        summary = _taken(run, batch, place)
    except InputError as error:
        _check_refusal(run, outcome, str(error), before)
    else:
        if isinstance(outcome, Refusal):
            raise CaseError(f"batch {place} is taken, not refused for one of {outcome.reasons[:5]}")
        _check_taken(run, outcome, summary, place)
        return True
    run.tally["refusals"] += 1
    batch = replace(batch, options=lenient(batch.options))
    outcome = applied(run.state, batch.files, batch.options)
    if isinstance(outcome, Refusal):
        return False
    try:
        summary = _taken(run, batch, place)
    except InputError as error:
        raise CaseError(f"batch {place}, with all options: {error}") from None
    _check_taken(run, outcome, summary, place)
    return True


def _taken(run: Run, batch: Batch, place: int) -> IngestSummary | None:
    options = batch.options
    shared: dict[str, Any] = {
        "spark": run.spark,
        "bucket": options.bucket,
        "source_format": options.source_format if run.case.stream or run.case.number % 2 else None,
        "schema": _schema(run, options),
        "read_options": dict(options.read),
        "merge_schema": options.merge,
        "rescue": options.rescue,
        "bad_rows": str(run.bad) if options.bad_rows else None,
        "time_format": options.time_format,
        "index": "never",
    }
    source = _source(run, place)
    run.tally["ingests"] += 1
    if not run.case.stream:
        return ingest(source, run.table, options.time_column, app_id="loader", batch_id=place, **shared)
    run.summaries.clear()
    progress = run.root / "progress"
    query = ingest_stream(source, run.table, options.time_column, progress, on_batch=run.summaries.append, **shared)
    await_end(query)
    return run.summaries[-1] if run.summaries else None


def _schema(run: Run, options: Options) -> Any:
    """The schema as DDL, as Spark's JSON or as a StructType, by the number of the case."""
    if options.schema is None:
        return None
    told = to_spark(options.schema)
    form = run.case.number % 3
    return ddl_of_columns(options.schema) if form == 0 else json.dumps(told) if form == 1 else StructType.fromJson(told)


def _logs(run: Run) -> list[str]:
    """The commits of both tables."""
    return sorted(path.name for root in (run.table, run.bad) for path in (root / "_delta_log").glob("*.json"))


def _check_refusal(run: Run, outcome: Done | Refusal, message: str, before: list[str]) -> None:
    reasons = outcome.reasons if isinstance(outcome, Refusal) else outcome.may_refuse
    if not reasons:
        raise CaseError(f"refused: {message}")
    told = f"{message}\n{unquote(message)}".lower()  # places may be URIs, names spelled as in the contract
    if not any(all(word.lower() in told for word in reason) for reason in reasons):
        raise CaseError(f"refused, and none of {reasons[:5]} is named: {message}")
    if _logs(run) != before:
        raise CaseError(f"refused, but something was written: {_logs(run)}, not {before}: {message}")


def _check_taken(run: Run, done: Done, summary: IngestSummary | None, place: int) -> None:
    lines = list(_summary_differences(done, summary))
    state = done.state
    if state.rows:
        frame = run.spark.read.format("delta").load(str(run.table))
        real = of_spark(frame.schema.jsonValue())
        assert isinstance(real, Struct)
        bucket = run.case.batches[0].options.bucket_column
        rescued = real.find(RESCUED) is not None
        real = Struct(tuple(each for each in real if each[0] not in (RESCUED, bucket)))
        lines += [f"schema: {line}" for line in differences(state.columns, real)]
        if rescued != state.rescued and (state.rescued or not done.may_refuse):
            lines.append(f"{RESCUED} is {'there' if rescued else 'missing'}")
        state = replace(state, columns=settled(state.columns, real), rescued=rescued)
        ours = DeltaTable(str(run.table)).to_pyarrow_table().to_pylist()
        lines += [f"our reader: {line}" for line in row_differences(state, ours, run.case.key)]
        if place == len(run.case.batches) - 1:
            theirs = frame.toArrow().to_pylist()
            lines += [f"Spark: {line}" for line in row_differences(state, theirs, run.case.key)]
    elif (run.table / "_delta_log").exists() and DeltaTable(str(run.table)).to_pyarrow_table().num_rows:
        lines.append("rows came from nowhere")
    bad = DeltaTable(str(run.bad)).to_pyarrow_table().to_pylist() if (run.bad / "_delta_log").exists() else []
    lines += bad_row_differences(state, bad)
    if lines:
        raise CaseError(f"batch {place}: {len(lines)} differences\n" + "\n".join(lines))
    run.state = state
    run.tally["rows"] += done.rows
    run.tally["values"] += sum(len(row) for row in state.rows[-done.rows :]) if done.rows else 0
    run.tally["bad rows"] += done.bad_rows
    run.tally["rescued rows"] += sum(RESCUED in row for row in state.rows[len(state.rows) - done.rows :])


def _summary_differences(done: Done, summary: IngestSummary | None) -> Iterator[str]:
    if summary is None:
        if done.rows or done.bad_rows:
            yield f"the stream had no batch, {done.rows} rows and {done.bad_rows} bad rows were there"
        return
    for name in ("rows", "null_bucket_rows", "bad_rows"):
        if getattr(summary, name) != getattr(done, name):
            yield f"the summary's {name} is {getattr(summary, name)}, not {getattr(done, name)}"


def _check_repeat(run: Run, batch: Batch, place: int) -> None:
    """The last batch once more, under its number: nothing is added."""
    before = _logs(run)
    options = lenient(batch.options)
    summary = _taken(run, replace(batch, options=options), place)
    if _logs(run) != before:
        raise CaseError(f"the repeat wrote {sorted((Counter(_logs(run)) - Counter(before)).elements())}")
    if not run.case.stream and summary is not None and summary.rows:
        raise CaseError(f"the repeat counts {summary.rows} rows")
    run.tally["repeats"] += 1


# Files


def write_files(files: Sequence[File], root: Path, delta: bool) -> None:
    """The files below `root`; for Delta each is a commit of the table there."""
    root.mkdir(parents=True, exist_ok=True)
    for file in files:
        if delta:
            assert isinstance(file, TypedFile)
            deltalake.write_deltalake(root, arrow_table(file), mode="append", schema_mode="merge")
            continue
        path = root / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(file, TextFile):
            path.write_bytes(file.data)
        elif file.broken is not None:
            path.write_bytes(file.broken)
        else:
            pq.write_table(arrow_table(file), path)


def arrow_table(file: TypedFile) -> pa.Table:
    """The rows of a file with its types; of a file with nanoseconds, 789 of them on every time."""
    arrays, fields = [], []
    for name, kind in file.columns:
        values = [_arrow_value(row.get(name), kind) for row in file.rows]
        target = to_arrow(kind)
        array = pa.array(values, target)
        if name == "ts" and file.nanoseconds and kind in (TIMESTAMP, NTZ):
            with suppress(OverflowError):
                array, target = _nanoseconds(values, kind)
        arrays.append(array)
        fields.append(pa.field(name, target))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _nanoseconds(values: Sequence[dt.datetime | None], kind: Type) -> tuple[pa.Array, pa.DataType]:
    target = pa.timestamp("ns", "UTC" if kind == TIMESTAMP else None)
    counts = []
    for value in values:
        micros = None if value is None else (value.replace(tzinfo=dt.UTC) - EPOCH) // dt.timedelta(microseconds=1)
        counts.append(None if micros is None else micros * 1000 + (789 if micros > 0 else 0))
        if micros is not None and abs(micros) > 2**63 // 1000:
            raise OverflowError
    return pa.array(counts, pa.int64()).cast(target), target


def _arrow_value(value: Any, kind: Type) -> Any:
    match kind, value:
        case _, None:
            return None
        case Map(), Mapping():
            return list(value.items())
        case Struct(), Mapping():
            return {name: _arrow_value(value.get(name), part) for name, part in kind}
    if isinstance(value, list) and hasattr(kind, "element"):
        return [_arrow_value(each, kind.element) for each in value]
    return value
