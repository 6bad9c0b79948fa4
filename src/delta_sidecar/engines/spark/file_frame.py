"""Spark's own Parquet reader over the files that a predicate leaves.

Partition values come from the log: as literals if all files have the same ones, else by a join on the file's path. The
schema is given, so Spark infers nothing, neither from footers nor from the names of directories.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StringType
from pyspark.sql.types import StructField as SparkField
from pyspark.sql.types import StructType as SparkSchema

from delta_sidecar.engines.spark.column_expressions import column_of, literal
from delta_sidecar.engines.spark.source_options import check_one_version
from delta_sidecar.engines.spark.spark_types import spark_schema
from delta_sidecar.errors import UnsupportedTableError
from delta_sidecar.pipeline.hadoop import hadoop_options, spark_uri
from delta_sidecar.pipeline.session import temporary_settings
from delta_sidecar.predicates.binding import bind_predicate
from delta_sidecar.predicates.known_values import physical
from delta_sidecar.scan.file_scan import FileScan
from delta_sidecar.storage.uri import Location, parse_location, resolve_log_path
from delta_sidecar.table import DeltaTable
from delta_sidecar.values.bucket_columns import quoted
from delta_sidecar.values.partition_values import partition_array
from delta_sidecar.values.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

    from delta_sidecar.predicates.expression import Expression
    from delta_sidecar.predicates.predicate_tuples import Filters

_THRESHOLD: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"
"""The number of paths from which Spark lists them in a job; for a local disk, listing them one by one is quicker."""
_READ: Final = {
    "recursiveFileLookup": "true",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "__globPaths__": "false",
}
"""No partition columns out of directory names; a missing or broken file is an error, whatever the session says; and a
path is not a pattern: Spark's own option, because an escaped pattern must not have a colon."""
_PATH: Final = "__sidecar_path"
_FOUND: Final = "__sidecar_found"


def sidecar_files(
    spark: SparkSession,
    path: str | os.PathLike[str],
    predicate: str | Filters | None = None,
    *,
    version: int | None = None,
    timestamp: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """The rows that match a predicate, read by Spark's own Parquet reader from the files that may hold them.

    The files are found through the index when this is called, and the frame keeps reading the same files. Use it for
    short lists: Spark looks at every file before it reads.

    Args:
        spark: The session: classic, on a cluster, or a Connect client. Workers need no Python for it.
        path: The location of the table: a path that the workers can also read, or the URI of an object store.
        predicate: A condition as SQL text, or tuples as pyarrow takes them: skips files, then filters rows.
        version: The version to read; the newest if not given.
        timestamp: A time instead of a version: the version that was current then.
        storage_options: Credentials and settings of the object store, the same as in `deltalake`; they are
            translated for Spark's file systems.
        options: The reader's own options (`delta.sidecar.…`).

    Raises:
        UnsupportedTableError: Files alone do not give the rows (deletion vectors, nested column mapping, widened
            types).
        TableNotFoundError: There is no Delta table at that location.
        PredicateError: The predicate cannot be parsed, does not fit the schema, or has no form in Spark.
        OptionError: `version` and `timestamp` are both given.

    Example:
        >>> from delta_sidecar.engines.spark import sidecar_files
        >>> hour = sidecar_files(spark, f"{here}/events", "_event_hour = '2026021023'")
        >>> sorted(row.id for row in hour.collect())
        [6, 7]
    """
    check_one_version(version, timestamp)
    table = DeltaTable(path, version, storage_options, options=options)
    if timestamp is not None:
        table.load_as_version(timestamp)
    _refuse_by_schema(table)
    partitions, timezone = table.snapshot.partition_columns, table.settings.partition_timezone
    bound = bind_predicate(predicate, table.schema(), partitions, timezone)
    condition = None if bound is None else column_of(bound)
    files = _listed(table, bound)
    frame = _frame(spark, table, files, storage_options)
    return frame if condition is None else frame.where(condition)


@dataclass(frozen=True, slots=True)
class _Files:
    """The pruned files: where they are, and their partition values."""

    places: list[Location]
    values: dict[str, pa.Array]
    """Typed, by logical name, one for each file."""


def _listed(table: DeltaTable, predicate: Expression | None) -> _Files:
    root = parse_location(table.table_uri)
    with FileScan(table.snapshot, table.settings, predicate, ("path", "partition_values", "deletion_vector")) as scan:
        files = pa.Table.from_batches(list(scan), scan.schema).combine_chunks()
    if files.column("deletion_vector").null_count < files.num_rows:
        raise _refusal(table, "files of it have deletion vectors")
    places = [resolve_log_path(root, path) for path in files.column("path").to_pylist()]
    for place in places:
        name = place.path.rpartition("/")[2]
        if name.startswith((".", "_")) or name.endswith("._COPYING_"):
            raise _refusal(table, f"Spark skips files that are named like {name!r}")
    maps = files.column("partition_values")
    values = {
        field.name: partition_array(maps.chunk(0), field, table.settings.partition_timezone)
        for field in _partition_fields(table)
        if files.num_rows
    }
    return _Files(places, values)


def _partition_fields(table: DeltaTable) -> tuple[StructField, ...]:
    return table.schema().select(table.snapshot.partition_columns).fields


def _refusal(table: DeltaTable, reason: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"{table.table_uri}: {reason}, so its files alone do not give its rows; "
        "use spark.read.format('sidecar') (delta_sidecar.engines.spark.register)"
    )


def _refuse_by_schema(table: DeltaTable) -> None:
    if table.snapshot.mapping_mode == "id":
        raise _refusal(table, "it maps its columns by id")
    for field in table.schema():
        for inner in _below(field.type):
            if inner.physical_name not in ("", inner.name):
                raise _refusal(table, f"it maps the fields of column {field.name!r} by name")
        for each in (field, *_below(field.type)):
            if "delta.typeChanges" in each.metadata:
                raise _refusal(table, f"column {field.name!r} had another type")
        if _holds_void(field.type):
            raise _refusal(table, f"column {field.name!r} is void")


def _below(data_type: DataType) -> Iterator[StructField]:
    """The fields inside of a type, at any depth."""
    match data_type:
        case StructType(fields):
            for field in fields:
                yield field
                yield from _below(field.type)
        case ArrayType(element):
            yield from _below(element)
        case MapType(key, value):
            yield from _below(key)
            yield from _below(value)


def _holds_void(data_type: DataType) -> bool:
    match data_type:
        case PrimitiveType("void" | "null"):
            return True
        case StructType(fields):
            return any(_holds_void(field.type) for field in fields)
        case ArrayType(element):
            return _holds_void(element)
        case MapType(key, value):
            return _holds_void(key) or _holds_void(value)
    return False


def _frame(
    spark: SparkSession, table: DeltaTable, files: _Files, storage_options: Mapping[str, str] | None
) -> DataFrame:
    schema = table.schema()
    whole = spark_schema(schema.fields)
    if not files.places:
        return spark.createDataFrame([], whole)
    partitions = {field.name for field in _partition_fields(table)}
    stored = [field for field in schema if field.name not in partitions]
    settings = hadoop_options(table.table_uri, storage_options)
    uris = _spark_uris(files.places, storage_options)
    reader = spark.read.schema(_stored_schema(whole, stored)).options(**_READ).options(**settings)
    local = {_THRESHOLD: str(len(uris) + 1)} if files.places[0].scheme == "file" else {}
    with temporary_settings(spark, local):
        rows = reader.parquet(*uris)
    rows, values = _with_partition_values(spark, rows, table, files, uris)
    places = {field.name: field.physical_name or field.name for field in stored}
    places |= {name: f"__sidecar_value_{number}" for number, name in enumerate(values)}
    rows = rows.withColumns({places[name]: value for name, value in values.items()}) if values else rows
    # As texts, because each column that is built in Python is several calls into the JVM.
    return rows.selectExpr(*(f"{quoted(places[field.name])} AS {quoted(field.name)}" for field in schema))


def _stored_schema(whole: SparkSchema, stored: Sequence[StructField]) -> SparkSchema:
    """What Spark reads from the files, in their own names."""
    fields = [(whole[field.name], field.physical_name or field.name) for field in stored]
    return SparkSchema([SparkField(name, field.dataType, True, field.metadata) for field, name in fields])


def _spark_uris(places: Sequence[Location], storage_options: Mapping[str, str] | None) -> list[str]:
    """The files as Spark's file systems name them."""
    roots: dict[tuple[str, str], str] = {}
    for place in places:
        container = (place.scheme, place.authority)
        if container not in roots:
            roots[container] = spark_uri(place.container_root.uri, storage_options).removesuffix("/")
    return [f"{roots[place.scheme, place.authority]}/{place.path.lstrip('/')}" for place in places]


def _with_partition_values(
    spark: SparkSession, rows: DataFrame, table: DeltaTable, files: _Files, uris: Sequence[str]
) -> tuple[DataFrame, dict[str, SparkColumn]]:
    """The rows, and the partition columns beside them."""
    fields = _partition_fields(table)
    if all(len(files.values[field.name].unique()) == 1 for field in fields):
        return rows, {field.name: literal(physical(files.values[field.name][0]), field.type) for field in fields}
    keys = pa.array([java_uri(uri) for uri in uris])
    names = [_PATH, _FOUND, *(f"__sidecar_{number}" for number in range(len(fields)))]
    found = pa.repeat(pa.scalar(True), len(uris))
    arrays = [keys, found, *(files.values[field.name] for field in fields)]
    types = [StringType(), BooleanType(), *(field.dataType for field in spark_schema(fields))]
    schema = SparkSchema([SparkField(name, kind) for name, kind in zip(names, types, strict=True)])
    values = spark.createDataFrame(pa.Table.from_arrays(arrays, names=names), schema)
    path = rows.metadataColumn("_metadata")["file_path"]
    joined = rows.withColumn(_PATH, path).join(F.broadcast(values), _PATH, "left")
    lost = F.raise_error(F.concat(F.lit("a file that was not asked for: "), F.col(_PATH)))
    return joined, {
        field.name: F.when(F.col(_FOUND), F.col(name)).otherwise(lost.cast(str(field.type)))
        for field, name in zip(fields, names[2:], strict=True)
    }


def java_uri(uri: str) -> str:
    """A URI as Java writes it, which is what Spark calls a file: escaped but for letters, digits and some signs, with
    letters of other scripts as they are."""
    scheme, _, rest = uri.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}:{authority and '//'}{authority}{slash}" + "".join(map(_escaped, path))


_PLAIN: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!~*'()/:@&=+$,;")


def _escaped(character: str) -> str:
    if character in _PLAIN or (ord(character) > 0x9F and not character.isspace()):
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
