"""Parquet files as typed rows: the files of each schema by themselves.

Types that Spark cannot read are refused by name. Nanoseconds become microseconds, and no digit is lost in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar.errors import InputError
from delta_sidecar.pipeline.contract import ORIGIN, check_columns_once, check_reserved, spark_type
from delta_sidecar.pipeline.failures import spark_failures
from delta_sidecar.pipeline.int96_digits import Int96File, first_cut, int96_columns
from delta_sidecar.pipeline.records.conversion import parts_of
from delta_sidecar.pipeline.sources import (
    AS_THEY_ARE,
    DIRECTORY_COLUMNS,
    NANOSECONDS,
    DirectoryColumn,
    File,
    Rows,
    Source,
    directory_columns,
    root_in_paths,
)
from delta_sidecar.storage import open_location, parse_location
from delta_sidecar.storage.store import Store
from delta_sidecar.values.bucket_columns import literal, quoted
from delta_sidecar.values.column_names import folded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_FOOTER: Final = 64 << 10
_THREADS: Final = 16
_ARROW_KEY: Final = b"ARROW:schema"
"""What writers on Arrow keep their own schema under in a footer."""
_WIDE_BYTES: Final = 16
_MOST_DIGITS: Final = 38
_INSTEAD: Final = {"FLOAT16": "a float", "UUID": "text", "TIME": "text or a number", "INTERVAL": "text or a number"}
"""Types of Parquet that Spark cannot read, and what it can read instead."""
_METADATA: Final = "_metadata"
"""What Spark gives with each row of a file; a column of that name in the file hides it."""


def read_rows(
    spark: SparkSession,
    source: Source,
    files: Sequence[File],
    known: StructType | None = None,
    time: Sequence[str] = (),
) -> list[Rows]:
    """The rows of Parquet files, those of each schema by themselves. `time` is the path of the time column, whose
    nanoseconds may be cut."""
    columns = directory_columns(source, files, known)
    groups: dict[pa.Schema, list[str]] = {}
    fine: list[Int96File] = []
    for file, (schema, int96) in zip(files, _footers(source, files)):
        groups.setdefault(schema, []).append(file.path)
        if others := tuple(column for column in int96 if folded(column) != folded(".".join(time))):
            fine.append(Int96File(file.path, file.size, others))
    if not source.option(NANOSECONDS):
        _check_int96(spark, source, fine)
    rows = []
    for schema, paths in groups.items():
        check_reserved(schema.names, paths[0], _METADATA)
        check_columns_once(schema.names, paths[0])
        _check_directories(columns, schema, paths[0])
        with spark_failures(f"{source.uri} cannot be read as parquet"):
            frame = _parquet(spark, source, schema, paths, columns, tuple(map(folded, time)))
            rows.append(Rows(frame, paths[0], has_origin=True))
    return rows


def _check_int96(spark: SparkSession, source: Source, files: Sequence[Int96File]) -> None:
    with spark_failures(f"{source.uri} cannot be read as parquet"):
        cut = first_cut(spark, files, source.storage_options)
    if cut is not None:
        raise InputError(
            f"{cut[0]}: {cut[1]} has digits beyond microseconds, which a table cannot hold; "
            "pass --read-option nanoseconds=cut to cut them"
        )


def _check_directories(columns: Sequence[DirectoryColumn], schema: pa.Schema, path: str) -> None:
    names = set(map(folded, schema.names))
    if both := [column.name for column in columns if folded(column.name) in names]:
        raise InputError(
            f"column {both[0]} is both in {path} and in the name of its directory; "
            "pass --read-option directoryColumns=false to take the file's"
        )


def _footers(source: Source, files: Sequence[File]) -> Iterator[tuple[pa.Schema, tuple[str, ...]]]:
    """The schema of each file, without what its writer noted beside it; its columns of INT96 that may lose digits."""
    stores: dict[Any, Store] = {}

    def read(file: File) -> tuple[pa.Schema, tuple[str, ...]]:
        location = parse_location(file.path)
        root = location.container_root
        store = stores.setdefault(root, open_location(root, source.storage_options))
        return _footer(store, location.path.lstrip("/"), file)

    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(read, files)


def _footer(store: Store, path: str, file: File) -> tuple[pa.Schema, tuple[str, ...]]:
    size, end = min(file.size, _FOOTER), b""
    try:
        if size:
            end = bytes(store.get_range(path, file.size - size, size))
        needed = int.from_bytes(end[-8:-4], "little") + 8
        if size < needed <= file.size:
            end = bytes(store.get_range(path, file.size - needed, needed))
        footer = pq.read_metadata(pa.BufferReader(end))
        stored, schema = footer.schema, footer.schema.to_arrow_schema()
    except pa.ArrowNotImplementedError as error:
        raise _not_in_arrow(file, end, error) from None
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{file.path} is not a Parquet file: {str(error).partition(chr(10))[0][:200]}") from None
    leaves = [stored.column(at) for at in range(len(stored.names))]
    _check_leaves(file, leaves)
    physical = (leaf.physical_type for leaf in leaves)
    columns = [pa.field(column.name, _as_spark_reads(column.type, physical), True) for column in schema]
    return pa.schema(columns), int96_columns(footer)


def _check_leaves(file: File, leaves: Iterable[Any]) -> None:
    """Refuse types of Parquet that Spark cannot read: its own error names neither the file nor the column."""
    for leaf in leaves:
        # The old form of a type is all that an interval has.
        kind = leaf.converted_type if leaf.converted_type == "INTERVAL" else leaf.logical_type.type
        way = _INSTEAD.get(kind)
        if kind == "DECIMAL" and leaf.precision > _MOST_DIGITS:
            kind, way = (
                f"DECIMAL({leaf.precision},{leaf.scale})",
                f"a decimal of at most {_MOST_DIGITS} digits, or text",
            )
        if way is not None:
            raise InputError(f"{file.path}: column {leaf.path} is {kind}, which Spark cannot read; write it as {way}")


def _not_in_arrow(file: File, end: bytes, error: Exception) -> InputError:
    """The error for a footer in which Arrow meets a type that it lacks.

    It says only which type. The columns show in the schema that Parquet itself has, without the one of Arrow's types
    beside it: integers of 128 bits, which Polars writes, are bare bytes there.
    """
    try:
        stored = pq.read_metadata(pa.BufferReader(end.replace(_ARROW_KEY, _ARROW_KEY.lower()))).schema
        leaves = [stored.column(at) for at in range(len(stored.names))]
    except (pa.ArrowException, OSError):
        leaves = []
    bare = [leaf.path for leaf in leaves if leaf.length == _WIDE_BYTES and leaf.logical_type.type == "NONE"]
    where = f", in {' or '.join(bare)}" if bare else ""
    return InputError(
        f"{file.path} has a type that cannot be read{where}: {error}; write that column as another type, "
        "integers of 128 bits as a decimal or text"
    )


def _as_spark_reads(kind: pa.DataType, leaves: Iterator[str]) -> pa.DataType:
    """The type with times of INT96, which Arrow has for nanoseconds, as the instants that Spark takes them for. The
    leaves of all columns are numbered in order."""
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(_as_spark_reads(part.type, leaves)) for part in kind])
    if pa.types.is_map(kind):
        return pa.map_(_as_spark_reads(kind.key_type, leaves), _as_spark_reads(kind.item_type, leaves))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_as_spark_reads(kind.value_type, leaves))
    return pa.timestamp("us", "UTC") if next(leaves) == "INT96" else kind


def _parquet(
    spark: SparkSession,
    source: Source,
    schema: pa.Schema,
    paths: list[str],
    columns: Sequence[DirectoryColumn],
    time: tuple[str, ...],
) -> DataFrame:
    ours = {folded(DIRECTORY_COLUMNS), folded(NANOSECONDS)}
    reader = spark.read.options(**({k: v for k, v in source.options.items() if folded(k) not in ours} | AS_THEY_ARE))
    if any(_has_nanos(column.type) for column in schema):
        # Spark refuses times of nanoseconds, but takes the numbers they are.
        numbers = cast("StructType", spark_type(pa.struct(list(schema)), nanos_as_numbers=True))
        frame = reader.schema(numbers).parquet(*paths)
        times = _Nanoseconds(source.uri, time, bool(source.option(NANOSECONDS)))
        made = [f"{times.cut(quoted(c.name), c.type, (c.name,))} AS {quoted(c.name)}" for c in schema]
    else:
        frame = reader.parquet(*paths)
        made = [quoted(name) for name in frame.columns]
    root = root_in_paths(source)
    extras = [f"{column.sql(root)} AS {quoted(column.name)}" for column in columns]
    return frame.selectExpr(*made, *extras, f"_metadata.file_path AS {quoted(ORIGIN)}")


def _has_nanos(kind: pa.DataType) -> bool:
    return _is_nanos(kind) or any(_has_nanos(part.type) for part in parts_of(kind))


def _is_nanos(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


@dataclass(frozen=True, slots=True)
class _Nanoseconds:
    """Makes times of microseconds of numbers of nanoseconds."""

    place: str
    time: tuple[str, ...]
    """The path of the time column, in lower case: that one is cut."""
    all_are_cut: bool

    def cut(self, sql: str, kind: pa.DataType, path: tuple[str, ...], depth: int = 0) -> str:
        """SQL: the value, at any depth; an error where a column has digits that would be lost."""
        if _is_nanos(kind):
            return self._time(sql, kind, path)
        if not _has_nanos(kind):
            return sql
        key, item = f"k{depth}", f"n{depth}"
        if pa.types.is_struct(kind):
            parts = ((part, f"{sql}.{quoted(part.name)}", (*path, part.name)) for part in kind)
            members = ", ".join(
                f"{literal(part.name)}, {self.cut(inner, part.type, of_part, depth)}" for part, inner, of_part in parts
            )
            return f"CASE WHEN {sql} IS NOT NULL THEN named_struct({members}) END"
        inside = (*path, "")
        if pa.types.is_map(kind):
            values = f"transform_values({sql}, ({key}, {item}) -> {self.cut(item, kind.item_type, inside, depth + 1)})"
            if not _has_nanos(kind.key_type):
                return values
            return f"transform_keys({values}, ({key}, {item}) -> {self.cut(key, kind.key_type, inside, depth + 1)})"
        return f"transform({sql}, {item} -> {self.cut(item, kind.value_type, inside, depth + 1)})"

    def _time(self, sql: str, kind: pa.DataType, path: tuple[str, ...]) -> str:
        # Rounded down, whatever the sign, and without a number beyond those there are.
        micros = f"({sql} div 1000L - CASE WHEN {sql} % 1000L < 0 THEN 1L ELSE 0L END)"
        if not self.all_are_cut and tuple(map(folded, path)) != self.time:
            name = ".".join(filter(None, path))
            lost = (
                f"{self.place}: {name} has digits beyond microseconds, which a table cannot hold; "
                "pass --read-option nanoseconds=cut to cut them: "
            )
            ending = f"CAST(raise_error(concat({literal(lost)}, {sql})) AS BIGINT)"
            micros = f"CASE WHEN {sql} % 1000L <> 0 THEN {ending} ELSE {micros} END"
        if kind.tz is not None:
            return f"timestamp_micros({micros})"
        return f"timestampadd(MICROSECOND, {micros}, TIMESTAMP_NTZ'1970-01-01 00:00:00')"
