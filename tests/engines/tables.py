"""Tables that engines must read rightly: deletion vectors, column mapping, evolution, partitions, odd paths and types.

All have the same logical columns, so that one query asks any of them.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from delta_sidecar.testing.actions import AddFile, DeletionVector, column
from delta_sidecar.testing.data_files import collect_stats
from delta_sidecar.testing.table_builder import LogBuilder
from tests.data.test_reader import inline_vector

NAN: Final = math.nan
START: Final = dt.datetime(2026, 2, 10, 20, tzinfo=dt.UTC)
NESTED: Final = {
    "type": "struct",
    "fields": [column("a", "integer"), column("b", "string")],
}
COLUMNS: Final[dict[str, Any]] = {
    "id": "long",
    "i": "integer",
    "f": "double",
    "g": "float",
    "s": "string",
    "raw": "binary",
    "dec": "decimal(10,2)",
    "flag": "boolean",
    "day": "date",
    "ts": "timestamp",
    "wall": "timestamp_ntz",
    "st": NESTED,
    "arr": {"type": "array", "elementType": "long", "containsNull": True},
    "p": "string",
}
STORED: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("i", pa.int32()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("s", pa.string()),
        ("raw", pa.binary()),
        ("dec", pa.decimal128(10, 2)),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("wall", pa.timestamp("us")),
        ("st", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("arr", pa.list_(pa.field("element", pa.int64()))),
    ]
)
_TEXTS = ["", "a", "a%b", "a_b", "B", "é", "it's", "tab\tnew\nline", "\\", "zzz", None]


def row(number: int) -> dict[str, Any]:
    """Values of all kinds, nulls and NaN among them; by `id` one knows what the others are."""
    time = START + dt.timedelta(minutes=7 * number, microseconds=number)
    return {
        "id": number,
        "i": None if number % 7 == 3 else number % 5 - 2,
        "f": [1.5, NAN, None, -0.0, math.inf, 0.1][number % 6],
        "g": [1.5, 0.1, NAN, None, 3.0][number % 5],
        "s": _TEXTS[number % len(_TEXTS)],
        "raw": [b"", b"\x00\xff", b"abc", None][number % 4],
        "dec": None if number % 6 == 5 else Decimal(number - 5) / 4,
        "flag": [True, False, None][number % 3],
        "day": None if number % 8 == 7 else time.date(),
        "ts": None if number % 9 == 8 else time,
        "wall": time.replace(tzinfo=None),
        "st": None if number % 5 == 4 else {"a": number, "b": None if number % 2 else "x"},
        "arr": None if number % 4 == 3 else list(range(number % 3)),
    }


def rows_of(first: int, count: int = 12) -> pa.Table:
    return pa.Table.from_pylist([row(number) for number in range(first, first + count)], STORED)


def vector(*positions: int) -> DeletionVector:
    wire = inline_vector(*positions)
    return DeletionVector(wire["pathOrInlineDv"], "i", None, wire["sizeInBytes"], wire["cardinality"])


def add(
    root: Path,
    path: str,
    rows: pa.Table,
    partition: Mapping[str, str | None] | None = None,
    dv: DeletionVector | None = None,
    names: Mapping[str, str] | None = None,
    **writing: Any,
) -> AddFile:
    """A data file and its entry in the log; `path` is decoded. `names` gives columns their stored names."""
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    stored = rows if names is None else rows.rename_columns([names[name] for name in rows.column_names])
    pq.write_table(stored, target, **writing)
    plain = [f.name for f in stored.schema if not pa.types.is_nested(f.type) and not pa.types.is_binary(f.type)]
    stats = {**collect_stats(stored.select(plain).to_pylist(), plain), **({"tightBounds": False} if dv else {})}
    return AddFile(quote(path), size=target.stat().st_size, partition=partition or {}, stats=stats, dv=dv)


def plain(root: Path) -> None:
    log = LogBuilder(root).metadata(COLUMNS, partition_by=["p"])
    for number in range(3):
        log.commit(add(root, f"p={number}/f.parquet", rows_of(12 * number), {"p": str(number)}))


def one_partition(root: Path) -> None:
    log = LogBuilder(root).metadata(COLUMNS, partition_by=["p"])
    log.commit(*(add(root, f"f{n}.parquet", rows_of(12 * n), {"p": None}) for n in range(3)))


def deletion_vectors(root: Path) -> None:
    log = LogBuilder(root).protocol(reader=3, features=["deletionVectors", "timestampNtz"])
    log.metadata(COLUMNS, partition_by=["p"])
    log.commit(
        add(root, "a.parquet", rows_of(0), {"p": "a"}, vector(0, 5, 11), row_group_size=5),
        add(root, "b.parquet", rows_of(12), {"p": "b"}),
        add(root, "c.parquet", rows_of(24), {"p": "c"}, vector(*range(12))),
    )


def odd_paths(root: Path) -> None:
    log = LogBuilder(root).metadata(COLUMNS, partition_by=["p"])
    names = ["a b", "100%", "%20", "ü/ñ", "x#y", "it's", 'say "hi"', "back\\slash", "a=b=c", "~", "semi;colon,comma"]
    log.commit(*(add(root, f"p={n}/f {n}.parquet", rows_of(4 * i, 4), {"p": n}) for i, n in enumerate(names)))


def pattern_paths(root: Path) -> None:
    log = LogBuilder(root).metadata(COLUMNS, partition_by=["p"])
    log.commit(*(add(root, f"p={n}/f.parquet", rows_of(4 * i, 4), {"p": n}) for i, n in enumerate(["a*", "b?", "[c]"])))


def mapped(mode: str) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        physical = {name: f"col-{n}" for n, name in enumerate(COLUMNS)}
        ids = {name: 100 + n for n, name in enumerate(COLUMNS)}
        kinds = {name: kind for name, kind in COLUMNS.items() if name != "st"}
        columns = [
            column(
                name,
                kind,
                metadata={"delta.columnMapping.id": ids[name], "delta.columnMapping.physicalName": physical[name]},
            )
            for name, kind in kinds.items()
        ]
        log = LogBuilder(root).protocol(reader=3, features=["columnMapping", "timestampNtz"])
        log.metadata(columns, partition_by=["p"], configuration={"delta.columnMapping.mode": mode})
        for number in range(2):
            rows = rows_of(12 * number).drop_columns(["st"])
            fields = [f.with_metadata({b"PARQUET:field_id": str(ids[f.name]).encode()}) for f in rows.schema]
            rows = rows.cast(pa.schema(fields))
            names = physical if mode == "name" else {name: f"other-{n}" for n, name in enumerate(COLUMNS)}
            log.commit(add(root, f"m{number}.parquet", rows, {physical["p"]: f"v{number}"}, names=names))

    return make


def evolved(root: Path) -> None:
    """Files older than some columns, than wider types, and with names in another case."""
    log = LogBuilder(root).protocol(reader=3, features=["typeWidening", "timestampNtz"])
    log.metadata(COLUMNS, partition_by=["p"])
    narrow = rows_of(0, 10)
    narrow = narrow.set_column(0, "id", narrow["id"].cast(pa.int16()))
    narrow = narrow.set_column(2, "f", narrow["f"].cast(pa.float32()))
    narrow = narrow.set_column(6, "dec", pa.array([None, *[Decimal(n) / 4 for n in range(9)]], pa.decimal128(6, 2)))
    narrow = narrow.set_column(10, "wall", narrow["day"])
    log.commit(
        add(root, "narrow.parquet", narrow, {"p": "narrow"}),
        add(root, "older.parquet", rows_of(10, 10).select(["id", "s", "ts"]), {"p": "older"}),
        add(root, "case.parquet", rows_of(20, 10), {"p": None}, names={n: n.upper() for n in STORED.names}),
        add(root, "whole.parquet", rows_of(30, 10), {"p": "whole"}),
    )


def other_forms(root: Path) -> None:
    """INT96, milliseconds, texts with wide offsets and dictionaries."""
    log = LogBuilder(root).metadata(COLUMNS, partition_by=["p"])
    wide = rows_of(12).set_column(4, "s", rows_of(12)["s"].cast(pa.large_string()))
    coded = rows_of(24).set_column(4, "s", rows_of(24)["s"].dictionary_encode())
    log.commit(
        add(root, "int96.parquet", rows_of(0), {"p": "0"}, use_deprecated_int96_timestamps=True),
        add(root, "wide.parquet", wide, {"p": "1"}),
        add(root, "coded.parquet", coded, {"p": "2"}),
        add(root, "ms.parquet", _in_milliseconds(rows_of(36)), {"p": "3"}),
    )


def nanoseconds(root: Path) -> None:
    log = LogBuilder(root).metadata(COLUMNS, partition_by=["p"])
    times = rows_of(0)["ts"].cast(pa.timestamp("ns", "UTC"))
    log.commit(add(root, "ns.parquet", rows_of(0).set_column(9, "ts", times), {"p": "0"}))


def _in_milliseconds(rows: pa.Table) -> pa.Table:
    times = rows["ts"].cast(pa.timestamp("ms", "UTC"), safe=False)
    return rows.set_column(9, "ts", times)


def of_deltalake(root: Path) -> None:
    from deltalake import DeltaTable, write_deltalake

    for number in range(2):
        rows = rows_of(12 * number).append_column("p", pa.array(["x y", None, "ü%"] * 4))
        write_deltalake(root, rows, mode="append", partition_by=["p"])
    DeltaTable(root).delete("id % 5 = 0")


TABLES: Final[dict[str, Callable[[Path], None]]] = {
    "plain": plain,
    "one partition": one_partition,
    "deletion vectors": deletion_vectors,
    "odd paths": odd_paths,
    "pattern paths": pattern_paths,
    "mapped by name": mapped("name"),
    "mapped by id": mapped("id"),
    "evolved": evolved,
    "other forms": other_forms,
    "nanoseconds": nanoseconds,
    "deltalake": of_deltalake,
}
UNLIKE: Final = ("deletion vectors", "evolved")
"""Tables that ask the most of our dataset, so `make check` reads them in every way."""


PARTITION_COLUMNS: Final = {
    "b": "byte",
    "sh": "short",
    "i": "integer",
    "l": "long",
    "f": "float",
    "d": "double",
    "dec": "decimal(12,3)",
    "day": "date",
    "ts": "timestamp",
    "wall": "timestamp_ntz",
    "flag": "boolean",
    "s": "string",
    "raw": "binary",
}
_PARTITIONS: Final[list[dict[str, str | None]]] = [
    dict.fromkeys(PARTITION_COLUMNS),
    {
        "b": "-128", "sh": "300", "i": "-7", "l": "9007199254740993", "f": "0.1", "d": "0.1", "dec": "12.500",
        "day": "2026-02-10", "ts": "2026-02-10 20:00:00.000001", "wall": "2026-02-10 20:00:00", "flag": "true",
        "s": "it's \"ü\" %", "raw": "abc",
    },
    {
        "b": "127", "sh": "-300", "i": "7", "l": "-1", "f": "NaN", "d": "NaN", "dec": "-0.001",
        "day": "9999-12-31", "ts": "2026-02-10T21:00:00Z", "wall": "1970-01-01 00:00:00", "flag": "false",
        "s": " ", "raw": "é",
    },
    {
        "b": "0", "sh": "0", "i": "0", "l": "0", "f": "-Infinity", "d": "Infinity", "dec": "0",
        "day": "0001-01-01", "ts": "0002-01-01 00:00:00", "wall": "9999-12-31 23:59:59.999999", "flag": "true",
        "s": "x\ny", "raw": "\x01",
    },
]  # fmt: skip


def typed_partitions(root: Path, combinations: int = 4) -> None:
    """A table partitioned by a column of every type; with more combinations, `l` is numbered on."""
    log = LogBuilder(root).protocol(reader=3, features=["timestampNtz"])
    log.metadata({"id": "long", **PARTITION_COLUMNS}, partition_by=list(PARTITION_COLUMNS))
    values = _PARTITIONS + [{**_PARTITIONS[1], "l": str(n)} for n in range(combinations - len(_PARTITIONS))]
    log.commit(
        *(add(root, f"f{n}.parquet", pa.table({"id": [2 * n, 2 * n + 1]}), value) for n, value in enumerate(values))
    )
