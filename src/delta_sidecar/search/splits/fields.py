"""Which columns a split indexes, and how: chosen once for a table, kept in its log, made into the engine's schema.

Lean unless told otherwise: a text is indexed and not kept; numbers and times are filtered and given back from one
column of them. The engine's own dates are cut to seconds, and its unsigned numbers stop its writer, so times are
whole microseconds, dates are days, and no field is unsigned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import msgspec
import pyarrow as pa
from msgspec import Struct, structs

from delta_sidecar.errors import (
    CorruptLogError,
    OptionError,
    UnknownColumnError,
    UnsupportedFeatureError,
    UnsupportedTypeError,
    needs_extra,
)
from delta_sidecar.search.splits.analyzers import analyzer
from delta_sidecar.values.arrow_types import table_schema
from delta_sidecar.values.column_names import folded
from delta_sidecar.values.types import DataType, PrimitiveType, StructType, parse_type

FORMAT: Final = "delta-sidecar"
VERSION: Final = 1
FIELDS: Final = "sidecar.fields"
"""The table property that holds the fields of its splits."""
PATH_FIELD: Final = "sidecar.path"
ROW_FIELD: Final = "sidecar.row"
"""The fields of a companion's documents: which file of the table a row is in, and its number there."""

ANSWER_COLUMNS: Final = frozenset({"score", "highlight"})
"""Columns that answers have beside those of the rows."""

TEXT: Final = "text"
KEYWORD: Final = "keyword"
INTEGER: Final = "integer"
FLOAT: Final = "float"
BOOLEAN: Final = "boolean"
TIME: Final = "time"
DATE: Final = "date"
STORED: Final = "stored"

WHOLE: Final = frozenset({INTEGER, TIME, DATE})
"""Kinds whose values are whole numbers in the engine."""

_KINDS: Final = {
    **dict.fromkeys(("byte", "short", "integer", "long"), INTEGER),
    **dict.fromkeys(("float", "double"), FLOAT),
    **dict.fromkeys(("timestamp", "timestamp_ntz"), TIME),
    "string": KEYWORD,
    "boolean": BOOLEAN,
    "date": DATE,
}


class SplitField(Struct, frozen=True, omit_defaults=True):
    """How one column is indexed.

    Example:
        >>> from delta_sidecar.search import SplitField
        >>> SplitField("body", "text", "string", analyzer="en").is_text
        True
    """

    name: str
    """The column."""
    kind: str
    """`text`: divided into words; `keyword`: a text as a whole; `integer`, `float`, `boolean`; `time`: microseconds
    since 1970; `date`: days since 1970; `stored`: only kept, as JSON."""
    type: str
    """The type of the column, by the name that table schemas use."""
    field: str = ""
    """The name in the engine, where it is not the column's."""
    analyzer: str | None = None
    """Of texts and keywords."""
    stored: bool = False
    """The value is kept, and comes back with a hit."""
    indexed: bool = True
    """The rows of each value are listed; numbers that are no key are found in their column instead."""
    fast: bool = False
    """There is a column of the values: ranges, sorting, aggregations; numbers and times also come back from it."""
    positions: bool = True
    """Of a text: phrases can be found."""

    @property
    def engine_name(self) -> str:
        return self.field or self.name

    @property
    def is_text(self) -> bool:
        return self.kind == TEXT

    @property
    def is_readable(self) -> bool:
        """Whether the value of a hit can be given back."""
        return self.stored or (self.fast and self.kind not in (TEXT, KEYWORD))


class _Wire(Struct, omit_defaults=True):
    format: str
    version: int
    fields: tuple[SplitField, ...]
    key: tuple[str, ...] = ()
    time: str | None = None
    companion: bool = False


@dataclass(frozen=True)
class SplitFields:
    """Which columns the splits of a table index.

    `SplitFields.choose` makes it from a schema, `SplitFields.parse` from its JSON in the log.

    Example:
        >>> import pyarrow as pa
        >>> from delta_sidecar.search import SplitFields
        >>> rows = pa.schema({"id": pa.int64(), "ts": pa.timestamp("us", "UTC"), "body": pa.string()})
        >>> fields = SplitFields.choose(rows, text=["body"], key=["id"], time="ts", analyzers={"body": "en"})
        >>> [(field.name, field.kind, field.stored) for field in fields]
        [('id', 'integer', False), ('ts', 'time', False), ('body', 'text', False)]
        >>> SplitFields.parse(fields.to_json()) == fields
        True
    """

    fields: tuple[SplitField, ...]
    key: tuple[str, ...] = ()
    time: str | None = None
    """The column that says when a row happened."""
    companion: bool = False
    """Documents also say where their row is in another table."""

    def __iter__(self) -> Any:
        return iter(self.fields)

    @property
    def names(self) -> list[str]:
        return [field.name for field in self.fields]

    @property
    def texts(self) -> list[SplitField]:
        """The columns that a query without a column searches."""
        return [field for field in self.fields if field.is_text]

    def find(self, name: str) -> SplitField | None:
        """The field of a column: exact case first, then without case."""
        exact = self._by_name.get(name)
        if exact is not None:
            return exact
        return next((field for field in self.fields if folded(field.name) == folded(name)), None)

    @cached_property
    def _by_name(self) -> dict[str, SplitField]:
        return {field.name: field for field in self.fields}

    @classmethod
    def choose(
        cls,
        schema: StructType | pa.Schema,
        *,
        text: Sequence[str] = (),
        key: Sequence[str] = (),
        time: str | None = None,
        filters: Sequence[str] = (),
        stored: Sequence[str] = (),
        analyzers: Mapping[str, str] | None = None,
        partition_columns: Sequence[str] = (),
        companion: bool = False,
    ) -> SplitFields:
        """Fields for the columns of a schema. Columns that are not named are left out.

        Args:
            schema: The columns of the rows.
            text: Columns of texts to search in.
            key: Columns that identify a row.
            time: The column that says when a row happened.
            filters: More columns to look up, filter and group by.
            stored: Columns whose values are kept, and come back with a hit.
            analyzers: How texts are divided into words, by column; `default` if not given.
            partition_columns: Columns whose value is one for each split; they are not indexed.
            companion: Whether documents also say where their row is in another table.

        Raises:
            UnknownColumnError: There is no such column.
            UnsupportedTypeError: A column has a type that cannot be indexed.
            OptionError: An analyzer is unknown or of a column that is no text, or nothing is to be indexed.
        """
        columns = schema if isinstance(schema, StructType) else table_schema(schema)
        texts, keys, kept, more = (
            _resolved(columns, names) for names in (text, key, stored, [*filters, *([time] if time else [])])
        )
        parts = _resolved(columns, partition_columns)
        _check_names({*texts, *keys, *kept, *more, *parts}, companion)
        for name in sorted(texts & (keys | more)):
            raise OptionError(
                f"{name} is both a text and a key or filter; a text is found by its words: index a copy of it, too"
            )
        how = {columns.resolve([name])[0].name: analyzer(given).name for name, given in (analyzers or {}).items()}
        for name in how:
            if name not in texts:
                raise OptionError(f"the analyzer {how[name]} is for {name}, which is no text column; add it to --text")
        if not texts and not keys and not more:
            raise OptionError("no column is to be indexed; name one with --text")
        made: list[SplitField] = []
        for number, column in enumerate(columns):
            name = column.name
            if name in parts:
                if name in texts:
                    raise OptionError(f"{name} is a partition column and cannot be a text column, too")
                continue
            field_name = _engine_name(name, number)
            is_kept = name in kept
            if name in texts:
                _check_text(name, column.type)
                words = how.get(name, "default")
                made.append(SplitField(name, TEXT, "string", field_name, words, stored=is_kept))
            elif name in keys or name in more:
                made.append(
                    _filterable(name, column.type, field_name, is_kept, is_key=name in keys, is_more=name in more)
                )
            elif is_kept:
                made.append(SplitField(name, STORED, _written(column.type), field_name, stored=True, indexed=False))
        moment = None if time is None else columns.resolve([time])[0].name
        if moment is not None and moment not in parts:
            _check_time(moment, made)
        chosen = [column.name for column in columns if column.name in keys]
        return cls(tuple(made), tuple(chosen), moment, companion)

    @classmethod
    def parse(cls, text: str, where: str = "the table") -> SplitFields:
        """Fields out of their JSON.

        Args:
            text: What `to_json` gave.
            where: Whose fields they are, for messages.

        Raises:
            UnsupportedFeatureError: Another program wrote it, or a newer version of this one.
            CorruptLogError: It cannot be read.
        """
        try:
            head = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CorruptLogError(f"the fields of {where} cannot be read ({error})") from None
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            raise UnsupportedFeatureError(
                f"the splits of {where} were written by another program; they can be listed and read, not searched here"
            )
        if head.get("version") != VERSION:
            raise UnsupportedFeatureError(f"{where} has fields of version {head.get('version')}; known is {VERSION}")
        try:
            wire = msgspec.convert(head, _Wire)
        except msgspec.ValidationError as error:
            raise CorruptLogError(f"the fields of {where} cannot be read ({error})") from None
        for field in wire.fields:
            if field.kind not in _ADD:
                raise UnsupportedFeatureError(
                    f"the field {field.name} of {where} is of the unknown kind {field.kind!r}"
                )
        return cls(wire.fields, wire.key, wire.time, wire.companion)

    def is_like(self, other: SplitFields) -> bool:
        """Whether both answer the same questions. The order of columns changes nothing, and whether the rows of each
        number are listed only how fast."""
        return self._regardless() == other._regardless()

    def _regardless(self) -> SplitFields:
        plain = [structs.replace(one, field="") for one in self.fields]
        kept = [structs.replace(one, indexed=False) if one.kind in WHOLE else one for one in plain]
        return replace(self, fields=tuple(sorted(kept, key=lambda one: one.name)), key=tuple(sorted(self.key)))

    def to_json(self) -> str:
        """The fields as the log keeps them."""
        wire = _Wire(FORMAT, VERSION, self.fields, self.key, self.time, self.companion)
        return msgspec.json.encode(wire).decode()

    def columns_of(self, schema: StructType, partition_columns: Iterable[str] = ()) -> StructType:
        """The columns of a schema that a table with these fields has: the fields, and the partition columns."""
        kept = {*self.names, *partition_columns}
        return StructType(tuple(column for column in schema if column.name in kept))

    def engine_schema(self) -> Any:
        """The schema of the engine's index.

        Raises:
            InputError: The extra `search` is not installed.
        """
        builder = engine().SchemaBuilder()
        for field in self.fields:
            _ADD[field.kind](builder, field)
        if self.companion:
            builder.add_integer_field(PATH_FIELD, indexed=True, fast=True)
            builder.add_integer_field(ROW_FIELD, fast=True)
        return builder.build()

    def register(self, index: Any) -> None:
        """Make the analyzers known to an index of the engine: before documents are added, and before it is searched.

        Args:
            index: The engine's `Index`.
        """
        for name in {field.analyzer for field in self.fields if field.analyzer is not None}:
            analyzer(name).register(index)


def engine() -> Any:
    """The engine of splits.

    Raises:
        InputError: The extra `search` is not installed.
    """
    try:
        import tantivy
    except ImportError:
        raise needs_extra("making and reading splits", "tantivy", "search") from None
    return tantivy


def _resolved(columns: StructType, names: Iterable[str]) -> set[str]:
    found = {columns.resolve([name])[0].name for name in names}
    for name in found:
        if sum(column.name == name for column in columns) > 1:
            raise UnknownColumnError(f"there are several columns {name!r}; rename one")
    return found


def _check_names(names: Iterable[str], companion: bool) -> None:
    """Refuse the names that columns of an answer have beside those of the rows. The rows of a companion's answer are
    those of its table."""
    for name in names:
        if not companion and folded(name) in ANSWER_COLUMNS:
            raise OptionError(f"a column {name} cannot be in a search table: answers have one of that name; rename it")


def _engine_name(name: str, number: int) -> str:
    """Another name where the engine does not take the column's, or would take it for something else. Empty if it does:
    then it is not written."""
    is_plain = name.isascii() and name.replace("_", "").isalnum() and not name[0].isdigit()
    return "" if is_plain else f"sidecar.column{number}"


def _check_text(name: str, data_type: DataType) -> None:
    if data_type != PrimitiveType("string"):
        raise UnsupportedTypeError(f"the column {name} is {data_type}; only string columns can be --text")


def _filterable(
    name: str, data_type: DataType, field: str, is_kept: bool, *, is_key: bool, is_more: bool
) -> SplitField:
    kind = _KINDS.get(data_type.name) if isinstance(data_type, PrimitiveType) else None
    if kind is None:
        raise UnsupportedTypeError(
            f"the column {name} is {data_type}, which cannot be looked up in a split; cast it, or only store it"
        )
    if kind == KEYWORD:
        return SplitField(name, kind, "string", field, "raw", stored=True, fast=is_more, positions=False)
    # A column of numbers answers ranges, and one value is a range: a walk over the column. Lists of the rows of each
    # value would double a lean index; only a key, which is looked up value by value, has them.
    is_indexed = kind == BOOLEAN or (is_key and kind in WHOLE)
    return SplitField(name, kind, str(data_type), field, stored=is_kept, indexed=is_indexed, fast=True, positions=False)


def _check_time(name: str, fields: Sequence[SplitField]) -> None:
    field = next(field for field in fields if field.name == name)
    if field.kind not in (TIME, DATE):
        raise UnsupportedTypeError(f"the time column {name} is {field.type}; it must be a timestamp or a date")


def _written(data_type: DataType) -> str:
    """The name of a type; what has parts as JSON."""
    name = str(data_type)
    return name if str(parse_type(name)) == name and "<" not in name else data_type.to_json()


def _add_text(builder: Any, field: SplitField) -> None:
    builder.add_text_field(
        field.engine_name,
        stored=field.stored,
        fast=field.fast,
        tokenizer_name=analyzer(field.analyzer or "default").tokenizer,
        index_option="position" if field.positions else "basic",
    )


def _add_number(name: str) -> Any:
    def add(builder: Any, field: SplitField) -> None:
        how = {"stored": field.stored, "indexed": field.indexed, "fast": field.fast}
        getattr(builder, name)(field.engine_name, **how)

    return add


_ADD: Final[dict[str, Any]] = {
    TEXT: _add_text,
    KEYWORD: _add_text,
    INTEGER: _add_number("add_integer_field"),
    FLOAT: _add_number("add_float_field"),
    BOOLEAN: _add_number("add_boolean_field"),
    TIME: _add_number("add_integer_field"),
    DATE: _add_number("add_integer_field"),
    STORED: lambda builder, field: builder.add_bytes_field(field.engine_name, stored=True),
}
