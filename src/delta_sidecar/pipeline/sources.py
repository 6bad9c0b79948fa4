"""What is ingested: Parquet, JSON, CSV or Delta by path, as a frame or as a stream.

Text has no types of its own. Where the table exists its types are used, so that batches agree; else Spark infers them.
The time column is read as text and parsed by us. A line that does not fit is an error, not a null.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

from delta_sidecar.errors import InputError, ObjectNotFoundError, OptionError
from delta_sidecar.pipeline.failures import spark_failures
from delta_sidecar.pipeline.hadoop import spark_uri
from delta_sidecar.storage import open_location, parse_location
from delta_sidecar.storage.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Format: TypeAlias = Literal["parquet", "json", "csv", "delta"]
FORMATS: tuple[Format, ...] = get_args(Format)
_ENDINGS: dict[str, Format] = {
    "parquet": "parquet",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "csv": "csv",
    "tsv": "csv",
}
_COMPRESSED = re.compile(r"\.(gz|gzip|bz2|zst|zstd|snappy|lz4|deflate)$", re.IGNORECASE)
_GLOB = re.compile(r"[*?\[{]")
_TEXT_DEFAULTS = {"mode": "FAILFAST", "timeZone": "UTC"}
_TIME_LIKE = ("string", "timestamp", "timestamp_ntz", "date")


@dataclass(frozen=True, slots=True)
class Source:
    """Files of one format at a place."""

    uri: str
    format: Format
    options: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)

    @property
    def is_text(self) -> bool:
        return self.format in ("json", "csv")

    @property
    def place(self) -> str:
        """The place in Spark's words."""
        return spark_uri(self.uri, self.storage_options)

    @property
    def reader_options(self) -> dict[str, str]:
        """Spark's options; what the user gives counts over what we choose."""
        chosen = dict(_TEXT_DEFAULTS) if self.is_text else {}
        if self.format == "csv":
            chosen |= {"header": "true"}
            if _ending(self.uri) == "tsv":
                chosen |= {"sep": "\t"}
        return chosen | dict(self.options)


def source_of(
    uri: str | os.PathLike[str],
    file_format: str | None = None,
    options: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Source:
    """The files at a place; their format as it is given, or as their names tell it."""
    if file_format is not None and file_format not in FORMATS:
        raise OptionError(f"format {file_format!r} is none of {', '.join(FORMATS)}")
    text = os.fspath(uri)
    known = infer_format(text, storage_options) if file_format is None else file_format
    return Source(text, known, options or {}, storage_options)


def infer_format(uri: str, storage_options: Mapping[str, str] | None = None) -> Format:
    """Delta where there is a log; else by the ending of the name, or of the first file below it."""
    ending = _ENDINGS.get(_ending(uri))
    if ending is not None and not _is_directory(uri):
        return ending
    store = open_location(parse_location(_root(uri)), storage_options)
    if any(_names(store, "_delta_log/")):
        return "delta"
    for name in _names(store, ""):
        if (found := _ENDINGS.get(_ending(name))) is not None:
            return found
    if ending is not None:
        return ending
    raise InputError(f"cannot tell the format of {uri}: no Delta log, no .parquet, .json or .csv there; give --format")


def _root(uri: str) -> str:
    """The directory above the first part of a path that is a pattern."""
    start = _GLOB.split(uri)[0]
    return start if start == uri else start.rpartition("/")[0] or "."


def _is_directory(uri: str) -> bool:
    location = parse_location(uri)
    return location.scheme == "file" and os.path.isdir(location.path)


def _ending(name: str) -> str:
    return _COMPRESSED.sub("", name.rstrip("/")).rpartition(".")[2].lower()


def _names(store: Store, prefix: str) -> Iterator[str]:
    """Names of data files; those that begin with `_` or `.` are not data."""
    try:
        for page in store.list_after(prefix):
            yield from (m.path for m in page if prefix or not m.path.startswith(("_", ".")))
    except ObjectNotFoundError:
        return


def read_source(
    spark: SparkSession, source: Source, time_column: str, table: StructType | None, merge_schema: bool = False
) -> DataFrame:
    """The source as a frame. `table`: the schema of the table it goes to, where there is one."""
    with spark_failures(f"{source.uri} cannot be read as {source.format}"):
        schema = text_schema(spark, source, time_column, table, merge_schema) if source.is_text else None
        frame: DataFrame = _reader(spark.read, source, schema).load(source.place)
        return frame


def read_stream(
    spark: SparkSession, source: Source, time_column: str, table: StructType | None, schema: StructType | None = None
) -> DataFrame:
    """The source as a stream. Spark wants the schema of files before it begins: that of those that are there."""
    with spark_failures(f"{source.uri} cannot be read as a stream of {source.format}"):
        known = schema
        if known is None and source.format != "delta":
            known = read_source(spark, source, time_column, table, merge_schema=True).schema
        frame: DataFrame = _reader(spark.readStream, source, known).load(source.place)
        return frame


def _reader(reader: Any, source: Source, schema: StructType | None) -> Any:
    reader = reader.format(source.format).options(**source.reader_options)
    return reader if schema is None else reader.schema(schema)


def text_schema(
    spark: SparkSession, source: Source, time_column: str, table: StructType | None, infer_new: bool
) -> StructType:
    """The types of a text source: the table's where it has the column, text for the time, Spark's guess otherwise."""
    from pyspark.sql import types as t

    found = _inferred(spark, source, infer=table is None)
    known = {f.name.casefold(): f.dataType for f in table.fields} if table is not None else {}
    if infer_new and source.format == "csv" and any(f.name.casefold() not in known for f in found.fields):
        found = _inferred(spark, source, infer=True)
    fields = []
    for column in found.fields:
        kind = known.get(column.name.casefold(), column.dataType)
        if column.name.casefold() == time_column.casefold() and column.dataType.simpleString() in _TIME_LIKE:
            kind = t.StringType()
        fields.append(t.StructField(column.name, kind))
    return t.StructType(fields)


def _inferred(spark: SparkSession, source: Source, infer: bool) -> StructType:
    """Names and, if asked, types; JSON always has both, at the price of a pass over it."""
    reader = _reader(spark.read, source, None)
    if source.format == "csv":
        reader = reader.option("inferSchema", str(infer).lower())
    return cast("StructType", reader.load(source.place).schema)
