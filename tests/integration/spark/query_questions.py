"""Questions for the tables of `query_tables`, in the language of each engine."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal, TypeAlias, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

Meaning: TypeAlias = Literal["spark", "predicate", "arrow", "datafusion"]
"""Whose meaning a condition has, where they differ. DuckDB's is Spark's in all that is asked here."""
MEANINGS: Final[tuple[Meaning, ...]] = get_args(Meaning)
NEVER: Final = "id < -100"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on rows. Texts that are not given are Spark's."""

    spark: str
    arrow: pc.Expression
    """pyarrow's own, for the dataset."""
    ours: str | None = None
    """As a predicate."""
    refused: str | None = None
    """What a predicate is told if our SQL has no such term."""
    refused_by_files: str | None = None
    """What `sidecar_files` is told if only it does not take the condition."""
    duckdb: str | None = None
    datafusion: str | None = None
    as_predicate: str | None = None
    """In Spark's words, what a predicate means by it, where that is something else: NaN is equal to nothing and in no
    order."""
    as_arrow: str | None = None
    """The same for a filter of pyarrow."""
    as_datafusion: str | None = None
    """The same for DataFusion's SQL."""

    @property
    def predicate(self) -> str:
        return self.ours or self.spark

    @property
    def in_duckdb(self) -> str:
        return self.duckdb or self.spark

    @property
    def in_datafusion(self) -> str:
        return self.datafusion or self.spark

    def meant_by(self, meaning: Meaning) -> str:
        """The condition in Spark's words, as somebody means it."""
        others = {"predicate": self.as_predicate, "arrow": self.as_arrow, "datafusion": self.as_datafusion}
        return others.get(meaning) or self.spark


def _clock(hours: float) -> dt.datetime:
    return dt.datetime(2026, 2, 10) + dt.timedelta(hours=hours)


def _instant(hours: float) -> dt.datetime:
    return _clock(hours).replace(tzinfo=dt.UTC)


_id, _i, _y, _x, _f, _s = map(pc.field, ("id", "i", "y", "x", "f", "s"))
_ts, _ntz, _d, _n, _flag, _raw = map(pc.field, ("ts", "ntz", "d", "n", "flag", "raw"))
_a, _b = pc.field("st", "a"), pc.field("st", "b")
_NAN: Final = "CAST('NaN' AS DOUBLE)"
_FLOATS: Final = "0.0, 1.5, 7.0, 8.0, 9.0"
_NOT_MINUS_ZERO: Final = "NOT (x = 0 AND CAST(x AS STRING) = '-0.0')"
_DAY: Final = dt.date(2026, 2, 11)


def _money(value: str) -> pa.Scalar:
    return pa.scalar(Decimal(value), pa.decimal128(12, 3))


CONDITIONS: Final = {
    "comparisons": Condition("id >= 9 AND i <> 3", (_id >= 9) & (_i != 3)),
    "a number beyond its type": Condition("y < 1000 AND id > 3", (_y < 1000) & (_id > 3)),
    "decimals": Condition(
        "n = 3.5 OR n < 0.25 OR n >= 100", (_n == _money("3.5")) | (_n < _money("0.25")) | (_n >= _money("100"))
    ),
    "IN": Condition("i IN (1, 3, 57)", _i.isin([1, 3, 57])),
    "IN with null": Condition("i IN (2, NULL)", _i == 2),
    "NOT IN with null": Condition("i NOT IN (1, NULL)", (_i != 1) & pc.scalar(pa.scalar(None, pa.bool_()))),
    "NOT IN": Condition("s NOT IN ('a', 'z')", (_s != "a") & (_s != "z")),
    "a long IN of floats": Condition(
        f"x IN ({_FLOATS}, {_NAN})",
        _x.isin([0.0, 1.5, 7.0, 8.0, 9.0, math.nan]),
        as_predicate=f"x IN ({_FLOATS})",
        as_arrow=f"x IN ({_FLOATS}, {_NAN}) AND {_NOT_MINUS_ZERO}",
        as_datafusion=f"x IN ({_FLOATS}, {_NAN}) AND {_NOT_MINUS_ZERO}",
    ),
    "OR": Condition("id < 3 OR s = 'b' OR ts IS NULL", (_id < 3) | (_s == "b") | _ts.is_null()),
    "NOT": Condition("NOT (i > 2 OR flag)", ~((_i > 2) | _flag)),
    "BETWEEN": Condition(
        "ts BETWEEN TIMESTAMP'2026-02-10 05:00:00Z' AND TIMESTAMP'2026-02-11 00:00:00Z'",
        (_ts >= _instant(5)) & (_ts <= _instant(24)),
        duckdb="ts BETWEEN TIMESTAMPTZ'2026-02-10 05:00:00Z' AND TIMESTAMPTZ'2026-02-11 00:00:00Z'",
    ),
    "a time without zone": Condition(
        "ntz < TIMESTAMP_NTZ'2026-02-10 12:00:00'",
        _ntz < _clock(12),
        duckdb="ntz < TIMESTAMP '2026-02-10 12:00:00'",
        datafusion="ntz < TIMESTAMP '2026-02-10 12:00:00'",
    ),
    "a date": Condition("d >= DATE'2026-02-11'", _d >= _DAY),
    "the day of a time": Condition(
        "CAST(ts AS DATE) = DATE'2026-02-11'",
        _ts.cast(pa.date32()) == _DAY,
        duckdb="CAST(timezone('UTC', ts) AS DATE) = DATE '2026-02-11'",
    ),
    "IS NULL": Condition("s IS NULL OR x IS NULL", _s.is_null() | _x.is_null()),
    "IS NOT NULL": Condition("flag IS NOT NULL AND raw IS NOT NULL", _flag.is_valid() & _raw.is_valid()),
    "null is no value": Condition(
        "NOT (s <=> 'a') AND id < 10",
        ~pc.coalesce(_s == "a", False) & (_id < 10),
        duckdb="s IS DISTINCT FROM 'a' AND id < 10",
        datafusion="(s IS DISTINCT FROM 'a') AND id < 10",
    ),
    "IS NOT TRUE": Condition("flag IS NOT TRUE", ~pc.coalesce(_flag, False)),
    "an empty text": Condition("s = '' OR s = ' '", (_s == "") | (_s == " ")),
    "the order of texts": Condition("s > 'a' AND s <= 'z'", (_s > "a") & (_s <= "z")),
    "odd texts": Condition(
        "s IN ('a/b=c%20d:e', 'it\\'s', 'ü 🦆 #?*[x]{1}', '__HIVE_DEFAULT_PARTITION__', 'null')",
        _s.isin(["a/b=c%20d:e", "it's", "ü 🦆 #?*[x]{1}", "__HIVE_DEFAULT_PARTITION__", "null"]),
        ours="s IN ('a/b=c%20d:e', 'it''s', 'ü 🦆 #?*[x]{1}', '__HIVE_DEFAULT_PARTITION__', 'null')",
        duckdb="s IN ('a/b=c%20d:e', 'it''s', 'ü 🦆 #?*[x]{1}', '__HIVE_DEFAULT_PARTITION__', 'null')",
        datafusion="s IN ('a/b=c%20d:e', 'it''s', 'ü 🦆 #?*[x]{1}', '__HIVE_DEFAULT_PARTITION__', 'null')",
    ),
    "bytes": Condition("raw > X'2F'", _raw > b"\x2f", duckdb="raw > from_hex('2F')"),
    "LIKE a prefix": Condition("s LIKE 'a%'", pc.starts_with(_s, "a")),
    "LIKE an escape": Condition(
        "s LIKE '%!_%' ESCAPE '!'", pc.match_substring(_s, "_"), datafusion="strpos(s, '_') > 0"
    ),
    "LIKE anything": Condition(
        "s LIKE '_b%' OR st.b LIKE '%\\%'",
        pc.match_like(_s, "_b%") | pc.match_like(_b, "%\\%"),
        duckdb="s LIKE '_b%' OR st.b LIKE '%\\%' ESCAPE '\\'",
        datafusion="s LIKE '_b%' OR st['b'] LIKE '%\\%'",
    ),
    "NOT LIKE": Condition("s NOT LIKE '%b%'", ~pc.match_substring(_s, "b")),
    "NaN": Condition(f"x = {_NAN}", _x == math.nan, as_predicate=NEVER, as_arrow=NEVER),
    "NaN is not": Condition(f"x <> {_NAN}", _x != math.nan, as_predicate="x IS NOT NULL", as_arrow="x IS NOT NULL"),
    "above": Condition("x > 2", _x > 2.0, as_predicate="x > 2 AND NOT isnan(x)", as_arrow="x > 2 AND NOT isnan(x)"),
    "not below": Condition("NOT (f <= 1.5)", ~(_f <= 1.5)),
    "below infinity": Condition("x < CAST('Infinity' AS DOUBLE) AND f <> 1.5", (_x < math.inf) & (_f != 1.5)),
    "zero": Condition(
        "x = 0 OR f >= 0 AND f < 0.1",
        (_x == 0.0) | ((_f >= 0.0) & (_f.cast(pa.float64()) < 0.1)),
        duckdb="x = 0 OR f >= 0 AND CAST(f AS DOUBLE) < CAST(0.1 AS DOUBLE)",
    ),
    "a field of a struct": Condition(
        "st.a > 3 AND st.b <> 'z'", (_a > 3) & (_b != "z"), datafusion="st['a'] > 3 AND st['b'] <> 'z'"
    ),
    "a field that is null": Condition(
        "st.b IS NULL AND i IS NOT NULL", _b.is_null() & _i.is_valid(), datafusion="st['b'] IS NULL AND i IS NOT NULL"
    ),
    "columns of two types": Condition("i > y", _i > _y, refused_by_files="cannot be compared here"),
    "a cast": Condition(
        "CAST(i AS STRING) = '3' AND id < 12",
        (_i.cast(pa.string()) == "3") & (_id < 12),
        refused="the cast of a column to anything but DATE is not supported",
        duckdb="CAST(i AS VARCHAR) = '3' AND id < 12",
    ),
    "a function": Condition("length(s) = 1 AND id > 2", (pc.utf8_length(_s) == 1) & (_id > 2), refused="length"),
    "a sum": Condition("i % 3 = 1 OR id = 2", (_i - (_i / 3) * 3 == 1) | (_id == 2), refused="%"),
    "no row": Condition(NEVER, _id < -100),
}
"""The conditions, by what they are about."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query of `{t}`, of the rows that a condition is true of. It gives `id`, `n` and `s`, whatever they are."""

    sql: str
    arrow: Callable[[pds.Dataset, pc.Expression], pa.Table]
    condition: str
    limit: int | None = None
    """How many rows it gives: any of those that the text alone gives."""


def _totals(rows: pa.Table) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([pc.sum(rows["id"]).as_py()], pa.int64()),
            "n": pa.array([rows.num_rows], pa.int64()),
            "s": pa.array([pc.max(rows["s"]).as_py()], pa.string()),
        }
    )


def _grouped(rows: pa.Table) -> pa.Table:
    groups = rows.group_by("s").aggregate([("id", "max"), ("x", "count")])
    return groups.rename_columns({"id_max": "id", "x_count": "n"}).select(["id", "n", "s"])


def _wide(rows: pa.Table) -> pa.Table:
    return pa.table({"id": rows["id"], "n": rows["i"].cast(pa.int64()), "s": rows["s"]})


def _joined(dataset: pds.Dataset, condition: pc.Expression) -> pa.Table:
    left = dataset.to_table(columns=["id"])
    right = dataset.to_table(columns=["i", "s", "y"], filter=condition)
    keyed = pa.table({"id": right["i"].cast(pa.int64()), "n": right["y"].cast(pa.int64()), "s": right["s"]})
    return left.join(keyed, "id", join_type="inner").select(["id", "n", "s"])


_TOTALS: Final = "SELECT CAST(sum(id) AS BIGINT) AS id, count(*) AS n, max(s) AS s FROM {t}"
_ID_N_S: Final = "SELECT id, CAST(i AS BIGINT) AS n, s FROM {t}"
QUERIES: Final = {
    "totals": Query(_TOTALS, lambda data, keeps: _totals(data.to_table(filter=keeps)), "comparisons"),
    "totals of no row": Query(_TOTALS, lambda data, keeps: _totals(data.to_table(filter=keeps)), "no row"),
    "groups": Query(
        "SELECT max(id) AS id, count(x) AS n, s FROM {t} GROUP BY s",
        lambda data, keeps: _grouped(data.to_table(filter=keeps)),
        "NOT",
    ),
    "a self-join": Query(
        "SELECT a.id AS id, CAST(b.y AS BIGINT) AS n, b.s AS s FROM {whole} AS a JOIN {t} AS b ON a.id = b.i",
        _joined,
        "IS NOT NULL",
    ),
    "the last rows": Query(
        _ID_N_S + " ORDER BY id DESC LIMIT 3",
        lambda data, keeps: _wide(data.to_table(filter=keeps).sort_by([("id", "descending")]).slice(0, 3)),
        "NOT LIKE",
    ),
    "any rows": Query(_ID_N_S, lambda data, keeps: _wide(data.head(3, filter=keeps)), "not below", limit=3),
}
"""Queries, by what they are about."""
