"""Bad input of every kind: a typed error in Python, exit code 2 and one line from the command."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from delta_sidecar import (
    AccessDeniedError,
    CorruptDataError,
    CorruptLogError,
    DeltaSidecarError,
    DeltaTable,
    InputError,
    LogGapError,
    OptionError,
    PredicateError,
    StorageError,
    TableNotFoundError,
    UnknownColumnError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from delta_sidecar.testing.actions import add
from delta_sidecar.testing.table_builder import LogBuilder
from tests.cli.running import assert_refused, invoke
from tests.integration.servers import ObjectServer


def good(root: Path) -> str:
    deltalake.write_deltalake(str(root), pa.table({"x": pa.array([1, 2, 3], pa.int64()), "s": ["a", "b", "c"]}))
    return str(root)


def missing(root: Path) -> str:
    return str(root / "nothing-here")


def a_file(root: Path) -> str:
    root.mkdir(exist_ok=True)
    (root / "file.parquet").write_bytes(b"PAR1")
    return str(root / "file.parquet")


def empty_log(root: Path) -> str:
    (root / "_delta_log").mkdir(parents=True)
    return str(root)


def truncated_commit(root: Path) -> str:
    builder = LogBuilder(root).commit(add("a")).commit(add("b"), add("c"))
    commit = builder.log / f"{1:020}.json"
    commit.write_bytes(commit.read_bytes()[:-40])
    return str(root)


def garbage_commit(root: Path) -> str:
    builder = LogBuilder(root).commit(add("a")).commit(add("b"))
    (builder.log / f"{1:020}.json").write_bytes(b"\x00\xff not json\n")
    return str(root)


def broken_checkpoint(root: Path) -> str:
    """No older checkpoint, and the commits before it are gone."""
    LogBuilder(root).commit(add("a")).commit(add("b")).checkpoint().break_checkpoint().cleanup(before=2)
    return str(root)


def gap(root: Path) -> str:
    LogBuilder(root).commit(add("a")).commit(add("b")).commit(add("c")).drop(1)
    return str(root)


def unknown_feature(root: Path) -> str:
    LogBuilder(root).protocol(reader=3, features=["fromTheFuture"]).commit(add("a"))
    return str(root)


def truncated_data(root: Path) -> str:
    uri = good(root)
    (data,) = root.glob("*.parquet")
    data.write_bytes(data.read_bytes()[:-20])
    return uri


def missing_data(root: Path) -> str:
    uri = good(root)
    (data,) = root.glob("*.parquet")
    data.unlink()
    return uri


@dataclass(frozen=True, slots=True)
class Bad:
    """One kind of bad input: a table, how it is opened and read, what is raised, what the line must say."""

    name: str
    table: Callable[[Path], str]
    error: type[DeltaSidecarError]
    words: tuple[str, ...] = ()
    opened: dict[str, Any] = field(default_factory=dict)
    read: Callable[[DeltaTable], object] = lambda t: list(t.file_infos())
    command: tuple[str, ...] = ("files", "--json")


def rows(table: DeltaTable) -> object:
    return table.to_pyarrow_table()


CASES = [
    Bad("missing table", missing, TableNotFoundError, ("no Delta table", "nothing-here")),
    Bad("a file", a_file, DeltaSidecarError, ("file.parquet",)),
    Bad("empty log", empty_log, TableNotFoundError, ("no Delta table",)),
    Bad("truncated commit", truncated_commit, CorruptLogError, (f"{1:020}.json",)),
    Bad("garbage commit", garbage_commit, CorruptLogError, (f"{1:020}.json",)),
    Bad("broken checkpoint", broken_checkpoint, CorruptLogError, ("checkpoint",)),
    Bad("gap", gap, LogGapError, ("commit 1",)),
    Bad("unknown feature", unknown_feature, UnsupportedFeatureError, ("fromTheFuture",)),
    Bad("truncated data", truncated_data, CorruptDataError, (".parquet",), read=rows, command=("read",)),
    Bad("missing data", missing_data, DeltaSidecarError, (".parquet",), read=rows, command=("read",)),
    Bad("unknown scheme", lambda _: "ftp://host/t", InputError, ("ftp",)),
    Bad("empty location", lambda _: "", InputError, ("empty",)),
    Bad(
        "bad predicate", good, PredicateError, ("x >",),
        read=lambda t: t.scan_files("x >"), command=("files", "--where", "x >"),
    ),
    Bad(
        "predicate of another language", good, PredicateError, (),
        read=lambda t: t.scan_files("SELECT 1"), command=("files", "--where", "SELECT 1"),
    ),
    Bad(
        "predicate with an unknown column", good, UnknownColumnError, ("nope",),
        read=lambda t: t.scan_files("nope = 1"), command=("files", "--where", "nope = 1"),
    ),
    Bad(
        "predicate of the wrong type", good, PredicateError, ("x",),
        read=lambda t: t.scan_files("x = 'abc'"), command=("files", "--where", "x = 'abc'"),
    ),
    Bad(
        "unknown column of rows", good, UnknownColumnError, ("nope",),
        read=lambda t: t.to_batches(columns=["nope"]), command=("read", "--columns", "nope"),
    ),
    Bad(
        "unknown column of files", good, UnknownColumnError, ("nope",),
        read=lambda t: t.scan_files(columns=["nope"]), command=("files", "--columns", "nope"),
    ),
    Bad(
        "version that is not there", good, VersionNotFoundError, ("99",),
        opened={"version": 99}, command=("files", "--version", "99"),
    ),
    Bad(
        "bad time", good, InputError, ("yesterday",),
        read=lambda t: t.load_as_version("yesterday"), command=("files", "--timestamp", "yesterday"),
    ),
    Bad(
        "time before the table", good, VersionNotFoundError, ("1999",),
        read=lambda t: t.load_as_version("1999-01-01"), command=("files", "--timestamp", "1999-01-01"),
    ),
    Bad(
        "unknown option", good, OptionError, ("delta.sidecar.nope",),
        opened={"options": {"delta.sidecar.nope": 1}}, command=("files", "--option", "delta.sidecar.nope=1"),
    ),
    Bad(
        "bad value of an option", good, OptionError, ("batch_size",),
        opened={"options": {"delta.sidecar.batch_size": "x"}},
        command=("files", "--option", "delta.sidecar.batch_size=x"),
    ),
    Bad(
        "bad strategy", good, OptionError, ("sideways",),
        read=lambda t: t.scan_files(strategy="sideways"), command=("files", "--strategy", "sideways"),
    ),
    Bad(
        "negative limit of files", good, InputError, ("limit",),
        read=lambda t: t.scan_files(limit=-1), command=("files", "--limit", "-1"),
    ),
    Bad(
        "negative limit of rows", good, InputError, ("limit",),
        read=lambda t: t.to_batches(limit=-1), command=("read", "--limit", "-1"),
    ),
    Bad(
        "negative limit of history", good, InputError, ("limit",),
        read=lambda t: t.history(-1), command=("history", "--limit", "-1"),
    ),
    Bad(
        "negative version", good, VersionNotFoundError, ("version",),
        opened={"version": -1}, command=("files", "--version", "-1"),
    ),
    Bad(
        "bad storage option", lambda _: "s3://bucket/t", OptionError, ("max_retries",),
        opened={"storage_options": {"max_retries": "many"}}, command=("files", "--storage-option", "max_retries=many"),
    ),
    Bad("account not known", lambda _: "az://container/t", OptionError, ("account",)),
]  # fmt: skip
BY_NAME = pytest.mark.parametrize("bad", CASES, ids=lambda bad: bad.name)


@BY_NAME
def test_python_raises_a_typed_error(bad: Bad, tmp_path: Path) -> None:
    table = bad.table(tmp_path)
    with pytest.raises(bad.error) as raised:
        bad.read(DeltaTable(table, **bad.opened))
    assert "\n" not in str(raised.value)
    for word in bad.words:
        assert word.lower() in str(raised.value).lower()


@BY_NAME
def test_the_command_says_one_line(bad: Bad, tmp_path: Path) -> None:
    name, *arguments = bad.command
    assert_refused(invoke(name, bad.table(tmp_path), *arguments), *bad.words)


# Credentials

WRONG_KEY = "d3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmcga2V5IHdyb25nIGtleQ=="


def as_arguments(options: dict[str, str]) -> list[str]:
    return [part for name, value in options.items() for part in ("--storage-option", f"{name}={value}")]


def assert_storage_refuses(
    uri: str, options: dict[str, str], error: type[StorageError | InputError], secret: str
) -> None:
    with pytest.raises(error) as raised:
        DeltaTable(uri, storage_options=options)
    assert secret not in str(raised.value)
    done = invoke("files", uri, "--json", "--verbose", *as_arguments(options))
    assert done.code == 2
    assert done.out == ""
    assert secret not in done.err
    quiet = invoke("files", uri, "--json", *as_arguments(options))
    assert_refused(quiet, uri.partition("://")[2].split("/")[0])


def test_wrong_key_of_azure(azurite: ObjectServer) -> None:
    options = azurite.storage_options | {"azure_storage_account_key": WRONG_KEY}
    assert_storage_refuses(azurite.uri("some"), options, AccessDeniedError, WRONG_KEY)


def test_missing_container_of_azure(azurite: ObjectServer) -> None:
    secret = azurite.storage_options["azure_storage_account_key"]
    assert_storage_refuses("az://absent/some", azurite.storage_options, DeltaSidecarError, secret)


def post(url: str, body: bytes) -> None:
    headers = {"Content-Type": "text/plain"}
    urllib.request.urlopen(urllib.request.Request(url, body, headers, method="POST")).close()


@pytest.fixture
def guarded(s3: ObjectServer) -> Iterator[ObjectServer]:
    """The server asks for a known key while the test runs."""
    switch = f"{s3.endpoint}/moto-api/reset-auth"
    post(switch, b"0")
    try:
        yield s3
    finally:
        post(switch, b"inf")


def test_wrong_key_of_s3(guarded: ObjectServer) -> None:
    options = guarded.storage_options | {"aws_secret_access_key": WRONG_KEY}
    assert_storage_refuses(guarded.uri("some"), options, AccessDeniedError, WRONG_KEY)


def test_missing_bucket_of_s3(s3: ObjectServer) -> None:
    options = s3.storage_options | {"aws_secret_access_key": WRONG_KEY}
    assert_storage_refuses("s3://absent/some", options, DeltaSidecarError, WRONG_KEY)


def test_a_server_that_does_not_answer() -> None:
    options = {
        "aws_access_key_id": "me", "aws_secret_access_key": WRONG_KEY, "aws_endpoint": "http://127.0.0.1:9",
        "aws_allow_http": "true", "max_retries": "0",
    }  # fmt: skip
    assert_storage_refuses("s3://absent/some", options, StorageError, WRONG_KEY)
