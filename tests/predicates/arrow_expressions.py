"""Expressions of pyarrow in every form that engines push, and in forms that only tests think of."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from decimal import Decimal

import pyarrow as pa
import pyarrow.acero as pac
import pyarrow.compute as pc
from hypothesis import strategies as st

NAN = float("nan")
DAY = 86_400 * 10**6
PARIS = "Europe/Paris"

LITERALS: list[pa.Scalar] = [
    *(pa.scalar(v, pa.int64()) for v in (0, 3, -1, 2**24 + 1, 2**53 + 1, 2**62)),
    *(pa.scalar(v, pa.int8()) for v in (3, None)),
    pa.scalar(2**63, pa.uint64()),
    pa.scalar(3, pa.uint8()),
    *(pa.scalar(v, pa.float64()) for v in (0.0, -0.0, 0.1, 1.5, 3.0, NAN, float("inf"), 2.0**53, 1e30)),
    *(pa.scalar(v, pa.float32()) for v in (0.1, 1.5, NAN)),
    *(pa.scalar(Decimal(v), pa.decimal128(12, 4)) for v in ("1.5", "1.505", "3", "-0.0001")),
    pa.scalar(Decimal("1.50"), pa.decimal256(40, 2)),
    *(pa.scalar(v, pa.string()) for v in ("", "a", "ab", "é", "b")),
    *(pa.scalar("ab", kind) for kind in (pa.large_string(), pa.string_view())),
    pa.array(["a", "ab"]).dictionary_encode()[1],
    pa.scalar(b"ab", pa.binary()),
    pa.scalar(b"ab", pa.large_binary()),
    pa.scalar(True),
    pa.scalar(False),
    pa.scalar(None, pa.bool_()),
    pa.scalar(None, pa.null()),
    *(pa.scalar(v, pa.date32()) for v in (dt.date(1970, 1, 2), dt.date(1969, 12, 31))),
    pa.scalar(DAY // 1000, pa.date64()),
    *(pa.scalar(v, pa.timestamp("us")) for v in (0, DAY, DAY + 1, -1)),
    *(pa.scalar(v, pa.timestamp("us", "UTC")) for v in (0, DAY, DAY + 1, -1)),
    *(pa.scalar(v, pa.timestamp("ns", zone)) for v in (DAY * 1000, DAY * 1000 + 1) for zone in (None, "UTC", PARIS)),
    *(pa.scalar(v, pa.timestamp("s", zone)) for v in (86_400, -1) for zone in (None, "UTC")),
]

SETS: list[pa.Array] = [
    *(pa.array(v, pa.int64()) for v in ([], [3], [0, 3, None], [2**53 + 1, -1], [None])),
    pa.array([3, 100], pa.int8()),
    pa.array([3, 2**63], pa.uint64()),
    *(pa.array(v, pa.float64()) for v in ([0.0], [-0.0, 1.5], [NAN], [1.5, None], [0.1, 3.0])),
    *(pa.array(v, pa.float32()) for v in ([0.1], [NAN, 1.5], [0.0])),
    *(pa.array(v, pa.string()) for v in (["a", "é"], ["ab", None], [""], ["3"])),
    pa.array(["a", "ab"], pa.large_string()),
    pa.array(["a", None]).dictionary_encode(),
    pa.array([b"ab"], pa.binary()),
    pa.array([True]),
    pa.array([False, None]),
    pa.array([dt.date(1970, 1, 2), None]),
    *(pa.array([DAY, 0], pa.timestamp("us", zone)) for zone in (None, "UTC", PARIS)),
    *(pa.array([DAY * 1000 + 1], pa.timestamp("ns", zone)) for zone in (None, "UTC")),
    pa.array([Decimal("1.5"), Decimal("1.505")], pa.decimal128(12, 4)),
    pa.array([Decimal("1.50"), None], pa.decimal128(12, 2)),
    pa.nulls(1),
]

FEW_LITERALS = [
    pa.scalar(3),
    pa.scalar(1.5),
    pa.scalar("3"),
    pa.scalar(Decimal("1.505")),
    pa.scalar(DAY, pa.timestamp("us")),
    pa.scalar(DAY * 1000 + 1, pa.timestamp("ns", "UTC")),
]
FEW_SETS = [pa.array([3, None]), pa.array([1.5, 0.0]), pa.array(["a", "3"]), pa.array([DAY], pa.timestamp("us", "UTC"))]

CASTS = [
    pa.int8(),
    pa.int64(),
    pa.uint64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(30, 4),
    pa.string(),
    pa.large_string(),
    pa.timestamp("us"),
    pa.timestamp("ns", "UTC"),
    pa.timestamp("s"),
    pa.date32(),
]

PATTERNS = ["", "a", "a%", "%", "_b", "a_", "é%", "a%b", "\\%", "a\\%%"]

COMPARISONS = [pc.equal, pc.not_equal, pc.less, pc.less_equal, pc.greater, pc.greater_equal]


def leaves(columns: Iterable[pc.Expression]) -> Iterator[pc.Expression]:
    """Conditions of one column, or of none; most of them do not fit its type."""
    columns = list(columns)
    for column in columns:
        yield column
        for kind in (False, True):
            yield pc.is_null(column, nan_is_null=kind)
            yield from (pc.starts_with(column, p, ignore_case=kind) for p in PATTERNS)
            yield from (pc.match_like(column, p, ignore_case=kind) for p in PATTERNS)
            yield from (pc.is_in(column, value_set=values, skip_nulls=kind) for values in SETS)
        yield from (test(column) for test in (pc.is_valid, pc.is_nan, pc.is_finite, pc.is_inf, pc.true_unless_null))
        yield pc.match_substring(column, "a")
        yield pc.equal(pc.is_valid(column), False)
        for value in LITERALS:
            literal = pc.scalar(value)
            yield from (compare(column, literal) for compare in (pc.equal, pc.less, pc.greater_equal))
            yield pc.less(literal, column)
        yield from (compare(column, pc.scalar(value)) for compare in COMPARISONS for value in FEW_LITERALS)
        for kind in CASTS:
            for safe in (True, False):
                cast = column.cast(kind, safe=safe)
                yield pc.is_null(cast)
                yield from (pc.less_equal(cast, pc.scalar(value)) for value in FEW_LITERALS)
                yield from (pc.is_in(cast, value_set=values) for values in FEW_SETS)
            yield from (pc.greater(column, pc.scalar(value).cast(kind)) for value in FEW_LITERALS)
        yield pc.greater(pc.add(column, 1), pc.scalar(3))
    yield from (pc.less(left, right) for left in columns for right in columns)
    yield from map(pc.scalar, (True, False, None))


def trees(base: st.SearchStrategy[pc.Expression], depth: int = 3) -> st.SearchStrategy[pc.Expression]:
    """Conditions of conditions."""
    tree = base
    for _ in range(depth):
        tree = st.one_of(
            base,
            st.builds(pc.invert, tree),
            *(st.builds(f, tree, tree) for f in (pc.and_, pc.and_kleene, pc.or_, pc.or_kleene)),
            *(st.builds(f, tree, tree) for f in (pc.and_not, pc.and_not_kleene, pc.xor, pc.coalesce)),
            st.builds(pc.if_else, tree, tree, tree),
            st.builds(pc.equal, tree, st.booleans().map(pc.scalar)),
            st.builds(pc.not_equal, tree, st.booleans().map(pc.scalar)),
        )
    return tree


def truths(expression: pc.Expression, batch: pa.RecordBatch) -> list[bool | None] | None:
    """What pyarrow says of each row; None if it refuses."""
    source = pac.Declaration("table_source", pac.TableSourceNodeOptions(pa.Table.from_batches([batch])))
    project = pac.Declaration("project", pac.ProjectNodeOptions([expression], ["is_true"]))
    try:
        column = pac.Declaration.from_sequence([source, project]).to_table(use_threads=False)["is_true"]
    except pa.ArrowException:
        return None
    return column.to_pylist() if pa.types.is_boolean(column.type) or pa.types.is_null(column.type) else None
