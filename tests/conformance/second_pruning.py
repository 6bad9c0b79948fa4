"""Pruning for the second reader, written from docs/spec alone: bounds, partition values, widening, and the rules.

It derives nothing from time buckets. Values are compared as int (integers, booleans, days, microseconds, unscaled
decimals), float, or bytes (strings in UTF-8). None is unknown.
"""

import json
import math
import re
import struct
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact, InvalidOperation
from functools import cache, partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.conformance.second_reader import Json

FLOATS, TIMES, DAY = ("float", "double"), ("timestamp", "timestamp_ntz"), 86_400_000_000
BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
WHOLE = {"byte": 3, "short": 5, "integer": 10, "long": 19}
KINDS = (*BITS, *FLOATS, *TIMES, "string", "date", "boolean", "binary")
ARROW = {f"int{bits}": kind for kind, bits in BITS.items()} | {"date32[day]": "date"}
ARROW |= {"timestamp[us,tz=UTC]": "timestamp", "timestamp[us]": "timestamp_ntz"}
NOT_FINITE = ("NaN", "nan", "inf", "-inf")
INFINITE = {"Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
CLOCK, ZONE = r"\d\d(?::\d\d(?::\d\d(?:\.\d{1,9})?)?)?", r"Z|UTC|[+-]\d\d(?:[0-5]\d|:[0-5]\d(?::[0-5]\d)?)?"
TIME = re.compile(rf"([+-]?\d{{4,6}})-(\d\d)-(\d\d)(?:[T ]({CLOCK})(?: ?({ZONE}))?)?", re.ASCII)
OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


class Column(NamedTuple):
    path: tuple[str, ...]  # physical names
    kind: str  # the type, or "nested"
    partition: bool = False
    was_float: bool = False
    trusted: bool = True  # every type change is one of the protocol's


class Known(NamedTuple):
    """What is known of a column in a file, row group or part. `nan`: the bounds say nothing about NaN."""

    min: Any = None
    max: Any = None
    nulls: int | None = None
    rows: int | None = None
    nan: bool = False


class Node(NamedTuple):
    """A node of a predicate, with the column and the values of its type."""

    op: str
    terms: list["Node"]
    column: Column
    values: list[Any]


def digits(kind: str) -> list[int]:
    """Precision and scale of a decimal type; else nothing."""
    return [int(number) for number in re.findall(r"\d+", kind)] if kind.startswith("decimal(") else []


def unscaled(number: Decimal, kind: str, rounding: str | None = None) -> int:
    precision, scale = digits(kind)
    context = Context(precision, rounding, traps=[InvalidOperation] if rounding else [InvalidOperation, Inexact])
    return int(context.quantize(number, Decimal((0, (1,), -scale))).scaleb(scale, context))


def float32(value: float, side: str = "") -> float:
    """The nearest float, or the one next to it below (`min`) or above (`max`)."""
    try:
        bits = struct.unpack("I", struct.pack("f", value))[0]
    except OverflowError:
        bits = 0x7F800000 if value > 0 else 0xFF800000
    if side and not bits << 1 & 0xFFFFFFFF:
        bits = 0x80000001 if side == "min" else 1
    elif side:
        bits += 1 if (bits >> 31 == 1) == (side == "min") else -1
    return float(struct.unpack("f", struct.pack("I", bits))[0])


def micros(text: str, kind: str, side: str) -> int:
    if not (match := TIME.fullmatch(text)):
        raise ValueError(f"not a {kind}: {text}")
    year, month, day, clock, zone = match.groups("")
    moment = time.fromisoformat((clock or "00") + zone.replace("UTC", "Z"))
    if (moment.utcoffset() if kind == "timestamp_ntz" else side and not zone) or (not side and clock[15:].strip("0")):
        raise ValueError(f"not a {kind}: {text}")
    cycle, rest = divmod(int(year), 400)  # Python's calendar ends with the year 9999
    then = datetime.combine(date(2000 + rest, int(month), int(day)), moment.replace(tzinfo=None))
    then -= moment.utcoffset() or timedelta()
    value = (then - datetime(2000, 1, 1)) // timedelta(microseconds=1) + ((cycle - 5) * 146097 + 10957) * DAY
    return int.from_bytes(value.to_bytes(8, signed=True), signed=True)  # OverflowError if it does not fit


def parse(kind: str, value: Any, side: str = "") -> Any:
    """A partition value from its text, or a bound (`side`: min, max) from JSON; raises if it cannot be read so."""
    text, string, bits = str(value), isinstance(value, str), 64 if side else BITS.get(kind, 0)
    number = NUMBER.fullmatch(text) and not (string and side and kind in FLOATS)
    if kind in BITS and (type(value) is int if side else re.fullmatch(r"[+-]?[0-9]+", text)):
        if -(1 << bits - 1) <= int(text) < 1 << bits - 1:
            return int(text)
    elif kind in FLOATS and (number or (string and text in INFINITE) or (text in NOT_FINITE and not side)):
        found = float32(float(text)) if kind == "float" and not side else float(text)
        return None if side and number and math.isinf(found) else found
    elif digits(kind) and number:
        return unscaled(Decimal(text), kind, {"min": ROUND_FLOOR, "max": ROUND_CEILING}.get(side))
    elif kind == "boolean" and not side and text.lower() in ("true", "false"):
        return int(text.lower() == "true")
    elif kind == "date" and string and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return micros(text, "timestamp_ntz", side) // DAY
    elif kind in TIMES and string:
        return micros(text, kind, side)
    elif string and (kind == "string" or (kind == "binary" and not side)):
        return text.encode()
    raise ValueError(f"not a {kind}: {text}")


def attempt(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    try:
        return function(*arguments, **options)
    except (ArithmeticError, TypeError, ValueError):
        return None


def parse_key(kind: str, value: Any) -> Any:
    """A key value of the manifest."""
    if not isinstance(value, str):
        return value
    if digits(kind):
        return unscaled(Decimal(value), kind)
    return INFINITE[value] if kind in FLOATS else bytes.fromhex(value) if kind == "binary" else value.encode()


def widen(column: Column, value: Any, side: str) -> Any:
    kind, low = column.kind, side == "min"
    if value is None or value != value:
        return None
    if kind in TIMES:
        return (value if value > 0 else max(value - 1000, -(2**63))) if low else min(value + 1000, 2**63 - 1)
    if kind == "float":
        near = float32(value)
        return None if math.isinf(near) and near != value else near
    if kind == "double" and column.was_float:
        near = float32(value)
        return value if math.isinf(near) else float32(near, side)
    if digits(kind) and digits(kind)[0] > 15:
        limit, step = 10 ** digits(kind)[0] - 1, abs(value) // 2**50 + 1
        if value == (-(2**63) if low else 2**63 - 1) * 10 ** digits(kind)[1]:
            return -limit if low else limit
        return max(value - step, -limit) if low else min(value + step, limit)
    return value


def history(metadata: Json) -> tuple[bool, bool]:
    """Whether a double column was a float, and whether all changes of a column's type are allowed ones."""
    changes = metadata.get("delta.typeChanges")
    entries = [] if changes is None else changes if isinstance(changes, list) else [None]
    objects = [entry for entry in entries if isinstance(entry, dict)]
    pairs = [(entry.get("fromType"), entry.get("toType")) for entry in objects]
    readable = [(old, new) for old, new in pairs if isinstance(old, str) and isinstance(new, str)]
    was_float = len(objects) < len(entries) or any(old == "float" for old, _ in pairs)
    return was_float, all(widens(old, new) for old, new in readable)


def widens(old: str, new: str) -> bool:
    """Whether a column may change from one type to the other."""
    if old == new or (old in BITS and new in BITS):
        return old == new or BITS[old] < BITS[new]
    before, after = [WHOLE[old], 0] if old in BITS else digits(old), digits(new)
    if before and after:
        return after[0] - after[1] >= before[0] - before[1] and after[1] >= before[1]
    return (old, new) == ("date", "timestamp_ntz") or (new == "double" and old in ("float", "byte", "short", "integer"))


def convert(value: Any, old: str, new: str) -> Any:
    """A bound of a column that had another type when it was written."""
    if value is None or (old != new and not widens(old, new)):
        return None
    if digits(new):
        return value * 10 ** (digits(new)[1] - (digits(old) or [0, 0])[1])
    return value * DAY if old == "date" != new else float(value) if new == "double" else value


def kind_of(stored: pa.DataType) -> str:
    name = str(stored).replace("decimal128", "decimal").replace(", ", ",")
    return ARROW.get(name, name)


def leaf(table: pa.Table, names: tuple[str, ...], kind: str) -> list[Any]:
    """The values of a leaf of a part as values of a type; None if it is not in the file."""
    array = table.to_struct_array()
    for name in names:
        at = array.type.get_field_index(name) if pa.types.is_struct(array.type) else -1
        if at < 0:
            return [None] * table.num_rows
        array = pc.struct_field(array, [at])
    old = kind_of(array.type)
    if old != kind and not widens(old, kind):
        return [None] * table.num_rows
    array = array.cast({"date": pa.int32()}.get(old, pa.int64() if old in TIMES else array.type))
    values = [value.encode() if isinstance(value, str) else value for value in array.to_pylist()]
    values = [unscaled(value, old) if isinstance(value, Decimal) else value for value in values]
    return [convert(value, old, kind) for value in values]


def columns_of(protocol: Json, metadata: Json) -> dict[tuple[str, ...], Column]:
    """The columns of the table by their logical names."""
    mode = dict(metadata.get("configuration") or {}).get("delta.columnMapping.mode")
    mapped = protocol["minReaderVersion"] == 2 or "columnMapping" in (protocol.get("readerFeatures") or [])
    mapped = mapped and mode in ("name", "id")

    def walk(fields: list[Json], logical: tuple[str, ...], physical: tuple[str, ...]) -> Iterator[Any]:
        for field in fields:
            names, kind, about = (*logical, field["name"]), field["type"], field.get("metadata") or {}
            path = (*physical, about["delta.columnMapping.physicalName"] if mapped else field["name"])
            was_float, trusted = history(about)
            partition = not logical and field["name"] in metadata["partitionColumns"]
            yield names, Column(path, kind if isinstance(kind, str) else "nested", partition, was_float, trusted)
            if isinstance(kind, dict) and kind["type"] == "struct":
                yield from walk(kind["fields"], names, path)

    return dict(walk(json.loads(metadata["schemaString"])["fields"], (), ()))


def resolve(node: Json, columns: dict[tuple[str, ...], Column]) -> Node:
    terms = [resolve(term, columns) for term in node.get("terms", [node["term"]] if "term" in node else [])]
    column = columns[tuple(node["column"])] if "column" in node else Column((), "")
    values = node.get("values", [node["value"]] if "value" in node else [])
    kind = "double" if column.kind == "float" else column.kind  # numbers are not rounded to floats
    return Node(node["op"], terms, column, [parse(kind, str(value)) for value in values])


def possible(op: str, low: Any, high: Any, value: Any) -> bool:
    above = low is not None and (low > value or (op == "<" and low == value))
    below = high is not None and (high < value or (op == ">" and high == value))
    if op == "!=":
        return not (low is not None and low == high == value)
    return not ((above and op in ("=", "<", "<=")) or (below and op in ("=", ">", ">=")))


def may(node: Node, known: Callable[[Column], Known], truth: bool = True) -> bool:
    """Whether some row may make the node true (or false)."""
    op = node.op
    if op in ("and", "or"):
        return (all if (op == "and") == truth else any)(may(term, known, truth) for term in node.terms)
    if op == "not":
        return may(node.terms[0], known, not truth)
    low, high, nulls, rows, nan = known(node.column)
    present = nulls is None or rows is None or nulls != rows
    if op == "is null":
        return nulls != 0 if truth else present
    if (nan or any(value != value for value in node.values)) and (not truth or op == "!="):
        return present
    if op == "in" and not truth:
        return present and not (low is not None and low == high and low in node.values)
    op = OPPOSITE[op] if not truth else "=" if op == "in" else op
    return present and any(possible(op, low, high, value) for value in node.values)


def count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def dig(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def known_partition(column: Column, values: Json) -> Known:
    text = values.get(column.path[0])
    if column.kind not in KINDS and not digits(column.kind):
        return Known()
    if not text:
        return Known(nulls=1, rows=1)
    value = attempt(parse, column.kind, text)
    return Known(rows=1) if value is None else Known(nulls=0, rows=1) if value != value else Known(value, value, 0, 1)


def known_data(column: Column, low: Any, high: Any, nulls: Any, rows: Any) -> Known:
    if not column.trusted:
        return Known()
    if column.kind not in KINDS and not digits(column.kind):
        return Known(rows=count(rows))
    if column.kind in ("boolean", "binary"):
        return Known(nulls=count(nulls), rows=count(rows))
    low, high = widen(column, low, "min"), widen(column, high, "max")
    return Known(low, high, count(nulls), count(rows), column.kind in FLOATS)


class PredicatePruner:
    def __init__(self, predicate: Json, protocol: Json, metadata: Json) -> None:
        self.tree = resolve(predicate, columns_of(protocol, metadata))

    def file(self, add: Json) -> bool:
        # A bare NaN is not JSON: int("NaN") raises.
        stats = attempt(json.loads, add.get("stats") or "{}", parse_float=Decimal, parse_constant=int)

        def known(column: Column) -> Known:
            if column.partition:
                return known_partition(column, dict(add.get("partitionValues") or {}))
            low = attempt(parse, column.kind, dig(stats, "minValues", *column.path), "min")
            high = attempt(parse, column.kind, dig(stats, "maxValues", *column.path), "max")
            return known_data(column, low, high, dig(stats, "nullCount", *column.path), dig(stats, "numRecords"))

        return may(self.tree, known)

    def part(self, manifest: Json, at: int) -> bool:
        entry = {name: values[at] for name, values in manifest["parts"].items() if name[:3] in ("key", "tim")}
        sort, path = manifest["sort"], tuple(manifest["sort"].get("column", []))

        def known(column: Column) -> Known:
            def key(name: str) -> Any:
                return parse_key(column.kind, entry[name])

            low = high = None
            if column.kind == self.old_kind(manifest, column) and column.trusted:
                if column.partition:
                    if sort["kind"] == "partition" and path == column.path and entry["key_unknown"] == 0:
                        low, high = key("key_min"), key("key_max")
                else:
                    if tuple(manifest.get("time_column", [])) == column.path and entry["time_unknown"] == 0:
                        low, high = key("time_min"), key("time_max")
                    if sort["kind"] == "min" and path == column.path and entry["key_unknown"] == 0:
                        low = key("key_min")
                    return known_data(column, low, high, None, None)
            return Known(low, high, nan=column.kind in FLOATS)

        return may(self.tree, known)

    @staticmethod
    def old_kind(manifest: Json, column: Column) -> str | None:
        old = columns_of(manifest["protocol"], manifest["metadata"]).values()
        return next((other.kind for other in old if other.path == column.path), None)

    def rows(self, manifest: Json, core: pq.ParquetFile, stats: pq.ParquetFile, adds: list[Json]) -> list[Json]:
        numbers, begin = list[int](), 0
        for at in range(core.num_row_groups):
            group = core.metadata.row_group(at)
            if may(self.tree, partial(self.known_group, manifest, core, group)):
                numbers += range(begin, begin + group.num_rows)
            begin += group.num_rows
        first, second = core.read(), stats.read()

        @cache
        def bounds(column: Column) -> list[tuple[Any, Any, Any]]:
            nulls = leaf(second, ("null_count", *column.path), "long")
            if column.path == tuple(manifest.get("time_column", [])):
                low, high = (leaf(first, (name,), column.kind) for name in ("time_min", "time_max"))
            else:
                low, high = (leaf(second, (name, *column.path), column.kind) for name in ("min", "max"))
            return list(zip(low, high, nulls, strict=True))

        def known(number: int, column: Column) -> Known:
            if column.partition:
                return known_partition(column, dict(adds[number]["partitionValues"]))
            return known_data(column, *bounds(column)[number], adds[number]["numRecords"])

        return [adds[number] for number in numbers if may(self.tree, partial(known, number))]

    def known_group(self, manifest: Json, core: pq.ParquetFile, group: pq.RowGroupMetaData, column: Column) -> Known:
        def bound(side: str) -> Any:
            path = ("partition", column.path[0]) if column.partition else (f"time_{side}",)
            chunks = [group.column(at) for at in range(group.num_columns)]
            # The struct `partition` is flat, so that a path joined by dots is unambiguous here.
            found = next((chunk.statistics for chunk in chunks if chunk.path_in_schema == ".".join(path)), None)
            if not found or not found.has_min_max or not found.has_null_count or found.null_count:
                return None
            stored = core.schema_arrow.field(path[0]).type
            kind = kind_of(stored.field(column.path[0]).type if column.partition else stored)
            raw = found.min_raw if side == "min" else found.max_raw
            raw = int.from_bytes(raw, signed=True) if isinstance(raw, bytes) and digits(kind) else raw
            return convert(raw, kind, column.kind)

        is_time = not column.partition and column.path == tuple(manifest.get("time_column", []))
        if column.kind != self.old_kind(manifest, column) or column.kind in ("boolean", "binary"):
            return Known()
        if is_time:
            return known_data(column, bound("min"), bound("max"), None, None)
        return Known(bound("min"), bound("max"), nan=column.kind in FLOATS) if column.partition else Known()
