from __future__ import annotations

import re
import subprocess
import sys
import time
from decimal import Decimal

import pytest

from delta_sidecar.errors import InputError, PredicateError, UnknownColumnError
from delta_sidecar.predicates.binding import bind_predicate
from delta_sidecar.predicates.expression import And, Compare, Constant, Expression, Like, Not
from tests.predicates.predicate_tables import ALL_TYPES, PARTITIONS, field, struct


def bind(text: str) -> Expression:
    bound = bind_predicate(text, ALL_TYPES, PARTITIONS)
    assert bound is not None
    return bound


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("long = 1", "long = 1"),
        ("long == 1", "long = 1"),
        ("long <> 1", "long != 1"),
        ("long != 1", "long != 1"),
        ("LONG < -5", "long < -5"),
        ("long <= +5", "long <= 5"),
        ("long > -(-5)", "long > 5"),
        ("5 > long", "long < 5"),
        ("5 <= long", "long >= 5"),
        ("long = 9223372036854775807", "long = 9223372036854775807"),
        ("decimal = 12345678.90", "decimal = Decimal('12345678.90')"),
        ("long <=> 5", "(NOT (long IS NULL)) AND (long = 5)"),
        ("long <=> NULL", "long IS NULL"),
        ("NULL <=> long", "long IS NULL"),
        ("long IS NOT DISTINCT FROM 5", "(NOT (long IS NULL)) AND (long = 5)"),
        ("long IS DISTINCT FROM 5", "NOT ((NOT (long IS NULL)) AND (long = 5))"),
        ("long IN (1, 2, 1)", "long IN (1, 2)"),
        ("long IN (3)", "long = 3"),
        ("long IN (1, NULL)", "(long = 1) OR (NULL)"),
        ("long NOT IN (1, 2, NULL)", "NOT ((long IN (1, 2)) OR (NULL))"),
        ("long IN (1, integer)", "(long = 1) OR (long = integer)"),
        ("7 IN (long, integer)", "(long = 7) OR (integer = 7)"),
        ("long IN (1.5, 2)", "long = 2"),
        ("long IN (1.5)", "(long IS NULL) AND (NULL)"),
        ("long BETWEEN 1 AND 2", "(long >= 1) AND (long <= 2)"),
        ("long NOT BETWEEN 1 AND 2", "NOT ((long >= 1) AND (long <= 2))"),
        ("long IS NULL", "long IS NULL"),
        ("long IS NOT NULL", "NOT (long IS NULL)"),
        ("5 IS NULL", "FALSE"),
        ("boolean IS TRUE", "(NOT (boolean IS NULL)) AND (boolean = True)"),
        ("boolean IS NOT FALSE", "NOT ((NOT (boolean IS NULL)) AND (NOT (boolean = True)))"),
        ("boolean", "boolean = True"),
        ("NOT boolean", "NOT (boolean = True)"),
        ("boolean = false", "boolean = False"),
        ("boolean = 'false'", "boolean = False"),
        ("TRUE", "TRUE"),
        ("FALSE OR NULL", "(FALSE) OR (NULL)"),
        ("1 = 1", "TRUE"),
        ("'b' < 'a'", "FALSE"),
        ("1 = NULL", "NULL"),
        ("long = 1 AND integer = 2 AND short = 3", "(long = 1) AND (integer = 2) AND (short = 3)"),
        ("long = 1 OR integer = 2 AND short = 3", "(long = 1) OR ((integer = 2) AND (short = 3))"),
        ("(long = 1 OR integer = 2) AND short = 3", "((long = 1) OR (integer = 2)) AND (short = 3)"),
        ("string = 'it''s'", 'string = "it\'s"'),
        ("string = 'a\\nb'", "string = 'a\\\\nb'"),
        ("string = ''", "string = ''"),
        ("string = 'year'", "string = 'year'"),
        ("part = ''", "part = ''"),
        ("string = 12", "string = '12'"),
        ("string = -1.50", "string = '-1.50'"),
        ("binary = X'00ff'", "binary = b'\\x00\\xff'"),
        ("binary = x''", "binary = b''"),
        ("binary = 'é'", "binary = b'\\xc3\\xa9'"),
        ('"with space" = 1', "with space = 1"),
        ("`with space` = 1", "with space = 1"),
        ("`With Space` = 1", "with space = 1"),
        ("event.inner.leaf = 1", "event.inner.leaf = 1"),
        ("EVENT.Inner.LEAF = 1", "event.inner.leaf = 1"),
        ("event.`dotted.name` = 'x'", "event.dotted.name = 'x'"),
        ("date = '2026-02-10'", "date = '2026-02-10'"),
        ("date = DATE '2026-02-10'", "date = '2026-02-10'"),
        ("CAST('2026-02-10' AS DATE) = date", "date = '2026-02-10'"),
        ("date = '2026-02-10'::date", "date = '2026-02-10'"),
        ("timestamp = TIMESTAMP '1970-01-01 00:00:01'", "timestamp = '1970-01-01T00:00:01Z'"),
        ("timestamp = CAST('1970-01-01T00:00:01Z' AS TIMESTAMP)", "timestamp = '1970-01-01T00:00:01Z'"),
        ("timestamp_ntz = TIMESTAMP_NTZ '1970-01-01 00:00:01'", "timestamp_ntz = '1970-01-01T00:00:01'"),
        ("timestamp = TIMESTAMP_LTZ '1970-01-01 00:00:01+01:00'", "timestamp = '1969-12-31T23:00:01Z'"),
        ("integer = CAST('12' AS INT)", "integer = 12"),
        ("string = CAST(12 AS STRING)", "string = '12'"),
        ("decimal = CAST('1.235' AS DECIMAL(5, 2))", "decimal = Decimal('1.24')"),
        ("long = CAST(NULL AS BIGINT)", "NULL"),
        ("long = integer", "long = integer"),
        ("date < timestamp", "date < timestamp"),
        ("array IS NULL", "array IS NULL"),
        ("void IS NOT NULL", "NOT (void IS NULL)"),
        ("event IS NULL", "event IS NULL"),
        ("(long > 1) IS FALSE", "(NOT (long IS NULL)) AND (NOT (long > 1))"),
    ],
)
def test_bound_form(text: str, bound: str) -> None:
    assert str(bind(text)) == bound


def test_columns_carry_physical_names_and_partition_flag() -> None:
    expression = bind("event.inner.leaf = 1 AND YEAR = 2026")
    assert isinstance(expression, And)
    leaf, year = expression.terms
    assert isinstance(leaf, Compare)
    assert isinstance(year, Compare)
    assert leaf.column.physical_path == ("col-event", "col-inner", "col-leaf")
    assert not leaf.column.is_partition
    assert year.column.is_partition


def test_exact_case_wins() -> None:
    schema = struct(field("A", "long"), field("a", "long"))
    for name in ("A", "a"):
        bound = bind_predicate(f"{name} = 1", schema, [])
        assert isinstance(bound, Compare)
        assert bound.column.path == (name,)


def test_like_and_its_escape() -> None:
    assert bind("string LIKE 'a\\%%'") == Like(bind("string = ''").column, "a\\%%", "\\")  # type: ignore[union-attr]
    negated = bind("string NOT LIKE 'a!%' ESCAPE '!'")
    assert isinstance(negated, Not)
    assert isinstance(negated.term, Like)
    assert negated.term.escape == "!"
    plain = bind("string LIKE 'a\\' ESCAPE ''")
    assert isinstance(plain, Like)
    assert plain.escape == ""
    assert bind("string LIKE NULL") == Constant(None)


def test_no_predicate() -> None:
    assert bind_predicate(None, ALL_TYPES, PARTITIONS) is None


def test_a_decimal_never_goes_through_a_float() -> None:
    schema = struct(field("x", "long"))
    bound = bind_predicate("x = 9007199254740993.0", schema, [])
    assert isinstance(bound, Compare)
    assert bound.value == 9007199254740993
    bound = bind("decimal >= 90071992.93")
    assert isinstance(bound, Compare)
    assert bound.value == Decimal("90071992.93")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("long =", "'='"),
        ("long = 1 AND", "'AND'"),
        ("long = 1 integer", "'integer'"),
        ("in = 1", "quote it if it is a column: `in`"),
        ("long = 1; drop table t", "'drop'"),
        ("long = 1; integer = 2", "one condition"),
        ("select 1", "'select'"),
        ("drop table t", "'drop'"),
        ("string = 'abc", "unfinished"),
        ("upper(string) = 'A'", "UPPER(string)"),
        ("long + 1 = 2", "long + 1"),
        ("long = (SELECT 1)", "SELECT 1"),
        ("long IN (SELECT 1)", "SELECT 1"),
        ("EXISTS (SELECT 1)", "EXISTS"),
        ("long IN ()", "IN ()"),
        ("long BETWEEN SYMMETRIC 2 AND 1", "is not supported"),
        ("string ILIKE 'a'", "ILIKE"),
        ("string RLIKE 'a'", "REGEXP_LIKE"),
        ("string LIKE string", "LIKE"),
        ("string LIKE 'a' ESCAPE 'ab'", "one character"),
        ("string LIKE 'a\\'", "escape"),
        ("long LIKE 'a'", "string column"),
        ("CAST(long AS INT) = 1", "CAST(long AS INT)"),
        ("long = TRY_CAST('1' AS INT)", "TRY_CAST"),
        ("long = CAST('abc' AS INT)", "'abc'"),
        ("long = CAST(300 AS TINYINT)", "TINYINT"),
        ("date = CAST('x' AS DATE)", "'x'"),
        ("long = 1 = 2", "long = 1"),
        ("long IS integer", "IS integer"),
        ("long", "not a condition"),
        ("5", "not a condition"),
        ("long = 'abc'", "column long is long"),
        ("date = '2026-02-30'", "no such day"),
        ("date = '2026-13-01'", "no such day"),
        ("timestamp = '2026-02-10 24:00:00'", "no such time"),
        ("timestamp = '2026-02-10 22:00:00 Europe/Paris'", "not a date or timestamp"),
        ("timestamp = 5", "timestamp"),
        ("date = 5", "date"),
        ("boolean = 'maybe'", "boolean"),
        ("boolean = 1", "boolean"),
        ("string = DATE '2026-02-10'", "string"),
        ("long = string", "cannot be compared"),
        ("string > 9", "write string > '9' to compare strings"),
        ("9.50 >= string", "write string <= '9.50' to compare strings"),
        ("string BETWEEN 1 AND 2", "write string >= '1' to compare strings"),
        ("array = 1", "array<long>"),
        ("map = NULL", "map"),
        ("event = 1", "struct"),
        ("void = 1", "void"),
        ("variant = 'x'", "variant"),
        ("1 = 'a'", "literals"),
        ("long = :p", "is not supported"),
        ("long = ?", "is not supported"),
        ("event['inner'] = 1", "is not supported"),
        ("long = 1e", "'1e'"),
        ("string = 'a' 'b'", "is not supported"),
        ("long =\n1 x", "'x'"),
    ],
)
def test_refusals_are_one_line(text: str, part: str) -> None:
    with pytest.raises(PredicateError) as caught:
        bind_predicate(text, ALL_TYPES, PARTITIONS)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["nope = 1", "event.nope = 1", "long.nope = 1", "nope IS NULL", "long = nope", "`event.inner` = 1"]
)
def test_unknown_columns(text: str) -> None:
    with pytest.raises(UnknownColumnError, match="no column"):
        bind_predicate(text, ALL_TYPES, PARTITIONS)


def test_an_unknown_type_can_only_be_asked_for_null() -> None:
    from delta_sidecar.values.types import UnknownType

    schema = struct(field("x", UnknownType("hologram")))
    assert str(bind_predicate("x IS NULL", schema, [])) == "x IS NULL"
    with pytest.raises(PredicateError, match="hologram"):
        bind_predicate("x = 1", schema, [])


def test_long_chains_and_deep_nesting() -> None:
    chain = " OR ".join(f"long = {i}" for i in range(5000))
    assert len(bind(chain).terms) == 5000  # type: ignore[union-attr]
    with pytest.raises(InputError, match="deep"):
        bind("(" * 5000 + "long = 1" + ")" * 5000)


def test_a_predicate_does_not_import_pandas() -> None:
    program = (
        "import sys, delta_sidecar.predicates.binding as p; from delta_sidecar.values.types import StructType;"
        "p.bind_predicate('1 = 1', StructType(()), []); sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


NOW = 1_770_760_800_000_000
"""2026-02-10T22:00:00Z."""


def bind_now(text: str) -> str:
    return str(bind_predicate(text, ALL_TYPES, PARTITIONS, now=NOW))


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("timestamp >= now()", "timestamp >= '2026-02-10T22:00:00Z'"),
        ("timestamp >= Current_Timestamp ( )", "timestamp >= '2026-02-10T22:00:00Z'"),
        ("date = current_date()", "date = '2026-02-10'"),
        ("date = date(now())", "date = '2026-02-10'"),
        ("date = now()::date", "date = '2026-02-10'"),
        ("timestamp >= now() - interval 1 hour", "timestamp >= '2026-02-10T21:00:00Z'"),
        ("timestamp >= now()-INTERVAL '1' DAY", "timestamp >= '2026-02-09T22:00:00Z'"),
        ("timestamp >= now() - interval '1 day 2 hours'", "timestamp >= '2026-02-09T20:00:00Z'"),
        ("timestamp >= now() - interval 1 day 2 hours", "timestamp >= '2026-02-09T20:00:00Z'"),
        ("timestamp >= now() - interval 1 day - interval 2 hours", "timestamp >= '2026-02-09T20:00:00Z'"),
        ("timestamp >= interval 1 week + now()", "timestamp >= '2026-02-17T22:00:00Z'"),
        ("timestamp >= now() + interval -1.5 seconds", "timestamp >= '2026-02-10T21:59:58.5Z'"),
        ("timestamp >= (now() - interval 1 month)", "timestamp >= '2026-01-10T22:00:00Z'"),
        ("date >= date '2026-03-31' - interval 1 month", "date >= '2026-02-28'"),
        ("date >= date '2024-02-29' + interval 1 year", "date >= '2025-02-28'"),
        ("date >= '2026-03-31' - interval 1 year", "date >= '2025-03-31'"),
        ("timestamp >= date '2026-03-31' + interval 90 minutes", "timestamp >= '2026-03-31T01:30:00Z'"),
        ("timestamp BETWEEN now() - interval 1 hour AND now()",
         "(timestamp >= '2026-02-10T21:00:00Z') AND (timestamp <= '2026-02-10T22:00:00Z')"),
        ("timestamp = NULL + interval 1 day", "NULL"),
        ("date(timestamp) = '2026-02-10'",
         "(timestamp >= '2026-02-10T00:00:00Z') AND (timestamp < '2026-02-11T00:00:00Z')"),
        ("cast(timestamp_ntz AS date) = '2026-02-10'",
         "(timestamp_ntz >= '2026-02-10T00:00:00') AND (timestamp_ntz < '2026-02-11T00:00:00')"),
        ("date(timestamp) != '2026-02-10'",
         "NOT ((timestamp >= '2026-02-10T00:00:00Z') AND (timestamp < '2026-02-11T00:00:00Z'))"),
        ("date(timestamp) < '2026-02-10'", "timestamp < '2026-02-10T00:00:00Z'"),
        ("date(timestamp) <= '2026-02-10'", "timestamp < '2026-02-11T00:00:00Z'"),
        ("date(timestamp) > '2026-02-10'", "timestamp >= '2026-02-11T00:00:00Z'"),
        ("'2026-02-10' <= date(timestamp)", "timestamp >= '2026-02-10T00:00:00Z'"),
        ("date(timestamp) >= current_date() - interval 1 day", "timestamp >= '2026-02-09T00:00:00Z'"),
        ("date(timestamp) >= '2026-02-10T12:00:00Z'", "timestamp >= '2026-02-11T00:00:00Z'"),
        ("date(timestamp) < '2026-02-10T12:00:00Z'", "timestamp < '2026-02-11T00:00:00Z'"),
        ("date(timestamp) = '2026-02-10T12:00:00Z'", "(timestamp IS NULL) AND (NULL)"),
        ("date(timestamp) > '300000-01-01'", "(timestamp IS NULL) AND (NULL)"),
        ("date(timestamp) < '300000-01-01'", "(NOT (timestamp IS NULL)) OR (NULL)"),
        ("date(timestamp) IS NOT NULL", "NOT (timestamp IS NULL)"),
        ("date(timestamp) = NULL", "NULL"),
        ("date(date) = '2026-02-10'", "date = '2026-02-10'"),
        ("date(timestamp) IN (date '2026-02-10', NULL)",
         "((timestamp >= '2026-02-10T00:00:00Z') AND (timestamp < '2026-02-11T00:00:00Z')) OR (NULL)"),
    ],
)  # fmt: skip
def test_times_of_now_days_and_intervals(text: str, bound: str) -> None:
    assert bind_now(text) == bound


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("timestamp - interval 1 hour > now()", "other side of the comparison"),
        ("timestamp > interval 1 hour", "`+` and a date or timestamp is missing"),
        ("timestamp > now() - interval 1 fortnight", "'FORTNIGHT'; it has MICROSECOND"),
        ("timestamp > now() - interval 1", "a unit, such as HOUR or DAY"),
        ("timestamp > now() - interval 'soon'", "'soon' is not an interval"),
        ("timestamp > now() - interval 1.5 months", "not a whole number of months"),
        ("timestamp > now() - interval 0.0000001 seconds", "not a whole number of microseconds"),
        ("timestamp > now() - interval '1:30' hour", "'1:30' is not a number"),
        ("long > 5 - interval 1 hour", "only to a date or a timestamp"),
        ("long > now(3)", "'3'"),
        ("date(string) = '2026-02-10'", "needs a timestamp or a date"),
        ("date(timestamp) = date", "only with a literal"),
        ("date(timestamp) LIKE '2026%'", "LIKE needs a column"),
        ("date(timestamp)", "not a condition"),
        ("timestamp::string = '2026'", "the cast of a column to anything but DATE"),
        ("yesterday() < timestamp", "function 'YESTERDAY()'"),
    ],
)
def test_what_is_no_time_is_refused(text: str, words: str) -> None:
    with pytest.raises(PredicateError, match=re.escape(words)):
        bind_now(text)


def test_now_is_the_same_throughout_a_predicate() -> None:
    bound = bind("timestamp >= now() AND timestamp_ntz >= now()")
    assert isinstance(bound, And)
    first, second = bound.terms
    assert isinstance(first, Compare)
    assert isinstance(second, Compare)
    assert first.value == second.value
    assert abs(int(str(first.value)) - time.time_ns() // 1000) < 60_000_000
