"""A table as a lazy frame of Polars.

Files go to Polars' own `scan_parquet`, one scan for each way of storing the columns and each combination of partition
values: a constant column then costs nothing, and Polars pushes filters, projections and limits into every scan.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from delta_sidecar.data.footers import INT96
from delta_sidecar.data.request import RowRequest
from delta_sidecar.engines.engine_plan import EngineReading, NotTranslatedError, Refusals, choose_way
from delta_sidecar.engines.extras import imported
from delta_sidecar.engines.file_list import FILE_NAME, KNOWN_FILE, ROW_NUMBER, FileColumn, FileGroup, FileList

if TYPE_CHECKING:
    import polars as pl

    from delta_sidecar.storage.uri import Location
    from delta_sidecar.table import DeltaTable
    from delta_sidecar.table_access import Predicate, TableAccess

_PLAIN_URI: Final = re.compile(r"[A-Za-z0-9+]+://[A-Za-z0-9_./=@+,:-]+")


def to_polars(
    table: DeltaTable,
    predicate: Predicate | None = None,
    columns: Sequence[str] | None = None,
    way: str = "auto",
) -> pl.LazyFrame:
    """The rows of a table as a lazy frame."""
    module = imported("polars")
    reading = polars_reading(table, predicate, columns, way)
    if reading.file_list is None:
        # A filter that Polars handed over would be pyarrow's: null, NaN and minus zero mean other things there.
        frame: pl.LazyFrame = module.scan_pyarrow_dataset(
            reading.condition.dataset(table, columns), allow_pyarrow_filter=False
        )
        return frame
    return _Builder(reading.file_list, reading.request, _storage_options(table._access)).frame(
        table.settings.limits.engines.scans
    )


def polars_reading(
    table: DeltaTable, predicate: Predicate | None, columns: Sequence[str] | None, way: str
) -> EngineReading:
    """How Polars reads the table."""
    version: str = imported("polars").__version__
    refusals = Refusals(
        by_request=lambda request: (
            _too_old(version) or _unreachable(table._access) or _in_the_log(request, way) or _untranslated(request)
        ),
        by_listing=lambda files: _odd_address(table._access.location, files) or _deleted(files),
        by_layout=lambda files, request: (
            _int96(files) or _unknown_zone(files) or _written_otherwise(files) or _nested_otherwise(files, request)
        ),
    )
    return choose_way(table, "polars", refusals, predicate, columns, way)


def _too_old(version: str) -> str | None:
    """Polars 1.38 and before leave out rows with NaN, which statistics do not know; 1.40 breaks on structs."""
    return None if int(version.partition(".")[0]) > 1 else f"Polars {version} loses rows of files; 2.0 does not"


def _unreachable(access: TableAccess) -> str | None:
    scheme = access.location.scheme
    if scheme == "file":
        return None
    if access.has_given_store:
        return "Polars cannot use a store that was given as an object"
    if _storage_options(access) is None:
        return f"Polars cannot read {scheme}:// with the table's options"
    return None


def _in_the_log(request: RowRequest, way: str) -> str | None:
    """The dataset opens no file for partition values. Polars would, unseen: no footer has been read then."""
    return None if way == "files" or request.needs_files else "the log has all the columns asked for"


def _odd_address(root: Location, files: FileList) -> str | None:
    if root.scheme == "file":
        return None
    odd = next((path for path in files.paths if not _PLAIN_URI.fullmatch(path)), None)
    return None if odd is None else f"Polars may read {odd} as another address"


def _deleted(files: FileList) -> str | None:
    return "deletion vectors, which Polars has no public way to apply" if files.has_deletion_vectors else None


def _int96(files: FileList) -> str | None:
    for group in files.groups:
        for column in group.columns:
            if column.stored_type == INT96:
                return f"column {column.field.name!r} is stored as INT96, which Polars reads in nanoseconds"
    return None


def _unknown_zone(files: FileList) -> str | None:
    """A zone that Polars does not know in any column is an error of the whole scan."""
    import polars as pl

    for zone in sorted({zone for group in files.groups for zone in group.zones}):
        try:
            pl.from_arrow(pa.array([], pa.timestamp("us", zone)))
        except pl.exceptions.PolarsError:
            return f"files have timestamps in the zone {zone!r}, which Polars does not know"
    return None


def _written_otherwise(files: FileList) -> str | None:
    """Polars follows the Arrow schema in a file where Arrow does not: a date may be a time there."""
    for group in files.groups:
        for column in group.columns:
            written = column.written_type
            if written is not None and _type_of(written) != _stored_in(column):
                return f"column {column.field.name!r} is written as {written}, which Polars reads in its own way"
    return None


def _nested_otherwise(files: FileList, request: RowRequest) -> str | None:
    types = _polars_types(request)
    for group in files.groups:
        for column in group.columns:
            data_type = types[column.field.name]
            if column.stored_name is not None and data_type.is_nested() and _stored_in(column) != data_type:
                return f"column {column.field.name!r} is nested and Polars reads it as {_stored_in(column)}"
    return None


def _untranslated(request: RowRequest) -> str | None:
    from delta_sidecar.engines.polars_expr import polars_predicate

    if any(not field.name for field in (*request.filter_fields, *request.partition_fields)):
        return "a column name is empty, which Polars does not allow"
    try:
        if request.row_predicate is not None:
            polars_predicate(request.row_predicate)
    except NotTranslatedError as reason:
        return str(reason)
    return None


def _storage_options(access: TableAccess) -> dict[str, str] | None:
    """The table's own options, under the names that Polars takes; None for local files."""
    if access.location.scheme == "file":
        return None
    from delta_sidecar.storage.cloud import object_store_options

    return object_store_options(access.location, access.storage_options, access.profile)


class _Builder:
    """Makes the frame of a list of files."""

    def __init__(self, files: FileList, request: RowRequest, storage_options: Mapping[str, str] | None) -> None:
        self._files = files
        self._request = request
        self._storage_options = storage_options
        self._types = _polars_types(request)

    def frame(self, most_scans: int) -> pl.LazyFrame:
        """The rows; with more scans than that, and with minus zero, partition values are joined."""
        import polars as pl

        from delta_sidecar.engines.polars_expr import polars_predicate

        by_values = [self._files.by_partition(group.files) for group in self._files.groups]
        are_few = sum(map(len, by_values)) <= most_scans and not _has_minus_zero(self._files.partition)
        if are_few or not self._files.partition.num_columns:
            pieces = [
                self._scan(group, files, constants)
                for group, found in zip(self._files.groups, by_values, strict=True)
                for constants, files in found
            ]
        else:
            pieces = [self._joined(group) for group in self._files.groups]
        if not pieces:
            return self._empty().select(self._names())
        whole = pieces[0] if len(pieces) == 1 else pl.concat(pieces, how="vertical")
        if self._request.row_predicate is not None:
            whole = whole.filter(polars_predicate(self._request.row_predicate))
        return whole.select(self._names())

    def _names(self) -> list[pl.Expr]:
        return [_column(field.name) for field in self._request.output]

    def _empty(self) -> pl.LazyFrame:
        import polars as pl

        return pl.DataFrame(schema=self._types).lazy()

    def _parquet(self, group: FileGroup, files: Sequence[int], with_file: bool = False) -> pl.LazyFrame:
        """The wanted columns of files, in their names and types there, and the number of each row."""
        import polars as pl

        return pl.scan_parquet(
            [self._files.paths[file] for file in files],
            glob=False,
            hive_partitioning=False,
            # Other columns may differ from file to file.
            schema={
                column.stored_name: _stored_in(column) for column in group.columns if column.stored_name is not None
            },
            extra_columns="ignore",
            row_index_name=ROW_NUMBER,
            include_file_paths=FILE_NAME if with_file else None,
            storage_options=None if self._storage_options is None else dict(self._storage_options),
            credential_provider=None,
        )

    def _scan(self, group: FileGroup, files: Sequence[int], constants: Mapping[str, pa.Scalar]) -> pl.LazyFrame:
        """Files with the same partition values."""
        from delta_sidecar.engines.polars_expr import scalar_literal

        values = [scalar_literal(value).alias(name) for name, value in constants.items()]
        return self._with_rows(self._parquet(group, files), [*map(self._stored, group.columns), *values])

    def _with_rows(self, scan: pl.LazyFrame, columns: Sequence[pl.Expr]) -> pl.LazyFrame:
        """Columns of a scan. The number of the row is among them at first: literals alone would be a single row."""
        import polars as pl

        return scan.select([pl.col(ROW_NUMBER), *columns]).drop(ROW_NUMBER)

    def _joined(self, group: FileGroup) -> pl.LazyFrame:
        """Files with many combinations of partition values."""
        import polars as pl

        values = pl.from_arrow(self._files.partition.take(pa.array(group.files, pa.int64())))
        assert isinstance(values, pl.DataFrame)
        given = values.with_columns(
            pl.Series(FILE_NAME, _names(self._files, group.files), pl.String), pl.lit(True).alias(KNOWN_FILE)
        )
        rows = self._parquet(group, group.files, with_file=True).select(
            [*map(self._stored, group.columns), pl.col(FILE_NAME)]
        )
        joined = rows.join(given.lazy(), on=FILE_NAME, how="left")
        columns = [_column(column.field.name) for column in group.columns]
        return joined.select([*columns, *(pl.when(_is_known()).then(_column(name)) for name in values.columns)])

    def _stored(self, column: FileColumn) -> pl.Expr:
        """A column of the files in the table's type."""
        import polars as pl

        name, data_type = column.field.name, self._types[column.field.name]
        if column.stored_name is None:
            return pl.lit(None, data_type).alias(name)
        stored = _column(column.stored_name)
        return (stored if _stored_in(column) == data_type else stored.cast(data_type)).alias(name)


def _column(name: str) -> pl.Expr:
    """The column of exactly that name: `pl.col` takes `^…$` and `*` for patterns."""
    import polars.selectors as cs

    return cs.by_name(name).as_expr()


def _has_minus_zero(values: pa.Table) -> bool:
    """Whether a column holds minus zero. Polars takes the literals 0.0 and -0.0 of one query for the same."""
    floats = [column.cast(pa.float64()) for column in values.columns if pat.is_floating(column.type)]
    return any((np.signbit(found) & (found == 0)).any() for found in (column.to_numpy() for column in floats))


def _names(files: FileList, places: Sequence[int]) -> list[str]:
    """How Polars names files in a column of a scan: by the texts that the scan was given."""
    return [files.paths[place] for place in places]


def _is_known() -> pl.Expr:
    """True, or an error that names the file: a row whose file the join does not know must not lose its values. A strict
    cast is the error that Polars' expressions have."""
    import polars as pl

    lost = pl.concat_str(pl.lit("a file that was not asked for: "), pl.col(FILE_NAME))
    return pl.when(pl.col(KNOWN_FILE)).then(pl.lit("0")).otherwise(lost).cast(pl.Int8, strict=True) == 0


def _stored_in(column: FileColumn) -> pl.DataType:
    """The type in which Polars reads a column of the files: it follows the Arrow schema where they have one."""
    assert column.arrow_type is not None
    return _type_of(column.arrow_type)


def _type_of(arrow_type: pa.DataType) -> pl.DataType:
    import polars as pl

    found = pl.from_arrow(pa.nulls(0, arrow_type))
    assert isinstance(found, pl.Series)
    return found.dtype


def _polars_types(request: RowRequest) -> dict[str, pl.DataType]:
    """The columns of the files and of the log, in Polars' types."""
    import polars as pl

    from delta_sidecar.values.types import arrow_field

    fields = (*request.filter_fields, *request.other_fields, *request.partition_fields)
    frame = pl.from_arrow(pa.schema([arrow_field(field) for field in fields]).empty_table())
    assert isinstance(frame, pl.DataFrame)
    return dict(frame.schema)
