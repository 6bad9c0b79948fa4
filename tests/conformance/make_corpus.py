"""Makes `docs/spec/corpus/`: `python -m tests.conformance.make_corpus [TABLE …]`.

The bytes of its indexes stay in the repository, and every later version must read them: make a table anew only if its
case was wrong. Expected answers come from `spec_model`, a plain replay that knows nothing of the package's reader.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import shutil
import struct
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from delta_sidecar.testing import actions as logged
from delta_sidecar.testing import add, remove
from delta_sidecar.testing.actions import DeletionVector, column
from delta_sidecar.values.bucket_columns import GENERATION_EXPRESSION, bucket_expression
from tests.conformance.corpus_table import (
    Making,
    among,
    both,
    either,
    flip,
    is_,
    no,
    null,
    numbered,
    reseal,
    stats,
)
from tests.conformance.spec_model import Bucket

CORPUS = Path(__file__).resolve().parents[2] / "docs" / "spec" / "corpus"
UTC = dt.UTC

# Tables, in the order of the README.

TABLES: dict[str, Callable[[Making], Any]] = {}


def table(make: Callable[[Making], Any]) -> Callable[[Making], Any]:
    TABLES[make.__name__.replace("_", "-")] = make
    return make


@table
def no_tail(t: Making) -> None:
    """An index at the newest version, in three parts. Older versions have no index."""
    t.commit(*map(numbered, range(3))).commit(remove("f0.parquet"), *map(numbered, range(3, 7))).index()
    t.case("newest", base=1)
    t.case("version of the index", version=1, base=1)
    t.case("older than the index", version=0, index="must not")
    t.case("no such version", version=2, error="no such version")
    t.case("equal", is_("x", "=", 4), base=1).case("less", is_("x", "<", 2), base=1)
    t.case("nothing matches", is_("x", ">", 99), base=1)
    t.case("or", either(is_("x", "=", 1), is_("x", ">=", 6)), base=1)
    t.case("not", no(is_("x", "<=", 4)), base=1).case("in", among("x", 2, 5, 77), base=1)
    t.case("not in", no(among("x", 2, 5)), base=1).case("unequal", is_("x", "!=", 3), base=1)
    t.case("null", null("x"), base=1).case("not null", no(null("x")), base=1)


@table
def tail(t: Making) -> None:
    """Commits after the index add and remove files, of the index and of each other; other actions change nothing."""
    t.commit(*map(numbered, range(6))).index()
    t.commit(remove("f1.parquet"), numbered(6), numbered(7), logged.txn())
    t.commit(logged.commit_info("OPTIMIZE"), remove("f6.parquet"), remove("f2.parquet"), numbered(8), logged.cdc())
    t.commit(logged.domain_metadata(), logged.unknown_action("fromTheFuture", path="f3.parquet"))
    t.commit(numbered(9), remove("f0.parquet", extended=True))
    for version in range(5):
        t.case(f"version {version}", version=version, base=0)
    t.case("newest", base=0).case("removed files do not match", is_("x", "<=", 2), base=0)
    t.case("both kinds", is_("x", ">", 4), base=0)
    t.case("with statistics", base=0, stats=True)


@table
def remove_and_add_again(t: Making) -> None:
    """One commit removes and adds the same file; a file is added again with other statistics;
    a removed one comes back.
    """
    t.commit(*map(numbered, range(6))).index()
    again = replace(numbered(0), size=900, stats=stats({"x": 50}, x=0))
    t.commit(remove("f0.parquet"), again, remove("f1.parquet"), remove("f2.parquet"))
    t.commit(replace(numbered(1), size=901), replace(numbered(3), size=903, stats=stats({"x": 60}, x=0)))
    t.commit(replace(numbered(4), size=1), replace(numbered(4), size=904), remove("f4.parquet"))
    for version in range(4):
        t.case(f"version {version}", version=version, base=0)
    t.case("old statistics do not count", is_("x", "<", 5), base=0).case("new ones do", is_("x", ">", 40), base=0)


@table
def deletion_vectors(t: Making) -> None:
    """Deletion vectors are added, replaced and taken away; a path with another vector is another key."""
    one, two = DeletionVector(offset=1), DeletionVector(offset=40, cardinality=4)
    inline = DeletionVector("wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", "i", None, 44, 6)
    t.log.protocol(reader=3, features=["deletionVectors"])
    t.commit(*map(numbered, range(4)), numbered(4, dv=one), numbered(5, dv=inline)).index()
    t.commit(remove("f0.parquet"), numbered(0, dv=one), remove("f4.parquet", dv=one), numbered(4, dv=two))
    t.commit(remove("f0.parquet", dv=one), numbered(0, dv=two), remove("f5.parquet", dv=inline), numbered(5))
    t.commit(remove("f1.parquet", dv=one), remove("f4.parquet", dv=one))
    t.commit(remove("f2.parquet"), numbered(2, dv=replace(one, offset=None)), numbered(6, dv=inline))
    t.index(full=False)
    t.commit(remove("f2.parquet", dv=one), remove("f6.parquet", dv=inline))
    for version in range(6):
        t.case(f"version {version}", version=version, base=4 if version >= 4 else 0)
    t.case("vectors do not prune", is_("x", "=", 0), base=4)


@table
def odd_paths(t: Making) -> None:
    """Spaces, percent escapes, Unicode, absolute URIs; removes spell paths in another way than adds."""
    names = [
        "p=a%20b/f0.parquet",
        "p=a b/f1.parquet",
        "p=%C3%BC/f2.parquet",
        "p=日本/f3.parquet",
        "a%2Fb/f4.parquet",
        "a/b/f5.parquet",
        "a%252Fb/f6.parquet",
        "p=1:2/f7.parquet",
        "file:///elsewhere/f8.parquet",
        "file:/elsewhere/f9.parquet",
        "/elsewhere/f10.parquet",
        "s3://bucket/t/f11.parquet",
        "s3a://bucket/t/f12.parquet",
        "./f13.parquet",
        "x/../f14.parquet",
        "a+b/f15.parquet",
        "100%/f16.parquet",
        "q?x#y/f17.parquet",
        "elsewhere/f8.parquet",
        "p=a%20b/F0.parquet",
    ]
    files = [add(name, size=n, stats=stats({"x": n}, x=0)) for n, name in enumerate(names)]
    t.commit(*files[:16]).index(part_rows=5)
    t.commit(*files[16:], remove("p=a b/f0.parquet"), remove("p=%61%20b//f1.parquet"), remove("p=ü/f2.parquet"))
    t.commit(remove("p=%E6%97%A5%E6%9C%AC/f3.parquet"), remove("a/b/f4.parquet"), remove("a%2Fb/f5.parquet"))
    t.commit(remove("p=1%3A2/f7.parquet"), remove("/elsewhere/f8.parquet"), remove("file:///elsewhere/./f9.parquet"))
    t.commit(remove("file:/elsewhere/f10.parquet"), remove("s3n://bucket/t/f11.parquet"), remove("f13.parquet"))
    t.commit(
        remove("f14.parquet"), remove("a b/f15.parquet"), remove("100%25/f16.parquet"), remove("q%3Fx%23y/f17.parquet")
    )
    t.commit(remove("S3://bucket/t/../t/f12.parquet"), replace(files[6], path="a%252fb/f6.parquet", size=600))
    for version in range(7):
        t.case(f"version {version}", version=version, base=0)
    t.index(part_rows=5, full=False)
    t.case("newest", base=6)


PARTITIONS: dict[str, tuple[str, list[str | None], Sequence[Any]]] = {
    "p_string": ("string", ["a", "b", "é", "", None], ["a", "é"]),
    "p_byte": ("byte", ["-128", "0", "127", None, "128"], [0]),
    "p_short": ("short", ["-5", "0", "32767", None, ""], [0]),
    "p_integer": ("integer", ["-5", "0", "+7", None, "seven"], [7]),
    "p_long": ("long", ["-9223372036854775808", "0", "9223372036854775807", None, ""], [9223372036854775807]),
    "p_float": ("float", ["-1.5", "0.5", "Infinity", None, "NaN"], [0.5]),
    "p_double": ("double", ["-1e300", "0.25", "-Infinity", None, "NaN"], [0.25]),
    "p_boolean": ("boolean", ["true", "false", "TRUE", None, "1"], [True]),
    "p_decimal": ("decimal(9,2)", ["-1.25", "0", "12.50", None, "1.255"], ["12.50"]),
    "p_date": ("date", ["1969-12-31", "2026-02-10", "2026-02-11", None, "10.2.2026"], ["2026-02-10"]),
    "p_timestamp": (
        "timestamp",
        ["1969-12-31 23:59:59.999", "2026-02-10 22:00:00", "2026-02-10T22:00:00.000001Z", None, "now"],
        ["2026-02-10T22:00:00.000000Z"],
    ),
    "p_ntz": (
        "timestamp_ntz",
        ["1969-12-31 23:59:59.999", "2026-02-10 22:00:00", "2026-02-10 22:00:00.000001", None, "now"],
        ["2026-02-10T22:00:00.000000"],
    ),
    "p_binary": ("binary", ["abc", "é", "z", None, ""], []),
}


@table
def typed_partitions(t: Making) -> None:
    """Partition columns of every type; null, empty and unreadable values, and a key that is missing."""
    t.log.protocol(reader=3, features=["timestampNtz"])
    t.log.metadata([column("x"), *(column(name, kind) for name, (kind, _, _) in PARTITIONS.items())], list(PARTITIONS))
    rows = [{name: values[n] for name, (_, values, _) in PARTITIONS.items()} for n in range(5)]
    files = [
        add(f"f{n}.parquet", size=n, partition=values, stats=stats({"x": n}, x=0)) for n, values in enumerate(rows)
    ]
    t.commit(*files).index(part_rows=2)
    t.commit(add("missing.parquet", partition={}, stats=stats({"x": 5}, x=0)), replace(files[1], path="again.parquet"))
    t.case("newest", base=0)
    for name, (_, _, literals) in PARTITIONS.items():
        t.case(f"{name} null", null(name), base=0).case(f"{name} not null", no(null(name)), base=0)
        for value in literals:
            for op in ("=", "!=", "<", ">="):
                t.case(f"{name} {op}", is_(name, op, value), base=0)
            t.case(f"{name} not <", no(is_(name, "<", value)), base=0)
    t.case("with statistics", base=0, stats=True)


def hour_columns() -> list[dict[str, Any]]:
    generated = {GENERATION_EXPRESSION: bucket_expression("ts", "hour")}
    return [column("ts", "timestamp"), column("m"), column("_event_hour", "string", metadata=generated)]


HOUR_BUCKET = Bucket("ts", "timestamp", "text", ("_event_hour",), "hour")


def hourly(hour: int, quarter: int, has_stats: bool = True) -> Any:
    """A quarter of an hour, counted from 2026-02-10."""
    low = dt.datetime(2026, 2, 10, tzinfo=UTC) + dt.timedelta(hours=hour, minutes=15 * quarter)
    high = low + dt.timedelta(minutes=14, seconds=59, microseconds=999_900)
    bucket = low.strftime("%Y%m%d%H")
    said = stats({"ts": low, "m": hour}, {"ts": high, "m": hour}, ts=0, m=0) if has_stats else None
    return add(f"_event_hour={bucket}/f{hour}-{quarter}.parquet", partition={"_event_hour": bucket}, stats=said)


def _time_cases(t: Making, base: int) -> None:
    t.case("newest", base=base)
    for op in (">=", ">", "<", "<=", "="):
        t.case(f"ts {op} on the hour", is_("ts", op, "2026-02-10T02:00:00.000000Z"), base=base)
    t.case("within the last millisecond", is_("ts", ">", "2026-02-10T01:59:59.999500Z"), base=base)
    t.case(
        "a quarter",
        both(is_("ts", ">=", "2026-02-10T01:15:00.000000Z"), is_("ts", "<", "2026-02-10T01:30:00.000000Z")),
        base=base,
    )
    t.case(
        "two hours",
        either(is_("ts", "<", "2026-02-10T00:10:00.000000Z"), is_("ts", ">", "2026-02-10T03:50:00.000000Z")),
        base=base,
    )
    t.case("in", among("ts", "2026-02-10T00:20:00.000000Z", "2026-02-10T02:20:00.000000Z"), base=base)
    t.case("not before", no(is_("ts", "<", "2026-02-10T03:00:00.000000Z")), base=base)
    t.case("bucket", is_("_event_hour", "=", "2026021001"), base=base)
    t.case("bucket and column", both(is_("_event_hour", ">=", "2026021002"), is_("m", "=", 3)), base=base)
    t.case("null time", null("ts"), base=base)
    t.case("no such time", is_("ts", ">", "2030-01-01T00:00:00.000000Z"), base=base)


@table
def hours(t: Making) -> None:
    """A time bucket of an hour is the sort key: a range of time prunes parts, row groups and files."""
    t.buckets = [HOUR_BUCKET]
    t.log.protocol(writer=4).metadata(hour_columns(), ["_event_hour"])
    for hour in range(4):
        t.commit(*(hourly(hour, quarter) for quarter in range(4)))
    t.commit(hourly(1, 9, False), hourly(3, 8, False))
    t.index(part_rows=6, group_rows=2)
    t.commit(remove(hourly(0, 1).path), hourly(4, 0), hourly(2, 7, False))
    _time_cases(t, base=4)
    t.case("with statistics", base=4, stats=True)


@table
def off_bucket(t: Making) -> None:
    """Files whose own times contradict their bucket: nothing may be derived from the bucket for them."""
    t.buckets = [HOUR_BUCKET]
    t.log.protocol(writer=4).metadata(hour_columns(), ["_event_hour"])
    for hour in range(3):
        t.commit(*(hourly(hour, quarter) for quarter in range(2)))
    wrong = replace(hourly(3, 0), path="wrong.parquet", partition={"_event_hour": "2026021000"})
    unreadable = replace(hourly(2, 1), path="unreadable.parquet", partition={"_event_hour": "yyyyMMddHH"})
    nothing = replace(hourly(2, 0), path="null.parquet", partition={"_event_hour": None})
    t.commit(wrong, unreadable, nothing).index(part_rows=3, group_rows=2)
    t.commit(replace(wrong, path="wrong-in-the-tail.parquet"), hourly(3, 1))
    _time_cases(t, base=3)


@table
def other_buckets(t: Making) -> None:
    """Buckets by date, and by year, month and day, which depend on the writer's zone:
    ranges are widened by 18 hours.
    """
    t.log.protocol(reader=1, writer=7, writer_features=["generatedColumns"])
    units = ("year", "month", "day")
    generated = {name: {GENERATION_EXPRESSION: f"{name}(ts)"} for name in units}
    t.log.metadata(
        [
            column("ts", "timestamp"),
            column("d", "date", metadata={GENERATION_EXPRESSION: "CAST(ts AS DATE)"}),
            *(column(name, "integer", metadata=metadata) for name, metadata in generated.items()),
        ],
        ["d", *units],
    )
    t.buckets = [Bucket("ts", "timestamp", "date", ("d",)), Bucket("ts", "timestamp", "units", units)]

    def of_day(day: int, has_stats: bool) -> Any:
        low = dt.datetime(2026, 1, 28, tzinfo=UTC) + dt.timedelta(days=day)
        values = {"d": low.date().isoformat(), "year": str(low.year), "month": str(low.month), "day": str(low.day)}
        said = stats({"ts": low}, {"ts": low + dt.timedelta(hours=23)}, ts=0) if has_stats else None
        return add(f"f{day}-{has_stats:d}.parquet", partition=values, stats=said)

    t.commit(*(of_day(day, has_stats) for day in range(6) for has_stats in (True, False))).index(part_rows=4)
    t.commit(of_day(6, True), of_day(7, False))
    t.case("newest", base=0)
    t.case("from a day on", is_("ts", ">=", "2026-02-01T00:00:00.000000Z"), base=0)
    t.case("before", is_("ts", "<", "2026-01-29T12:00:00.000000Z"), base=0)
    t.case("an instant", is_("ts", "=", "2026-01-31T12:00:00.000000Z"), base=0)


@table
def single_part(t: Making) -> None:
    """A small table: its only part is one file, v{C}.parquet."""
    t.commit(*map(numbered, range(5))).index(single=True)
    t.commit(remove("f3.parquet"), numbered(5))
    t.case("newest", base=0).case("version of the index", version=0, base=0)
    t.case("equal", is_("x", "=", 2), base=0).case("greater", is_("x", ">", 3), base=0)
    t.case("with statistics", base=0, stats=True)


@table
def single_without_manifest(t: Making) -> None:
    """The manifest of a small table is gone. Its part may serve alone."""
    t.commit(*map(numbered, range(5))).index(single=True)
    t.file("v0.manifest.json").unlink()
    t.commit(remove("f3.parquet"), numbered(5))
    t.case("newest", index="may").case("greater", is_("x", ">", 3), index="may")


@table
def row_groups(t: Making) -> None:
    """Three parts of eleven rows in row groups of three, sorted by the minimum of the time column; rows without it."""
    t.log.metadata({"ts": "timestamp", "x": "long"})

    def at(n: int) -> Any:
        low = dt.datetime(2026, 2, 10, tzinfo=UTC) + dt.timedelta(hours=n)
        said = stats({"ts": low, "x": n % 7}, {"ts": low + dt.timedelta(minutes=30), "x": n % 7 + 3}, ts=0, x=0)
        return add(f"f{n}.parquet", stats=None if n % 17 == 5 else said)

    t.commit(*map(at, range(33))).index(part_rows=12, group_rows=3)
    t.commit(remove("f30.parquet"), at(33), at(34))
    t.case("newest", base=0)
    t.case("last hours", is_("ts", ">=", "2026-02-11T06:00:00.000000Z"), base=0)
    t.case("first hours", is_("ts", "<", "2026-02-10T02:15:00.000000Z"), base=0)
    t.case(
        "an hour",
        both(is_("ts", ">=", "2026-02-10T12:00:00.000000Z"), is_("ts", "<", "2026-02-10T13:00:00.000000Z")),
        base=0,
    )
    t.case("time and column", both(is_("ts", "<", "2026-02-10T08:00:00.000000Z"), is_("x", "=", 9)), base=0)
    t.case("column", is_("x", "<", 1), base=0).case(
        "neither", no(either(is_("x", "<", 5), is_("ts", "<", "2026-02-11T00:00:00.000000Z"))), base=0
    )
    t.case("with statistics", base=0, stats=True)


@table
def statistics(t: Making) -> None:
    """Bounds that writers round or leave out: NaN, infinite and rounded floats,
    cut times, cut strings, decimals through a double; broken texts.
    """
    t.log.protocol(reader=3, features=["timestampNtz"])
    kinds = {
        "d": "double",
        "f": "float",
        "s": "string",
        "ts": "timestamp",
        "ntz": "timestamp_ntz",
        "price": "decimal(9,2)",
        "exact": "decimal(38,4)",
        "through_double": "decimal(16,2)",
        "b": "boolean",
        "bin": "binary",
        "day": "date",
        "x": "long",
    }
    t.log.metadata(kinds)
    long_text = "a" * 32
    files: dict[str, Any] = {
        "nan-max": stats({"d": 1.0, "f": 1.0}, {"d": float("nan"), "f": float("nan")}, d=0, f=0),
        "nan-both": stats({"d": float("nan")}, d=0),
        "infinite": stats({"d": float("-inf"), "f": float("-inf")}, {"d": float("inf"), "f": float("inf")}, d=0, f=0),
        "float": stats({"f": 0.1}, {"f": 0.3}, f=0),
        "text": stats({"s": long_text}, {"s": long_text + "\U0010ffff"}, s=0),
        "text-utf8": stats({"s": "z"}, {"s": "é"}, s=0),
        "times": '{"numRecords":10,"minValues":{"ts":"2026-02-10T22:00:00.123Z","ntz":"2026-02-10T22:00:00.123"},'
        '"maxValues":{"ts":"2026-02-10T23:00:00.123Z","ntz":"2026-02-10T23:00:00.123"},"nullCount":{"ts":0,"ntz":0}}',
        "times-with-offset": '{"numRecords":10,"minValues":{"ts":"2026-02-10T22:00:00.000+05:30"},'
        '"maxValues":{"ts":"2026-02-10 23:00:00.000000+05:30"},"nullCount":{"ts":0}}',
        "before-1970": '{"numRecords":10,"minValues":{"ts":"1969-07-20T20:17:40.000Z","ntz":"1969-07-20T20:17:40.000"},'
        '"maxValues":{"ts":"1969-07-20T20:17:40.000Z","ntz":"1969-07-20T20:17:40.000"},"nullCount":{"ts":0,"ntz":0}}',
        "decimals": stats({"price": Decimal("-1.25"), "exact": Decimal("12345678901234567890.2500")}, price=0, exact=0),
        "through-double": stats({"through_double": Decimal("90071992547409.92")}, through_double=0),
        "decimal-text": '{"numRecords":1,"minValues":{"price":"7.50"},"maxValues":{"price":75e-1},'
        '"nullCount":{"price":0}}',
        "flags": '{"numRecords":2,"minValues":{"b":false,"bin":"a","day":"2026-02-10"},'
        '"maxValues":{"b":false,"bin":"b","day":"2026-02-11"},"nullCount":{"b":0,"bin":0,"day":0}}',
        "all-null": stats({}, x=10, d=10, s=10),
        "no-null": stats({}, x=0, d=0, s=0),
        "no-counts": '{"minValues":{"x":5},"maxValues":{"x":6}}',
        "wide": '{"numRecords":10,"tightBounds":false,"minValues":{"x":5},"maxValues":{"x":50},"nullCount":{"x":3}}',
        "wrong-types": '{"numRecords":"10","minValues":{"x":"5","d":"1.0","day":20494,"ts":"yesterday","s":7},'
        '"maxValues":{"x":5.5,"day":"2026-02-30"},"nullCount":{"x":-1}}',
        "broken": '{"numRecords":10,"minValues":{"x":',
        "empty": "{}",
        "not-an-object": "[1,2]",
        "twice": '{"numRecords":10,"minValues":{"x":1,"x":100},"maxValues":{"x":200},"nullCount":{"x":0}}',
        "unknown-keys": '{"numRecords":10,"minValues":{"x":30,"gone":1},"maxValues":{"x":40},'
        '"nullCount":{"x":0},"future":{"x":1}}',
    }
    made = [add(f"{name}.parquet", size=n, stats=said) for n, (name, said) in enumerate(files.items())]
    t.commit(*made, add("none.parquet")).index(part_rows=9)
    t.commit(*(replace(file, path=f"tail/{file.path}") for file in made))
    t.case("newest", base=0)
    questions: list[tuple[str, str, Any]] = [
        ("d", ">", 5.0),
        ("d", "=", 0.5),
        ("d", "!=", 1.0),
        ("d", "<", 0.0),
        ("d", "=", "Infinity"),
        ("f", "<=", 0.0),
        ("f", ">", 0.5),
        ("f", "=", 0.25),
        ("s", "=", long_text + "b"),
        ("s", ">", "a" * 33),
        ("s", "<", "a"),
        ("s", ">=", "日"),
        ("s", "!=", long_text),
        ("ts", ">", "2026-02-10T23:00:00.123500Z"),
        ("ts", ">", "2026-02-10T23:00:00.124500Z"),
        ("ts", "<", "2026-02-10T22:00:00.123000Z"),
        ("ts", "<", "2026-02-10T17:00:00.000000Z"),
        ("ts", "<", "1969-07-20T20:17:39.999500Z"),
        ("ts", "<", "1969-07-20T20:17:39.998500Z"),
        ("ts", ">", "1969-07-20T20:17:40.000500Z"),
        ("ntz", ">", "2026-02-10T23:00:00.123500"),
        ("ntz", "<", "1969-07-20T20:17:39.999500"),
        ("price", "=", "7.50"),
        ("price", "<", "-1.25"),
        ("price", "<=", "-1.25"),
        ("exact", "=", "12345678901234567890.2500"),
        ("exact", "<", "12345678901234567000.0000"),
        ("through_double", ">", "90071992547409.92"),
        ("through_double", ">", "90071992547410.50"),
        ("b", "=", True),
        ("day", "=", "2026-02-11"),
        ("day", ">", "2026-02-11"),
        ("x", "=", 5),
        ("x", ">", 45),
        ("x", "<", 100),
    ]
    for name, op, value in questions:
        t.case(f"{name} {op} {value}", is_(name, op, value), base=0)
    for name in ("x", "d", "s", "b", "bin"):
        t.case(f"{name} null", null(name), base=0).case(f"{name} not null", no(null(name)), base=0)
    t.case("not of a float", no(is_("d", "<", 5.0)), base=0).case("not in floats", no(among("d", 1.0, 2.0)), base=0)
    t.case("not of a number", no(is_("x", "<", 50)), base=0)
    t.case("with statistics", base=0, stats=True)


@table
def nested_columns(t: Making) -> None:
    """Nested columns, names with dots, and columns called as those of an index."""
    inner = {"type": "struct", "fields": [column("b"), column("c", "string")]}
    t.log.metadata(
        [
            column("a", inner),
            column("a.b"),
            column("path", "string"),
            column("min"),
            column("list", {"type": "array", "elementType": "long", "containsNull": True}),
        ],
        ["path"],
    )

    def nested(n: int) -> Any:
        said = {
            "numRecords": 5,
            "minValues": {"a": {"b": n, "c": f"c{n}"}, "a.b": 10 * n, "min": -n},
            "maxValues": {"a": {"b": n + 1, "c": f"c{n}"}, "a.b": 10 * n, "min": -n},
            "nullCount": {"a": {"b": n % 2 * 5, "c": 0}, "a.b": 0, "min": 0, "list": 0},
        }
        return add(f"f{n}.parquet", partition={"path": f"p{n % 3}"}, stats=said)

    t.commit(*map(nested, range(6))).index().commit(nested(6))
    t.case("newest", base=0).case("nested", is_("a/b", ">=", 5), base=0).case("nested null", null("a/b"), base=0)
    t.case("dotted", is_("a.b", "=", 40), base=0).case("nested text", is_("a/c", "=", "c2"), base=0)
    t.case("called path", is_("path", "=", "p1"), base=0).case("called min", is_("min", "<", -4), base=0)
    t.case("with statistics", base=0, stats=True)


@table
def column_mapping(t: Making) -> None:
    """Columns have physical names; one was renamed after the index, and another column took its name."""

    def mapped(name: str, physical: str, number: int, kind: str = "long") -> dict[str, Any]:
        return column(
            name, kind, metadata={"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
        )

    settings = {"delta.columnMapping.mode": "name"}
    t.log.protocol(reader=2, writer=5)
    t.log.metadata([mapped("x", "col-1", 1), mapped("p", "col-2", 2, "string")], ["p"], settings)

    def file(n: int) -> Any:
        return add(
            f"f{n}.parquet", partition={"col-2": "ab"[n % 2]}, stats=stats({"col-1": n, "x": -n}, **{"col-1": 0})
        )

    t.commit(*map(file, range(6))).index()
    t.case("before", is_("x", "=", 4), version=0, base=0).case("partition", is_("p", "=", "b"), version=0, base=0)
    t.log.metadata(
        [mapped("y", "col-1", 1), mapped("p", "col-2", 2, "string"), mapped("x", "col-3", 3)], ["p"], settings
    )
    t.commit(file(6))
    t.case("newest", base=0).case("new name", is_("y", "=", 4), base=0).case("taken name", is_("x", "=", 4), base=0)
    t.case("partition after", both(is_("p", "=", "a"), is_("y", ">", 3)), base=0)
    t.case("with statistics", base=0, stats=True)


@table
def type_widening(t: Making) -> None:
    """Columns were widened, and the index was built again: its parts have the new types, those of old files, too."""
    _widened(t, rebuilt=True)


@table
def old_types(t: Making) -> None:
    """Columns were widened after the index was built: its parts have the old types. Floats in bounds and literals."""
    _widened(t, rebuilt=False)


def _widened(t: Making, rebuilt: bool) -> None:
    def changed(name: str, old: str, new: str) -> dict[str, Any]:
        return column(name, new, metadata={"delta.typeChanges": [{"fromType": old, "toType": new}]})

    changes = {
        "i": ("integer", "long"),
        "f": ("float", "double"),
        "m": ("decimal(5,2)", "decimal(20,4)"),
        "d": ("date", "timestamp_ntz"),
        "n": ("integer", "double"),
        "k": ("long", "string"),
    }
    same = [column("z")] if rebuilt else [column("z"), column("g", "float")]
    single = {} if rebuilt else {"g": 0.1}
    t.log.protocol(reader=3, features=["typeWidening", "timestampNtz"])
    t.log.metadata([*same, *(column(name, old) for name, (old, _) in changes.items())])

    def old(n: int) -> Any:
        said = {
            "i": n,
            "f": 0.1,
            "m": Decimal(n) + Decimal("0.25"),
            "d": dt.date(2026, 2, 10 + n),
            "n": n,
            "k": n,
            "z": n,
            **single,
        }
        return add(f"old{n}.parquet", stats=stats(said, **dict.fromkeys(said, 0)))

    t.commit(*map(old, range(4))).index()
    t.log.metadata([*same, *(changed(name, *pair) for name, pair in changes.items())])

    def new(n: int) -> Any:
        said = {
            "i": n + 10**10,
            "f": 0.1,
            "m": Decimal(n) + Decimal("0.2575"),
            "d": dt.datetime(2026, 3, 10 + n),
            "n": n + 0.5,
            "k": f"k{n}",
            "z": n,
            **single,
        }
        return add(f"new{n}.parquet", stats=stats(said, **dict.fromkeys(said, 0)))

    t.commit(new(0), new(1))
    if rebuilt:
        t.index(full=False)
    t.commit(new(2), remove("old0.parquet"))
    base, nearest = int(rebuilt), struct.unpack("f", struct.pack("f", 0.1))[0]
    questions: list[tuple[str, str, Any]] = [
        ("i", "=", 2),
        ("i", ">", 10**9),
        ("f", ">", 0.1),
        ("f", "<", 0.1),
        ("f", ">", 0.2),
        ("m", "=", "2.2500"),
        ("m", ">", "1.2570"),
        ("d", "=", "2026-02-12T00:00:00.000000"),
        ("d", ">", "2026-02-12T00:00:00.000500"),
        ("n", ">=", 2.5),
        ("n", "=", 3.0),
        ("k", "=", "zzz"),
        ("z", "=", 1),
    ]
    floats = [("<=", 0.1), ("=", 0.1), (">=", nearest), (">", nearest), ("<", 0.09)]
    questions += [("f", op, value) for op, value in floats]
    questions += [
        (name, op, value) for name in single for op, value in [*floats, ("<", 0.1), (">", 0.1), ("=", nearest)]
    ]
    t.case("newest", base=base)
    for name, op, value in questions:
        t.case(f"{name} {op} {value}", is_(name, op, value), base=base)
    t.case("with statistics", base=base, stats=True)


@table
def incremental(t: Making) -> None:
    """An index built on older ones: parts of several builds, whose key ranges overlap,
    some without the rows that were removed.
    """
    t.log.metadata({"ts": "timestamp", "x": "long"})

    def at(n: int, size: int = 1) -> Any:
        low = dt.datetime(2026, 2, 10, n % 24, tzinfo=UTC)
        return add(f"f{n}.parquet", size=size, stats=stats({"ts": low, "x": n}, ts=0, x=0))

    t.commit(*map(at, range(0, 12, 2))).index(part_rows=3)
    t.commit(*map(at, range(1, 12, 2)), remove("f4.parquet")).index(part_rows=3, full=False)
    t.commit(at(6, 2), remove("f1.parquet"), remove("f3.parquet"), at(40)).index(part_rows=3, full=False)
    t.commit(remove("f40.parquet"), at(13))
    for version in range(4):
        t.case(f"version {version}", version=version, base=min(version, 2))
    t.case("time", is_("ts", ">=", "2026-02-10T09:00:00.000000Z"), base=2).case("column", is_("x", "<", 7), base=2)
    t.case("with statistics", base=2, stats=True)


@table
def another_table(t: Making) -> None:
    """The index belongs to a table that was here before: its id is another one. It must not be used."""
    _other(t, "11111111-2222-3333-4444-555555555555", "none of these exists")
    t.case("newest", index="must not").case("version of the index", version=1, index="must not").case(
        "equal", is_("x", "=", 0), index="must not"
    )


@table
def another_history(t: Making) -> None:
    """The log was set back and written on: same id, same size of the commit file,
    other bytes. The index must not be used.
    """
    t.commit(*map(numbered, range(3))).commit(numbered(3), numbered(4)).index()
    lines = (t.log.log / f"{1:020}.json").read_bytes()
    changed = lines.replace(b"f3.parquet", b"g3.parquet")
    assert len(changed) == len(lines)
    (t.log.log / f"{1:020}.json").write_bytes(changed)
    t.log.history[1] = [json.loads(line) for line in changed.splitlines()]
    t.commit(remove("f0.parquet"))
    t.case("newest", index="must not").case("equal", is_("x", "=", 3), index="must not")


def _other(t: Making, table_id: str, gone: str) -> None:
    old = Making(t.root.parent / "other")
    old.log.metadata({"x": "long"}, table_id=table_id)
    old.commit(*(add(f"{gone} {n}", stats=stats({"x": n}, x=0)) for n in range(4))).commit(numbered(0)).index()
    t.log.metadata({"x": "long"})
    t.commit(*map(numbered, range(3))).commit(numbered(0)).commit(numbered(5))
    shutil.move(old.log.log / "_sidecars", t.log.log / "_sidecars")
    shutil.rmtree(old.root)


@table
def newer_index(t: Making) -> None:
    """The index belongs to a table that was here before, and to a version that this one does not have yet."""
    old = Making(t.root.parent / "other")
    old.log.metadata({"x": "long"}, table_id="11111111-2222-3333-4444-555555555555")
    old.commit(numbered(0)).commit(numbered(1)).commit(numbered(2)).index()
    t.commit(*map(numbered, range(3, 6))).commit(remove("f3.parquet"))
    shutil.move(old.log.log / "_sidecars", t.log.log / "_sidecars")
    shutil.rmtree(old.root)
    t.case("newest", index="must not").case("equal", is_("x", "=", 4), index="must not")


@table
def replaced_table(t: Making) -> None:
    """REPLACE TABLE after the index: a new metaData with another id. The index is still a right base."""
    t.commit(*map(numbered, range(4))).index()
    t.log.metadata({"x": "long", "y": "string"}, table_id="99999999-2222-3333-4444-555555555555")
    t.commit(*(remove(f"f{n}.parquet") for n in range(3)), numbered(7))
    t.case("newest", base=0).case("equal", is_("x", "=", 3), base=0)


@table
def broken_below(t: Making) -> None:
    """A commit below the newest metaData was damaged after the index was built. The commit file was copied, so the
    table's id binds the index, and that is known without the damaged commit.
    """
    t.commit(*map(numbered, range(3))).commit(numbered(3))
    t.log.metadata({"x": "long", "y": "string"})
    t.commit(remove("f0.parquet"), numbered(4)).commit(numbered(5)).index().commit(numbered(6), remove("f1.parquet"))
    t.case("newest", base=3).case("version of the index", version=3, base=3)
    (t.log.log / f"{1:020}.json").write_text('{"add":{"path":\n')


@table
def stale_hint(t: Making) -> None:
    """The hint names an older index than the newest. Either may be used."""
    t.commit(*map(numbered, range(4))).index().commit(numbered(4), remove("f0.parquet")).index()
    t.file("_last_index").write_text('{"version":0,"future":true}')
    t.commit(numbered(5))
    t.case("newest", index="may").case("equal", is_("x", "=", 4), index="may")


@table
def broken_hint(t: Making) -> None:
    """The hint is not JSON. The index may be found by its name."""
    t.commit(*map(numbered, range(4))).index()
    t.file("_last_index").write_text('{"version":')
    t.commit(numbered(5))
    t.case("newest", index="may")


@table
def missing_manifest(t: Making) -> None:
    """The hint names a manifest that is gone, and the parts are left."""
    t.commit(*map(numbered, range(4))).index()
    t.file("v0.manifest.json").unlink()
    t.commit(remove("f1.parquet"))
    t.case("newest", index="must not").case("equal", is_("x", "=", 3), index="must not")


@table
def missing_part(t: Making) -> None:
    """The core file of one part is gone."""
    t.commit(*map(numbered, range(6))).index()
    t.file("*.core.parquet").unlink()
    t.commit(remove("f1.parquet"))
    t.case("newest", index="may").case("equal", is_("x", "=", 3), index="may")


@table
def flipped_core(t: Making) -> None:
    """One bit of the core file of a part is another: without its checksum,
    a reader would list a file that does not exist.
    """
    t.commit(*map(numbered, range(6))).index()
    flip(t.file("*.core.parquet"), "path")
    t.case("newest", index="may").case("equal", is_("x", "=", 3), index="may")


@table
def flipped_stats(t: Making) -> None:
    """One bit of the stats file of each part is another: without its checksum,
    a reader would leave out a file that matches.
    """
    t.commit(*map(numbered, range(6))).index()
    for directory in t.directories:
        for path in sorted(directory.glob("*.stats.parquet")):
            flip(path, "max", "min")
    t.case("newest", index="may")
    for n in range(6):
        t.case(f"x = {n}", is_("x", "=", n), index="may")


@table
def flipped_footer(t: Making) -> None:
    """One bit of the footer of a core file is another, in the number of rows."""
    t.commit(*map(numbered, range(6))).index()
    path = t.file("*.core.parquet")
    data = path.read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    rows = pq.read_metadata(io.BytesIO(data)).num_rows
    for at in range(len(data) - 8 - size, len(data) - 8):
        changed = data[:at] + bytes([data[at] ^ 2]) + data[at + 1 :]
        try:
            if pq.read_metadata(io.BytesIO(changed)).num_rows not in (rows, 0):
                path.write_bytes(changed)
                break
        except Exception:
            continue
    assert path.read_bytes() != data
    t.case("newest", index="may").case("equal", is_("x", "=", 5), index="may")


@table
def flipped_manifest(t: Making) -> None:
    """One digit of a key in the manifest is another: without the checksum, a part that matches would be left out."""
    t.log.metadata({"ts": "timestamp"})
    t.commit(
        *(add(f"f{n}.parquet", stats=stats({"ts": dt.datetime(2026, 2, 10 + n, tzinfo=UTC)}, ts=0)) for n in range(6))
    ).index()
    path = t.file("v0.manifest.json")
    text = path.read_text()
    at = text.index('"time_max":[177') + len('"time_max":[')
    path.write_text(text[:at] + "0" + text[at + 1 :])
    t.case("newest", index="must not").case(
        "last day", is_("ts", ">=", "2026-02-15T00:00:00.000000Z"), index="must not"
    )


@table
def unknown_format(t: Making) -> None:
    """A manifest of format 2, whose checksum is right."""
    t.commit(*map(numbered, range(4))).index()
    reseal(
        t.file("v0.manifest.json"), lambda text: text.replace('"format":1', '"format":2').replace('"rows"', '"lines"')
    )
    t.commit(remove("f1.parquet"))
    t.case("newest", index="must not")


@table
def unknown_keys(t: Making) -> None:
    """The manifest has keys that no reader knows, at every level, and users' metadata. It must be used."""
    t.commit(*map(numbered, range(4))).index()

    def more(text: str) -> str:
        text = text.replace('{"format":1', '{"from the future":[{"a":"}"}],"user_metadata":{"owner":"é"},"format":1', 1)
        text = text.replace('"parts":{', '"parts":{"from the future":[1,2],', 1).replace(
            '"core":{', '"core":{"more":[3],', 1
        )
        return text.replace('"sort":{', '"sort":{"direction":"up",', 1).replace('"commit":{', '"commit":{"more":1,', 1)

    reseal(t.file("v0.manifest.json"), more)
    t.commit(remove("f1.parquet"))
    t.case("newest", base=0).case("equal", is_("x", "=", 3), base=0)


@table
def wrong_version(t: Making) -> None:
    """A manifest was copied to the name of another version. It must not be used."""
    t.commit(*map(numbered, range(4))).index().commit(numbered(4))
    shutil.copyfile(t.file("v0.manifest.json"), t.directories[0] / "v1.manifest.json")
    t.file("v0.manifest.json").unlink()
    t.file("_last_index").write_text('{"version":1}')
    t.case("newest", index="must not")


@table
def v2_checkpoint(t: Making) -> None:
    """The protocol lists v2Checkpoint: the index is in _sidecar_index, and _sidecars belongs to a checkpoint."""
    t.log.protocol(reader=3, features=["v2Checkpoint"])
    t.commit(*map(numbered, range(4))).commit(numbered(4))
    t.log.checkpoint("v2-json")
    t.index().commit(remove("f2.parquet"), numbered(5))
    t.case("newest", base=1).case("version of the index", version=1, base=1).case("equal", is_("x", "=", 4), base=1)
    t.case("older", version=0, index="must not")


@table
def moved_index(t: Making) -> None:
    """The feature v2Checkpoint came after the first index: that one is in _sidecars, the newer in _sidecar_index."""
    t.commit(*map(numbered, range(4))).index()
    t.log.protocol(reader=3, features=["v2Checkpoint"])
    t.commit(numbered(4), remove("f0.parquet")).commit(numbered(5)).index().commit(numbered(6), remove("f1.parquet"))
    t.case("newest", base=2).case("equal", is_("x", "=", 4), base=2)
    t.case("before", version=1, base=0)


@table
def unknown_feature(t: Making) -> None:
    """A commit after the index needs a reader feature that no reader knows."""
    t.commit(*map(numbered, range(4))).index().commit(numbered(4))
    t.log.protocol(reader=3, features=["fromTheFuture"])
    t.commit(numbered(5))
    t.case("newest", error="unsupported").case("before", version=1, base=0)
    t.case("equal", is_("x", "=", 1), error="unsupported")


@table
def unknown_reader_version(t: Making) -> None:
    """The protocol in the manifest wants reader version 4."""
    t.commit(*map(numbered, range(2))).index()
    path = t.log.log / f"{0:020}.json"
    path.write_text(path.read_text().replace('"minReaderVersion":1', '"minReaderVersion":4'))
    commit = path.read_bytes()

    def newer(text: str) -> str:
        known = json.loads(text)["commit"]["crc32"]
        return text.replace('"minReaderVersion":1', '"minReaderVersion":4').replace(str(known), str(zlib.crc32(commit)))

    reseal(t.file("v0.manifest.json"), newer)
    t.case("newest", error="unsupported")


@table
def gap(t: Making) -> None:
    """A commit after the index is missing."""
    t.commit(*map(numbered, range(4))).commit(numbered(4)).index()
    t.commit(numbered(5)).commit(remove("f0.parquet")).commit(numbered(6))
    t.log.drop(3)
    t.case("newest", error="gap").case("equal", is_("x", "=", 1), error="gap").case(
        "the missing version", version=3, error="gap"
    )
    t.case("before the gap", version=2, base=1).case("version of the index", version=1, base=1)


@table
def old_index(t: Making) -> None:
    """A checkpoint is newer than the index. Both are right bases."""
    t.commit(*map(numbered, range(4))).index().commit(numbered(4)).commit(remove("f1.parquet"))
    t.log.checkpoint()
    t.commit(numbered(5))
    t.case("newest", index="may").case("equal", is_("x", "=", 3), index="may").case(
        "before the checkpoint", version=1, index="may"
    )


@table
def cleaned_up(t: Making) -> None:
    """Log cleanup took the commits before a checkpoint; the index was built at the checkpoint's version,
    and its commit file is gone, too.
    """
    t.requires = ["checkpoints"]
    t.commit(*map(numbered, range(4))).commit(remove("f1.parquet"), numbered(4))
    t.log.checkpoint()
    t.index().commit(numbered(5)).commit(remove("f0.parquet"))
    t.log.cleanup(before=2)
    t.case("newest", base=1).case("equal", is_("x", "=", 4), base=1).case(
        "version of the checkpoint", version=1, base=1
    )
    t.case("gone", version=0, error="no such version")


@table
def bound_by_time(t: Making) -> None:
    """Only the time of the commit file binds the index: commits before it are gone,
    so nothing else tells the table's id.
    """
    t.commit(*map(numbered, range(4))).commit(remove("f1.parquet"), numbered(4)).index().commit(numbered(5))
    t.log.drop(0)
    name = f"_delta_log/{1:020}.json"
    times = {name: (t.root / name).stat().st_mtime_ns // 1_000_000}
    t.case("the very file", base=1, set_modified=times)
    t.case("a copy", error="gap")


@table
def empty(t: Making) -> None:
    """A table without files, with an index without parts."""
    t.commit().index()
    t.case("newest", base=0).case("equal", is_("x", "=", 1), base=0)


@table
def emptied(t: Making) -> None:
    """All files are removed after the index, and one comes."""
    t.commit(*map(numbered, range(4))).index().commit(*(remove(f"f{n}.parquet") for n in range(4))).commit(numbered(9))
    t.case("empty", version=1, base=0).case("newest", base=0)


@table
def no_index(t: Making) -> None:
    """No index at all: commits alone."""
    t.commit(*map(numbered, range(4))).commit(remove("f1.parquet"), numbered(4)).commit(numbered(5))
    t.case("newest", index="must not").case("version 0", version=0, index="must not").case(
        "equal", is_("x", "=", 4), index="must not"
    )


@table
def no_table(t: Making) -> None:
    """A _delta_log without a commit."""
    (t.log.log / "_sidecars").mkdir()
    (t.log.log / "_sidecars" / "_last_index").write_text('{"version":0}')
    t.case("newest", error="no table")


def make(name: str, root: Path) -> None:
    """Make one table."""
    shutil.rmtree(root, ignore_errors=True)
    made = Making(root, TABLES[name].__doc__ or "")
    TABLES[name](made)
    made.write()
    for path in root.rglob("*"):
        # As in a checkout: the times of commit files are not those that their indexes know.
        path.touch()


def main(names: Sequence[str]) -> None:
    for name in names or TABLES:
        make(name, CORPUS / name)
    size = sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file())
    print(f"{len(TABLES)} tables, {size:,} bytes in {CORPUS.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
