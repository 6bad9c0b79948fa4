"""Prepare a batch: check it against its contract, convert its event time, and separate its bad rows. Nothing is
written here.

Text is parsed under the contract and typed rows are projected to it; both then go the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from delta_sidecar.errors import InputError, UnknownColumnError
from delta_sidecar.pipeline import parsing, projection
from delta_sidecar.pipeline.bad_rows import refuse
from delta_sidecar.pipeline.contract import (
    BAD_TIME,
    CORRUPT,
    LEFT,
    NOTES,
    ORIGIN,
    RAW,
    REASON,
    RESCUED,
    SCHEMA,
    TIME,
    TIME_PROBLEM,
    Contract,
    check_named_once,
    check_typed,
    find_type,
    hold,
    schema_of,
    unified,
    unify,
    untyped,
    with_field,
    without,
)
from delta_sidecar.pipeline.event_time import (
    EPOCHS,
    EVENT_TIME,
    EventTime,
    bucket_number,
    event_time,
    find_column,
    time_name,
    time_path,
    with_misfits,
    with_time,
)
from delta_sidecar.pipeline.failures import spark_failures
from delta_sidecar.pipeline.file_layout import SAMPLE_ROWS, count_buckets
from delta_sidecar.pipeline.kafka import is_kafka
from delta_sidecar.pipeline.parquet_rows import read_rows
from delta_sidecar.pipeline.sources import File, Lines, Rows, Source, decoded_sql, read_lines
from delta_sidecar.pipeline.survey import Survey, survey
from delta_sidecar.texts import counted
from delta_sidecar.values.bucket_columns import TIME_TYPES, Granularity, TimeType, literal, quoted
from delta_sidecar.values.column_names import folded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Files:
    """Files of a source that make a batch."""

    source: Source
    files: Sequence[File]


Input: TypeAlias = Files | Lines | Rows
"""What a batch is made of: files, lines from elsewhere (Kafka), or a frame."""


@dataclass(frozen=True, slots=True)
class Demands:
    """What is asked of every batch of an ingest."""

    time_column: str
    granularity: Granularity
    bucket_column: str
    schema: StructType | str | None = None
    merge: bool = False
    rescue: bool = False
    time_format: str | None = None
    count: bool = True
    """Count rows per bucket even if nothing else needs a pass over the rows."""
    allow_bad: bool = False
    """Whether bad rows may be put aside."""
    say: Callable[[str], None] = field(default=lambda message: None, repr=False)

    @property
    def time_name(self) -> str:
        """The column of the table that holds the time."""
        return time_name(self.time_column)

    @property
    def time_type(self) -> TimeType | None:
        """The type that the schema gives the time; None if it has none, or names another that the source's time has."""
        kind = None if self.schema is None else find_type(schema_of(self.schema), (self.time_name,))
        return next((each for each in TIME_TYPES if kind is not None and kind.simpleString() == each), None)


@dataclass(frozen=True, slots=True)
class Target:
    """The table as it is: its columns without the bucket, and the kind of its time."""

    schema: StructType
    time_type: TimeType | None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch that can be written."""

    frame: DataFrame
    time: EventTime
    merge: bool
    """Whether writing it adds columns to the table."""
    survey: Survey | None
    """None if the rows need not be scanned before writing."""
    bad: DataFrame | None = None
    """Its bad rows, where there are any: reason, origin and raw bytes of each."""
    first_rows: Callable[[], DataFrame] | None = None
    """Makes a frame of its first rows, where that is cheaper to run than a limit on the frame."""


def prepare(spark: SparkSession, given: Input, demands: Demands, target: Target | None) -> Prepared:
    """Check a batch against its contract; what the contract does not allow is an error that names it."""
    contract = _contract(demands, target)
    known = None if contract is None else contract.schema
    if isinstance(given, Files):
        if not given.files and contract is None:
            raise InputError(f"{given.source.uri} holds no file to infer a schema from; give --schema (schema=…)")
        if given.source.is_text:
            given = read_lines(spark, given.source, given.files, known)
        else:
            rows = read_rows(spark, given.source, given.files, known, time_path(demands.time_column))
            return _of_rows(rows, demands, target, contract)
    if isinstance(given, Lines):
        return _of_lines(spark, given, demands, target, contract)
    return _of_rows([given], demands, target, contract)


def _contract(demands: Demands, target: Target | None) -> Contract | None:
    """The contract that is known before the batch is looked at."""
    grown = False
    if target is not None and demands.rescue:
        _check_text(target.schema, RESCUED, "--rescue")
    if demands.schema is not None:
        schema = without(schema_of(demands.schema), demands.bucket_column)
        if target is not None:
            own = without(schema, demands.time_name)
            grown = hold(own, Contract(target.schema, demands.merge), SCHEMA).grown
            schema = _retyped(schema, target.schema, demands.merge)
    elif target is not None:
        schema = target.schema
    else:
        return None
    made = [*([RESCUED] if demands.rescue else []), *([EVENT_TIME] if demands.time_name == EVENT_TIME else [])]
    return Contract(without(schema, *made), demands.merge, demands.rescue, grown)


def _check_text(schema: StructType, name: str, option: str) -> None:
    """Refuse a column that an option writes text to, where it is of another type."""
    from pyspark.sql.types import StringType

    kind = find_type(schema, (name,))
    if kind is not None and not isinstance(kind, StringType):
        raise InputError(
            f"column {name} is {kind.simpleString()}, but {option} writes text to it; "
            f"rename the column, or leave {option} out"
        )


def _retyped(given: Any, known: Any, whole: bool) -> Any:
    """A type with the table's own types wherever the table has the field; if `whole`, with the table's other fields."""
    from pyspark.sql import types as t

    if isinstance(given, t.StructType) and isinstance(known, t.StructType):
        fields = []
        for part in given.fields:
            kind = find_type(known, (part.name,))
            retyped = part.dataType if kind is None else _retyped(part.dataType, kind, whole)
            fields.append(t.StructField(part.name, retyped))
        return t.StructType([*fields, *(without(known, *given.names).fields if whole else [])])
    if isinstance(given, t.ArrayType) and isinstance(known, t.ArrayType):
        return t.ArrayType(_retyped(given.elementType, known.elementType, whole))
    if isinstance(given, t.MapType) and isinstance(known, t.MapType):
        return t.MapType(known.keyType, _retyped(given.valueType, known.valueType, whole))
    return known


# Text.


def _of_lines(
    spark: SparkSession, lines: Lines, demands: Demands, target: Target | None, contract: Contract | None
) -> Prepared:
    names = _names_by_schema(lines, demands)
    if contract is None:
        schema = _inferred(lines, demands, names)
        own = unify([("the records", schema), (lines.label, _extras(lines))])
        contract = Contract(own, demands.merge, demands.rescue)
    else:
        contract = hold(without(_extras(lines), demands.time_name), contract, lines.label)
    if lines.source.is_permissive:
        contract = _with_corrupt(contract, target)
    rows = _Parsing(lines, demands, target, names)
    frame, time = rows.timed(contract)
    with spark_failures(f"{lines.label} cannot be read as {lines.source.format}"):
        demands.say("checking the records")
        seen = survey(frame, _number(time, demands))
    names_seen = [problem.name for problem in seen.problems]
    _check_extras(lines, names_seen)
    _check_no_rescued(names_seen, demands, lines.label)
    contract = contract.refuse_or_grow(lines.label, seen.problems)
    bad = _bad_lines(rows, contract) if seen.bad_rows else None
    if bad is not None and not demands.allow_bad:
        raise _refusal(spark, lines.source, lines.label, bad, seen.bad_rows)

    def output_frame(rows: _Parsing) -> DataFrame:
        rescued = _rescued_of_lines(lines, contract, seen)
        frame, _ = rows.timed(contract, writing=True, allow_bad=bool(seen.bad_records), rescue=rescued is not None)
        return _projected(_good(frame, time, seen), contract, time, target, rescued)

    prepared = _prepared(output_frame(rows), time, contract, target, seen, bad)

    def first_rows() -> DataFrame:
        # A limit after the parser ends Python workers in the middle of their work, and the next job starts new ones.
        first = replace(rows, lines=replace(lines, frame=lines.frame.limit(SAMPLE_ROWS)))
        return output_frame(first).select(*map(quoted, prepared.frame.columns))

    return replace(prepared, first_rows=first_rows)


@dataclass(frozen=True, slots=True)
class _Parsing:
    """Lines on their way to rows."""

    lines: Lines
    demands: Demands
    target: Target | None
    names: list[str] | None

    def timed(
        self,
        contract: Contract,
        *,
        writing: bool = False,
        allow_bad: bool = True,
        rescue: bool = True,
        keep_raw: bool = False,
    ) -> tuple[DataFrame, EventTime]:
        """The rows under a contract, with their time. While writing, a bad record or a value without a place is an
        error where they are not allowed: nobody would put it aside."""
        demands = self.demands
        order = parsing.order_of(self.lines, contract, self.names, demands.time_name, demands.bucket_column)
        order = replace(order, strict=writing, allow_bad=allow_bad, rescue=order.rescue and rescue, keep_raw=keep_raw)
        wanted = demands.time_type if self.target is None else self.target.time_type
        frame = parsing.parsed(self.lines, replace(order, rescue=True) if keep_raw else order)
        if keep_raw and self.lines.source.flag("multiLine") and self.lines.source.format == "csv":
            frame = _with_record(frame)
        if keep_raw:
            frame = frame.selectExpr("*", f"{self._time_problem_in(frame)} AS {TIME_PROBLEM}")
        return _timed(frame, demands, wanted, self.lines.label)

    def _time_problem_in(self, frame: DataFrame) -> str:
        """SQL: why the time of a row cannot be read, where it cannot."""
        demands = self.demands
        schema = without(_columns(frame), demands.bucket_column)
        time = event_time(schema, demands.time_column, self.lines.label, demands.time_format)
        return _time_problem(time, demands)


def _names_by_schema(lines: Lines, demands: Demands) -> list[str] | None:
    """The columns of CSV without a header: those of the schema that is given, in its order."""
    if lines.source.format != "csv" or lines.source.flag("header", True) or demands.schema is None:
        return None
    return [column.name for column in without(schema_of(demands.schema), *lines.extras).fields]


def _inferred(lines: Lines, demands: Demands, names: list[str] | None) -> StructType:
    demands.say("inferring the schema")
    with spark_failures(f"{lines.label} cannot be read as {lines.source.format}"):
        schema = without(parsing.inferred(lines, names), demands.bucket_column)
        if not schema.fields:
            raise _nothing_to_infer(lines, demands, names)
    _check_no_rescued(schema.names, demands, lines.label)
    _check_extras(lines, schema.names)
    return schema


def _nothing_to_infer(lines: Lines, demands: Demands, names: list[str] | None) -> InputError:
    """The error for lines of which none is a record; it names one that is bad."""
    from pyspark.sql.types import StructType as Struct

    order = replace(parsing.order_of(lines, Contract(Struct([])), names), rescue=True, keep_raw=True)
    bad = parsing.parsed(lines, order).where(f"{REASON} IS NOT NULL").select(REASON, ORIGIN, RAW)
    count = bad.count()
    if count and not demands.allow_bad:
        return _refusal(lines.frame.sparkSession, lines.source, lines.label, bad, count)
    only = f", only {counted(count, 'bad one')}" if count else ""
    return InputError(f"{lines.label} holds no record to infer a schema from{only}; give --schema (schema=…)")


def _check_no_rescued(names: Sequence[str], demands: Demands, label: str) -> None:
    if demands.rescue and RESCUED in map(folded, names):
        raise InputError(f"{label} has a column {RESCUED}, which --rescue writes; rename it")


def _extras(lines: Lines) -> StructType:
    from pyspark.sql.types import StructType as Struct

    return Struct([lines.frame.schema[name] for name in lines.extras])


def _check_extras(lines: Lines, names: Sequence[str]) -> None:
    extras = {folded(name) for name in lines.extras}
    if both := [name for name in names if folded(name) in extras]:
        way = (
            "give the message's column another name (--kafka-columns offset=NAME)"
            if is_kafka(lines.source.uri)
            else "pass --read-option directoryColumns=false to take the records'"
        )
        beside = "message" if is_kafka(lines.source.uri) else "names of their directories"
        raise InputError(f"{lines.label}: column {both[0]} is both in the records and in the {beside}; {way}")


def _with_corrupt(contract: Contract, target: Target | None) -> Contract:
    from pyspark.sql.types import StringType

    _check_text(contract.schema, CORRUPT, "mode=PERMISSIVE")
    if find_type(contract.schema, (CORRUPT,)) is not None:
        return contract
    if target is not None and not contract.merge:
        raise InputError(f"the table has no column {CORRUPT} for mode=PERMISSIVE; pass --merge-schema to add it")
    return replace(contract, schema=with_field(contract.schema, (CORRUPT,), StringType()), grown=True)


def _rescued_of_lines(lines: Lines, contract: Contract, seen: Survey) -> str | None:
    """SQL: what has no place in the contract, in the records and beside them; None if there is nothing."""
    if not contract.rescue:
        return None
    beside = projection.rescued(_extras(lines), contract.schema)
    if beside is None:
        return LEFT if any(not (problem.is_new and contract.merge) for problem in seen.problems) else None
    return (
        f"CASE WHEN ({beside}) IS NULL THEN {LEFT} WHEN {LEFT} IS NULL THEN {beside} "
        f"ELSE concat(left({LEFT}, length({LEFT}) - 1), ',', substr({beside}, 2)) END"
    )


def _bad_lines(rows: _Parsing, contract: Contract) -> DataFrame:
    """Reason, origin and text of the records that cannot be in the table."""
    frame, _ = rows.timed(contract, keep_raw=True)
    return frame.where(f"{REASON} IS NOT NULL OR {_is_bad_time(frame)}").selectExpr(
        f"coalesce({REASON}, {TIME_PROBLEM}) AS {REASON}", ORIGIN, RAW
    )


def _with_record(frame: DataFrame) -> DataFrame:
    """The frame with each row's own text where a file is one line: its columns, and what has no place in them."""
    record = _as_json(_columns(frame), f"{LEFT} AS {RESCUED}")
    others = [quoted(name) for name in frame.columns if name != RAW]
    return frame.selectExpr(*others, f"CASE WHEN {REASON} IS NULL THEN {record} ELSE {RAW} END AS {RAW}")


# Typed rows.


def _of_rows(groups: Sequence[Rows], demands: Demands, target: Target | None, contract: Contract | None) -> Prepared:
    for group in groups:
        check_named_once(_columns(group.frame), group.label)
    wanted = _wanted_time(groups, demands, target)
    timed = [_timed(_with_time_column(group, groups, demands), demands, wanted, group.label) for group in groups]
    whole = [without(_columns(frame), demands.bucket_column) for frame, _ in timed]
    schemas = [without(schema, demands.time_name) for schema in whole]
    for group, schema in zip(groups, schemas):
        _check_no_rescued(schema.names, demands, group.label)
    if contract is None:
        schema = unify(zip((group.label for group in groups), whole))
        contract = Contract(schema, demands.merge, demands.rescue)
    for group, schema in zip(groups, schemas):
        contract = hold(schema, contract, group.label)
    if untyped(contract.schema):
        for group, schema in zip(groups, schemas):
            check_typed(schema, group.label)
    time = timed[0][1]
    fitted = [
        _projected(
            frame, contract, time, target, projection.rescued(schema, contract.schema) if demands.rescue else None
        )
        for (frame, _), schema in zip(timed, schemas)
    ]
    frame = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), fitted)
    judged = [group for group in groups if REASON in group.frame.columns]
    may_be_bad = bool(judged) or any(t.may_be_bad for _, t in timed)
    seen = _counted_rows(frame, time, demands, groups[0].label, may_be_bad)
    bad = None
    if seen is not None and seen.bad_rows:
        pieces = [_bad_of_rows(group, t, demands) for group, (_, t) in zip(groups, timed) if t.may_be_bad]
        pieces += [group.frame.where(f"{REASON} IS NOT NULL").select(REASON, ORIGIN, RAW) for group in judged]
        bad = reduce(lambda a, b: a.unionByName(b), pieces)
        if not demands.allow_bad:
            raise _refusal(frame.sparkSession, None, groups[0].label, bad, seen.bad_rows)
    if seen is not None:
        frame = _good(frame, time, seen)
    return _prepared(frame, time, contract, target, seen, bad)


def _wanted_time(groups: Sequence[Rows], demands: Demands, target: Target | None) -> TimeType:
    """The kind of the table's time: that of the table, else without a zone only if all sources are."""
    asked = demands.time_type if target is None else target.time_type
    if asked is not None:
        return asked
    kinds = {_time_type(group, demands) for group in groups} - {""}
    return "timestamp_ntz" if kinds == {"timestamp_ntz"} else "timestamp"


def _time_type(group: Rows, demands: Demands) -> str:
    try:
        return event_time(group.frame.schema, demands.time_column, group.label, demands.time_format).time_type
    except UnknownColumnError:
        return ""


def _with_time_column(group: Rows, groups: Sequence[Rows], demands: Demands) -> DataFrame:
    """The frame. If it lacks the time column and another group has it, a null one is added."""
    if len(groups) == 1 or _time_type(group, demands):
        return group.frame
    if not any(_time_type(other, demands) for other in groups):
        return group.frame
    return group.frame.selectExpr("*", f"CAST(NULL AS TIMESTAMP) AS {quoted(demands.time_name)}")


def _counted_rows(frame: DataFrame, time: EventTime, demands: Demands, label: str, may_be_bad: bool) -> Survey | None:
    if not may_be_bad and not demands.count:
        return None
    with spark_failures(f"{label}: the rows could not be counted"):
        demands.say("counting rows")
        number = _number(time, demands)
        return survey(frame, number) if may_be_bad else Survey(count_buckets(frame, number))


def _bad_of_rows(group: Rows, time: EventTime, demands: Demands) -> DataFrame:
    """Reason, origin and text of rows whose time cannot be read: the row as the source has it, as JSON."""
    origin = f"{decoded_sql(ORIGIN) if group.has_origin else 'CAST(NULL AS STRING)'} AS {ORIGIN}"
    raw = _as_json(without(group.frame.schema, ORIGIN, REASON, RAW))
    reason = _time_problem(time, demands)
    return group.frame.where(time.is_bad).selectExpr(f"{reason} AS {REASON}", origin, f"{raw} AS {RAW}")


# Both.


def _timed(frame: DataFrame, demands: Demands, wanted: TimeType | None, label: str) -> tuple[DataFrame, EventTime]:
    """The frame with its time as a timestamp, and a flag on rows whose time is present but unreadable."""
    from pyspark.sql import functions as f

    schema = without(_columns(frame), demands.bucket_column)
    time = event_time(schema, demands.time_column, label, demands.time_format, wanted)
    if time.column == EVENT_TIME and LEFT in frame.columns:
        time = with_misfits(time, demands.time_column, demands.time_format, LEFT)
    if time.column == EVENT_TIME and find_type(frame.schema, (EVENT_TIME,)) is not None:
        raise InputError(f"{label} has a column {EVENT_TIME}, which the time of {demands.time_column} is copied to")
    if not time.may_be_bad:
        return with_time(frame, time), time
    marked = frame.withColumn(TIME, f.expr(time.sql)).withColumn(
        BAD_TIME, f.expr(f"({time.given}) IS NOT NULL AND {TIME} IS NULL")
    )
    return marked.withColumn(time.column, f.col(TIME)).drop(TIME), time


def _good(frame: DataFrame, time: EventTime, seen: Survey) -> DataFrame:
    """The rows that are written: less the bad ones, where the survey counted some. Where it counted none, one that is
    bad by now ends its task."""
    for count, is_bad, what in (
        (seen.bad_records, f"{REASON} IS NOT NULL" if REASON in frame.columns else "false", "a record"),
        (seen.bad_times, _is_bad_time(frame), f"the time {time.column}"),
    ):
        if is_bad != "false":
            frame = frame.where(f"NOT ({is_bad})") if count else _ending_at(frame, time, is_bad, what)
    return frame


def _ending_at(frame: DataFrame, time: EventTime, condition: str, what: str) -> DataFrame:
    """The frame, whose task ends at a row that was otherwise when the batch was checked."""
    from pyspark.sql import functions as f

    field = find_column(frame.schema, time.column, "the batch")
    message = literal(f"{what} was changed after the batch was checked, and would be lost; run it again")
    ending = f"CAST(raise_error({message}) AS {field.dataType.simpleString()})"
    return frame.withColumn(field.name, f.expr(f"CASE WHEN {condition} THEN {ending} ELSE {quoted(field.name)} END"))


def _is_bad_time(frame: DataFrame) -> str:
    return f"coalesce({BAD_TIME}, false)" if BAD_TIME in frame.columns else "false"


def _time_problem(time: EventTime, demands: Demands) -> str:
    """SQL: why a time cannot be read."""
    reason = literal(f"{demands.time_column} is not a time")
    if demands.time_format is not None:
        return reason
    asked = f"{demands.time_column} is a number; name its unit (--time-format {', '.join(EPOCHS)})"
    number = "'^[+-]?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)?$'"
    return f"CASE WHEN ({time.given}) RLIKE {number} THEN {literal(asked)} ELSE {reason} END"


def _number(time: EventTime, demands: Demands) -> str:
    return bucket_number(quoted(time.column), demands.granularity, time.time_type)


def _columns(frame: DataFrame) -> StructType:
    """The columns of a frame, without the notes beside them."""
    return without(frame.schema, *NOTES)


def _as_json(schema: StructType, *more: str) -> str:
    """SQL: a row of some columns, and of more that are given as SQL, as JSON bytes."""
    names = [quoted(field.name) for field in schema.fields]
    made = [projection.json_form(name, field.dataType) for name, field in zip(names, schema.fields)]
    fields = ", ".join([*(f"{sql} AS {name}" for sql, name in zip(made, names)), *more])
    return f"CAST({projection.json_text(f'struct({fields})')} AS BINARY)"


def _projected(
    frame: DataFrame, contract: Contract, time: EventTime, target: Target | None, rescued: str | None
) -> DataFrame:
    """The frame in the columns that are written, and the notes beside them."""
    wanted = _output_schema(contract, time, target)
    notes = [name for name in (BAD_TIME, REASON) if name in frame.columns]
    source = _columns(frame)
    if projection.is_as(source, wanted) and rescued is None and len(source.fields) + len(notes) == len(frame.columns):
        return frame
    more = [] if rescued is None else [f"{rescued} AS {RESCUED}"]
    return frame.selectExpr(*projection.columns(source, wanted), *more, *notes)


def _output_schema(contract: Contract, time: EventTime, target: Target | None) -> StructType:
    """The columns that are written: the contract's, each with all fields that the table has."""
    from pyspark.sql import types as t

    kind = t.TimestampType() if time.time_type == "timestamp" else t.TimestampNTZType()
    fields = []
    for part in without(contract.schema, time.column).fields:
        known = None if target is None else find_type(target.schema, (part.name,))
        fields.append(t.StructField(part.name, part.dataType if known is None else unified(known, part.dataType)))
    names = [folded(part.name) for part in contract.schema.fields]
    at = names.index(folded(time.column)) if folded(time.column) in names else len(fields)
    spelled = contract.schema.fields[at].name if at < len(names) else time.column
    fields.insert(at, t.StructField(spelled, kind))
    return t.StructType(fields)


def _prepared(
    frame: DataFrame,
    time: EventTime,
    contract: Contract,
    target: Target | None,
    seen: Survey | None,
    bad: DataFrame | None,
) -> Prepared:
    """The batch, without the notes that are of no use any more."""
    rescues = RESCUED in frame.columns and contract.rescue
    frame = frame.drop(*NOTES)
    new = rescues and (target is None or find_type(target.schema, (RESCUED,)) is None)
    with spark_failures("the batch cannot be read"):
        is_empty = new and not frame.where(f"{RESCUED} IS NOT NULL").limit(1).count()
    if is_empty:
        frame, new = _ending_at(frame, time, f"{RESCUED} IS NOT NULL", "a value").drop(RESCUED), False
    return Prepared(frame, time, contract.grown or new, seen, bad)


def _refusal(spark: SparkSession, source: Source | None, label: str, bad: DataFrame, count: int) -> InputError:
    first = bad.orderBy(ORIGIN, RAW).limit(1).collect()
    reason, origin, raw = (first[0][0], first[0][1], first[0][2]) if first else ("it cannot be read again", None, b"")
    return refuse(spark, source, label, count, origin or "", reason, bytes(raw or b""))
