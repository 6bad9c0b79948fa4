"""What a user chose for an index holds for the next one."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from delta_sidecar.errors import InputError
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.read.manifests import read_manifest
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.storage.opening import open_store
from delta_sidecar.storage.store import Store

TIME = pa.timestamp("us", "UTC")


def append(table: Path, *values: int) -> None:
    rows = pa.table({"a": pa.array(values, pa.int64()), "ts": pa.array(values, TIME), "late": pa.array(values, TIME)})
    deltalake.write_deltalake(str(table), rows, mode="append")


def sort_of(store: Store, version: int) -> tuple[str, list[str], list[str]]:
    manifest = read_manifest(store, "_delta_log/_sidecars", version)
    return manifest.sort.kind, manifest.sort.column, manifest.time_column


def test_a_chosen_column_stays_chosen(tmp_path: Path) -> None:
    append(tmp_path, 1, 2)
    store = open_store(str(tmp_path))
    build_index(store, options=BuildOptions(sort_column="a", time_column="late"))
    append(tmp_path, 3)
    assert build_index(store).version == 1
    assert sort_of(store, 1) == ("min", ["a"], ["late"])
    assert build_index(store).mode == "current"
    assert verify_index(store).ok


def test_another_choice_builds_anew_and_then_holds(tmp_path: Path) -> None:
    append(tmp_path, 1, 2)
    store = open_store(str(tmp_path))
    build_index(store)
    assert sort_of(store, 0) == ("min", ["ts"], ["ts"])
    assert build_index(store, options=BuildOptions(sort_column="modification_time")).mode == "full"
    assert sort_of(store, 0) == ("modification_time", [], ["ts"])
    assert build_index(store).mode == "current"
    assert verify_index(store).ok


@pytest.mark.parametrize("options", [BuildOptions(sort_column="nothing"), BuildOptions(time_column="a")])
def test_a_column_that_cannot_be_chosen(tmp_path: Path, options: BuildOptions) -> None:
    append(tmp_path, 1)
    with pytest.raises(InputError):
        build_index(open_store(str(tmp_path)), options=options)
