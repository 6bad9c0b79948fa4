from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any, cast
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar.predicates.binding import bind_predicate
from delta_sidecar.predicates.expression import And, Expression, Or
from delta_sidecar.pruning.bucket_ranges import bucket_ranges
from delta_sidecar.values.bucket_columns import (
    GENERATION_EXPRESSION,
    GRANULARITIES,
    TIME_TYPES,
    Granularity,
    OurBucket,
    TimeType,
    bucket_expression,
    bucket_of,
    our_bucket,
    unix_bucket_expression,
)
from delta_sidecar.values.types import StructType
from tests.predicates.predicate_tables import Row, evaluate, field, struct

GENERATED = "delta.generationExpression"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LENGTHS: dict[Granularity, int] = {"month": 6, "day": 8, "hour": 10, "minute": 12, "second": 14}


def generated(name: str, data_type: str, expression: str) -> Any:
    return field(name, data_type, **{GENERATED: expression})


def our_table(granularity: Granularity = "hour", column: str = "ts", time_type: str = "timestamp") -> StructType:
    known: TimeType = "timestamp_ntz" if time_type == "timestamp_ntz" else "timestamp"
    return struct(
        field(column, time_type),
        field("x", "long"),
        generated("bucket", "string", bucket_expression(f"`{column}`", granularity, known)),
    )


def older_table(granularity: Granularity = "hour") -> StructType:
    return struct(
        field("ts", "timestamp"),
        field("x", "long"),
        generated("bucket", "string", unix_bucket_expression("ts", granularity)),
    )


def derived(text: str, schema: StructType, enabled: bool = True) -> Expression | None:
    generated = [f.name for f in schema if GENERATION_EXPRESSION in f.metadata]
    expression = bind_predicate(text, schema, generated)
    assert expression is not None
    return said_of_buckets(expression, schema, generated, enabled)


def said_of_buckets(
    expression: Expression, schema: StructType, partition_columns: list[str], enabled: bool = True
) -> Expression | None:
    whole = bucket_ranges(expression, schema, partition_columns, enabled).whole
    if whole == expression:
        return None
    assert isinstance(whole, And)
    return whole.terms[-1]


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def digits(moment: datetime, granularity: Granularity) -> str:
    return f"{moment.year:04}{moment:%m%d%H%M%S}"[: LENGTHS[granularity]]


@given(st.datetimes(timezones=st.just(UTC)), st.sampled_from(GRANULARITIES))
def test_bucket_of_is_the_utc_time(moment: datetime, granularity: Granularity) -> None:
    assert bucket_of(micros(moment), granularity) == digits(moment, granularity)


DAY = "date_add(DATE'1970-01-01', CAST(floor(CAST(ts AS BIGINT)/86400) AS INT))"
HOUR = "pmod(CAST(floor(CAST(ts AS BIGINT)/3600) AS BIGINT),24)"


def test_the_expressions_are_the_documented_ones() -> None:
    assert bucket_expression("ts", "hour") == (
        f"CASE WHEN year({DAY})>=1000 AND year({DAY})<=9999 "
        f"THEN CAST(((CAST(year({DAY}) AS BIGINT)*100+month({DAY}))*100+day({DAY}))*100+{HOUR} AS STRING) "
        f"ELSE concat(regexp_replace(CAST({DAY} AS STRING),'(?<=[0-9])-',''), lpad(CAST({HOUR} AS STRING),2,'0')) END"
    )
    assert unix_bucket_expression("ts", "hour") == (
        "concat(date_format(date_add(DATE'1970-01-01', CAST(floor(unix_timestamp(ts)/86400) AS INT)),'yyyyMMdd'), "
        "lpad(CAST(pmod(CAST(floor(unix_timestamp(ts)/3600) AS BIGINT),24) AS STRING),2,'0'))"
    )


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("time_type", TIME_TYPES)
def test_every_expression_of_ours_is_known_for_what_it_is(granularity: Granularity, time_type: TimeType) -> None:
    expression = bucket_expression("`a b`", granularity, time_type)
    assert our_bucket(expression, "`a b`", time_type) == OurBucket(granularity, exact=True)
    other = next(name for name in TIME_TYPES if name != time_type)
    assert our_bucket(expression, "`a b`", other) is None, "another type's expression would depend on the zone"
    older = unix_bucket_expression("`a b`", granularity)
    assert our_bucket(older, "`a b`", time_type) == OurBucket(granularity, exact=False)


@pytest.mark.parametrize("year", [-1, 10000])
def test_no_bucket_beyond_four_digits(year: int) -> None:
    assert bucket_of(micros(EPOCH) + (year - 1970) * 366 * 86400 * 10**6, "hour") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "ts >= '2026-02-10T22:30:00Z'",
            "(bucket >= '2026021022') OR (bucket < '0')",
        ),
        ("ts > '2026-02-10T22:59:59.999998Z'", "(bucket >= '2026021022') OR (bucket < '0')"),
        ("ts > '2026-02-10T22:59:59.999999Z'", "(bucket >= '2026021023') OR (bucket < '0')"),
        ("ts < '2026-02-10T22:00:00.000001Z'", "bucket <= '2026021022'"),
        ("ts < '2026-02-10T22:00:00Z'", "bucket <= '2026021021'"),
        ("ts <= '2026-02-10T22:00:00Z'", "bucket <= '2026021022'"),
        ("ts <= '1969-12-31T23:59:59.999999Z'", "bucket <= '1969123123'"),
        ("ts <= '2011-12-30T10:00:00Z'", "bucket <= '2011123010'"),
        ("ts >= '1969-12-31T23:59:59.999999Z'", "(bucket >= '1969123123') OR (bucket < '0')"),
        (
            "ts = '2026-02-10T22:30:00Z'",
            "((bucket >= '2026021022') OR (bucket < '0')) AND (bucket <= '2026021022')",
        ),
        ("ts < '2026-02-10T22:00:00Z' OR ts IS NULL", "(bucket <= '2026021021') OR (bucket IS NULL)"),
        ("ts < '2026-02-10T22:00:00Z' AND x = 1", "bucket <= '2026021021'"),
        ("ts < '2026-02-10T22:00:00Z' OR x = 1", None),
        ("ts != '2026-02-10T22:00:00Z'", None),
        ("NOT ts < '2026-02-10T22:00:00Z'", None),
        ("NOT (ts IS NULL)", None),
        ("ts >= '+12345-01-01'", None),
        ("ts < '-0001-01-01'", None),
        ("x = 1", None),
        ("TRUE", None),
    ],
)
def test_ranges_of_our_hour(text: str, expected: str | None) -> None:
    found = derived(text, our_table())
    assert (None if found is None else str(found)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ts >= '2026-02-10T22:30:00Z'", "(bucket >= '2026021022') OR (bucket < '0')"),
        ("ts <= '1969-12-31T23:59:59.999999Z'", "bucket <= '1970010100'"),
        ("ts >= '1969-12-31T23:59:59.999999Z'", "(bucket >= '1969123123') OR (bucket < '0')"),
        ("ts <= '2011-12-30T10:00:00Z'", "bucket <= '2011123123'"),
    ],
)
def test_ranges_of_the_older_form(text: str, expected: str) -> None:
    assert str(derived(text, older_table())) == expected


def test_nothing_without_generated_columns_in_the_protocol() -> None:
    assert derived("ts < '2026-02-10'", our_table(), enabled=False) is None


def test_the_whole_keeps_the_predicate() -> None:
    schema = our_table()
    expression = bind_predicate("ts < '2026-02-10'", schema, ["bucket"])
    assert expression is not None
    ranges = bucket_ranges(expression, schema, ["bucket"], True)
    assert isinstance(ranges.predicate, Or)
    assert ranges.predicate.terms[-1] == expression
    assert bucket_ranges(expression, schema, ["bucket"], False).whole == expression


def test_nothing_for_a_bucket_that_files_are_not_partitioned_by() -> None:
    """Its own bounds and those of the time column are known or unknown together."""
    schema = our_table()
    expression = bind_predicate("ts < '2026-02-10'", schema, [])
    assert expression is not None
    assert bucket_ranges(expression, schema, [], True).whole == expression


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ts >= '2026-02-10T22:00:00Z'", "(bucket > '2026021021') OR ({0})"),
        ("ts > '2026-02-10T22:00:00Z'", "(bucket > '2026021022') OR ({0})"),
        ("ts < '2026-02-10T22:00:00Z'", "((bucket < '2026021022') AND (bucket >= '0')) OR ({0})"),
        ("ts != '2026-02-10T22:00:00Z'", None),
        ("ts IN ('2026-02-10T22:00:00Z')", "{0}"),
        ("ts IS NULL", "{0}"),
        ("x = 1", None),
    ],
)
def test_a_bucket_inside_the_range_is_kept_by_itself(text: str, expected: str | None) -> None:
    schema = our_table()
    expression = bind_predicate(text, schema, ["bucket"])
    assert expression is not None
    whole = bucket_ranges(expression, schema, ["bucket"], True).whole
    if expected is None:
        assert whole == expression
    else:
        assert isinstance(whole, And)
        assert str(whole.terms[0]) == expected.format(expression)


@pytest.mark.parametrize(
    ("expression", "known"),
    [
        (bucket_expression("ts", "hour").upper(), True),
        (bucket_expression("ts", "hour").lower(), True),
        (unix_bucket_expression("ts", "hour").upper().replace("'YYYYMMDD'", "'yyyyMMdd'"), True),
        (bucket_expression("TS", "hour").replace(" ", "\n  ").replace("CAST(", "CAST ( "), True),
        (bucket_expression("`ts`", "second"), True),
        (bucket_expression("other", "hour"), False),
        (unix_bucket_expression("ts", "hour").replace("yyyyMMdd", "yyyyddMM"), False),
        (unix_bucket_expression("ts", "hour").replace("yyyyMMdd", "YYYYMMdd"), False),
        (bucket_expression("ts", "hour", "timestamp_ntz"), False),
        (bucket_expression("ts", "hour").replace("86400", "86399"), False),
        (bucket_expression("ts", "hour").replace("(?<=[0-9])-", "-"), False),
        (bucket_expression("ts", "hour").replace("3600", "1800"), False),
        ("date_format(ts, 'yyyyMMddHH')", False),
        ("date_trunc('hour', ts)", False),
        ("concat(ts)", False),
    ],
)
def test_only_exactly_our_expressions_count(expression: str, known: bool) -> None:
    schema = struct(field("ts", "timestamp"), field("other", "timestamp"), generated("bucket", "string", expression))
    assert (derived("ts < '2026-02-10'", schema) is not None) == known


def test_our_expression_on_a_column_of_another_type_says_nothing() -> None:
    schema = struct(field("ts", "timestamp"), generated("bucket", "long", bucket_expression("ts", "hour")))
    assert derived("ts < '2026-02-10'", schema) is None
    assert derived("ts < '2026-02-10'", our_table(time_type="date")) is None


def test_a_nested_time_column_and_odd_names() -> None:
    schema = struct(
        field("event", struct(field("odd `name", "timestamp"))),
        generated("bucket", "string", bucket_expression("event.`odd ``name`", "day")),
    )
    found = derived("event.`odd ``name` < '2026-02-10'", schema)
    assert str(found) == "bucket <= '20260209'"


MOMENTS = st.datetimes(datetime(1960, 1, 1), datetime(1980, 1, 1), timezones=st.just(UTC)) | st.sampled_from(
    [datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, 23, 59, 59, 999999, tzinfo=UTC), EPOCH]
)
OPERATORS = st.sampled_from(["=", "<", "<=", ">", ">=", "!="])


def texts() -> st.SearchStrategy[str]:
    literal = MOMENTS.map(lambda m: f"'{m.isoformat()}'")
    simple = st.builds(lambda op, v: f"ts {op} {v}", OPERATORS, literal)
    simple |= st.lists(literal, min_size=1, max_size=3).map(lambda vs: f"ts IN ({', '.join(vs)})")
    simple |= st.sampled_from(["ts IS NULL", "ts IS NOT NULL", "x > 0"])
    return st.recursive(
        simple,
        lambda inner: (
            st.builds(lambda a, b, op: f"({a}) {op} ({b})", inner, inner, st.sampled_from(["AND", "OR"]))
            | inner.map(lambda a: f"NOT ({a})")
        ),
        max_leaves=4,
    )


def near(text: str, extra: list[datetime]) -> Iterator[datetime | None]:
    """Moments around each literal of a predicate, and others."""
    for part in text.split("'")[1::2]:
        for offset in (-1, 0, 1):
            yield datetime.fromisoformat(part) + timedelta(microseconds=offset)
    yield from extra
    yield None


@given(texts(), st.lists(MOMENTS, max_size=4), st.sampled_from(GRANULARITIES), st.sampled_from([*TIME_TYPES, "older"]))
def test_no_matching_row_is_lost_in_our_buckets(
    text: str, extra: list[datetime], granularity: Granularity, form: str
) -> None:
    schema = older_table(granularity) if form == "older" else our_table(granularity, time_type=form)
    expression, condition = bind_predicate(text, schema, []), derived(text, schema)
    assert expression is not None
    for moment in near(text, extra):
        instant = None if moment is None else micros(moment)
        for bucket in buckets(instant, granularity, form):
            row: Row = {"ts": instant, "x": 1, "bucket": bucket}
            if evaluate(expression, row) and condition is not None:
                assert evaluate(condition, row)


@given(texts(), st.lists(MOMENTS, max_size=4), st.sampled_from(GRANULARITIES), st.sampled_from([*TIME_TYPES, "older"]))
def test_what_is_pruned_by_says_of_rows_what_the_predicate_says(
    text: str, extra: list[datetime], granularity: Granularity, form: str
) -> None:
    schema = older_table(granularity) if form == "older" else our_table(granularity, time_type=form)
    expression = bind_predicate(text, schema, ["bucket"])
    assert expression is not None
    whole = bucket_ranges(expression, schema, ["bucket"], True).whole
    for moment in near(text, extra):
        instant = None if moment is None else micros(moment)
        for bucket in buckets(instant, granularity, form):
            row: Row = {"ts": instant, "x": 1, "bucket": bucket}
            assert (evaluate(whole, row) is True) == (evaluate(expression, row) is True)


def buckets(instant: int | None, granularity: Granularity, form: str) -> set[str | None]:
    """The older form was written by some that cut seconds towards 1970, and by some that cut them down."""
    if instant is None:
        return {None}
    near_1970 = -(-instant // 10**6) * 10**6 if instant < 0 else instant
    return {bucket_of(instant, granularity), bucket_of(near_1970 if form == "older" else instant, granularity)}


@given(st.lists(MOMENTS, min_size=2, max_size=2), st.sampled_from(GRANULARITIES), st.sampled_from(TIME_TYPES))
def test_the_range_of_our_bucket_is_exact(moments: list[datetime], granularity: Granularity, form: TimeType) -> None:
    """A bucket wholly outside the range is left out."""
    bound, other = moments
    schema = our_table(granularity, time_type=form)
    row: Row = {"bucket": bucket_of(micros(other), granularity)}
    condition = derived(f"ts <= '{bound.isoformat()}'", schema)
    assert evaluate(cast(Expression, condition), row) == (digits(other, granularity) <= digits(bound, granularity))
    condition = derived(f"ts >= '{bound.isoformat()}'", schema)
    assert evaluate(cast(Expression, condition), row) == (digits(other, granularity) >= digits(bound, granularity))


def skipped_days() -> dict[date, str]:
    """Days missing from some zone's calendar, by the time zone database at hand."""
    found: dict[date, str] = {}
    for name in available_timezones():
        zone = ZoneInfo(name)
        news = [datetime(year, 1, 2, tzinfo=UTC) for year in range(1800, 2038)]
        for start, end in pairwise(news):
            if end.astimezone(zone).utcoffset() - start.astimezone(zone).utcoffset() < timedelta(hours=20):  # type: ignore[operator]
                continue
            for noon in (start + timedelta(days=day, hours=12) for day in range(-2, 368)):
                local = noon.replace(tzinfo=zone)
                if local.astimezone(UTC).astimezone(zone).date() != noon.date():
                    found[noon.date()] = name
    return found


@pytest.mark.slow
def test_days_missing_from_a_writers_calendar_lose_no_rows() -> None:
    """Spark in such a zone formats the missing day as the next one, in the older form."""
    skipped = skipped_days()
    assert date(2011, 12, 30) in skipped
    schema = older_table("hour")
    for day in skipped:
        hours = [datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(hours=h) for h in range(-24, 72, 5)]
        written = [h + timedelta(days=1) if h.date() == day else h for h in hours]
        for bound in hours:
            condition = derived(f"ts <= '{bound.isoformat()}'", schema)
            assert condition is not None
            for moment, shifted in zip(hours, written, strict=True):
                if moment <= bound:
                    assert evaluate(condition, {"bucket": bucket_of(micros(shifted), "hour")})


OTHERS = struct(
    field("ts", "timestamp"),
    field("x", "long"),
    generated("day", "date", "CAST(ts AS DATE)"),
    generated("y", "integer", "YEAR(ts)"),
    generated("m", "integer", "month(`ts`)"),
    generated("d", "integer", "DAY(ts)"),
    generated("h", "integer", "hour(ts)"),
)


@given(texts(), st.lists(MOMENTS, max_size=4), st.integers(-18 * 60, 18 * 60))
def test_no_matching_row_is_lost_whatever_the_writers_zone(text: str, extra: list[datetime], minutes: int) -> None:
    zone = timezone(timedelta(minutes=minutes))
    generated = [f.name for f in OTHERS if GENERATION_EXPRESSION in f.metadata]
    expression = bind_predicate(text, OTHERS, generated)
    assert expression is not None
    condition = said_of_buckets(expression, OTHERS, generated)
    for moment in near(text, extra):
        row: Row = dict.fromkeys(OTHERS.names) | {"x": 1}
        if moment is not None:
            local = moment.astimezone(zone)
            row |= {"ts": micros(moment), "day": local.toordinal() - EPOCH.toordinal()}
            row |= {"y": local.year, "m": local.month, "d": local.day, "h": local.hour}
        if evaluate(expression, row) and condition is not None:
            assert evaluate(condition, row)


def test_ranges_of_others_are_widened() -> None:
    date_only = struct(*OTHERS.fields[:3])
    assert str(derived("ts >= '1970-01-10'", date_only)) == "day >= '1970-01-09'"
    assert str(derived("ts < '1970-01-10T06:00:00'", date_only)) == "day <= '1970-01-10'"
    assert str(derived("ts <= '1970-01-10T06:00:00'", date_only)) == "day <= '1970-01-11'"
    ntz = struct(field("ts", "timestamp_ntz"), *OTHERS.fields[2:3])
    assert str(derived("ts >= '1970-01-10'", ntz)) == "day >= '1970-01-08'"
    year_month = struct(*OTHERS.fields[:2], *OTHERS.fields[3:5])
    assert str(derived("ts >= '1970-03-10'", year_month)) == "(y > 1970) OR ((y = 1970) AND (m >= 3))"


def test_a_month_without_a_year_says_nothing() -> None:
    assert derived("ts >= '1970-03-10'", struct(OTHERS.fields[0], *OTHERS.fields[4:])) is None
    gap = struct(OTHERS.fields[0], OTHERS.fields[3], *OTHERS.fields[5:])
    assert str(derived("ts >= '1970-03-10'", gap)) == "y >= 1970"


def test_a_day_is_pruned_like_the_range_it_means() -> None:
    schema = our_table("hour")
    day = derived("date(ts) = '2026-02-10'", schema)
    assert day is not None
    assert day == derived("ts >= '2026-02-10' AND ts < '2026-02-11'", schema)
    assert "bucket <= '2026021023'" in str(day)
