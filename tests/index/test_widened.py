"""Indexes of tables whose columns got a wider type."""

from __future__ import annotations

from pathlib import Path

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.index.build import extend
from delta_sidecar.index.build.build import BuildOptions, BuildReport, build_index
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.storage import open_store
from delta_sidecar.testing.actions import Spec, add, column, remove
from delta_sidecar.testing.table_builder import LogBuilder
from tests.index.models import small_parts

FLOATS = ("0.1", "0.2", "0.3", "0.5")


def build(root: Path, sort_column: str | None = None, single: int = 0, small: int = 0) -> BuildReport:
    limits = small_parts(single, small, most=0, rows=4, row_group_rows=2)
    return build_index(open_store(str(root)), None, BuildOptions(sort_column, part_rows=4, limits=limits))


def assert_verified(root: Path) -> None:
    found = verify_index(open_store(str(root)))
    assert found.ok, found


def listed(root: Path, predicate: str) -> set[str]:
    return {file.path for file in DeltaTable(str(root)).file_infos(predicate)}


def declare(log: LogBuilder, kind: str, old: str | None = None, partition_by: tuple[str, ...] = ("c",)) -> LogBuilder:
    changes = {} if old is None else {"delta.typeChanges": [{"fromType": old, "toType": kind}]}
    return log.metadata([column("k"), column("t", "timestamp"), column("c", kind, metadata=changes)], partition_by)


def started(root: Path, kind: str, partition_by: tuple[str, ...] = ("c",)) -> LogBuilder:
    return declare(LogBuilder(root).protocol(3, 7, features=["typeWidening", "timestampNtz"]), kind, None, partition_by)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("byte", "short", "5"),
        ("byte", "integer", "-128"),
        ("integer", "long", "007"),
        ("integer", "double", "2147483647"),
        ("float", "double", "0.1"),
        ("decimal(5,0)", "decimal(20,0)", "99999"),
        ("decimal(5,2)", "decimal(7,4)", "1.25"),
        ("date", "timestamp_ntz", "2024-01-01"),
    ],
)
@pytest.mark.parametrize(("single", "small"), [(0, 0), (0, 4), (1000, 0)])
def test_old_and_new_partition_values_are_of_one_type(
    tmp_path: Path, old: str, new: str, text: str, single: int, small: int
) -> None:
    log = started(tmp_path, old).commit(add("a", partition={"c": text}), add("b", partition={"c": text}))
    build(tmp_path, "modification_time", single, small)
    declare(log, new, old).commit(remove("b"), add("d", partition={"c": text}))
    assert build(tmp_path, "modification_time", single, small).mode == "incremental"
    assert_verified(tmp_path)
    literal = f"'{text}'" if old == "date" else text.lstrip("0") if text.isdigit() else text
    assert listed(tmp_path, f"c = {literal}") == {"a", "d"}


def floats(root: Path, sort_column: str) -> LogBuilder:
    """Two parts of every value but two, of which one loses a file."""
    log = started(root, "float")
    log.commit(*(add(f"f{n}", modification_time=n, partition={"c": FLOATS[n % 4]}) for n in range(16)))
    build(root, sort_column=sort_column)
    return declare(log, "double", "float").commit(remove("f0"), add("new", partition={"c": "0.1"}))


@pytest.mark.parametrize("sort_column", ["c", "modification_time"])
def test_a_float_partition_that_is_a_double_is_read_again_in_every_part(tmp_path: Path, sort_column: str) -> None:
    floats(tmp_path, sort_column)
    assert listed(tmp_path, "c = 0.2") == {"f1", "f5", "f9", "f13"}
    report = build(tmp_path, sort_column=sort_column)
    assert (report.mode, report.parts_reused) == ("incremental", 0)
    assert_verified(tmp_path)
    for at, text in enumerate(FLOATS):
        gone, new = ({"f0"}, {"new"}) if text == "0.1" else (set(), set())
        assert listed(tmp_path, f"c = {text}") == ({f"f{n}" for n in range(at, 16, 4)} - gone) | new


@pytest.mark.parametrize("sort_column", ["c", "modification_time"])
def test_floats_in_an_index_of_doubles_leave_out_no_file(
    tmp_path: Path, sort_column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of builders that reuse such parts, or cast their values."""
    floats(tmp_path, sort_column)
    monkeypatch.setattr(extend, "_reads_otherwise", lambda then, now: False)
    assert build(tmp_path, sort_column=sort_column).parts_reused
    for at, text in enumerate(FLOATS[1:], 1):
        assert listed(tmp_path, f"c = {text}") == {f"f{n}" for n in range(at, 16, 4)}
    assert any("as float" in problem for problem in verify_index(open_store(str(tmp_path))).problems)


def test_dates_that_are_times_are_written_again_from_the_log(tmp_path: Path) -> None:
    stats = '{"numRecords":1,"minValues":{"c":"2024-01-01"},"maxValues":{"c":"2024-01-02"},"nullCount":{"c":0}}'
    log = started(tmp_path, "date", ()).commit(*(add(f"f{n}", stats=stats) for n in range(6)))
    build(tmp_path, sort_column="k")
    declare(log, "timestamp_ntz", "date", ()).commit(remove("f0"))
    report = build(tmp_path, sort_column="k")
    assert (report.mode, len(report.notes)) == ("full", 1)
    assert_verified(tmp_path)


def test_a_column_that_was_dropped_after_it_became_wider(tmp_path: Path) -> None:
    def files(name: str, value: int) -> list[Spec]:
        said = f'"minValues":{{"c":{value}}},"maxValues":{{"c":{value}}}'
        return [add(f"{name}{n}", stats=f'{{"numRecords":1,{said}}}') for n in range(3)]

    log = started(tmp_path, "byte", ()).commit(*files("old", 1))
    build(tmp_path, "modification_time")
    declare(log, "short", "byte", ()).commit(*files("new", 300))
    build(tmp_path, "modification_time")
    log.metadata([column("k"), column("t", "timestamp")]).commit(remove("old0"), remove("new0"))
    report = build(tmp_path, "modification_time", small=10)
    assert (report.mode, len(report.notes)) == ("full", 1)
    assert_verified(tmp_path)


def test_a_wider_type_holds_what_the_narrower_did_not(tmp_path: Path) -> None:
    stats = '{"numRecords":1,"minValues":{"c":128},"maxValues":{"c":300},"nullCount":{"c":0}}'
    log = started(tmp_path, "byte", ()).commit(*(add(f"f{n}", stats=stats) for n in range(6)))
    build(tmp_path)
    declare(log, "short", "byte", ()).commit(remove("f0"))
    assert build(tmp_path).mode == "incremental"
    assert_verified(tmp_path)
