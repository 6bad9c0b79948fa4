"""The spec's own reader, run as it stands there: another reader can be written from that page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.format.index_names import SIDECARS
from delta_sidecar.storage import open_store
from delta_sidecar.testing import LogBuilder, add, remove
from tests.index.models import small_parts

SPEC = Path(__file__).resolve().parents[2] / "docs" / "spec" / "index-format.md"


@pytest.fixture(scope="module")
def reader() -> dict[str, Any]:
    (source,) = re.findall(r"```python\n(.*?)```", SPEC.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(source, names)
    return names


@pytest.mark.parametrize("single", [100, 0])
def test_the_reader_of_the_spec_reads_what_is_written(tmp_path: Path, reader: dict[str, Any], single: int) -> None:
    columns = {"p": "date", "x": "long", "s": {"type": "struct", "fields": [
        {"name": "y", "type": "string", "nullable": True, "metadata": {}}]}, "t": "timestamp"}  # fmt: skip
    stats = {
        "numRecords": 9,
        "minValues": {"x": 1, "s": {"y": "a"}, "t": "2026-02-10T22:00:00Z"},
        "nullCount": {"x": 2},
    }
    log = LogBuilder(tmp_path).metadata(columns, ["p"])
    log.commit(*(add(f"f{n}", partition={"p": f"2026-01-0{9 - n}"}, stats=stats) for n in range(7)))
    log.commit(remove("f3"), add("odd", partition={"p": None}, stats="nonsense"))
    for version in range(2):
        build_index(
            open_store(str(tmp_path)),
            version,
            BuildOptions(part_rows=2, limits=small_parts(single=single, small=0, most=100, rows=2)),
        )
    rows = list(reader["rows_of"](lambda path: (tmp_path / path).read_bytes(), SIDECARS, 1))
    assert {row["path"] for row in rows} == {body["path"] for body in log.state().files.values()}
    for row in rows:
        if row["path"] == "odd":
            assert (row["stats_json"], row["partition_values"]) == ("nonsense", [("p", None)])
        else:
            assert (row["num_records"], row["min"], row["null_count"]) == (9, {"x": 1, "s": {"y": "a"}}, {"x": 2})
            assert row["time_min"].isoformat() == "2026-02-10T22:00:00+00:00"


def test_damage_is_noticed_by_the_reader_of_the_spec(tmp_path: Path, reader: dict[str, Any]) -> None:
    LogBuilder(tmp_path).commit(add("f"))
    build_index(open_store(str(tmp_path)))

    def damaged(which: str, place: int) -> Any:
        def get(path: str) -> bytes:
            data = bytearray((tmp_path / path).read_bytes())
            if path.endswith(which):
                data[place] ^= 1
            return bytes(data)

        return get

    for which in (".json", ".parquet"):
        for place in (9, 50, 300, -3):
            with pytest.raises(AssertionError):
                list(reader["rows_of"](damaged(which, place), SIDECARS, 0))
