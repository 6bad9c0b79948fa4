"""Parts and row groups of an index, pruned by what the manifest and the footers tell."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.format.index_layout import IndexLayout
from delta_sidecar.index.format.manifest import layout_of
from delta_sidecar.index.format.part_entries import FileEntry, KeyValue, PartEntry, PartList
from delta_sidecar.index.read.part_bounds import GroupBounds, PartBounds
from delta_sidecar.index.read.part_file import PartFile, fetch_core
from delta_sidecar.predicates.expression import Column, Compare, Not
from delta_sidecar.pruning.file_bounds import Bounds
from delta_sidecar.pruning.may_match import may_match
from delta_sidecar.storage import open_store
from delta_sidecar.testing.actions import add
from delta_sidecar.testing.actions import column as schema_column
from delta_sidecar.testing.table_builder import LogBuilder
from delta_sidecar.values.types import DataType, StructField, StructType
from tests.index.models import manifest_at, small_parts
from tests.pruning.bounds_tables import column, decimal, field

HOUR = 3_600_000_000
"""In microseconds."""


def entry(
    key: tuple[KeyValue, KeyValue] = (None, None),
    time: tuple[KeyValue, KeyValue] = (None, None),
    key_unknown: int = 0,
    time_unknown: int = 0,
) -> PartEntry:
    core = FileEntry(1, 1, 1, 1)
    return PartEntry("v1", 2, 10, core, key=key, key_unknown=key_unknown, time=time, time_unknown=time_unknown)


def layout(*fields: StructField, partition: Sequence[str] = (), sort: str | None = None) -> IndexLayout:
    return IndexLayout.of(StructType(fields), partition, sort_column=sort)


def bounds(of: Column, layout: IndexLayout, *parts: PartEntry, timezone: str = "UTC") -> Bounds | None:
    return PartBounds(PartList.of(parts), layout, timezone).bounds(of)


def ends(found: Bounds | None) -> tuple[list[Any], list[Any]]:
    assert found is not None
    return found.minimum.to_pylist(), found.maximum.to_pylist()


# The key of a partition column.

KEYS: list[tuple[str | DataType, tuple[KeyValue, KeyValue], tuple[Any, Any]]] = [
    ("byte", (-3, 7), (-3, 7)),
    ("short", (-3, 7), (-3, 7)),
    ("integer", (-3, 7), (-3, 7)),
    ("long", (-(2**63), 2**63 - 1), (-(2**63), 2**63 - 1)),
    ("boolean", (0, 1), (0, 1)),
    ("date", (20_494, 20_495), (20_494, 20_495)),
    ("timestamp", (-5, 5), (-5, 5)),
    ("timestamp_ntz", (-5, 5), (-5, 5)),
    ("double", (0.5, 2.5), (0.5, 2.5)),
    ("double", ("-Infinity", "Infinity"), (float("-inf"), float("inf"))),
    ("float", (1, 2), (1.0, 2.0)),
    ("string", ("a", "é"), (b"a", "é".encode())),
    ("binary", ("00ff", "ff"), (b"\x00\xff", b"\xff")),
    (decimal(9, 2), ("-125e-2", "300e-2"), (Decimal("-1.25"), Decimal("3.00"))),
    (decimal(38, 0), (f"-{10**37}e-0", f"{10**38 - 1}e-0"), (Decimal(-(10**37)), Decimal(10**38 - 1))),
]


@pytest.mark.parametrize(("kind", "key", "said"), KEYS)
def test_a_partition_key_is_exact(kind: str | DataType, key: tuple[KeyValue, KeyValue], said: tuple[Any, Any]) -> None:
    table = layout(field("p", kind), field("x", "long"), partition=["p"])
    assert table.sort.kind == "partition"
    found = bounds(column(kind, "p", partition=True), table, entry(key), entry(key))
    assert ends(found) == ([said[0]] * 2, [said[1]] * 2)
    assert found is not None
    assert found.null_count.to_pylist() == found.num_records.to_pylist() == [None, None], "how many is not told"


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("integer", ("7", 8)),
        ("integer", (1.5, 2)),
        ("integer", (True, 2)),
        ("long", (2**63, 2**63)),
        ("string", (1, 2)),
        ("binary", ("no digits", "00")),
        ("double", ("no number", 1.0)),
        (decimal(9, 2), ("125", "125")),
        (decimal(9, 2), ("125e-3", "125e-3")),
        (decimal(4, 2), ("12345e-2", "12345e-2")),
        (decimal(9, 2), ("xe-2", "1e-2")),
        (decimal(9, 2), (1, 2)),
    ],
)
def test_a_key_of_another_kind_tells_nothing(kind: str | DataType, key: tuple[KeyValue, KeyValue]) -> None:
    table = layout(field("p", kind), field("x", "long"), partition=["p"])
    assert bounds(column(kind, "p", partition=True), table, entry(key)) is None


def test_a_part_with_an_unknown_key_is_never_passed_over() -> None:
    table = layout(field("p", "long"), field("x", "long"), partition=["p"])
    parts = [entry((1, 2)), entry((1, 2), key_unknown=1), entry()]
    found = bounds(column("long", "p", partition=True), table, *parts)
    assert ends(found) == ([1, None, None], [2, None, None])
    assert kept(Compare(column("long", "p", partition=True), ">", 5), table, *parts) == [False, True, True]


def kept(predicate: Any, table: IndexLayout, *parts: PartEntry) -> list[bool]:
    found = PartBounds(PartList.of(parts), table, "UTC")
    return list(may_match(predicate, found, len(parts)).to_pylist())


def test_only_the_sorted_partition_column_has_bounds_of_parts() -> None:
    table = layout(field("p", "long"), field("q", "long"), field("x", "long"), partition=["p", "q"])
    assert table.sort.path == ("p",)
    assert bounds(column("long", "p", partition=True), table, entry((1, 2))) is not None
    assert bounds(column("long", "q", partition=True), table, entry((1, 2))) is None
    assert bounds(column("long", "x"), table, entry((1, 2))) is None


def test_without_partition_columns_nothing_is_told_of_one() -> None:
    table = layout(field("ts", "timestamp"))
    assert bounds(column("long", "p", partition=True), table, entry((1, 2))) is None


# The time column.


def test_bounds_of_times_are_widened() -> None:
    table = layout(field("ts", "timestamp"), field("p", "long"), partition=["p"])
    found = bounds(column("timestamp", "ts"), table, entry(time=(-HOUR, HOUR)), entry(time=(HOUR, 2 * HOUR)))
    assert ends(found) == ([-HOUR - 1000, HOUR], [HOUR + 1000, 2 * HOUR + 1000])


def test_a_date_as_time_column() -> None:
    table = layout(field("day", "date"))
    assert ends(bounds(column("date", "day"), table, entry(time=(5, 7)))) == ([5], [7])


def test_a_part_with_an_unknown_time_is_never_passed_over() -> None:
    table = layout(field("ts", "timestamp"))
    found = bounds(column("timestamp", "ts"), table, entry(time=(1, 2), time_unknown=1))
    assert ends(found) == ([None], [None])


def test_a_negated_time_is_pruned_only_by_what_is_known() -> None:
    table = layout(field("ts", "timestamp"))
    late = Compare(column("timestamp", "ts"), ">=", 10 * HOUR)
    parts = [entry(time=(0, HOUR)), entry(time=(20 * HOUR, 21 * HOUR)), entry()]
    assert kept(late, table, *parts) == [False, True, True]
    assert kept(Not(late), table, *parts)[0]


# A minimum as key.


def test_a_key_of_minima_bounds_from_below_only() -> None:
    table = layout(field("x", "long"), sort="x")
    assert ends(bounds(column("long", "x"), table, entry((3, 9)))) == ([3], [None])
    assert kept(Compare(column("long", "x"), "<", 3), table, entry((3, 9))) == [False]
    assert kept(Compare(column("long", "x"), ">", 100), table, entry((3, 9))) == [True], "the greatest is not known"


def test_a_decimal_of_minima_is_widened() -> None:
    table = layout(field("x", decimal(30, 2)), sort="x")
    low, high = ends(bounds(column(decimal(30, 2), "x"), table, entry((f"{10**28}e-2", None))))
    assert low[0] < Decimal(10**26)
    assert high == [None]


@pytest.mark.parametrize("text", ["abcd", "no digits"])
def test_a_binary_minimum_never_prunes(text: str) -> None:
    """The log has binary bounds as texts, which tell nothing of the bytes."""
    table = layout(field("x", "binary"), sort="x")
    found = bounds(column("binary", "x"), table, entry((text, text)))
    assert found is None or ends(found) == ([None], [None])
    assert kept(Compare(column("binary", "x"), "=", b"abcd"), table, entry((text, text))) == [True]


# What the schema has become since.


def test_a_column_of_another_type_has_no_bounds() -> None:
    table = layout(field("ts", "timestamp"), field("p", "integer"), partition=["p"])
    assert bounds(column("long", "p", partition=True), table, entry((1, 2))) is None
    assert bounds(column("timestamp_ntz", "ts"), table, entry(time=(1, 2))) is None
    by_minimum = layout(field("x", "integer"), sort="x")
    assert bounds(column("long", "x"), by_minimum, entry((1, 2))) is None


def test_columns_are_found_by_their_physical_names() -> None:
    table = layout(field("p", "long", physical="col-1"), field("x", "long"), partition=["p"])
    renamed = column("long", "q", partition=True, physical="col-1")
    other = column("long", "p", partition=True, physical="col-2")
    assert ends(bounds(renamed, table, entry((1, 2)))) == ([1], [2])
    assert bounds(other, table, entry((1, 2))) is None


def test_what_was_a_data_column_is_no_partition_column() -> None:
    """After an overwrite with other partition columns."""
    table = layout(field("ts", "timestamp"), field("p", "long"))
    assert bounds(column("long", "p", partition=True), table, entry((1, 2))) is None
    partitioned = layout(field("ts", "timestamp"), field("p", "long"), partition=["p"])
    assert bounds(column("long", "p"), partitioned, entry((1, 2))) is None


@pytest.mark.parametrize(("kind", "told"), [("timestamp", False), ("timestamp_ntz", True), ("date", True)])
def test_a_partition_timestamp_is_known_only_in_utc(kind: str, told: bool) -> None:
    """Texts without a zone were typed as UTC: a reader in another zone reads them otherwise."""
    table = layout(field("p", kind), field("x", "long"), partition=["p"])
    of = column(kind, "p", partition=True)
    assert bounds(of, table, entry((1, 2)), timezone="UTC") is not None
    assert (bounds(of, table, entry((1, 2)), timezone="Europe/Berlin") is not None) is told


# Row groups of a core.


def indexed_core(root: Path, kind: str, values: Sequence[str | None]) -> tuple[PartFile, IndexLayout]:
    """The core of an index of a table partitioned by `p`, with a time column."""
    log = LogBuilder(root).metadata([schema_column("ts", "timestamp"), schema_column("p", kind)], partition_by=["p"])
    for n, value in enumerate(values):
        moment = datetime(2026, 1, 1, n, tzinfo=UTC)
        stats = {"numRecords": 1, "minValues": {"ts": moment}, "maxValues": {"ts": moment}, "nullCount": {"ts": 0}}
        log.commit(add(f"f{n}", partition={"p": value}, stats=stats))
    store = open_store(str(root))
    build_index(store, options=BuildOptions(part_rows=1000, limits=small_parts(single=1)))
    manifest, directory = manifest_at(store, log.version)
    return fetch_core(store, directory, manifest.parts[0]), layout_of(manifest)


GROUPS: list[tuple[str, list[str | None], tuple[Any, Any]]] = [
    ("long", ["3", "-1", "7"], (-1, 7)),
    ("short", ["3", "-1", "7"], (-1, 7)),
    ("string", ["b", "a", "é"], (b"a", "é".encode())),
    ("date", ["2026-02-10", "2026-02-11"], (date(2026, 2, 10).toordinal() - 719_163, 20_495)),
    ("timestamp", ["1970-01-01 00:00:01", "1970-01-01 00:00:02"], (1_000_000, 2_000_000)),
    ("decimal(9,2)", ["-1.25", "3"], (Decimal("-1.25"), Decimal("3.00"))),
    ("double", ["0.5", "-2"], (-2.0, 0.5)),
    ("long", ["3", None, "7"], (None, None)),
    ("string", ["", "a"], (None, None)),
]


@pytest.mark.parametrize(("kind", "values", "said"), GROUPS)
def test_row_groups_by_their_partition_values(
    tmp_path: Path, kind: str, values: list[str | None], said: tuple[Any, Any]
) -> None:
    core, table = indexed_core(tmp_path, kind, values)
    of = column(table.partition[0].type, "p", partition=True)
    found = GroupBounds(core, table, "UTC").bounds(of)
    assert ends(found) == ([said[0]], [said[1]])


def test_row_groups_by_time_are_widened(tmp_path: Path) -> None:
    core, table = indexed_core(tmp_path, "long", ["1", "2"])
    found = GroupBounds(core, table, "UTC").bounds(column("timestamp", "ts"))
    first = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
    assert ends(found) == ([first], [first + HOUR + 1000])


def test_row_groups_tell_nothing_of_other_columns(tmp_path: Path) -> None:
    core, table = indexed_core(tmp_path, "timestamp", ["2026-01-01 00:00:00"])
    groups = GroupBounds(core, table, "UTC")
    assert groups.bounds(column("long", "other")) is None
    assert groups.bounds(column("long", "other", partition=True)) is None
    assert groups.bounds(column("timestamp_ntz", "ts")) is None
    assert groups.bounds(column("long", "p", partition=True)) is None, "of another type now"
    elsewhere = GroupBounds(core, table, "Europe/Berlin")
    assert elsewhere.bounds(column("timestamp", "p", partition=True)) is None
    assert elsewhere.bounds(column("timestamp", "ts")) is not None, "times of data have a zone of their own"


# From end to end.


def found_by(root: Path, predicate: str, sort: str | None = None, **options: Any) -> set[str]:
    """What a predicate finds through an index of two files a part."""
    build_index(
        open_store(str(root)), options=BuildOptions(part_rows=2, sort_column=sort, limits=small_parts(single=1))
    )
    with DeltaTable(root, options=options).scan_files(predicate=predicate) as scan:
        paths = scan.read_all().column("path").to_pylist()
    assert scan.metrics.tier == "index"
    return set(paths)


def test_a_second_partition_column_finds_its_files(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).metadata({"x": "long", "p": "string", "q": "string"}, partition_by=["p", "q"])
    log.commit(*(add(f"f{n}", partition={"p": f"p{n}", "q": f"z{n % 4}"}) for n in range(8)))
    assert found_by(tmp_path, "q = 'z3'") == {"f3", "f7"}
    assert found_by(tmp_path, "q = 'z3' and p > 'p4'") == {"f7"}


def test_a_binary_sort_column_finds_its_files(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).metadata({"x": "binary"})
    for n in range(4):
        bound = {"x": f"abc{n}"}
        log.commit(add(f"f{n}", stats={"numRecords": 1, "minValues": bound, "maxValues": bound}))
    assert found_by(tmp_path, "x = 'abc1'", sort="x") == {"f0", "f1", "f2", "f3"}, "such bounds never prune"


@pytest.mark.parametrize(("zone", "file"), [("UTC", "f3"), ("Europe/Berlin", "f4"), ("America/New_York", "f3")])
def test_the_zone_of_the_reader_finds_its_files(tmp_path: Path, zone: str, file: str) -> None:
    """Midnight of the fourth in Berlin is still the third in UTC; in New York that of the third is."""
    log = LogBuilder(tmp_path).metadata({"x": "long", "p": "timestamp"}, partition_by=["p"])
    log.commit(*(add(f"f{n}", partition={"p": f"2026-01-0{n} 00:00:00"}) for n in range(1, 9)))
    third = "p >= '2026-01-03T00:00:00Z' and p < '2026-01-04T00:00:00Z'"
    assert found_by(tmp_path, third, **{"delta.sidecar.partition_timezone": zone}) == {file}
