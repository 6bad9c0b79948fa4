"""Files of deltalake are found by the values they hold, whatever it rounds in their bounds."""

from __future__ import annotations

import random
from decimal import Context, Decimal
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from delta_sidecar import DeltaTable
from tests.sweep import sweep

WIDE = Context(prec=80)
TYPES = [(16, 3), (18, 0), (18, 18), (19, 0), (19, 4), (20, 0), (20, 5), (28, 9), (33, 33), (38, 0), (38, 10), (38, 38)]


@sweep("kind", TYPES)
def test_decimals(tmp_path: Path, kind: tuple[int, int]) -> None:
    (precision, scale), drawn = kind, random.Random(repr(kind))
    for number in range(12):
        unscaled = drawn.choice([1, -1]) * drawn.randrange(10 ** drawn.randint(precision - 3, precision))
        value = Decimal(unscaled).scaleb(-scale, WIDE)
        root = tmp_path / f"{precision}-{scale}-{number}"
        write_deltalake(root, pa.table({"d": pa.array([value], pa.decimal128(precision, scale))}))
        for operator in ("=", "<=", ">="):
            predicate = f"d {operator} {value:f}"
            assert len(list(DeltaTable(root).file_infos(predicate))) == 1, predicate
