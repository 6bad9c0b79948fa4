"""The examples in C, Go, C# and Python print the files that `sidecar files` prints."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from delta_sidecar import build_index
from tests.events_table import write_events
from tests.native import library

pytestmark = [library.needed(), pytest.mark.slow]

EXAMPLES = library.ROOT / "native" / "examples"
GO = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
WHERE = "_event_hour >= '2026021022'"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hosts") / "events"
    write_events(root)
    build_index(root)
    return root


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the library under its own name, for linkers and loaders."""
    folder = tmp_path_factory.mktemp("shelf")
    (folder / "libdelta_sidecar.so").symlink_to(library.library_path().resolve())
    return folder


def printed(command: Sequence[object], shelf: Path, code: int = 0) -> list[str]:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(shelf)}
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
    assert done.returncode == code, done.stderr
    return sorted((done.stdout if code == 0 else done.stderr).splitlines())


def by_command(table: Path, *options: str) -> list[str]:
    command = [sys.executable, "-m", "delta_sidecar.cli.main", "files", str(table), "--format", "json", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return sorted(f"{row['uri']} {row['size']}" for row in rows)


def like_the_command(program: Sequence[object], table: Path, shelf: Path) -> None:
    assert printed([*program, table], shelf) == by_command(table) != []
    asked = json.dumps({"predicate": WHERE})
    assert printed([*program, table, asked], shelf) == by_command(table, "--where", WHERE) != []
    (message,) = printed([*program, table, '{"limit": "many"}'], shelf, code=1)
    assert "limit" in message


def built(command: Sequence[object], **environment: str) -> None:
    done = subprocess.run([str(w) for w in command], capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_c(table: Path, shelf: Path, tmp_path: Path) -> None:
    program = tmp_path / "list"
    flags = ["-Wall", "-Wextra", "-Werror", "-I", EXAMPLES.parent, "-L", shelf]
    built(["cc", *flags, EXAMPLES / "list.c", "-ldelta_sidecar", "-o", program])
    like_the_command([program], table, shelf)


@pytest.mark.skipif(GO is None, reason="there is no Go")
def test_go(table: Path, shelf: Path, tmp_path: Path) -> None:
    program = tmp_path / "list"
    paths = {"CGO_CFLAGS": f"-I{EXAMPLES.parent}", "CGO_LDFLAGS": f"-L{shelf} -ldelta_sidecar", "CGO_ENABLED": "1"}
    places = {"GOCACHE": str(tmp_path / "cache"), "GOPATH": str(tmp_path / "go"), "GOTOOLCHAIN": "local"}
    built([GO, "build", "-C", EXAMPLES / "go", "-o", program, "."], **paths, **places, GOFLAGS="-modcacherw")
    like_the_command([program], table, shelf)


@pytest.mark.skipif(not (shutil.which("mono") and shutil.which("mcs")), reason="Mono is missing; run: make setup-mono")
def test_c_sharp(table: Path, shelf: Path, tmp_path: Path) -> None:
    program = tmp_path / "list.exe"
    built(["mcs", f"-out:{program}", EXAMPLES / "csharp" / "DeltaFiles.cs"])
    like_the_command(["mono", program], table, shelf)


def test_python(table: Path, shelf: Path) -> None:
    like_the_command([sys.executable, EXAMPLES / "list.py", shelf / "libdelta_sidecar.so"], table, shelf)
