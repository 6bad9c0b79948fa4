"""What ADBC and JDBC ask about the tables: catalogs, schemas, tables, keys, and what the server can do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import pyarrow as pa

from delta_sidecar.arrays import pc
from delta_sidecar.server.sql.messages import Message
from delta_sidecar.server.sql.names import SqlName, sql_name

_TABLE: Final = "TABLE"


def _schema(**fields: pa.DataType | tuple[pa.DataType]) -> pa.Schema:
    """A type alone may be null; one in a tuple may not."""
    return pa.schema(
        [
            pa.field(name, kind[0], nullable=False) if isinstance(kind, tuple) else pa.field(name, kind)
            for name, kind in fields.items()
        ]
    )


_TEXT, _INT, _FLAG = pa.utf8(), pa.int32(), pa.bool_()
CATALOGS: Final = _schema(catalog_name=(_TEXT,))
SCHEMAS: Final = _schema(catalog_name=_TEXT, db_schema_name=(_TEXT,))
TABLES: Final = _schema(catalog_name=_TEXT, db_schema_name=_TEXT, table_name=(_TEXT,), table_type=(_TEXT,))
TABLES_WITH_SCHEMAS: Final = TABLES.append(pa.field("table_schema", pa.binary(), nullable=False))
TABLE_TYPES: Final = _schema(table_type=(_TEXT,))
PRIMARY_KEYS: Final = _schema(
    catalog_name=_TEXT,
    db_schema_name=_TEXT,
    table_name=(_TEXT,),
    column_name=(_TEXT,),
    key_name=_TEXT,
    key_sequence=(_INT,),
)
FOREIGN_KEYS: Final = _schema(
    pk_catalog_name=_TEXT,
    pk_db_schema_name=_TEXT,
    pk_table_name=(_TEXT,),
    pk_column_name=(_TEXT,),
    fk_catalog_name=_TEXT,
    fk_db_schema_name=_TEXT,
    fk_table_name=(_TEXT,),
    fk_column_name=(_TEXT,),
    key_sequence=(_INT,),
    fk_key_name=_TEXT,
    pk_key_name=_TEXT,
    update_rule=(pa.uint8(),),
    delete_rule=(pa.uint8(),),
)
TYPES: Final = _schema(
    type_name=(_TEXT,),
    data_type=(_INT,),
    column_size=_INT,
    literal_prefix=_TEXT,
    literal_suffix=_TEXT,
    create_params=pa.list_(pa.field("item", _TEXT, nullable=False)),
    nullable=(_INT,),
    case_sensitive=(_FLAG,),
    searchable=(_INT,),
    unsigned_attribute=_FLAG,
    fixed_prec_scale=(_FLAG,),
    auto_increment=_FLAG,
    local_type_name=_TEXT,
    minimum_scale=_INT,
    maximum_scale=_INT,
    sql_data_type=(_INT,),
    datetime_subcode=_INT,
    num_prec_radix=_INT,
    interval_precision=_INT,
)
_INFO_VALUES: Final = pa.dense_union(
    [
        pa.field("string_value", _TEXT),
        pa.field("bool_value", _FLAG),
        pa.field("bigint_value", pa.int64()),
        pa.field("int32_bitmask", _INT),
        pa.field("string_list", pa.list_(_TEXT)),
        pa.field("int32_to_int32_list_map", pa.map_(_INT, pa.list_(_INT))),
    ]
)
INFO: Final = _schema(info_name=(pa.uint32(),), value=(_INFO_VALUES,))


@dataclass(frozen=True, slots=True, eq=False)
class Visible:
    """The tables that a caller sees."""

    roots: Sequence[str]
    tables: Callable[[Sequence[str]], Iterable[str]]
    """The tables below some roots, by the server's names, as many as the server lists."""
    schema_of: Callable[[str], pa.Schema]
    """The columns of a table; none if it cannot be read."""


def columns_of_answer(command: Message) -> pa.Schema | None:
    """The columns of the answer to a command; None if it is none of these."""
    if command.name == "CommandGetTables" and command.flag(5):
        return TABLES_WITH_SCHEMAS
    return _ANSWERS.get(command.name, (None, None))[0]


def answer(command: Message, visible: Visible) -> pa.Table:
    """The answer to a command that `columns_of_answer` knows."""
    columns, rows = _ANSWERS[command.name]
    if command.name == "CommandGetSqlInfo":
        return _info(command.numbers(1))
    found = [] if rows is None else list(rows(command, visible))
    columns = columns_of_answer(command) or columns
    values = list(zip(*found, strict=True)) or [()] * len(columns)
    arrays = [pa.array(list(each), field.type) for each, field in zip(values, columns, strict=True)]
    return pa.Table.from_arrays(arrays, schema=columns)


def _catalogs(command: Message, visible: Visible) -> Iterable[tuple[Any, ...]]:
    return [(root,) for root in sorted(visible.roots)]


def _wanted(command: Message, visible: Visible) -> Iterable[tuple[str, SqlName]]:
    """Tables of the catalog and of the schemas that a command asks for; an empty catalog is one without a name."""
    catalog, schemas = command.text(1), command.text(2)
    roots = [root for root in visible.roots if catalog is None or root == catalog]
    for table in visible.tables(roots):
        name = sql_name(table)
        if matches(name.schema, schemas):
            yield table, name


def _schemas(command: Message, visible: Visible) -> Iterable[tuple[Any, ...]]:
    return sorted({(name.catalog, name.schema) for _, name in _wanted(command, visible)})


def _tables(command: Message, visible: Visible) -> Iterable[tuple[Any, ...]]:
    kinds = command.texts(4)
    if kinds and _TABLE not in kinds:
        return
    for table, name in sorted(_wanted(command, visible), key=lambda each: each[1]):
        if not matches(name.table, command.text(3)):
            continue
        if not command.flag(5):
            yield *name, _TABLE
            continue
        yield *name, _TABLE, visible.schema_of(table).serialize().to_pybytes()


def matches(text: str, pattern: str | None) -> bool:
    """Whether a name is like a pattern with % and _; None is like everything. By Arrow, in time that grows with the
    name alone: the pattern is a client's."""
    return pattern is None or bool(pc.match_like(text, pattern).as_py())


_ANSWERS: Final[Mapping[str, tuple[pa.Schema, Callable[[Message, Visible], Iterable[tuple[Any, ...]]] | None]]] = {
    "CommandGetCatalogs": (CATALOGS, _catalogs),
    "CommandGetDbSchemas": (SCHEMAS, _schemas),
    "CommandGetTables": (TABLES, _tables),
    "CommandGetTableTypes": (TABLE_TYPES, lambda command, visible: [(_TABLE,)]),
    "CommandGetPrimaryKeys": (PRIMARY_KEYS, None),
    "CommandGetExportedKeys": (FOREIGN_KEYS, None),
    "CommandGetImportedKeys": (FOREIGN_KEYS, None),
    "CommandGetCrossReference": (FOREIGN_KEYS, None),
    "CommandGetXdbcTypeInfo": (TYPES, None),
    "CommandGetSqlInfo": (INFO, None),
}
"""The columns of each answer and how its rows are found; None for one that is always empty, or made elsewhere."""


def _own_version() -> str:
    try:
        return version("delta-sidecar")
    except PackageNotFoundError:
        return "unknown"


class _Bits(int):
    """A number of 32 bits; numbers that drivers read as 64 bits are plain."""


_UNKNOWN_CASE: Final = 0
_NULLS_AT_END: Final = 3
_FORWARD_ONLY = _READ_ONLY = _Bits(1 << 1)
_NO_LIMIT: Final = (*range(541, 556), *range(558, 562))
_NOT_SUPPORTED: Final = (527, 536, 537, 556, 563, 565, 566, *range(572, 577))
_NO_PLACE: Final = (533, 534, 535, 568, 570, 571)
"""Kinds of statements, and of results, that have no place here: none of the bits is set."""


def _facts() -> dict[int, str | bool | int | list[str] | dict[int, list[int]]]:
    """By the numbers of `SqlInfo`: what the server is, what it does, and how names are written. Drivers of JDBC fail
    where a number is missing, so all are there."""
    return {
        0: "Delta Sidecar",
        1: _own_version(),
        2: pa.__version__,
        3: True,  # read only
        4: True,  # SQL
        5: False,  # Substrait
        8: _Bits(0),  # no transactions
        9: False,  # cancelling by a call of its own
        100: _Bits(0),  # prepared statements do not end
        101: _Bits(0),
        500: False,  # CREATE and DROP of catalogs, schemas, tables
        501: False,
        502: False,
        503: _UNKNOWN_CASE,
        504: '"',
        505: _UNKNOWN_CASE,
        506: True,  # all tables that are listed can be selected from
        507: _NULLS_AT_END,
        508: [],  # keywords beside those of the standard
        509: ["abs", "ceil", "floor", "ln", "log10", "mod", "power", "round", "sqrt"],
        510: ["concat", "length", "lower", "ltrim", "replace", "rtrim", "substring", "trim", "upper"],
        511: [],
        512: ["date_diff", "date_part", "date_trunc", "now"],
        513: "\\",
        514: "",
        515: True,  # aliases of columns
        516: True,  # null plus something is null
        517: {},  # CONVERT
        518: True,  # aliases of tables
        519: False,  # ... which must differ from their names
        520: True,  # expressions in ORDER BY
        521: True,  # columns in ORDER BY that are not selected
        522: _Bits(0b11),  # GROUP BY
        523: True,  # LIKE ... ESCAPE
        524: True,  # columns that may not be null
        525: _Bits(0b11),  # minimum and core grammar of ODBC
        526: _Bits(0b1),  # entry level of SQL 92
        528: _Bits(0b110),  # outer joins
        529: "schema",
        530: "procedure",
        531: "catalog",
        532: True,  # the catalog comes first
        538: _Bits(0b1111),  # subqueries
        539: True,  # correlated ones
        540: _Bits(0b11),  # UNION and UNION ALL
        557: 64 << 10,  # bytes of a statement
        562: 0,  # isolation of transactions: none
        564: _Bits(0b1),
        567: _FORWARD_ONLY,
        569: _READ_ONLY,
        **dict.fromkeys(_NO_PLACE, _Bits(0)),
        **dict.fromkeys(_NO_LIMIT, 0),
        **dict.fromkeys(_NOT_SUPPORTED, False),
    }


_KINDS: Final = {str: 0, bool: 1, int: 2, _Bits: 3, list: 4, dict: 5}


def _info(wanted: Sequence[int]) -> pa.Table:
    facts = {number: value for number, value in _facts().items() if not wanted or number in wanted}
    kinds = [_KINDS[type(value)] for value in facts.values()]
    children: list[list[Any]] = [[] for _ in _INFO_VALUES]
    offsets: list[int] = []
    for kind, value in zip(kinds, facts.values(), strict=True):
        offsets.append(len(children[kind]))
        children[kind].append(list(value.items()) if isinstance(value, dict) else value)
    arrays = [pa.array(each, field.type) for each, field in zip(children, _INFO_VALUES, strict=True)]
    values = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()), pa.array(offsets, pa.int32()), arrays, [field.name for field in _INFO_VALUES]
    )
    return pa.Table.from_arrays([pa.array(list(facts), pa.uint32()), values.cast(_INFO_VALUES)], schema=INFO)
