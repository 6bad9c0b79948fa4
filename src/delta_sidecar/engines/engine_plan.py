"""How an engine will read a table: by its files or through the dataset, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from delta_sidecar.data.request import RowRequest, plan_request
from delta_sidecar.engines.file_list import FileList, list_files, with_groups
from delta_sidecar.errors import CorruptLogError, InputError, OptionError, UnsupportedTableError
from delta_sidecar.predicates.arrow_tree import is_arrow_expression
from delta_sidecar.predicates.expression import Expression
from delta_sidecar.scan.scan_plan import ScanPlan
from delta_sidecar.texts import counted, sized

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from delta_sidecar.engines.dataset import TableDataset
    from delta_sidecar.table import DeltaTable
    from delta_sidecar.table_access import Predicate

WAYS: Final = ("auto", "files", "dataset")


@dataclass(frozen=True, slots=True)
class RowCondition:
    """Which rows of a table are wanted."""

    bound: Expression | None
    """The predicate; of a pyarrow expression only what is understood of it, which leaves out files and no more."""
    expression: pc.Expression | None
    """A pyarrow expression, which pyarrow alone applies to rows."""

    @classmethod
    def of(cls, table: DeltaTable, predicate: Predicate | None) -> RowCondition:
        return cls(table._access.bind(predicate), predicate if is_arrow_expression(predicate) else None)

    def dataset(self, table: DeltaTable, columns: Sequence[str] | None, file_column: str | None = None) -> TableDataset:
        """The wanted rows, made by the table's own reader."""
        from delta_sidecar.engines.dataset import dataset_for_engine

        _check_columns(table, columns)
        exact = self.bound if self.expression is None else None
        return dataset_for_engine(table, exact, self.expression, columns, file_column)


class NotTranslatedError(Exception):
    """A condition that has no equal in an engine's own language; the text says which."""


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """How an engine will read a table. `print` shows it.

    Example:
        >>> from delta_sidecar import DeltaTable
        >>> plan = DeltaTable("events").engine_plan("duckdb", "_event_hour = '2026021022'")
        >>> plan.way, plan.files
        ('files', 1)
    """

    engine: str
    way: Literal["files", "dataset"]
    """`files`: the engine's own Parquet scanner reads a pruned list; `dataset`: the table's own reader gives it rows,
    pruned when the query is run."""
    reason: str
    """Why this way was taken."""
    files: int | None
    """The files of the list; None where none was made, or it was left for its length."""
    bytes: int | None
    """The size of those files."""
    listing: ScanPlan | None
    """How the files were found; None where nothing was listed."""
    headline: str | None = None
    """What finding them took, in one line."""

    def explain(self) -> str:
        """The plan in words."""
        lines = [f"engine     {self.engine}", f"way        {self.way}: {self.reason}"]
        if self.files is not None and self.bytes is not None:
            lines.append(f"files      {counted(self.files, 'file')}, {sized(self.bytes)}")
        if self.headline is not None:
            lines.append(f"listing    {self.headline}")
        if self.listing is not None:
            lines.append(str(self.listing))
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.explain()


@dataclass(frozen=True, slots=True)
class EngineReading:
    """A plan, and what it is carried out with."""

    plan: EnginePlan
    request: RowRequest
    """Columns and predicate, as every file is asked for them."""
    condition: RowCondition
    """Which rows are wanted."""
    file_list: FileList | None
    """The list, where it is to be read."""


@dataclass(frozen=True, slots=True)
class Refusals:
    """Why an engine cannot read files rightly, None if it can. Asked in this order: each costs more than the last."""

    by_request: Callable[[RowRequest], str | None]
    """From the table and the request alone; nothing is listed yet."""
    by_listing: Callable[[FileList], str | None] = lambda files: None
    """From the log's entries; no footer is read yet."""
    by_layout: Callable[[FileList, RowRequest], str | None] = lambda files, request: None
    """From the way in which the files store the columns."""
    keeps_empty_names: bool = False
    """Whether the engine can hold a column without a name; if not, one that is asked for is an error either way."""


def engine_plan(
    table: DeltaTable, engine: str, predicate: Predicate | None, columns: Sequence[str] | None, way: str
) -> EnginePlan:
    """How the engine of that name reads a table."""
    match engine:
        case "duckdb":
            from delta_sidecar.engines.duckdb import duckdb_reading

            return duckdb_reading(table, predicate, columns, way).plan
        case "polars":
            from delta_sidecar.engines.polars import polars_reading

            return polars_reading(table, predicate, columns, way).plan
        case "datafusion":
            from delta_sidecar.engines.datafusion import datafusion_reading

            return datafusion_reading(table, predicate, columns, way).plan
    raise OptionError(f"engine is {engine!r}; it takes one of duckdb, polars, datafusion")


def choose_way(
    table: DeltaTable,
    engine: str,
    refusals: Refusals,
    predicate: Predicate | None,
    columns: Sequence[str] | None,
    way: str,
) -> EngineReading:
    """The way in which an engine reads a table. The files are listed, and their footers compared, unless the dataset is
    asked for or the request alone says that files do not serve."""
    if way not in WAYS:
        raise OptionError(f"way is {way!r}; it takes one of {', '.join(WAYS)}")
    condition = RowCondition.of(table, predicate)
    request = row_request(table, condition.bound, columns)
    if not refusals.keeps_empty_names and any(not field.name for field in request.output):
        raise InputError(
            f"a column of {table.table_uri} has an empty name, which {engine} does not support; leave it out"
        )
    if way == "dataset":
        return EngineReading(_plan(engine, "dataset", "asked for", None), request, condition, None)
    files, reason = _listed(table, condition, request, refusals, way)
    if reason is None:
        plan = _plan(engine, "files", "asked for" if way == "files" else _why(files), files)
        return EngineReading(plan, request, condition, files)
    if way == "files":
        raise UnsupportedTableError(
            f"{table.table_uri}: {engine} cannot read the rows from the files alone: {reason}; use way='auto'"
        )
    return EngineReading(_plan(engine, "dataset", reason, files), request, condition, None)


def _listed(
    table: DeltaTable, condition: RowCondition, request: RowRequest, refusals: Refusals, way: str
) -> tuple[FileList | None, str | None]:
    """The files, and the reason why they do not serve."""
    if condition.expression is not None:
        return None, "only pyarrow applies a pyarrow expression"
    if (reason := refusals.by_request(request)) is not None:
        return None, reason
    limits = table.settings.limits.engines
    is_filtered = condition.bound is not None or way == "files"
    files = list_files(table, request, condition.bound, limits.files if is_filtered else limits.unfiltered_files)
    reason = files.reason or refusals.by_listing(files)
    if reason is not None:
        return files, reason
    files = with_groups(files, request)
    return files, files.reason or refusals.by_layout(files, request)


def _why(files: FileList | None) -> str:
    return "the files alone give the rows" if files is not None and files.paths else "no file can hold a row"


def _plan(engine: str, way: Literal["files", "dataset"], reason: str, files: FileList | None) -> EnginePlan:
    if files is None:
        return EnginePlan(engine, way, reason, None, None, None)
    count, size = (len(files.paths), files.bytes) if files.is_complete else (None, None)
    return EnginePlan(engine, way, reason, count, size, files.listing, files.headline)


def row_request(table: DeltaTable, predicate: Expression | None, columns: Sequence[str] | None) -> RowRequest:
    """The rows that are asked for, as every file is asked for them."""
    schema = table.schema()
    if not schema.fields:
        raise CorruptLogError(f"{table.table_uri} has no schema: you can list its files, but not read rows")
    _check_columns(table, columns)
    return plan_request(
        schema,
        table.snapshot.partition_columns,
        mapping_mode=table.snapshot.mapping_mode,
        columns=columns,
        predicate=predicate,
        limit=None,
        batch_size=table.settings.row_batch_size,
        group_bytes=1 << 20,
    )


def _check_columns(table: DeltaTable, columns: Sequence[str] | None) -> None:
    if columns is None:
        return
    if not list(columns):
        raise InputError("columns is empty, and an engine needs at least one column; leave it out for all columns")
    names = table.schema().select(columns).names
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(
                f"columns names {name!r} twice, and an engine finds columns by name; name each column once"
            )
        seen.add(name)
