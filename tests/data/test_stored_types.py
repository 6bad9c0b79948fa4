"""Whatever a file stores, the rows come in the table's types, or are refused by name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from delta_sidecar.errors import CorruptDataError, UnsupportedTypeError
from delta_sidecar.values.types import ArrayType, DataType, DecimalType, MapType, PrimitiveType, UnknownType, arrow_type
from tests.data.listing import Listing
from tests.data.made import column, made_table, struct, writes_early_int96

UTC = dt.UTC
LONG, STRING, DOUBLE = PrimitiveType("long"), PrimitiveType("string"), PrimitiveType("double")


def read_as(root: Path, stored: pa.Array, wanted: DataType | str, **writing: Any) -> pa.ChunkedArray:
    listing = made_table(root, struct(column("c", wanted)), [pa.table({"c": stored})], **writing)
    rows = listing.table()
    rows.validate(full=True)
    assert rows.schema == listing.schema.to_arrow()
    return rows.column("c")


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (pa.int8(), "short"),
        (pa.int8(), "integer"),
        (pa.int16(), "integer"),
        (pa.int32(), "long"),
        (pa.int32(), "short"),
        (pa.int32(), "double"),
        (pa.int16(), "double"),
        (pa.uint16(), "integer"),
        (pa.float32(), "double"),
        (pa.int32(), DecimalType(12, 2)),
        (pa.int64(), DecimalType(20, 0)),
    ],
)
def test_numbers_are_widened(tmp_path: Path, stored: pa.DataType, wanted: Any) -> None:
    rows = read_as(tmp_path, pa.array([1, None, 100], stored), wanted)
    assert rows.to_pylist() == [1, None, 100]


def test_decimals_are_rescaled_exactly(tmp_path: Path) -> None:
    stored = pa.array([Decimal("1.25"), None, Decimal("-999.99")], pa.decimal128(5, 2))
    assert read_as(tmp_path, stored, DecimalType(20, 5)).to_pylist() == [Decimal("1.25"), None, Decimal("-999.99")]


def test_a_date_becomes_a_timestamp_without_zone(tmp_path: Path) -> None:
    rows = read_as(tmp_path, pa.array([dt.date(2024, 2, 29), None, dt.date(1, 1, 1)]), "timestamp_ntz")
    assert rows.to_pylist() == [dt.datetime(2024, 2, 29), None, dt.datetime(1, 1, 1)]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/Los_Angeles"])
@pytest.mark.parametrize("wanted", ["timestamp", "timestamp_ntz"])
def test_timestamps_of_every_unit_and_zone(tmp_path: Path, unit: str, zone: str | None, wanted: str) -> None:
    moment = 1_700_000_000
    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    rows = read_as(tmp_path, pa.array([moment * scale, None], pa.timestamp(unit, zone)), wanted)
    assert rows.cast(pa.int64()).to_pylist() == [moment * 10**6, None]


def test_nanoseconds_before_the_epoch_are_rounded_down(tmp_path: Path) -> None:
    rows = read_as(tmp_path, pa.array([-1, -1001, 1999], pa.timestamp("ns")), "timestamp_ntz")
    assert rows.cast(pa.int64()).to_pylist() == [-1, -2, 1]


@writes_early_int96
def test_int96_keeps_years_that_nanoseconds_cannot_hold(tmp_path: Path) -> None:
    early, late = dt.datetime(1000, 1, 1, 3), dt.datetime(9999, 12, 31)
    stored = pa.array([early, late, None], pa.timestamp("us"))
    rows = read_as(tmp_path, stored, "timestamp", use_deprecated_int96_timestamps=True)
    assert rows.to_pylist() == [early.replace(tzinfo=UTC), late.replace(tzinfo=UTC), None]


@pytest.mark.parametrize(
    "stored",
    [
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.int8(), pa.large_string()),
        pa.binary(),
    ],
)
def test_strings_of_every_layout(tmp_path: Path, stored: pa.DataType) -> None:
    rows = read_as(tmp_path, pa.array(["a", None, "ü"], pa.string()).cast(stored), "string")
    assert rows.to_pylist() == ["a", None, "ü"]


def test_binary_from_text_and_from_fixed_width(tmp_path: Path) -> None:
    assert read_as(tmp_path, pa.array(["a", None]), "binary").to_pylist() == [b"a", None]
    assert read_as(tmp_path, pa.array([b"ab", None], pa.binary(2)), "binary").to_pylist() == [b"ab", None]


def test_void_and_missing_columns_are_null(tmp_path: Path) -> None:
    schema = struct(column("v", "void"), column("a", "long"), column("gone", ArrayType(LONG)))
    rows = made_table(tmp_path, schema, [pa.table({"a": [1, 2], "v": [5, 6]})]).table()
    assert rows.to_pydict() == {"v": [None, None], "a": [1, 2], "gone": [None, None]}
    assert rows.schema == schema.to_arrow()


def test_a_file_with_none_of_the_columns_still_has_its_rows(tmp_path: Path) -> None:
    listing = made_table(tmp_path, struct(column("new", "long")), [pa.table({"old": [1, 2, 3]})])
    assert listing.table().column("new").to_pylist() == [None] * 3
    assert listing.table("new IS NULL").num_rows == 3
    assert listing.table("new = 1").num_rows == 0


def test_nested_types_with_other_element_names(tmp_path: Path) -> None:
    inner = pa.struct([("x", pa.int32()), ("extra", pa.int8())])
    stored = pa.array([[{"x": 1, "extra": 0}, None], None, []], pa.large_list(pa.field("bag", inner)))
    wanted = ArrayType(struct(column("y", "string"), column("x", "long")))
    rows = read_as(tmp_path, stored, wanted, use_compliant_nested_type=False)
    assert rows.to_pylist() == [[{"y": None, "x": 1}, None], None, []]
    assert rows.type == arrow_type(wanted)


def test_maps_are_converted_inside(tmp_path: Path) -> None:
    stored = pa.array([[("a", [1])], None, [("b", None), ("c", [])]], pa.map_(pa.large_string(), pa.list_(pa.int32())))
    rows = read_as(tmp_path, stored, MapType(STRING, ArrayType(DOUBLE)))
    assert rows.to_pylist() == [[("a", [1.0])], None, [("b", None), ("c", [])]]


def test_a_nested_column_in_slices(tmp_path: Path) -> None:
    values = [[{"x": i}] * (i % 3) if i % 7 else None for i in range(1000)]
    stored = pa.array(values, pa.list_(pa.struct([("x", pa.int32())])))
    wanted = ArrayType(struct(column("x", "long")))
    listing = made_table(tmp_path, struct(column("c", wanted)), [pa.table({"c": stored})], row_group_size=130)
    assert listing.table(batch_size=50).column("c").to_pylist() == values


def test_a_variant_is_its_two_binaries(tmp_path: Path) -> None:
    stored = pa.array([{"value": b"\x01", "metadata": b"\x02"}, None])
    assert read_as(tmp_path, stored, "variant").to_pylist() == [{"metadata": b"\x02", "value": b"\x01"}, None]


def test_a_shredded_variant_is_refused(tmp_path: Path) -> None:
    stored = pa.array([{"value": b"\x01", "metadata": b"\x02", "typed_value": 7}])
    with pytest.raises(UnsupportedTypeError, match="column 'c' is a shredded variant"):
        read_as(tmp_path, stored, "variant")


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (pa.array(["1"]), "long"),
        (pa.array([1]), "string"),
        (pa.array([1.5]), "float"),
        (pa.array([1.0]), "long"),
        (pa.array([1]), "timestamp"),
        (pa.array([dt.date(2020, 1, 1)]), "timestamp"),
        (pa.array([[1]]), "long"),
        (pa.array([{"a": 1}]), ArrayType(LONG)),
        (pa.array([1]), struct(column("a", "long"))),
        (pa.array([[1]]), MapType(STRING, LONG)),
        (pa.array([True]), "integer"),
    ],
)
def test_other_types_are_refused_by_column_and_file(tmp_path: Path, stored: pa.Array, wanted: Any) -> None:
    with pytest.raises(UnsupportedTypeError, match=r"part-00000.*column 'c'") as caught:
        read_as(tmp_path, stored, wanted)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (pa.array([40_000], pa.int32()), "short"),
        (pa.array([b"\xff"]), "string"),
        (pa.array([Decimal("123.45")]), DecimalType(4, 2)),
        (pa.array([Decimal("1.255")]), DecimalType(10, 2)),
    ],
)
def test_values_that_do_not_fit_are_an_error(tmp_path: Path, stored: pa.Array, wanted: Any) -> None:
    with pytest.raises(CorruptDataError, match=r"part-00000.*column 'c'"):
        read_as(tmp_path, stored, wanted)


def test_an_unknown_type_matters_only_to_who_asks(tmp_path: Path) -> None:
    schema = struct(column("a", "long"), column("g", UnknownType("geometry(OGC:CRS84)")))
    listing = made_table(tmp_path, schema, [pa.table({"a": [1], "g": [b"x"]})])
    assert listing.table(columns=["a"]).to_pydict() == {"a": [1]}
    with pytest.raises(UnsupportedTypeError, match=r"column 'g'.*geometry"):
        listing.table()


def test_names_differ_by_case_only(tmp_path: Path) -> None:
    schema = struct(column("Id", "long"), column("NAME", "string"))
    listing = made_table(tmp_path, schema, [pa.table({"id": [1], "ID": [2], "Id": [3], "name": ["n"]})])
    assert listing.table().to_pydict() == {"Id": [3], "NAME": ["n"]}


def test_names_that_only_a_fold_of_unicode_takes_for_one_are_two(tmp_path: Path) -> None:
    """To Spark, too: it compares names in lower case, and keeps columns of both names."""
    schema = struct(column("strasse", "string"), column("GRÜN", "long"))
    listing = made_table(tmp_path, schema, [pa.table({"straße": ["another column"], "grün": [1]})])
    assert listing.table().to_pydict() == {"strasse": [None], "GRÜN": [1]}
    assert schema.find("straße") is None
    assert schema.find("Strasse") is schema.fields[0]


def test_dotted_names_are_not_nested_ones(tmp_path: Path) -> None:
    schema = struct(column("a", struct(column("b", "long"))), column("a.b", "long"))
    listing = made_table(tmp_path, schema, [pa.table({"a.b": [1], "a": [{"b": 2}]})])
    assert listing.table().to_pydict() == {"a": [{"b": 2}], "a.b": [1]}
    assert listing.table(columns=["a.b"]).to_pydict() == {"a.b": [1]}


def _with_id(name: str, data_type: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, data_type, metadata={"PARQUET:field_id": str(field_id)})


def _mapped(root: Path, mode: str) -> Listing:
    inner = pa.struct([_with_id("p-x", pa.int64(), 3), _with_id("p-y", pa.int64(), 4)])
    fields = [
        _with_id("p-a", pa.int64(), 1),
        _with_id("p-l", pa.list_(inner), 2),
        _with_id("p-m", pa.map_(pa.string(), inner), 5),
    ]
    rows = pa.Table.from_pylist(
        [{"p-a": 7, "p-l": [{"p-x": 1, "p-y": 2}], "p-m": [("k", {"p-x": 3, "p-y": 4})]}], pa.schema(fields)
    )
    names = {"name": ("p-x", "p-y", "p-a", "p-l", "p-m"), "id": ("?x", "?y", "?a", "?l", "?m")}[mode]
    x, y, a, lists, maps = names
    nested = struct(column("y", "long", y, 4), column("x", "long", x, 3))
    schema = struct(
        column("maps", MapType(STRING, nested), maps, 5),
        column("lists", ArrayType(nested), lists, 2),
        column("p-a", "long", a, 1),
    )
    return made_table(root, schema, [rows], mode=mode)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping_at_every_depth(tmp_path: Path, mode: str) -> None:
    listing = _mapped(tmp_path, mode)
    expected = {"maps": [("k", {"y": 4, "x": 3})], "lists": [{"y": 2, "x": 1}], "p-a": 7}
    assert listing.table().to_pylist() == [expected]
    assert listing.table("`p-a` = 7", columns=["lists"]).to_pylist() == [{"lists": expected["lists"]}]
    assert listing.table("`p-a` = 8").num_rows == 0


def test_a_file_without_ids_gives_nulls_in_mode_id(tmp_path: Path) -> None:
    schema = struct(column("a", "long", "a", 1), column("s", struct(column("b", "long", "b", 3)), "s", 2))
    listing = made_table(tmp_path, schema, [pa.table({"a": [1], "s": [{"b": 1}]})], mode="id")
    assert listing.table().to_pydict() == {"a": [None], "s": [None]}


def test_the_same_names_under_other_ids_do_not_match(tmp_path: Path) -> None:
    stored = pa.schema([_with_id("s", pa.struct([_with_id("x", pa.int64(), 9), _with_id("y", pa.int64(), 8)]), 1)])
    schema = struct(column("s", struct(column("x", "long", "x", 8), column("y", "long", "y", 9)), "s", 1))
    listing = made_table(tmp_path, schema, [pa.Table.from_pylist([{"s": {"x": 1, "y": 2}}], stored)], mode="id")
    assert listing.table().to_pylist() == [{"s": {"x": 2, "y": 1}}]


def test_files_of_different_ages_in_one_table(tmp_path: Path) -> None:
    schema = struct(column("a", "long"), column("b", "double"))
    files = [pa.table({"a": pa.array([1], pa.int32())}), pa.table({"b": pa.array([0.5], pa.float32()), "a": [2]})]
    assert made_table(tmp_path, schema, files).table().to_pydict() == {"a": [1, 2], "b": [None, 0.5]}


def test_special_floats_survive_widening(tmp_path: Path) -> None:
    rows = read_as(tmp_path, pa.array([float("nan"), float("inf"), -0.0], pa.float32()), "double").to_pylist()
    assert [repr(v) for v in rows] == ["nan", "inf", "-0.0"]
