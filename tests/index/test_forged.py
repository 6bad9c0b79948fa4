"""Manifests with a right checksum and wrong contents: for readers that is never an error, and a check tells."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.index.build.build import build_index
from delta_sidecar.index.build.garbage import collect_garbage
from delta_sidecar.index.read.index_base import IndexBase
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.server.page.part_map import index_of
from delta_sidecar.storage.cache import shared_cache
from tests.cli.running import invoke
from tests.fuzz.tables import INDEXED, Made, make_table

NAME = f"v{INDEXED}.manifest.json"
ABSENT = object()
"""Instead of a value: the key is left out."""
Place = tuple[str | int, ...]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_table(tmp_path_factory.mktemp("sound") / "table", checkpoint=2).root


@pytest.fixture
def made(sound: Path, tmp_path: Path) -> Iterator[Made]:
    """A copy of the sound table: of its commit file the time is kept, and so the index is bound."""
    from delta_sidecar.testing.table_builder import LogBuilder

    shutil.copytree(sound, tmp_path / "table")
    shared_cache.clear()
    yield Made(LogBuilder(tmp_path / "table"), {})
    shared_cache.clear()


def forge(made: Made, place: Place, value: object) -> None:
    """Other contents under a checksum that is right."""
    manifest = json.loads(made.manifest.read_bytes())["manifest"]
    within: Any = manifest
    for step in place[:-1]:
        within = within[step]
    if value is ABSENT:
        del within[place[-1]]
    else:
        within[place[-1]] = value
    inner = json.dumps(manifest, separators=(",", ":")).encode()
    made.manifest.write_bytes(b'{"crc32":"%08x","manifest":%s}' % (zlib.crc32(inner), inner))


def paths(made: Made) -> list[str]:
    """The live files by the log alone."""
    table = DeltaTable(str(made.root), options={"delta.sidecar.enabled": False})
    return sorted(table.scan_files(columns=["path"]).read_all().column("path").to_pylist())


PARTS: list[tuple[Place, object]] = [
    (("parts",), {}),
    (("parts",), 7),
    (("parts", "rows", 0), 1.5),
    (("parts", "rows", 0), -1),
    (("parts", "rows"), []),
    (("parts", "row_groups", 0), 1 << 64),
    (("parts", "time_max"), ABSENT),
    (("parts", "core", "crc32"), ABSENT),
    (("parts", "core", "crc32", 0), -1),
    (("parts", "core", "footer", 0), -(1 << 63)),
    (("parts", "core", "footer", 0), 1 << 40),
    (("parts", "core", "size", 0), -1),
    (("parts", "stats", "size", 0), 7),
    (("parts", "build", 0), 5),
    (("parts", "build", 0), -1),
    (("parts", "number", 0), -2),
    (("parts", "builds", 0), "v5-\0"),
    (("parts", "builds", 0), "../../../x"),
    (("parts", "builds", 0), "v5-" + "a" * 5_000),
    (("parts", "builds", 0), "v5-" + "a" * 32 + "\n"),
    (("parts", "key_unknown", 0), -1),
    (("parts", "off_bucket", 0), 10**30),
    (("parts", "deep"), json.loads("[" * 500 + "]" * 500)),
]
KEYS: list[tuple[Place, object]] = [
    (("parts", "key_min", 0), None),
    (("parts", "key_max", 0), None),
    (("parts", "key_max", 0), 5),
]
STATE: list[tuple[Place, object]] = [
    (("metadata", "schemaString"), "{"),
    (("metadata", "schemaString"), "{}"),
    (("metadata", "schemaString"), "[]"),
    (("metadata", "schemaString"), "[" * 100_000),
    (("metadata", "schemaString"), '{"type":"struct","fields":[{"name":5,"type":"long"}]}'),
    (("protocol", "minReaderVersion"), 99),
    (("protocol", "readerFeatures"), ["unheard of"]),
    (("sort", "column"), ["nope"]),
    (("sort",), {"kind": "modification_time", "column": ["x"]}),
    (("time_column",), ["s"]),
]


def forgeries(cases: list[tuple[Place, object]]) -> Any:
    ids = [f"{'.'.join(map(str, place))}={'absent' if v is ABSENT else repr(v)[:24]}" for place, v in cases]
    return pytest.mark.parametrize(("place", "value"), cases, ids=ids)


@forgeries([case for case in PARTS if case[0][-1] != "deep"] + KEYS + STATE)
def test_readers_take_another_base_and_say_why(
    made: Made, capfd: pytest.CaptureFixture[str], place: Place, value: object
) -> None:
    forge(made, place, value)
    for limit in (None, 2):
        shared_cache.clear()
        scan = DeltaTable(str(made.root)).scan_files(columns=["path"], limit=limit)
        assert scan.explain()
        assert scan.plan.as_dict()["version"] == scan.plan.version
        found = scan.read_all().column("path").to_pylist()
        assert scan.explain()
        assert scan.headline()
        if limit is None:
            assert sorted(found) == paths(made)
            assert scan.metrics.tier == "checkpoint"
            assert scan.metrics.fallback_reason
    assert "Logging error" not in capfd.readouterr().err


@forgeries([case for case in PARTS if case[0][-1] != "deep"] + KEYS + STATE)
def test_a_check_reports_them(made: Made, place: Place, value: object) -> None:
    forge(made, place, value)
    found = verify_index(made.store)
    assert not found.ok
    assert found.problems[0].startswith(NAME)


def test_what_is_not_known_is_passed_over(made: Made) -> None:
    forge(made, ("parts", "deep"), json.loads("[" * 500 + "]" * 500))
    assert DeltaTable(str(made.root)).scan_files().read_all().num_rows == len(paths(made))
    assert verify_index(made.store).ok


@forgeries([PARTS[2], PARTS[17], KEYS[0], STATE[0], STATE[7]])
def test_no_command_fails_on_them(made: Made, place: Place, value: object) -> None:
    forge(made, place, value)
    for command in ("files", "info", "explain"):
        for more in ([], ["--json"], ["--verbose"]):
            shared_cache.clear()
            done = invoke(command, made.root, *more)
            assert done.code == 0, (command, done.err)
            assert "Traceback" not in done.err
    assert invoke("files", made.root, "--limit", 2).code == 0
    assert invoke("verify", made.root).code == 1
    for more in (["--dry-run"], []):
        assert invoke("maintain", made.root, "--only", "garbage", *more).code == 0


@forgeries([PARTS[2], PARTS[17], KEYS[0], STATE[0], STATE[7]])
def test_a_build_replaces_them(made: Made, place: Place, value: object) -> None:
    forge(made, place, value)
    assert build_index(made.store, INDEXED).mode == "full"
    assert verify_index(made.store).problems == ()
    assert DeltaTable(str(made.root)).scan_files(columns=["path"]).read_all().num_rows == len(paths(made))


def test_no_part_is_garbage_while_a_list_of_parts_is_damaged(made: Made) -> None:
    before = sorted(path.name for path in made.sidecars.iterdir())
    forge(made, ("parts", "rows", 0), 1.5)
    report = collect_garbage(made.store)
    assert any("has no list of parts" in note for note in report.notes)
    assert sorted(path.name for path in made.sidecars.iterdir()) == before


def test_a_page_shows_such_an_index_as_damaged(made: Made) -> None:
    table = DeltaTable(str(made.root))
    assert index_of(table.snapshot) is not None
    forge(made, ("parts", "rows", 0), 1.5)
    shared_cache.clear()
    snapshot = DeltaTable(str(made.root)).snapshot
    assert isinstance(snapshot.segment.base, IndexBase)
    assert index_of(snapshot) is None
    assert (
        str(snapshot.segment.base) == f"index {INDEXED}, {snapshot.segment.base.manifest.files} files in damaged parts"
    )
    assert (snapshot.segment.base.size, snapshot.segment.base.part_count) == (0, 0)


def test_the_error_of_a_column_that_is_gone_names_the_manifest(made: Made) -> None:
    forge(made, ("sort", "column"), ["nope"])
    assert NAME in verify_index(made.store).problems[0]
    snapshot = DeltaTable(str(made.root)).snapshot
    assert f"{NAME}: the sort or time column" in (snapshot.passed_over or "")
