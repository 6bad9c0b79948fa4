"""Stats through an index are the log's: the same JSON, whatever a writer wrote, from commits and from checkpoints."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from delta_sidecar import DeltaTable
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.format.index_columns import STATS_JSON
from delta_sidecar.index.stats.typed_stats import typed_stats
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.testing.actions import add
from delta_sidecar.testing.table_builder import LogBuilder
from tests.index.models import small_parts
from tests.index.test_typing import GOOD, LEAVES, TYPES, clean, malformed, moments, strings, wild
from tests.properties.settings import random_cases

COLUMNS = {name: kind for name, kind in TYPES.items() if name != "a.b"}


def said(text: str | None) -> Any:
    """The JSON of a text without what says nothing (null, an empty object); the text itself where it is no object."""
    if text is None:
        return None
    try:
        content = json.loads(text)
    except ValueError:
        return text
    return without_nothing(content) or None if isinstance(content, dict) else text


def without_nothing(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    kept = {name: without_nothing(inner) for name, inner in value.items()}
    return {name: inner for name, inner in kept.items() if inner is not None and inner != {}}


def listed(root: Path, index: bool) -> dict[str, str | None]:
    shared_cache.clear()
    with DeltaTable(str(root), options={"delta.sidecar.enabled": index}).scan_files(columns=["path", "stats"]) as scan:
        rows = scan.read_all().to_pydict()
        assert scan.metrics.tier == ("index" if index else scan.metrics.tier)
    return dict(zip(rows["path"], rows["stats"], strict=True))


def check(texts: Sequence[str | None], columns: dict[str, Any], checkpoint: str | None = None) -> dict[str, str | None]:
    """The stats by the index, once they are those of the log."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        log = LogBuilder(root).protocol(3, features=["timestampNtz"]).metadata(columns)
        log.commit(*(add(f"f{n:03}", stats=text) for n, text in enumerate(texts)))
        if checkpoint is not None:
            log.checkpoint(stats=checkpoint != "typed", stats_parsed=checkpoint != "json")
        store = open_store(directory)
        build_index(store, options=BuildOptions(part_rows=8, limits=small_parts(single=1, small=2, most=2, rows=8)))
        plain, indexed = listed(root, index=False), listed(root, index=True)
        for path, text in plain.items():
            assert same(said(indexed[path]), said(text)), (text, indexed[path])
        assert verify_index(store).problems == ()
        return indexed


def same(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left) and math.isnan(right):
        return True
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


@pytest.mark.slow
@random_cases(25)
@given(st.lists(st.one_of(st.none(), clean, clean, wild, malformed), min_size=1, max_size=24))
@example(['{"minValues":{"f":3.14},"maxValues":{"f":3.140000104904175}}'])
@example(['{"minValues":{"d":"NaN"},"maxValues":{"f":"NaN","d":"Infinity"}}'])
@example(['{"minValues":{"f":16777217,"d":9007199254740993}}', '{"minValues":{"d":1e300}}'])
@example(['{"minValues":{"ts":"2026-02-10T22:00:00Z","tn":"2026-02-10T22:00:00.123000"}}'])
@example(['{"minValues":{"d5":"1.25","d38":"7"}}', '{"minValues":{"d5":1.25}}'])
@example(['{"minValues":{"ts":"9999-12-31T23:59:59.999-01:00"}}', '{"maxValues":{"ts":"+10000-01-01T00:00:00.000Z"}}'])
def test_any_text_comes_back(texts: list[str | None]) -> None:
    check(texts, COLUMNS)


def one_leaf(name: str) -> st.SearchStrategy[str]:
    value = GOOD[name].map(lambda v: str(v) if type(v).__name__ == "Raw" else json.dumps(v))
    return st.builds(
        lambda low, high: f'{{"minValues":{{"{name}":{low}}},"maxValues":{{"{name}":{high}}}}}', value, value
    )


@pytest.mark.parametrize(
    ("name", "checkpoint"),
    [
        pytest.param(name, checkpoint, marks=[] if checkpoint == "both" or name == "ts" else [pytest.mark.slow])
        for name in ("f", "d", "ts", "tn", "da", "d5", "d38", "l", "s", "bo")
        for checkpoint in ("json", "both", "typed")
    ],
)
def test_any_value_comes_back_from_a_checkpoint(name: str, checkpoint: str) -> None:
    @random_cases(4)
    @given(st.lists(one_leaf(name), min_size=1, max_size=12))
    def run(texts: list[str]) -> None:
        check(texts, {name: COLUMNS[name]}, checkpoint)

    run()


@random_cases(5)
@given(st.lists(moments(True), min_size=1, max_size=12))
def test_times_in_any_form_beside_typed_ones(times: list[str]) -> None:
    texts = [json.dumps({"numRecords": 1, "minValues": {"ts": t}, "maxValues": {"ts": t}}) for t in times]
    check(texts, {"ts": "timestamp"}, "both")


def test_what_spark_writes_needs_no_text() -> None:
    """The usual forms cost nothing: no row keeps its text."""
    usual = [
        {"f": 3.14, "d": 0.1, "ts": "2026-02-10T22:00:00.000Z", "tn": "2026-02-10T22:00:00.123", "da": "2026-02-10"},
        {"f": 1e-3, "d": 1e300, "ts": "2026-02-10T22:00:00.123456Z", "tn": "0001-01-01T00:00:00.000", "d5": 1.25},
        {"f": 3.4028235e38, "d": -0.0, "s": "12", "l": 2**63 - 1, "d38": 7, "bo": True},
    ]
    texts = [json.dumps({"numRecords": 5, "minValues": row, "maxValues": row, "nullCount": {}}) for row in usual]
    assert STATS_JSON not in typed_stats(strings(list(texts)), None, LEAVES).column_names


def test_typed_stats_alone_keep_what_no_column_holds() -> None:
    """NaN is no bound, and is said all the same."""
    texts = [
        '{"numRecords":5,"minValues":{"d":1.5,"f":3.14},"maxValues":{"d":"NaN","f":"NaN"},"nullCount":{"d":0,"f":0}}'
    ]
    found = check(texts, {"d": "double", "f": "float"}, "typed")
    assert said(found["f000"])["maxValues"] == {"d": "NaN", "f": "NaN"}
    assert said(found["f000"])["minValues"] == {"d": 1.5, "f": 3.14}


def test_a_text_that_breaks_off_comes_back_from_beside_typed_stats() -> None:
    """The typed stats of its file say nothing, or all that it says."""
    texts = ['{"numRecords":3}', '{"numRecords":']
    found = check(texts, {"x": "long"}, "both")
    assert found == {"f000": texts[0], "f001": texts[1]}
    parsed = pa.StructArray.from_arrays([pa.array([3, 3])], ["numRecords"])
    stats = typed_stats(strings(['{"numRecords":3}', '{"numRecords":3']), parsed, LEAVES)
    assert stats.column(STATS_JSON).to_pylist() == [None, '{"numRecords":3']


def test_a_float_that_became_a_double(tmp_path: Path) -> None:
    """Parts that are merged after the change still say 3.14."""
    from delta_sidecar.index.format.index_layout import Leaf
    from delta_sidecar.index.stats.native_types import native_typed
    from delta_sidecar.values.types import PrimitiveType

    leaf = Leaf(("x",), PrimitiveType("double"), pa.float64())
    found = native_typed(pa.array([3.14, None, float("nan")], pa.float32()), "min", leaf)
    assert found is not None
    assert found.to_pylist() == [3.14, None, None]
