"""Adds pruned as objects: the same files as their rows' own pruner leaves, stats looked at only where they matter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar import DeltaTable
from delta_sidecar.log.actions import Add
from delta_sidecar.log.commits import add_rows
from delta_sidecar.predicates.binding import bind_predicate
from delta_sidecar.pruning import add_pruner as adds_module
from delta_sidecar.pruning.add_pruner import AddPruner
from delta_sidecar.pruning.bucket_ranges import bucket_ranges
from delta_sidecar.pruning.file_pruner import FilePruner
from delta_sidecar.pruning.may_match import may_match
from delta_sidecar.testing.actions import add
from delta_sidecar.testing.table_builder import LogBuilder
from delta_sidecar.values.bucket_columns import GENERATION_EXPRESSION, bucket_expression
from delta_sidecar.values.stats_json import LeafDecoder
from delta_sidecar.values.types import StructType
from tests.pruning.bounds_tables import field

HOURS = ["2026021021", "2026021022", "2026021023"]
SCHEMA = StructType(
    (
        field("ts", "timestamp"),
        field("x", "long"),
        field("n", "integer"),
        field("hour", "string", {GENERATION_EXPRESSION: bucket_expression("ts", "hour")}),
    )
)
PARTITIONED_BY = ["hour", "n"]
MOMENTS = [f"2026-02-10T{hour}:{minute}:00Z" for hour in (21, 22, 23) for minute in ("00", "30")]


def conditions() -> st.SearchStrategy[str]:
    moments = st.sampled_from(MOMENTS).map(lambda text: f"'{text}'")
    operators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
    simple = st.builds("ts {} {}".format, operators, moments)
    simple |= st.builds("hour {} '{}'".format, operators, st.sampled_from(HOURS))
    simple |= st.builds("x {} {}".format, operators, st.integers(0, 3))
    simple |= st.builds("n {} {}".format, operators, st.integers(0, 3))
    simple |= st.sampled_from(["ts IS NULL", "x IS NOT NULL", "hour IS NULL", "n IS NULL"])
    return st.recursive(
        simple,
        lambda inner: (
            st.builds("({}) {} ({})".format, inner, st.sampled_from(["AND", "OR"]), inner)
            | inner.map("NOT ({})".format)
        ),
        max_leaves=5,
    )


def stats() -> st.SearchStrategy[str | None]:
    values = st.fixed_dictionaries({}, optional={"ts": st.sampled_from(MOMENTS), "x": st.integers(0, 3)})
    counts = st.fixed_dictionaries({}, optional={"ts": st.integers(0, 2), "x": st.integers(0, 2)})
    told: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
        {},
        optional={"numRecords": st.integers(0, 2), "minValues": values, "maxValues": values, "nullCount": counts},
    )
    return told.map(json.dumps) | st.sampled_from([None, "", "nonsense", '{"minValues":1}'])


ADDS = st.builds(
    lambda number, hour, n, text: Add(f"f{number}", 1, 1, {"hour": hour, "n": n} if n != "-" else {"hour": hour}, text),
    st.integers(0, 9),
    st.sampled_from([*HOURS, None, ""]),
    st.sampled_from(["0", "1", "2", None, "odd", "-"]),
    stats(),
)


@given(conditions(), st.lists(st.lists(ADDS, max_size=6), max_size=3))
def test_adds_and_rows_are_pruned_alike(text: str, batches: list[list[Add]]) -> None:
    predicate = bind_predicate(text, SCHEMA, PARTITIONED_BY)
    assert predicate is not None
    pruner = FilePruner(bucket_ranges(predicate, SCHEMA, PARTITIONED_BY, True), "UTC")
    adds = AddPruner(pruner)
    for batch in batches:
        numbered = [Add(str(row), 1, 1, each.partitionValues, each.stats) for row, each in enumerate(batch)]
        rows = add_rows(numbered, ["path", "partition_values", "stats"])
        kept = pruner.prune(rows).column("path").to_pylist()
        assert [str(row) for row, keep in enumerate(adds.passing(numbered)) if keep] == kept


def test_many_partition_values_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    predicate = bind_predicate("n >= 500 AND x = 1", SCHEMA, PARTITIONED_BY)
    adds = AddPruner(FilePruner(predicate, "UTC"), most_verdicts=100)
    asked: list[int] = []
    monkeypatch.setattr(adds_module, "may_match", lambda *given: asked.append(given[2]) or may_match(*given))
    many = [Add(f"f{n}", 1, 1, {"n": str(n % 1000), "hour": None}) for n in range(5_000)]
    assert adds.passing(many).tolist() == [n % 1000 >= 500 for n in range(5_000)]
    assert asked == [1_000, 2_500], "by partition, then by stats"


def test_without_a_predicate_all_pass() -> None:
    adds = AddPruner(FilePruner(None, "UTC"))
    assert adds.passing([Add("a"), Add("b")]).tolist() == [True, True]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three commits, each of one hour."""
    fields = [{"name": f.name, "type": str(f.type), "nullable": True, "metadata": dict(f.metadata)} for f in SCHEMA]
    log = LogBuilder(tmp_path).protocol(reader=1, writer=4).metadata(fields, partition_by=["hour"])
    for hour in HOURS:
        begins = f"2026-02-10T{hour[-2:]}:"
        bounds = [{"ts": f"{begins}{minute:02}:00.000Z"} for minute in (0, 40)]
        stats = {"numRecords": 1, "minValues": bounds[0], "maxValues": bounds[1], "nullCount": {"ts": 0}}
        log.commit(*(add(f"hour={hour}/{n}", partition={"hour": hour, "n": None}, stats=stats) for n in range(3)))
    return tmp_path


@pytest.mark.parametrize(
    ("predicate", "files", "parsed"),
    [
        ("ts >= '2026-02-10T20:00:00Z'", 9, 0),
        ("ts >= '2026-02-10T22:00:00Z'", 6, 3),
        ("ts >= '2026-02-10T22:30:00Z'", 6, 6),
        ("ts >= '2026-02-10T22:50:00Z'", 3, 6),
        ("ts < '2026-02-10T22:00:00Z'", 3, 6),
        ("hour = '2026021022' AND x = 1", 3, 3),
        ("hour = '2026021020' AND x = 1", 0, 0),
        ("x = 1", 9, 9),
    ],
)
def test_stats_are_parsed_only_where_they_matter(
    table: Path, predicate: str, files: int, parsed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of files whose bucket lies inside the range. Of those that it leaves out they are held against it."""
    seen: list[str | None] = []
    whole = LeafDecoder.read_texts
    monkeypatch.setattr(LeafDecoder, "read_texts", lambda self, texts: seen.extend(texts) or whole(self, texts))
    with DeltaTable(str(table)).scan_files(predicate=predicate) as scan:
        found = [path for batch in scan for path in batch["path"].to_pylist()]
    assert (len(found), len(seen)) == (files, parsed)


def test_stats_that_are_asked_for_are_there_all_the_same(table: Path) -> None:
    with DeltaTable(str(table)).scan_files(
        predicate="ts >= '2026-02-10T22:00:00Z'", columns=["path", "stats", "num_records"]
    ) as scan:
        rows = [row for batch in scan for row in batch.to_pylist()]
    assert len(rows) == 6
    assert all(row["stats"] and row["num_records"] == 1 for row in rows)
