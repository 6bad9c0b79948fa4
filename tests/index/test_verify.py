"""Verify: whatever is off is found and named, and what is only odd is not."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from delta_sidecar.errors import TableNotFoundError, VersionNotFoundError
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.format.index_names import SIDECARS
from delta_sidecar.index.format.manifest import Manifest, Sort, decode, encode, parts_json
from delta_sidecar.index.format.part_entries import FileEntry
from delta_sidecar.index.verify import plain_stats
from delta_sidecar.index.verify.verify import VerifyReport, verify_index
from delta_sidecar.limits import BuildLimits
from delta_sidecar.log.actions import Protocol
from delta_sidecar.storage import open_store
from delta_sidecar.storage.store import Store
from delta_sidecar.testing import DeletionVector, LogBuilder, add, remove
from delta_sidecar.values.stats_text import come_back
from tests.cli.running import assert_refused, invoke, sidecar
from tests.index.models import small_parts

COLUMNS = {"p": "string", "x": "long", "s": "string", "t": "timestamp", "d": "decimal(10,2)", "f": "float"}
BOUNDS = {"x": 11, "s": "low", "t": "2026-02-10T22:00:00.000Z", "d": 1.25, "f": 0.5}
STATS = {
    "numRecords": 31, "tightBounds": True, "minValues": BOUNDS, "maxValues": {**BOUNDS, "x": 71, "s": "top"},
    "nullCount": {"x": 3, "s": 0},
}  # fmt: skip


MANY_PARTS = small_parts(single=1, small=2, most=2, rows=3)


class Table:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = LogBuilder(root).protocol(3, features=["deletionVectors"]).metadata(COLUMNS, ["p"])
        self.log.commit(
            *(add(f"f{n}.parquet", size=1000 + n, partition={"p": "ab"[n % 2]}, stats=STATS) for n in range(6)),
            add("tagged.parquet", tags={"k": "vvv"}, base_row_id=4711, partition={"p": None}),
            add("worn.parquet", dv=DeletionVector(path="dvx", offset=5, cardinality=21), partition={"p": "c"}),
            add("odd.parquet", stats='{"numRecords":8,"what":5}', partition={"p": "d"}),
        )
        self.store: Store = open_store(str(root))

    def build(self, limits: BuildLimits = MANY_PARTS, **options: Any) -> None:
        build_index(self.store, options=BuildOptions(part_rows=3, limits=limits, **options))

    @property
    def commit(self) -> Path:
        return self.root / "_delta_log" / f"{0:020}.json"

    @property
    def manifest(self) -> Path:
        return self.root / SIDECARS / f"v{self.log.version}.manifest.json"

    @property
    def parts(self) -> list[Path]:
        return sorted((self.root / SIDECARS).glob("*.parquet"))

    def edit_commit(self, old: str, new: str) -> None:
        """Another text of the same length, in a file that looks the same."""
        before = self.commit.stat()
        text = self.commit.read_text()
        assert text.count(old), old
        assert len(old) == len(new)
        with self.commit.open("r+") as file:
            file.write(text.replace(old, new, 1))
        os.utime(self.commit, ns=(before.st_atime_ns, before.st_mtime_ns))

    def edit_manifest(self, **changes: Any) -> None:
        """Other contents under a checksum that is right."""
        manifest = decode(self.manifest.read_bytes(), "m")
        if "parts" in changes:
            changes["parts_json"] = parts_json(changes.pop("parts"))
        self.manifest.write_bytes(encode(msgspec.structs.replace(manifest, **changes)))

    def edit_part(self, number: int = 0, **changes: Any) -> None:
        manifest = decode(self.manifest.read_bytes(), "m")
        parts = list(manifest.parts)
        parts[number] = msgspec.structs.replace(parts[number], **changes)
        self.edit_manifest(parts=parts)

    def verify(self, version: int | None = None) -> VerifyReport:
        return verify_index(self.store, version)

    def problems(self) -> str:
        found = self.verify()
        assert not found.ok
        assert not any("\n" in problem for problem in found.problems)
        return " ; ".join(found.problems)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table(tmp_path)
    made.build()
    return made


def test_a_good_index(table: Table) -> None:
    found = table.verify()
    assert (found.ok, found.version, found.files, found.problems, found.notes) == (True, 0, 9, (), ())
    assert found.parts > 2


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("f1.parquet", "fX.parquet", "missing from the index"),
        ("f1.parquet", "fX.parquet", "f1.parquet is in the index but not live"),
        ('"size":1003', '"size":1004', "f3.parquet: size is 1003, the log says 1004"),
        ('"modificationTime":1', '"modificationTime":2', "modification_time"),
        ('"partitionValues":{"p":"a"}', '"partitionValues":{"p":"x"}', "partition_values"),
        ('"partitionValues":{"p":null}', '"partitionValues":{        }', "partition_values"),
        ('"k":"vvv"', '"k":"vvw"', "tags"),
        ('"baseRowId":4711', '"baseRowId":4712', "base_row_id"),
        ('"cardinality":21', '"cardinality":22', "deletion_vector"),
        ('"offset":5', '"offset":6', "missing from the index"),
        ('\\"numRecords\\":31', '\\"numRecords\\":32', "num_records is 31, the log says 32"),
        ('\\"tightBounds\\":true,', '\\"tightBounds\\":null,', "tight_bounds"),
        ('\\"x\\":11', '\\"x\\":12', "min.x is 11, the log says 12"),
        ('\\"x\\":71', '\\"x\\":72', "max.x is 71, the log says 72"),
        ('\\"s\\":\\"top\\"', '\\"s\\":\\"toq\\"', "max.s"),
        ('\\"d\\":1.25', '\\"d\\":1.26', "min.d"),
        ('\\"f\\":0.5', '\\"f\\":0.6', "min.f"),
        ("22:00:00.000Z", "22:00:00.001Z", "min.t"),
        ('\\"x\\":3', '\\"x\\":4', "null_count.x"),
        ('\\"what\\":5', '\\"what\\":6', "stats_json"),
        ('\\"x\\":71', '\\"q\\":71', "text was not kept"),
    ],
)
def test_what_the_index_says_otherwise_than_the_log_is_named(table: Table, old: str, new: str, named: str) -> None:
    table.edit_commit(old, new)
    assert named in table.problems()


def test_how_far_it_has_come_is_told_with_a_total(table: Table) -> None:
    said: list[str] = []
    assert verify_index(table.store, progress=said.append).ok
    count = len(table.parts) // 2
    assert said[:count] == [f"{n} of {count} parts of the index checked" for n in range(count)]
    assert said[count:] == ["9 of about 9 files of the log replayed"]
    table.edit_commit('"size":1003', '"size":1004')
    said.clear()
    verify_index(table.store, progress=said.append)
    assert said[-1] == "0 of 1 differing files checked again"


def test_times_are_compared_a_column_at_a_time(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """One Arrow array for each value took two thirds of the time."""
    counts: list[int] = []

    def counted(texts: list[str], values: list[int], kind: pa.DataType) -> list[bool]:
        counts.append(len(texts))
        return come_back(texts, values, kind)

    monkeypatch.setattr(plain_stats, "come_back", counted)
    assert table.verify().ok
    assert counts == [6, 6]


def test_at_most_so_many_files_are_named(table: Table) -> None:
    for number in range(6):
        table.edit_commit(f'"size":{1000 + number}', f'"size":{9000 + number}')
    found = verify_index(table.store, most_named=2)
    assert len(found.problems) == 3
    assert found.problems[-1] == "and 4 more files may differ"


@pytest.mark.parametrize("which", range(2))
def test_a_flipped_byte_anywhere_in_a_part(table: Table, which: int) -> None:
    path = table.parts[which]
    whole = path.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 12)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        assert path.name in table.problems()


def test_a_flipped_byte_anywhere_in_the_manifest(table: Table) -> None:
    whole = table.manifest.read_bytes()
    for place in range(0, len(whole), 37):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        table.manifest.write_bytes(damaged)
        assert table.manifest.name in table.problems()


def test_a_missing_part(table: Table) -> None:
    gone = table.parts[0]
    gone.unlink()
    assert f"{gone.name} is missing" in table.problems()


def test_no_index(tmp_path: Path) -> None:
    assert "no index" in Table(tmp_path).problems()


def test_no_index_of_a_version(table: Table) -> None:
    table.log.commit(add("more.parquet"))
    assert table.verify().ok, "an index need not be of the newest version"
    assert table.verify(1).problems == ("no index of version 1; build it with `sidecar build`",)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"files": 3}, "totals"),
        ({"bytes": 3}, "totals"),
        ({"records": 3}, "totals"),
        ({"table_id": "other"}, "stale"),
        ({"version": 7}, "holds the manifest of version 7"),
        ({"schema_hash": "00"}, "schema hash"),
        ({"protocol": Protocol(1, 2)}, "protocol"),
        ({"sort": Sort("min", ["x"])}, "not sorted"),
        ({"sort": Sort("min", ["none"])}, "not in the table's schema"),
        ({"time_column": []}, "time"),
        ({"format": 9}, "format 9"),
        ({"commit": None}, "did not exist when the index was built, but it does now"),
    ],
)
def test_a_manifest_that_lies(table: Table, changes: dict[str, Any], named: str) -> None:
    table.edit_manifest(**changes)
    assert named in table.problems()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"rows": 1}, "rows"),
        ({"bytes": 1}, "bytes"),
        ({"records": 1}, "records"),
        ({"key": ("a", "z")}, "key"),
        ({"key": (None, None)}, "key"),
        ({"key_unknown": 9}, "key_unknown"),
        ({"time": (0, 0)}, "time"),
        ({"time_unknown": 9}, "time_unknown"),
        ({"path": ("a", "b")}, "path"),
        ({"path": None}, "path"),
        ({"vectors": 9}, "vectors"),
        ({"id": f"v0-{'0' * 32}-7"}, "missing"),
        ({"core": FileEntry(100, 2, 3, 4)}, "bytes instead of 100"),
    ],
)
def test_a_manifest_that_lies_about_a_part(table: Table, changes: dict[str, Any], named: str) -> None:
    table.edit_part(**changes)
    assert named in table.problems()


@pytest.mark.parametrize("field", ["footer", "footer_crc32"])
def test_a_footer_that_is_not_where_it_should_be(table: Table, field: str) -> None:
    entry = decode(table.manifest.read_bytes(), "m").parts[0].core
    table.edit_part(core=msgspec.structs.replace(entry, **{field: 7}))
    assert "footer" in table.problems()


def test_a_part_named_twice_or_not_at_all(table: Table) -> None:
    parts = list(decode(table.manifest.read_bytes(), "m").parts)
    table.edit_manifest(parts=[*parts, parts[0]], files=9 + parts[0].rows)
    assert "twice" in table.problems()
    assert "in the index 2 times" in table.problems()
    table.edit_manifest(parts=parts[1:])
    assert "missing from the index" in table.problems()


def test_a_single_file_that_does_not_describe_itself(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.build(BuildLimits())
    assert table.verify().ok
    manifest: Manifest = decode(table.manifest.read_bytes(), "m")
    assert [part.core_name for part in manifest.parts] == ["v0.parquet"]
    table.edit_manifest(time_column=[])
    assert "v0.parquet: time_column is ['t']" in table.problems()


# Stale ones.


def test_a_manifest_of_a_version_that_never_was(table: Table) -> None:
    beyond = table.manifest.with_name("v5.manifest.json")
    shutil.copy(table.manifest, beyond)
    assert table.verify().ok
    assert "v5.manifest.json belongs to an earlier table" in table.verify().notes[0]
    table.manifest.unlink()
    assert "v5.manifest.json is stale: the table's newest version is 0" in table.problems()


def test_a_manifest_under_another_versions_name(table: Table) -> None:
    table.log.commit(add("more.parquet"))
    shutil.copy(table.root / SIDECARS / "v0.manifest.json", table.manifest)
    assert "holds the manifest of version 0" in table.problems()


def test_a_commit_file_that_is_another(table: Table) -> None:
    table.commit.write_text(table.commit.read_text() + "\n")
    assert "stale" in table.problems()
    table.build()
    assert table.verify().ok, "a build mends it"


def test_a_commit_file_that_was_only_copied(table: Table) -> None:
    os.utime(table.commit, (0, 0))
    found = table.verify()
    assert found.ok
    assert "id alone" in found.notes[0]


def test_a_commit_file_with_other_bytes(table: Table) -> None:
    table.edit_commit('"vvv"', '"www"')
    os.utime(table.commit, (0, 0))
    assert "other bytes" in table.problems()


def test_a_version_that_cannot_be_rebuilt(table: Table) -> None:
    table.log.commit(add("more.parquet")).checkpoint()
    table.log.cleanup(before=1)
    assert "cannot be rebuilt" in table.problems()


def test_a_commit_file_that_was_cleaned_up(table: Table) -> None:
    table.log.checkpoint().commit(add("more.parquet")).cleanup(before=1)
    found = table.verify()
    assert found.ok
    assert "id alone" in found.notes[0]
    assert found.notes[1].startswith("the table is at version 1: 1 newer commit is read from the log")


# What is only odd.


def test_a_stale_hint_is_no_problem(table: Table) -> None:
    (table.root / SIDECARS / "_last_index").write_text('{"version":77}')
    found = table.verify()
    assert found.ok
    assert "names 77" in found.notes[0]


def test_a_checkpoint_that_dropped_stats(table: Table) -> None:
    table.log.checkpoint(stats=False).commit(remove("f1.parquet"), add("new.parquet", partition={"p": "z"}))
    table.build()
    assert table.verify().ok, "the index knows more than the checkpoint"


def test_a_checkpoint_with_typed_stats_only(table: Table) -> None:
    table.log.checkpoint(stats=False, stats_parsed=True).commit(add("new.parquet", partition={"p": "z"}))
    table.build()
    assert table.verify().ok
    table.build(full=True)
    assert table.verify().ok


def test_a_broken_checkpoint_is_passed_over(table: Table) -> None:
    table.log.checkpoint().break_checkpoint()
    found = table.verify()
    assert found.ok


def test_bad_input(tmp_path: Path, table: Table) -> None:
    with pytest.raises(TableNotFoundError):
        verify_index(open_store(str(tmp_path / "none")))
    with pytest.raises(VersionNotFoundError):
        table.verify(99)


# The commands.


def test_build_and_verify_by_command(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    done = invoke("build", table.root)
    assert (done.code, done.err) == (0, "")
    assert "full, in one process" in done.out
    assert "the index is up to date" in invoke("build", table.root).out
    (report,) = invoke("build", table.root, "--json", "--full").objects
    assert (report["mode"], report["files"], report["version"]) == ("full", 9, 0)
    checked = invoke("verify", table.root)
    assert checked.code == 0
    assert "9 files" in checked.out
    (found,) = invoke("verify", table.root, "--version", 0, "--json").objects
    assert (found["ok"], found["problems"], found["files"]) == (True, [], 9)


@pytest.mark.slow
def test_a_problem_is_exit_code_1_and_named(table: Table) -> None:
    table.parts[0].unlink()
    done = sidecar("verify", table.root)
    assert (done.code, done.err) == (1, "")
    assert "missing" in done.out
    done = invoke("verify", table.root, "--json")
    assert done.code == 1
    assert json.loads(done.out)["ok"] is False


def test_no_index_is_exit_code_1(tmp_path: Path) -> None:
    done = invoke("verify", Table(tmp_path).root)
    assert done.code == 1
    assert "no index" in done.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["verify", "/no/such/table"], ["no Delta table"]),
        (["build", "/no/such/table"], ["no Delta table"]),
        (["verify", "{}", "--version", "99"], ["99"]),
        (["build", "{}", "--version", "99"], ["99"]),
        (["build", "{}", "--sort-column", "none"], ["none"]),
        (["build", "{}", "--time-column", "x"], ["x", "--time-column"]),
        (["build", "{}", "--conf", "x"], ["NAME=VALUE"]),
        (["build", "{}", "--watch", "--version", "1"], ["--watch"]),
        (["build", "{}", "--watch", "--full"], ["--full"]),
    ],
)
def test_bad_arguments(table: Table, arguments: list[str], words: list[str]) -> None:
    assert_refused(invoke(*(a.format(table.root) for a in arguments)), *words)


def test_columns_may_be_chosen(table: Table) -> None:
    assert invoke("build", table.root, "--sort-column", "x", "--time-column", "t").code == 0
    assert decode(table.manifest.read_bytes(), "m").sort.column == ["x"]
    assert invoke("verify", table.root).code == 0
