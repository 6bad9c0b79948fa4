"""A build whose process is killed (-9) at each of its writes: readers are right, and the next build completes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.read.manifests import newest_usable_manifest
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.log.snapshot import load_snapshot
from delta_sidecar.storage import open_store
from delta_sidecar.testing import LogBuilder, add, remove
from tests.index.models import assert_index_is, small_parts

PROGRAM = """
import os, signal, sys
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.limits import BuildLimits
from delta_sidecar.storage import open_store
from delta_sidecar.storage.local import LocalStore

root, left = sys.argv[1], int(sys.argv[2])
limits = BuildLimits(single_rows=0, small_rows=1, part_rows=3)


def dying(method):
    def write(self, path, *rest):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return method(self, path, *rest)
    return write


for name in ("put_if_absent", "replace", "delete"):
    setattr(LocalStore, name, dying(getattr(LocalStore, name)))
build_index(open_store(root), options=BuildOptions(part_rows=2, limits=limits))
"""


@pytest.mark.slow
def test_a_build_that_is_killed_at_each_write(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.commit(*(add(f"f{n}.parquet", stats={"numRecords": n}) for n in range(6)))
    store = open_store(str(tmp_path))
    build_index(store, options=BuildOptions(part_rows=2, limits=small_parts(single=0, small=1, rows=3)))
    log.commit(remove("f1.parquet"), add("g.parquet", stats={"numRecords": 1}))
    killed = 0
    while run(tmp_path, killed) == -signal.SIGKILL:
        killed += 1
        base, passed = newest_usable_manifest(load_snapshot(store))
        assert passed == []
        assert base is not None
        assert_index_is(store, base.manifest.version, log.state(base.manifest.version).files.values())
        for manifest in tmp_path.glob("_delta_log/_sidecars/v1.manifest.json"):
            manifest.unlink()  # so that the next process does all its writes again
    assert killed >= 6, "lease, two files for each of two parts, manifest, hint, lease"
    build_index(store, options=BuildOptions(part_rows=2, limits=small_parts(single=0, small=1, rows=3)))
    assert verify_index(store).ok
    assert_index_is(store, 1, log.state().files.values())


def run(root: Path, writes: int) -> int:
    """The end of a process that may write so often."""
    command = [sys.executable, "-c", PROGRAM, str(root), str(writes)]
    return subprocess.run(command, env=os.environ, timeout=60, check=False).returncode
