"""Schemas of tables: from Arrow and Spark, as SQL, and their differences."""

from __future__ import annotations

import pyarrow as pa
import pytest

from delta_sidecar.errors import InputError, UnsupportedTypeError
from delta_sidecar.lake.table_schemas import changes, column_list, differences, schema_of_table
from delta_sidecar.values.types import PrimitiveType, StructField, StructType


def test_arrow_types_become_deltas() -> None:
    given = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("text", pa.string_view()),
            ("bytes", pa.large_binary()),
            ("price", pa.decimal256(38, 2)),
            ("at", pa.timestamp("ms", "UTC")),
            ("local", pa.timestamp("us")),
            ("kind", pa.dictionary(pa.int32(), pa.string())),
            ("tags", pa.map_(pa.string(), pa.list_(pa.int8()))),
            ("odd", pa.struct([pa.field("a b", pa.float32(), nullable=False), ("d", pa.date64())])),
        ]
    )
    assert column_list(schema_of_table(given)) == (
        "`id` BIGINT NOT NULL, `text` STRING, `bytes` BINARY, `price` DECIMAL(38,2), `at` TIMESTAMP, "
        "`local` TIMESTAMP_NTZ, `kind` STRING, `tags` MAP<STRING, ARRAY<TINYINT>>, "
        "`odd` STRUCT<`a b`: FLOAT NOT NULL, `d`: DATE>"
    )


@pytest.mark.parametrize(
    "kind",
    [pa.decimal256(39, 0), pa.uint8(), pa.timestamp("ns"), pa.time64("us"), pa.duration("s"), pa.null(), pa.float16()],
)
def test_types_that_delta_does_not_have_are_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedTypeError, match=r"column s\.x is "):
        schema_of_table(pa.schema([("s", pa.struct([("x", kind)]))]))


def test_unsigned_numbers_are_widened_if_told() -> None:
    given = pa.schema([("a", pa.uint8()), ("b", pa.uint16()), ("c", pa.uint32()), ("d", pa.uint64())])
    made = schema_of_table(given, "widen")
    assert column_list(made) == "`a` SMALLINT, `b` INT, `c` BIGINT, `d` DECIMAL(20,0)"


def test_nulls_and_comments_are_kept() -> None:
    types = pytest.importorskip("pyspark.sql.types")
    inner = types.StructType([types.StructField("a", types.IntegerType(), False)])
    column = types.StructField("id", types.LongType(), False, {"comment": "it's"})
    made = schema_of_table(types.StructType([column, types.StructField("s", inner)]))
    assert column_list(made) == "`id` BIGINT NOT NULL COMMENT 'it\\'s', `s` STRUCT<`a`: INT NOT NULL>"


def test_metadata_that_a_table_would_lose_is_refused() -> None:
    types = pytest.importorskip("pyspark.sql.types")
    given = types.StructType([types.StructField("a", types.LongType(), True, {"unit": "m"})])
    with pytest.raises(InputError, match="column a has unit in its metadata"):
        schema_of_table(given)


def test_differences_are_told_column_by_column() -> None:
    def made(*columns: tuple[str, str, bool]) -> StructType:
        return StructType(tuple(StructField(name, PrimitiveType(kind), nullable) for name, kind, nullable in columns))

    before = made(("a", "long", True), ("b", "string", True), ("c", "string", True))
    after = made(("b", "string", False), ("a", "integer", True), ("d", "date", True))
    assert differences(before, after) == [
        "column a: BIGINT expected, INT in the table",
        "column b: nullable expected, NOT NULL in the table",
        "column c: STRING expected, none in the table",
        "column d: none expected, DATE in the table",
    ]
    assert changes(before, before, ["a"], []) == ["partitioned by a before, by nothing now"]
