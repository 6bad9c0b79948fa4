"""Tables of one logical schema and nearly the same rows, stored in every way in which delta-spark stores a table.

All have the columns of `COLUMNS`, so all can be asked the same questions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.integration.spark.oracle import SparkTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS: Final = (
    ("id", "BIGINT"),
    ("i", "INT"),
    ("y", "TINYINT"),
    ("x", "DOUBLE"),
    ("f", "FLOAT"),
    ("s", "STRING"),
    ("ts", "TIMESTAMP"),
    ("ntz", "TIMESTAMP_NTZ"),
    ("d", "DATE"),
    ("n", "DECIMAL(12, 3)"),
    ("flag", "BOOLEAN"),
    ("raw", "BINARY"),
    ("st", "STRUCT<a: INT, b: STRING>"),
)
NAMES: Final = tuple(name for name, _ in COLUMNS)
_ROWS: Final = (
    ("1", "1", "1", "0.5", "0.5", "'a'", "00:00:00", "2026-02-10", "0.125", "true", "X'61'", "1, 'p'"),
    ("2", "2", "-1", "'NaN'", "1.5", "'b'", "01:00:00", "2026-02-10", "3.5", "false", "X'6162'", "2, NULL"),
    ("3", "3", "5", "'-0.0'", "'NaN'", "''", "05:00:00", "2026-02-10", "-1", "true", "X''", "NULL, 'q'"),
    ("4", "-3", "0", "0", "'-0.0'", "'A'", "05:00:00.000001", "2026-02-10", "0", "NULL", "X'2F25'", "NULL, NULL"),
    ("5", "0", "NULL", "'Infinity'", "0", "'ab'", "09:59:59.999999", "2026-02-10", "100", "true", "NULL", "7, ''"),
    ("6", "NULL", "7", "'-Infinity'", "0.1", "'a/b=c%20d:e'", "12:00:00", "2026-02-10", "NULL", "false", "X'20'", ""),
    ("7", "57", "57", "NULL", "NULL", "NULL", "NULL", "NULL", "99999.999", "NULL", "X'7A'", "57, 'z'"),
    ("8", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", ""),
    ("9", "4", "4", "1.5", "2.5", "'x_y'", "20:00:00", "2026-02-10", "3.5", "true", "X'61'", "9, 'b%'"),
    ("10", "7", "-128", "2", "1.5", "'50%'", "23:59:59.999999", "2026-02-10", "7", "false", "X'30'", "NULL, '%'"),
    (
        "11",
        "3",
        "127",
        "3",
        "'Infinity'",
        "'ü 🦆 #?*[x]{1}'",
        "24:00:00",
        "2026-02-11",
        "-7.25",
        "true",
        "X'C3BC'",
        "3, 'ü'",
    ),
    (
        "12",
        "1",
        "2",
        "-2.5",
        "-1",
        "'__HIVE_DEFAULT_PARTITION__'",
        "25:30:00",
        "2026-02-11",
        "0.25",
        "NULL",
        "NULL",
        "",
    ),
    ("13", "10", "9", "'NaN'", "'NaN'", "' '", "30:00:00", "2026-02-11", "1", "false", "X'6162'", "13, 'b'"),
    ("14", "2147483647", "1", "0.1", "3", "'it''s'", "36:00:00", "2026-02-11", "3.501", "true", "X'61'", "6, 'bb'"),
    (
        "15",
        "-2147483648",
        "-7",
        "1e300",
        "1e30",
        "'z'",
        "40:00:00",
        "2026-02-11",
        "-0.001",
        "false",
        "X'7A'",
        "5, NULL",
    ),
    ("16", "3", "3", "2", "'-Infinity'", "'null'", "48:00:00", "2026-02-12", "250", "true", "X'01'", "NULL, 'p'"),
    ("17", "1", "1", "0.5", "0.5", "'a'", "00:00:00", "2026-02-10", "0.125", "true", "X'61'", "1, 'p'"),
    ("18", "2", "2", "-0.5", "-0.5", "'aa.b'", "-600000:00:00", "1957-08-30", "2", "false", "X'31'", "8, 'A'"),
)
"""`id, i, y, x, f, s, hours after 2026-02-10, d, n, flag, raw, st`: null, NaN, both zeros, infinities, edges of
types, texts that look like null, like nothing, like paths and like patterns, and two rows that differ in `id` alone."""
_VIEW: Final = "query_rows"


def make_rows(spark: SparkSession) -> None:
    """The rows as a view, for the tables to be made of."""
    rows = ", ".join(map(_row, _ROWS))
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {_VIEW} AS SELECT * FROM VALUES {rows} AS t({', '.join(NAMES)})")


def _row(values: tuple[str, ...]) -> str:
    number, i, y, x, f, s, hours, d, n, flag, raw, st = values
    ts = "NULL" if hours == "NULL" else f"timestamp_micros({1770681600000000 + _micros(hours)})"
    day = "NULL" if d == "NULL" else f"DATE'{d}'"
    struct = f"named_struct('a', CAST({st.split(', ')[0]} AS INT), 'b', {st.split(', ')[1]})" if st else "NULL"
    columns = (number, i, y, x, f, s, ts, ts, day, n, flag, raw, struct)
    return f"({', '.join(f'CAST({value} AS {_type})' for value, (_, _type) in zip(columns, COLUMNS, strict=True))})"


def _micros(hours: str) -> int:
    whole, minutes, seconds = hours.split(":")
    return (int(whole) * 3600 + int(minutes) * 60) * 1_000_000 + round(float(seconds) * 1_000_000)


def _schema(*but: str, **types: str) -> str:
    return ", ".join(f"{name} {types.get(name, type_)}" for name, type_ in COLUMNS if name not in but)


def _create(more: str = "", *but: str, **types: str) -> str:
    return f"CREATE TABLE {{t}} ({_schema(*but, **types)}) USING delta {more}"


def _insert(condition: str = "true", *but: str, files: int = 1) -> str:
    names = ", ".join(name for name in NAMES if name not in but)
    return (
        f"INSERT INTO {{t}} ({names}) SELECT /*+ REPARTITION_BY_RANGE({files}, id) */ {names} "
        f"FROM {_VIEW} WHERE {condition}"
    )


def plain(table: SparkTable) -> None:
    """Three files by `id`, and nothing else."""
    table.sql(_create(), _insert(files=3))


def vectors(table: SparkTable) -> None:
    """Rows that deletion vectors delete, in some of the files of two partitions."""
    table.sql(
        _create("PARTITIONED BY (flag) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"),
        _insert("id <= 9"),
        _insert("id > 9"),
        "DELETE FROM {t} WHERE id IN (4, 5, 13)",
    )


def renamed(table: SparkTable) -> None:
    """Column mapping by name that came later, so that the struct is stored as it is; renamed and dropped columns."""
    before = _create("PARTITIONED BY (was)").replace(" i INT", " old INT").replace(" flag ", " was ")
    table.sql(
        before.replace("(id", "(gone DATE, id"),
        _insert("id <= 9").replace(" i,", " old,", 1).replace(" flag,", " was,", 1),
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ALTER TABLE {t} RENAME COLUMN old TO i",
        "ALTER TABLE {t} RENAME COLUMN was TO flag",
        "ALTER TABLE {t} DROP COLUMN gone",
        _insert("id > 9"),
    )


def by_name(table: SparkTable) -> None:
    """Column mapping by name from the beginning, with a renamed field of a struct, and deletion vectors."""
    table.sql(
        _create(
            "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')",
            st="STRUCT<a: INT, old: STRING>",
        ),
        _insert("id <= 9"),
        "ALTER TABLE {t} RENAME COLUMN st.old TO b",
        _insert("id > 9"),
        "DELETE FROM {t} WHERE id IN (1, 16)",
    )


def by_id(table: SparkTable) -> None:
    """Column mapping by id; a column that is not the one of the same name that was dropped."""
    table.sql(
        _create("PARTITIONED BY (flag) TBLPROPERTIES ('delta.columnMapping.mode' = 'id')", f="DOUBLE"),
        _insert("id <= 9"),
        "ALTER TABLE {t} DROP COLUMN f",
        "ALTER TABLE {t} ADD COLUMNS (f FLOAT AFTER x)",
        _insert("id > 9"),
    )


def evolved(table: SparkTable) -> None:
    """Columns that came later, and types that were widened, without those that only our reader widens."""
    types = {"id": "INT", "i": "INT", "y": "TINYINT", "x": "FLOAT", "n": "DECIMAL(10, 2)"}
    table.sql(
        _create("TBLPROPERTIES ('delta.enableTypeWidening' = 'true')", "raw", "flag", **types),
        _insert("id <= 9", "raw", "flag"),
        "ALTER TABLE {t} ADD COLUMNS (flag BOOLEAN AFTER n, raw BINARY AFTER flag)",
        *(f"ALTER TABLE {{t}} ALTER COLUMN {name} TYPE {dict(COLUMNS)[name]}" for name in ("id", "x", "n")),
        _insert("id > 9"),
    )


def widened(table: SparkTable) -> None:
    """Every other change of a type, one of them inside of a struct, with a field that came later."""
    types = {"i": "SMALLINT", "ntz": "DATE", "st": "STRUCT<a: SMALLINT>"}
    properties = "'delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported'"
    table.sql(
        _create(f"TBLPROPERTIES ({properties})", **types),
        _insert("id <= 9").replace(" st FROM", " named_struct('a', CAST(st.a AS SMALLINT)) FROM"),
        "ALTER TABLE {t} ADD COLUMNS (st.b STRING)",
        *(f"ALTER TABLE {{t}} ALTER COLUMN {n} TYPE {t}" for n, t in (("i", "INT"), ("st.a", "INT"))),
        "ALTER TABLE {t} ALTER COLUMN ntz TYPE TIMESTAMP_NTZ",
        _insert("id > 9"),
    )


def partitioned(table: SparkTable) -> None:
    """Every type as a partition value: each row is a file."""
    names = ", ".join(name for name in NAMES if name not in ("id", "st"))
    table.sql(_create(f"PARTITIONED BY ({names})"), _insert())


def odd(table: SparkTable) -> None:
    """A path, and directories, of characters that have a meaning somewhere."""
    table.sql(_create("PARTITIONED BY (s, raw)"), _insert())


@dataclass(frozen=True, slots=True)
class Stored:
    """A table, and which engines' own scanners read its files."""

    make: Callable[[SparkTable], None]
    duckdb: str | None = None
    """Why DuckDB cannot read the files; None if it does."""
    polars: str | None = None
    spark: str | None = None
    directory: str = "table"
    is_long: bool = False
    """Whether it differs little from another one, so that `make test` leaves it out."""


TABLES: Final = {
    "plain": Stored(plain),
    "deletion vectors": Stored(vectors, polars="deletion vectors", spark="deletion vectors"),
    "renamed columns": Stored(renamed, is_long=True),
    "mapped by name": Stored(by_name, "column 'st' is nested", "deletion vectors", "maps the fields of column 'st'"),
    "mapped by id": Stored(
        by_id, "column 'st' is nested", "column 'st' is nested", "maps its columns by id", is_long=True
    ),
    "later columns": Stored(evolved, spark="had another type"),
    "widened types": Stored(
        widened, "column 'st' is nested", "column 'st' is nested", "had another type", is_long=True
    ),
    "typed partitions": Stored(partitioned, directory="a b%20c=d,é"),
    "odd paths": Stored(odd, "as a pattern", directory="odd %20:é [x]{1} #?*", is_long=True),
}
