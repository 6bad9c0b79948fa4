"""A directory as a store."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from delta_sidecar.errors import AccessDeniedError, ObjectNotFoundError
from delta_sidecar.storage import Store, open_store
from tests.storage.contract import StoreContract, listed


class TestLocalStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return open_store(tmp_path / "tables" / "a table #1 100% é")


def test_a_local_store_does_without_the_clients_of_others(tmp_path: Path) -> None:
    code = (
        "import sys; from delta_sidecar.storage import open_store;"
        "open_store(sys.argv[1]); print('obstore' in sys.modules);"
        "open_store('memory://m'); print('obstore' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_reading_creates_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path / "none")
    assert listed(store) == []
    with pytest.raises(ObjectNotFoundError):
        store.get("x")
    store.delete("x")
    assert os.listdir(tmp_path) == []


def test_a_put_leaves_no_draft_behind(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.put_if_absent("a", b"1")
    with pytest.raises(Exception, match="exists already"):
        store.put_if_absent("a", b"2")
    assert os.listdir(tmp_path) == ["a"]


def test_the_file_itself(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}")
    assert store.local_path("a b/c") == f"{tmp_path}/a b/c"
    assert store.root_uri == f"file://{tmp_path}"


def test_pages_of_a_large_directory(tmp_path: Path) -> None:
    for index in range(2500):
        (tmp_path / f"{index:05d}").touch()
    pages = list(open_store(tmp_path).list_after("", "00099"))
    assert [len(page) for page in pages] == [1000, 1000, 400]
    assert [m.path for page in pages for m in page] == [f"{i:05d}" for i in range(100, 2500)]


def test_only_directories_that_may_hold_something_are_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ["_delta_log/1", "_delta_log/_sidecars/x", "data/1", "data/2"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    entered: list[str] = []
    scandir = os.scandir

    def noted(path: str) -> Iterator[os.DirEntry[str]]:
        entered.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", noted)
    assert listed(open_store(tmp_path), "_delta_log/", "_delta_log/_t") == []
    assert entered == [f"{tmp_path}/_delta_log/"]


def test_a_forbidden_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", deny)
    with pytest.raises(
        AccessDeniedError, match="a cannot be read or written: Permission denied; check its permissions"
    ):
        open_store(tmp_path).get("a")


def test_a_dangling_link_is_no_object(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    (tmp_path / "x").touch()
    assert listed(open_store(tmp_path)) == ["x"]
