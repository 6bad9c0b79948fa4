"""Users' own metadata in the manifest: kept, carried on, changed and removed, and of no cost to who has none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.errors import OptionError
from delta_sidecar.index.build.build import BuildOptions, BuildReport, build_index
from delta_sidecar.index.format.index_names import SIDECARS
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.storage import open_store
from delta_sidecar.testing import LogBuilder, add, remove
from tests.cli.running import invoke
from tests.index.models import manifest_at, small_parts


def built(root: Path, given: dict[str, str | None] | None = None, single: int = 100) -> BuildReport:
    limits = small_parts(single=single)
    return build_index(open_store(str(root)), options=BuildOptions(manifest_metadata=given or {}, limits=limits))


def kept(root: Path, version: int) -> dict[str, str]:
    return manifest_at(open_store(str(root)), version)[0].user_metadata


def test_nothing_given_nothing_written(tmp_path: Path) -> None:
    LogBuilder(tmp_path).commit(add("a"))
    built(tmp_path)
    assert b"user_metadata" not in (tmp_path / SIDECARS / "v0.manifest.json").read_bytes()


@pytest.mark.parametrize("single", [100, 0])
def test_later_builds_carry_it_on(tmp_path: Path, single: int) -> None:
    log = LogBuilder(tmp_path).commit(*(add(f"f{n}") for n in range(9)))
    built(tmp_path, {"job": "daily", "note": ',"parts_last":true,"parts":{}}'}, single)
    log.commit(add("b"), remove("f1"))
    built(tmp_path, {"owner": "é"}, single)
    assert kept(tmp_path, 1) == {"job": "daily", "note": ',"parts_last":true,"parts":{}}', "owner": "é"}
    log.commit(add("c"))
    assert dict(built(tmp_path, {"note": None}, single).user_metadata) == {"job": "daily", "owner": "é"}
    report = verify_index(open_store(str(tmp_path)))
    assert (report.problems, report.user_metadata) == ((), {"job": "daily", "owner": "é"})


@pytest.mark.parametrize("single", [100, 0])
def test_a_change_alone_writes_the_manifest_and_no_part(tmp_path: Path, single: int) -> None:
    LogBuilder(tmp_path).commit(*(add(f"f{n}") for n in range(9)))
    first = built(tmp_path, {"job": "daily"}, single)
    parts = {path.name for path in (tmp_path / SIDECARS).glob("*.parquet")}
    again = built(tmp_path, {"job": "hourly"}, single)
    assert (again.parts_written, again.parts_reused, again.built_on) == (0, first.parts, 0)
    assert {path.name for path in (tmp_path / SIDECARS).glob("*.parquet")} == parts
    assert kept(tmp_path, 0) == {"job": "hourly"}
    assert built(tmp_path, {"job": "hourly"}, single).mode == "current"
    with DeltaTable(tmp_path).scan_files() as scan:
        assert scan.read_all().num_rows == 9
    assert scan.metrics.tier == "index"


@pytest.mark.parametrize(
    "given", [{"": "x"}, {"n": 1}, {1: "x"}, {"n": 0}, {"n": False}, {"n": []}, {"n": b"x"}, {"n": "\ud800"}]
)
def test_what_is_no_text_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="must be strings"):
        BuildOptions(manifest_metadata=given)


@pytest.mark.parametrize("given", [None, "job=daily", ["job"], [("job", "daily")], 7])
def test_what_is_no_dictionary_is_refused(given: Any) -> None:
    with pytest.raises(OptionError, match=rf"manifest_metadata is a {type(given).__name__}; give a dictionary"):
        BuildOptions(manifest_metadata=given)


def test_too_much_is_refused_and_nothing_is_left_behind(tmp_path: Path) -> None:
    LogBuilder(tmp_path).commit(add("a"))
    built(tmp_path, {"a": "x" * 10_000})
    with pytest.raises(OptionError, match="at most 16,384"):
        built(tmp_path, {"b": "x" * 10_000})
    assert set(kept(tmp_path, 0)) == {"a"}
    assert not list((tmp_path / SIDECARS).glob("*.lease.json"))


def test_the_command(tmp_path: Path) -> None:
    LogBuilder(tmp_path).commit(add("a"))
    done = invoke("build", tmp_path, "--manifest-metadata", "job=daily", "--manifest-metadata", "owner=me")
    assert done.code == 0
    assert "job = daily" in done.out
    assert invoke("build", tmp_path, "--manifest-metadata", "owner=").code == 0
    assert json.loads(invoke("verify", tmp_path, "--json").out)["user_metadata"] == {"job": "daily"}
    assert "job = daily" in invoke("verify", tmp_path).out
    wrong = invoke("build", tmp_path, "--manifest-metadata", "job")
    assert (wrong.code, wrong.out) == (2, "")
    assert "--manifest-metadata takes NAME=VALUE" in wrong.err
