"""Every vector of `docs/spec/vectors/` against the package, and against the makers that wrote them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import pyarrow as pa
import pytest

from delta_sidecar.errors import CorruptIndexError
from delta_sidecar.index.build.extend import _may_hold as may_hold
from delta_sidecar.index.format.manifest import decode
from delta_sidecar.index.format.part_entries import PartEntry, cut_path
from delta_sidecar.index.format.sort_keys import key_array
from delta_sidecar.log.actions import DeletionVector
from delta_sidecar.log.file_keys import KeyMaker, all_plain
from delta_sidecar.predicates.expression import Column, Compare, Expression, In, IsNull, Not
from delta_sidecar.pruning.file_bounds import Bounds, FileBounds
from delta_sidecar.pruning.may_match import may_match
from delta_sidecar.values.bucket_columns import our_bucket, quoted
from delta_sidecar.values.comparison import comparable, unscaled_integers
from delta_sidecar.values.partition_values import partition_column
from delta_sidecar.values.temporal import parse_days
from delta_sidecar.values.time_buckets import SKIPPED_DAYS, TimeBucket
from delta_sidecar.values.types import DataType, DecimalType, StructField, parse_type
from tests.conformance.make_vectors import VECTORS, documents, written
from tests.sweep import sweep

DOCUMENTS: dict[str, dict[str, Any]] = {
    p.stem: json.loads(p.read_text("utf-8")) for p in sorted(VECTORS.glob("*.json"))
}


def cases(name: str) -> list[Any]:
    found: list[Any] = DOCUMENTS[name]["cases"]
    return found


def test_the_vectors_are_as_they_were_made() -> None:
    made = {name: written(content) for name, content in documents().items()}
    assert {name: (VECTORS / f"{name}.json").read_text("utf-8") for name in DOCUMENTS} == made


@sweep("table", sorted({case["table"] for case in DOCUMENTS["canonical_paths"]["cases"]}))
def test_canonical_paths(table: str) -> None:
    maker = KeyMaker(table)
    paths = [case for case in DOCUMENTS["canonical_paths"]["cases"] if case["table"] == table]
    for one, other in combinations(paths, 2):
        same = maker.canonical(one["path"]) == maker.canonical(other["path"])
        assert same == (one["canonical"] == other["canonical"]), (one, other)


@sweep("pair", DOCUMENTS["canonical_paths"]["pairs"])
def test_pairs_of_paths(pair: dict[str, Any]) -> None:
    maker = KeyMaker(pair["table"])
    assert (maker.canonical(pair["a"]) == maker.canonical(pair["b"])) == pair["equal"]


@sweep("case", cases("deletion_vector_ids"))
def test_deletion_vector_ids(case: dict[str, Any]) -> None:
    fields = case["deletionVector"]
    assert (DeletionVector(**fields).unique_id if fields else "") == case["id"]


def arrow_key(value: Any, kind: DataType) -> Any:
    """A key value of the vectors as the package compares it."""
    array = key_array([value], kind)
    return unscaled_integers(array)[0] if isinstance(kind, DecimalType) else array[0].as_py()


def plain(array: pa.Array) -> Any:
    return unscaled_integers(array)[0] if pa.types.is_decimal128(array.type) else array[0].as_py()


@sweep("case", cases("bounds"))
def test_bounds(case: dict[str, Any]) -> None:
    kind = parse_type(case["type"])
    column = Column((StructField("x", kind, True, case.get("metadata", {}), "x"),), False)
    text = f'{{"{case["side"]}Values":{{"x":{case["json"]}}}}}'
    for name, widen in (("value", False), ("widened", True)):
        bounds = FileBounds(None, [column], widen=widen, texts=[text]).bounds(column)
        assert bounds is not None
        found = plain(bounds.minimum if case["side"] == "min" else bounds.maximum)
        assert found == arrow_key(case[name], kind), name


@sweep("case", cases("partition_values"))
def test_partition_values(case: dict[str, Any]) -> None:
    kind = parse_type(case["type"])
    maps = pa.array([[("x", case["text"])]], pa.map_(pa.string(), pa.string()))
    found = partition_column(maps, StructField("x", kind, physical_name="x"))
    assert found.known[0].as_py() == (case["state"] != "unreadable")
    value = plain(comparable(found.values))
    if case["value"] == "NaN":
        assert value != value
    else:
        assert value == arrow_key(case["value"], kind)


@sweep("case, column", product(cases("bucket_expressions"), ["ts", "`ts`", "TS", "a.b"]))
def test_bucket_expressions(case: dict[str, Any], column: str) -> None:
    name = quoted(*column.strip("`").lower().split("."))
    found = our_bucket(case["expression"].replace("{t}", column), name, case["time_type"])
    assert found is not None
    assert (found.granularity, found.exact) == (case["granularity"], case["exact"])
    assert our_bucket(case["expression"].replace("{t}", "other"), name, case["time_type"]) is None


def test_skipped_days() -> None:
    assert {parse_days(day) for day in DOCUMENTS["bucket_expressions"]["skipped_days"]} == SKIPPED_DAYS


@sweep("case", cases("bucket_intervals"))
def test_bucket_intervals(case: dict[str, Any]) -> None:
    form, kind, ours = case["form"], case["time_type"], None
    if form == "text":
        expression = next(
            e["expression"] for e in DOCUMENTS["bucket_expressions"]["cases"]
            if all(e[key] == case[key] for key in ("time_type", "granularity", "exact"))
        )  # fmt: skip
        ours = our_bucket(expression.replace("{t}", "ts"), quoted("ts"), kind)
    values = [parse_days(case["values"][0])] if form == "date" else case["values"]
    found = TimeBucket(("ts",), kind, ("b",) * len(values), form, ours).interval(values)
    assert found == (None if case["interval"] is None else tuple(case["interval"]))


@sweep("case", cases("key_values"))
def test_key_values(case: dict[str, Any]) -> None:
    kind = parse_type(case["type"])
    maps = pa.array([[("x", case["text"])]], pa.map_(pa.string(), pa.string()))
    value = comparable(partition_column(maps, StructField("x", kind, physical_name="x")).values)
    assert arrow_key(case["key_value"], kind) == plain(value)


@sweep("case", cases("path_ranges"))
def test_path_ranges(case: dict[str, Any]) -> None:
    paths = sorted(path.encode() for path in case["paths"])
    is_plain = bool(paths) and all_plain(pa.array(case["paths"]))
    expected = (case["path_min"], case["path_max"]) if is_plain else (None, None)
    assert expected == (case["path_min"], case["path_max"])
    if is_plain:
        assert (cut_path(paths[0]), cut_path(paths[-1])) == expected
    entry = PartEntry("v0", len(paths), 0, None, path=expected if is_plain else None)  # type: ignore[arg-type]
    maker = KeyMaker("s3://bucket/t")
    assert {path: may_hold(entry, [maker.canonical(path)]) for path in case["may_hold"]} == case["may_hold"]


@dataclass(frozen=True, slots=True)
class OneFile:
    """What is known of the column of a case."""

    case: dict[str, Any]

    def bounds(self, column: Column) -> Bounds:
        low, high = (key_array([self.case[side]], column.type) for side in ("min", "max"))
        nulls, rows = (pa.array([self.case[name]], pa.int64()) for name in ("nulls", "rows"))
        return Bounds(low, high, nulls, rows, may_hold_nan=self.case["type"] == "double")


@sweep("case", cases("pruning"))
def test_pruning(case: dict[str, Any]) -> None:
    column, node = Column((StructField("x", parse_type(case["type"]), physical_name="x"),), False), case["predicate"]
    value = float if case["type"] == "double" else int
    bound: Expression
    match node["op"]:
        case "is null":
            bound = IsNull(column)
        case "in":
            bound = In(column, tuple(map(value, node["values"])))
        case op:
            bound = Compare(column, op, value(node["value"]))
    answers = [may_match(asked, OneFile(case), 1).to_pylist()[0] for asked in (bound, Not(bound))]
    assert answers == [case["may_be_true"], case["may_be_false"]]


@sweep("case", cases("manifest_checksums"))
def test_manifest_checksums(case: dict[str, Any]) -> None:
    with pytest.raises(CorruptIndexError) as raised:
        decode(case["file"].encode(), "v0.manifest.json")
    # The whole one fails later: it is no manifest that can be used.
    assert ("checksum" in str(raised.value)) == (not case["ok"])
