"""What a file name of the log directory says."""

from __future__ import annotations

import pytest

from delta_sidecar.log.dialect import DELTA
from delta_sidecar.log.log_names import Kind, LogName, commit_name, parse_name, version_prefix

V = "00000000000000000012"
UUID = "3a0d65cd-4056-49b8-937b-95f9e3ee90e5"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"{V}.json", LogName(Kind.COMMIT, 12)),
        (f"{V}.crc", LogName(Kind.CHECKSUM, 12)),
        (f"{V}.00000000000000000015.compacted.json", LogName(Kind.COMPACTED, 12, end_version=15)),
        (f"{V}.checkpoint.parquet", LogName(Kind.CLASSIC_CHECKPOINT, 12)),
        (f"{V}.checkpoint.0000000001.0000000001.parquet", LogName(Kind.MULTI_PART_CHECKPOINT, 12, part=1, parts=1)),
        (f"{V}.checkpoint.{UUID}.json", LogName(Kind.UUID_CHECKPOINT, 12)),
        (f"{V}.checkpoint.{UUID}.parquet", LogName(Kind.UUID_CHECKPOINT, 12)),
        ("99999999999999999999.json", LogName(Kind.COMMIT, 99_999_999_999_999_999_999)),
    ],
)
def test_names_of_the_log(name: str, expected: LogName) -> None:
    assert parse_name(name, DELTA.kinds) == expected


@pytest.mark.parametrize(
    "name",
    [
        "_last_checkpoint",
        f".{V}.json.crc",
        f"{V}.json.tmp",
        f"{V[1:]}.json",
        f"0{V}.json",
        f"{V}.{UUID}.json",
        f"{V}.checkpoint.parquet.tmp",
        f"{V}.checkpoint.1.2.parquet",
        f"{V}.checkpoint.not-a-uuid.parquet",
        f"{V}.checkpoint.json",
        f"{V}.compacted.json",
        f"v{V}.json",
        f"{V}.json\n",
        "١٢٣٤٥٦٧٨٩٠١٢٣٤٥٦٧٨٩٠.json",
        "",
    ],
)
def test_anything_else_is_passed_over(name: str) -> None:
    assert parse_name(name, DELTA.kinds) is None


def test_names_begin_with_their_version() -> None:
    assert commit_name(12) == f"{V}.json"
    assert commit_name(12).startswith(version_prefix(12))
