"""Makes `docs/spec/vectors/`: `python -m tests.conformance.make_vectors`.

Inputs stand here; answers come from `spec_values`, which is written from the spec and knows nothing of the package. The
one exception are the expressions of our time buckets, which the package defines.
"""

from __future__ import annotations

import json
import random
import zlib
from pathlib import Path
from typing import Any

from delta_sidecar.values.bucket_columns import (
    GRANULARITIES,
    TIME_TYPES,
    bucket_expression,
    unix_bucket_expression,
)
from delta_sidecar.values.time_buckets import SKIPPED_DAYS
from tests.conformance import spec_model
from tests.conformance import spec_values as spec

VECTORS = Path(__file__).resolve().parents[2] / "docs" / "spec" / "vectors"

PATHS: dict[str, list[str]] = {
    "s3://bucket/t": [
        "a.parquet",
        "./a.parquet",
        "x/../a.parquet",
        "%61.parquet",
        "a%2Eparquet",
        "A.parquet",
        "b/a.parquet",
        "/a.parquet",
        "p=a%20b/f",
        "p=a b/f",
        "p=%61%20b//f",
        "p=a+b/f",
        "p=a%2Bb/f",
        "p=%C3%BC/f",
        "p=ü/f",
        "p=%c3%bc/f",
        "p=u\u0308/f",
        "p=a%2Fb/f",
        "p=a%2fb/f",
        "p=a/b/f",
        "p=a%2F/b/f",
        "p=a%FF/b/f",
        "x/a%2F../f",
        "x/f",
        "a%2561",
        "a%61",
        "a%252561",
        "a%zz",
        "a%4",
        "a%25zz",
        "p=1:2/f",
        "p=1%3A2/f",
        "a:b/c",
        "a?b#c",
        "a%3Fb%23c",
        "s3://bucket/t/x",
        "s3a://bucket/t/x",
        "s3n://bucket/t/x",
        "S3://bucket/t/./x",
        "/t/x",
        "//t/x",
        "x",
        "s3://Bucket/t/x",
        "s3://other/t/x",
        "gs://bucket/t/x",
        "..",
        "../a",
        "../../a",
        "/../a",
        "%2E%2E/a",
        "a/%2e/b",
        "a/b",
        "日本/f",
        "%E6%97%A5本/f",
        "abfss://c@h/x",
        "abfs://c@h/x",
        "wasb://c@h/x",
        "wasbs://c@h/x",
        "s3:/bucket/t/x",
    ],
    "file:///data/t": [
        "/data/t/x",
        "file:/data/t/x",
        "file:///data/t/x",
        "FILE:///data/t/x",
        "/data/t/./y/../x",
        "file:///data/t/%78",
        "x",
        "file://localhost/data/t/x",
    ],
    "s3a://bucket/t": ["/t/x", "s3://bucket/t/x"],
}

DV_CASES: list[dict[str, Any] | None] = [
    None,
    {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40, "cardinality": 6},
    {"storageType": "u", "pathOrInlineDv": "x", "offset": 0, "sizeInBytes": 36, "cardinality": 2},
    {"storageType": "u", "pathOrInlineDv": "x", "offset": None, "sizeInBytes": 36, "cardinality": 2},
    {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 36, "cardinality": 2},
    {
        "storageType": "i",
        "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 44,
        "cardinality": 6,
    },
    {
        "storageType": "p",
        "pathOrInlineDv": "s3://bucket/t/deletion_vector.bin",
        "offset": 1,
        "sizeInBytes": 36,
        "cardinality": 1,
    },
]

FLOAT_CHANGE = {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}
INT_CHANGE = {"delta.typeChanges": [{"fromType": "integer", "toType": "double"}]}

BOUNDS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("long", {}, ["5", "-9223372036854775808", "9223372036854775808", "5.0", "5e0", '"5"', "null", "true"]),
    ("integer", {}, ["-7"]),
    ("string", {}, ['"a"', '"é"', '""', "5", '"日本語"']),
    (
        "date",
        {},
        [
            '"2026-02-10"',
            '"1969-12-31"',
            '"2026-02-29"',
            '"2026-2-1"',
            "20494",
            '"12026-02-10"',
            '"+2026-02-10"',
            '"2026-02-10 "',
            '"2026-02-10T00:00:00"',
            '"0000-02-29"',
        ],
    ),
    (
        "timestamp",
        {},
        [
            '"2026-02-10T22:00:00.123Z"',
            '"2026-02-10T22:00:00.123456Z"',
            '"2026-02-10T22:00:00.123456789Z"',
            '"2026-02-10 22:00:00+01:00"',
            '"2026-02-10T22:00:00.000-0830"',
            '"1969-12-31T23:59:59.999Z"',
            '"1970-01-01T00:00:00.000Z"',
            '"1970-01-01T00:00:00.001Z"',
            '"1900-01-01T00:00:00.000Z"',
            '"2026-02-10T22:00:00.123"',
            '"2026-02-10"',
            '"2026-02-10T25:00:00Z"',
            '"0001-01-01T00:00:00Z"',
            '"+12345-01-01T00:00:00Z"',
            '"294247-01-10T04:00:54.775807Z"',
            '"294247-01-10T04:00:54.775808Z"',
            '"2026-02-10T22Z"',
            '"2026-02-10T22:30Z"',
            '"2026-02-10T22:30.5Z"',
            '"2026-02-10T22:00:00.Z"',
            '"2026-02-10T22:00:00.1234567890Z"',
            '"2026-02-10T22:00:00,5Z"',
            '"2026-02-10T24:00:00Z"',
            '"2026-02-10T22:60:00Z"',
            '"2026-02-10T23:59:60Z"',
            '"2026-02-10t22:00:00z"',
            '"2026-02-10  22:00:00Z"',
            '"2026-02-10T22:00:00 Z"',
            '"2026-02-10T22:00:00  Z"',
            '"2026-02-10T22:00:00 UTC"',
            '"2026-02-10T22:00:00+01"',
            '"2026-02-10T22:00:00 +01:00:30"',
            '"2026-02-10T22:00:00+23:59"',
            '"2026-02-10T22:00:00+24:00"',
            '"2026-02-10T22:00:00+01:60"',
            '"2026-02-10T22:00:00+010000"',
            '"2026-02-10T22:00:00+1:00"',
            '"2026-02-10Z"',
            '"-0001-12-31T00:00:00Z"',
            '"02026-02-10T22:00:00Z"',
            '"1234567-01-01T00:00:00Z"',
        ],
    ),
    (
        "timestamp_ntz",
        {},
        [
            '"2026-02-10T22:00:00.123"',
            '"2026-02-10T22:00:00.123Z"',
            '"2026-02-10"',
            '"2026-02-10T22:00:00+01:00"',
            '"1969-06-01T00:00:00"',
            '"2026-02-10T22:00:00+00:00"',
            '"2026-02-10 22:00:00 -00:00"',
            '"2026-02-10T22"',
            '"2026-02-10T22:00:00 "',
            '"2026-02-10T"',
            '"+12026-02-10"',
        ],
    ),
    (
        "float",
        {},
        [
            "0.1",
            "0.5",
            "-0.1",
            "16777217",
            '"Infinity"',
            '"+Infinity"',
            '"-Infinity"',
            '"NaN"',
            "3.14",
            "-0.0",
            "1e-46",
            '"abc"',
            '"0.5"',
            '"inf"',
            "1E+2",
            "0.10000000149011612",
            "3.4028235e38",
            "1e39",
            "-1e39",
            "1e400",
            "true",
        ],
    ),
    ("double", {}, ["0.1", "1e300", '"Infinity"', '"NaN"', "5", "1e400", "-1e400", '"0.1"', "4.9e-324"]),
    (
        "double",
        FLOAT_CHANGE,
        ["0.1", "-0.1", "0.10000000149011612", "0.5", "0", "-0.0", "3.4028235e38", "1e300", "-1e300", '"Infinity"'],
    ),
    ("double", INT_CHANGE, ["0.1"]),
    ("double", {"delta.typeChanges": "?"}, ["0.1"]),
    ("double", {"delta.typeChanges": ["?"]}, ["0.1"]),
    ("double", {"delta.typeChanges": [{}]}, ["0.1"]),
    ("double", {"delta.typeChanges": None}, ["0.1"]),
    (
        "decimal(9,2)",
        {},
        ["12.5", "12.505", "-12.505", '"12.5"', "1e2", "10000000", "9999999.99", "9999999.991", "0.001", '"x"'],
    ),
    ("decimal(15,2)", {}, ["9007199254740.99"]),
    ("decimal(16,2)", {}, ["90071992547409.92", "-90071992547409.92", "99999999999999.99", "0", "0.01"]),
    ("decimal(38,0)", {}, ["12345678901234567890123456789012345678", "99999999999999999999999999999999999999", "1e37"]),
    ("decimal(38,0)", {}, ["9223372036854775807", "-9223372036854775808"]),
    ("decimal(22,2)", {}, ["9223372036854775807", "-9223372036854775808", "9223372036854775807.01"]),
    ("boolean", {}, ["true"]),
    ("binary", {}, ['"abc"']),
]

PARTITION_TEXTS: dict[str, list[str | None]] = {
    "string": [None, "", "a", " ", "__HIVE_DEFAULT_PARTITION__", "é"],
    "integer": ["5", "-5", "+5", "05", "2147483647", "2147483648", "5.0", "abc", "", None, " 5"],
    "byte": ["127", "128", "-128"],
    "long": ["9223372036854775807", "9223372036854775808"],
    "float": ["0.5", "0.1", "NaN", "Infinity", "-Infinity", "1e3", "x", "+0.5", "nan", "-NaN", "NAN", "1e39"],
    "double": ["0.1", "1E-3", ".5", "5.", "inf", "-inf", "+inf", "INF", ".", "1e", " 1", "0x1", "1_0", "1d", "1e400"],
    "boolean": ["true", "FALSE", "1"],
    "decimal(5,2)": ["1.5", "1.505", "999.99", "1000", "1.5e1", "-0.01"],
    "date": ["2026-02-10", "1969-12-31", "2026-02-30", "20260210", "12026-02-10", "2026-02-10 00:00:00"],
    "timestamp": [
        "2026-02-10 22:00:00",
        "2026-02-10 22:00:00.123456",
        "2026-02-10T22:00:00.123Z",
        "2026-02-10 22:00:00+01:00",
        "2026-02-10",
        "+12026-02-10",
        "-0001-02-10",
        "1969-12-31 23:59:59.999999",
        "2026-02-10 22:00:00.1234567",
        "2026-02-10 22:00:00.123456000",
        "2026-02-10 22",
        "2026-02-10 24:00:00",
        "2026-02-10 22:00:00+24:00",
        "2026-02-10 22:00:00 ",
        "now",
    ],
    "timestamp_ntz": ["2026-02-10 22:00:00", "2026-02-10 22:00:00Z", "2026-02-10 22:00:00+01:00"],
    "binary": ["abc", "é", ""],
}

INTERVALS: list[dict[str, Any]] = [
    {"form": "text", "time_type": "timestamp", "granularity": "hour", "exact": True, "values": [text]}
    for text in (
        "2026021022",
        "1969123123",
        "0000010100",
        "9999123123",
        "2026021024",
        "2026023000",
        "20260210",
        "+1234501010",
        "-001010100",
        "yyyyMMddHH",
        "٢٠٢٦٠٢١٠٢٢",
    )
] + [
    {"form": "text", "time_type": "timestamp", "granularity": "month", "exact": True, "values": ["202612"]},
    {"form": "text", "time_type": "timestamp", "granularity": "month", "exact": True, "values": ["202613"]},
    {"form": "text", "time_type": "timestamp_ntz", "granularity": "day", "exact": True, "values": ["20240229"]},
    {"form": "text", "time_type": "timestamp", "granularity": "minute", "exact": True, "values": ["202602102259"]},
    {"form": "text", "time_type": "timestamp", "granularity": "second", "exact": True, "values": ["20260210225960"]},
    {"form": "text", "time_type": "timestamp", "granularity": "hour", "exact": False, "values": ["2026021022"]},
    {"form": "text", "time_type": "timestamp", "granularity": "hour", "exact": False, "values": ["1970010100"]},
    {"form": "text", "time_type": "timestamp", "granularity": "day", "exact": False, "values": ["20111231"]},
    {"form": "text", "time_type": "timestamp", "granularity": "day", "exact": False, "values": ["19930823"]},
    {"form": "date", "time_type": "timestamp", "values": ["2026-02-10"]},
    {"form": "date", "time_type": "timestamp_ntz", "values": ["2026-02-10"]},
    {"form": "units", "time_type": "timestamp", "values": [2026]},
    {"form": "units", "time_type": "timestamp", "values": [2026, 12]},
    {"form": "units", "time_type": "timestamp", "values": [2026, 2, 30]},
    {"form": "units", "time_type": "timestamp_ntz", "values": [2026, 2, 10, 23]},
    {"form": "units", "time_type": "timestamp", "values": [2026, 2, 10, 24]},
]

KEY_VALUES: list[tuple[str, Any, str]] = [
    ("long", -3, "-3"),
    ("boolean", 1, "true"),
    ("date", 20494, "2026-02-10"),
    ("date", -1, "1969-12-31"),
    ("timestamp", 1770760800000000, "2026-02-10 22:00:00"),
    ("timestamp", -1000, "1969-12-31 23:59:59.999"),
    ("timestamp_ntz", 1770760800123456, "2026-02-10 22:00:00.123456"),
    ("double", 0.25, "0.25"),
    ("double", "Infinity", "Infinity"),
    ("float", "-Infinity", "-Infinity"),
    ("decimal(9,2)", "-125e-2", "-1.25"),
    ("decimal(38,0)", "12e-0", "12"),
    ("string", "2026021022", "2026021022"),
    ("binary", "c3a9", "é"),
]

RANGES: list[tuple[list[str], list[str]]] = [
    (["b/1", "a/9", "c/0"], ["a/9", "a/8", "c/0", "c/00", "c/1", "b", "", "zzz", "/a/9"]),
    (
        ["p=2026021022/part-00000-0123456789abcdef.parquet", "p=2026021023/part-00000-0123456789abcdef.parquet"],
        [
            "p=2026021022/part-00000-0123456789abcdef.parquet",
            "p=2026021023/part-00000-zzz",
            "p=2026021024/x",
            "p=2026021022/a",
        ],
    ),
    (["日本語日本語日本語日本語/x"], ["日本語日本語日本語日本語/y", "日本語日本語日本語日", "日本"]),
    (["a%20b", "c"], ["anything"]),
    (["x/./a", "c"], ["anything"]),
    (["/abs", "c"], ["anything"]),
    ([], ["anything"]),
]


def main() -> None:
    VECTORS.mkdir(parents=True, exist_ok=True)
    for name, content in documents().items():
        (VECTORS / f"{name}.json").write_text(written(content), encoding="utf-8")


def written(content: dict[str, Any]) -> str:
    """JSON with one case a line."""
    lines = []
    for key, value in content.items():
        if isinstance(value, list):
            cases = ",\n  ".join(json.dumps(case, ensure_ascii=False) for case in value)
            lines.append(f"{json.dumps(key)}: [\n  {cases}\n ]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    return "{" + ",\n ".join(lines) + "}\n"


def documents() -> dict[str, dict[str, Any]]:
    return {
        "canonical_paths": canonical_paths(),
        "deletion_vector_ids": {"cases": [{"deletionVector": v, "id": spec.vector_id(v)} for v in DV_CASES]},
        "bounds": bounds(),
        "partition_values": partition_values(),
        "bucket_expressions": bucket_expressions(),
        "bucket_intervals": bucket_intervals(),
        "key_values": key_values(),
        "path_ranges": path_ranges(),
        "pruning": pruning(),
        "manifest_checksums": manifest_checksums(),
    }


def canonical_paths() -> dict[str, Any]:
    cases = [
        {"table": table, "path": path, "canonical": spec.canonical_path(table, path)}
        for table, paths in PATHS.items()
        for path in paths
    ]
    pairs = [
        ("a%2Fb", "a/b", False),
        ("a%2Fb", "a%2fb", True),
        ("/t/x", "x", False),
        ("/t/x", "s3a://bucket/t/x", True),
    ]
    return {
        "about": "Two paths of one table are equal if their canonical forms are equal.",
        "cases": cases,
        "pairs": [{"table": "s3://bucket/t", "a": a, "b": b, "equal": equal} for a, b, equal in pairs],
    }


def bounds() -> dict[str, Any]:
    cases = []
    for kind, metadata, texts in BOUNDS:
        for text in texts:
            value = json.loads(text, parse_float=spec.Number)
            for side in ("min", "max"):
                found = spec.bound(value, kind, side)
                case = {"type": kind, **({"metadata": metadata} if metadata else {}), "side": side, "json": text}
                wide = spec.widened(found, kind, side, metadata)
                cases.append(case | {"value": spec.shown(found, kind), "widened": spec.shown(wide, kind)})
    return {
        "about": "`json`: JSON text of a bound. `value` and `widened`: key values; null is unknown.",
        "cases": cases,
    }


def partition_values() -> dict[str, Any]:
    cases = []
    for kind, texts in PARTITION_TEXTS.items():
        for text in texts:
            value = spec.partition_value(text, kind)
            state = "null" if value is None else "unreadable" if value is spec.UNKNOWN else "value"
            is_nan = isinstance(value, float) and value != value
            cases.append(
                {"type": kind, "text": text, "state": state, "value": "NaN" if is_nan else spec.shown(value, kind)}
            )
    return {"about": '`value` is in the form of key values, or "NaN".', "cases": cases}


def bucket_expressions() -> dict[str, Any]:
    ours = [
        {"time_type": kind, "granularity": g, "exact": True, "expression": bucket_expression("{t}", g, kind)}
        for kind in TIME_TYPES
        for g in GRANULARITIES
    ]
    older = [
        {"time_type": kind, "granularity": g, "exact": False, "expression": unix_bucket_expression("{t}", g)}
        for kind in TIME_TYPES
        for g in GRANULARITIES
    ]
    return {
        "about": "{t} stands for the time column. Compare as sequences of SQL tokens, see index-format.md.",
        "cases": [*ours, *older],
        "skipped_days": ["{:04}-{:02}-{:02}".format(*spec.date_of(day)) for day in sorted(SKIPPED_DAYS)],
    }


def bucket_intervals() -> dict[str, Any]:
    cases = []
    for case in INTERVALS:
        values = case["values"]
        typed = [spec.days(values[0])] if case["form"] == "date" else values
        typed = [values[0].encode()] if case["form"] == "text" else typed
        found = spec.interval(
            case["form"],
            case["time_type"],
            typed,
            case.get("exact", True),
            sorted(SKIPPED_DAYS),
            case.get("granularity"),
        )
        cases.append(case | {"interval": None if found is None else list(found)})
    return {
        "about": "`interval`: start and end (excluded) in microseconds since 1970; null: no interval.",
        "cases": cases,
    }


def key_values() -> dict[str, Any]:
    cases = [{"type": kind, "key_value": value, "text": text} for kind, value, text in KEY_VALUES]
    for case in cases:
        assert spec.shown(spec.partition_value(case["text"], case["type"]), case["type"]) == case["key_value"]
    return {"about": "`text` is the same value as the text of a partition value.", "cases": cases}


def pruning() -> dict[str, Any]:
    source, cases = random.Random(13), []
    for _ in range(200):
        kind = source.choice(["long", "double"])
        facts = {
            "min": source.choice([None, 1, 5]),
            "max": source.choice([None, 5, 9]),
            "nulls": source.choice([None, 0, 3, 10]),
            "rows": source.choice([None, 10, 10]),
        }
        known = spec_model.Facts(*(spec.UNKNOWN if f is None else f for f in facts.values()), kind == "double")
        op = source.choice(["=", "!=", "<", "<=", ">", ">=", "in", "is null"])
        node: dict[str, Any] = {"op": op, "column": ["x"]}
        if op == "in":
            node["values"] = sorted(source.sample([0, 1, 5, 7, 9, 10], 2))
        elif op != "is null":
            node["value"] = source.choice([0, 1, 5, 7, 9, 10])
        answers = {f"may_be_{wanted}".lower(): _may(node, wanted, known, kind) for wanted in (True, False)}
        cases.append({"type": kind, **facts, "predicate": node, **answers})
    return {
        "about": "Facts of a data column `x` (bounds are widened already), a predicate, and what rows may make of it.",
        "cases": cases,
    }


def _may(node: spec_model.Node, wanted: bool, known: spec_model.Facts, kind: str) -> bool:
    return spec_model.may(node, wanted, lambda _: (known, kind))


def path_ranges() -> dict[str, Any]:
    cases = []
    for paths, asked in RANGES:
        plain = paths and not any(
            "%" in p or ":" in p or "//" in p or "/." in p or p.startswith(("/", ".")) for p in paths
        )
        low, high = (_cut(min(paths, key=str.encode)), _cut(max(paths, key=str.encode))) if plain else (None, None)
        may = {path: low is None or _is_within(path, str(low), str(high)) for path in asked}
        cases.append({"paths": paths, "path_min": low, "path_max": high, "may_hold": may})
    return {"about": "`may_hold`: whether a part with these paths can hold a file, by its range.", "cases": cases}


def _cut(path: str) -> str:
    kept = ""
    for character in path:
        if len((kept + character).encode()) > 32:
            break
        kept += character
    return kept


def _is_within(path: str, low: str, high: str) -> bool:
    data, first, last = path.encode(), low.encode(), high.encode()
    return not path.startswith("/") and data >= first and data[: len(last)] <= last


def manifest_checksums() -> dict[str, Any]:
    inner = '{"format":1,"version":0,"unknown":"é }\\" {"}'
    crc = f"{zlib.crc32(inner.encode()):08x}"
    right = f'{{"crc32":"{crc}","manifest":{inner}}}'
    return {
        "about": "`file` is the whole manifest file as UTF-8 text; `crc32` the checksum of the inner object.",
        "cases": [
            {"file": right, "crc32": crc, "ok": True},
            {"file": right.replace('"version":0', '"version":1'), "crc32": crc, "ok": False},
            {"file": right.replace('"format":1', '"format": 1'), "crc32": crc, "ok": False},
            {"file": f'{{"crc32":"00000000","manifest":{inner}}}', "crc32": crc, "ok": False},
        ],
    }


if __name__ == "__main__":
    main()
