"""Bounds of floats keep the same files whichever base a listing takes: the log's text, or parts of any age."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.limits import BuildLimits
from delta_sidecar.storage.local import LocalStore
from delta_sidecar.storage.uri import parse_location
from delta_sidecar.testing import LogBuilder, add
from delta_sidecar.testing.actions import column

NEAREST = np.float32(0.1)
BELOW, ABOVE = (float(np.nextafter(NEAREST, np.float32(to))) for to in (0, 1))
EXACT = float(NEAREST)
TEXTS = ["0.1", repr(EXACT), "-0.1", "0.5", "3.4028235e38", "16777217", "1e-46", "1e39", '"Infinity"', '"-Infinity"']
FINITE = 7
"""So many texts stand for a row of every type."""
LITERALS = [0.1, BELOW, EXACT, ABOVE, -0.1, 0.5, 3.4028235e38, 16777217.0]
OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq}
CHANGE = {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}


def said(text: str) -> str:
    """Stats in which a text is both bounds."""
    return f'{{"numRecords":1,"minValues":{{"f":{text}}},"maxValues":{{"f":{text}}},"nullCount":{{"f":0}}}}'


def files() -> list[Any]:
    return [add(f"f{number}.parquet", stats=said(text)) for number, text in enumerate(TEXTS)]


def index(root: Path, full: bool = True) -> None:
    limits = BuildLimits(single_rows=0, small_rows=0, part_rows=2)
    build_index(LocalStore(parse_location(str(root))), None, BuildOptions(full=full, part_rows=2, limits=limits))


def listed(table: DeltaTable, where: str, tier: str) -> list[str]:
    with table.scan_files(where, ["path"]) as scan:
        paths = sorted(scan.read_all().column("path").to_pylist())
    assert scan.metrics.tier == tier
    return paths


def table_of(root: Path, kind: str) -> Path:
    log = LogBuilder(root)
    if kind in ("float", "double"):
        log.protocol().metadata([column("f", kind)]).commit(*files())
        index(root)
        return root
    log.protocol(reader=3, features=["typeWidening"]).metadata([column("f", "float")]).commit(*files())
    if kind != "double, indexed as such":
        index(root)
    log.metadata([column("f", "double", metadata=CHANGE)]).commit(add("other.parquet"))
    if kind != "double, indexed as float":
        index(root, full=kind == "double, indexed as such")
    return root


KINDS = ["float", "double", "double, indexed as float", "double, indexed as such", "double, index extended"]


def rows_of(text: str, kind: str) -> set[float]:
    """What a text may stand for: the float nearest to it where it was written for a float, else the double."""
    single, double = float(np.float32(text)), float(text)
    return {"float": {single}, "double": {double}}.get(kind, {single, double})


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[] if kind in ("float", KINDS[-1]) else [pytest.mark.slow]) for kind in KINDS],
)
def test_every_base_lists_the_same_files_and_loses_no_row(tmp_path: Path, kind: str) -> None:
    root = table_of(tmp_path, kind)
    indexed, plain = (DeltaTable(root, options={"delta.sidecar.enabled": enabled}) for enabled in (True, False))
    for literal in LITERALS:
        for op, holds in OPERATORS.items():
            where = f"f {op} {literal!r}"
            found = listed(indexed, where, "index")
            assert found == listed(plain, where, "log"), where
            for number, text in enumerate(TEXTS[:FINITE]):
                matches = any(holds(row, literal) for row in rows_of(text, kind))
                assert not matches or f"f{number}.parquet" in found, (text, where)
