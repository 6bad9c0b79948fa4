"""How the command ends: a closed pipe, an interrupt, the unexpected; and what it must never print."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from delta_sidecar.testing.actions import add
from delta_sidecar.testing.table_builder import LogBuilder
from tests.cli.running import COMMAND, assert_refused, invoke, sidecar

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough files that their listing fills every pipe."""
    return LogBuilder(tmp_path_factory.mktemp("large")).commit(*(add(f"{i:030}.parquet") for i in range(50_000))).root


def open_command(*arguments: object, stdout: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    """The command as a terminal starts it: a suite in the background would hand down that interrupts are ignored."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.parametrize("arguments", [["--json"], ["--json", "--stats"], []], ids=["json", "stats", "table"])
def test_a_closed_pipe_is_not_an_error(large: Path, arguments: list[str]) -> None:
    with open_command("files", large, *arguments) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


def test_a_closed_pipe_stops_rows_too(tmp_path: Path) -> None:
    rows = pa.table({"x": pa.array(range(200_000), pa.int64())})
    deltalake.write_deltalake(str(tmp_path / "t"), rows)
    with open_command("read", tmp_path / "t", "--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b'{"x":0}\n'
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


def test_a_pipe_closed_from_the_start(large: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open_command("info", large, stdout=writing) as process:
        os.close(writing)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_an_interrupt_is_quiet(large: Path) -> None:
    with open_command("files", large, "--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        time.sleep(0.3)  # the pipe is full, and the process waits in its write
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(60) == 130
        assert process.stderr.read() == b""


def test_an_interrupt_stops_rows_too(tmp_path: Path) -> None:
    rows = pa.table({"x": pa.array(range(400_000), pa.int64())})
    deltalake.write_deltalake(str(tmp_path / "t"), rows)
    with open_command("read", tmp_path / "t", "--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(60) == 130
        assert process.stderr.read() == b""


def test_a_full_disk_is_one_line(large: Path) -> None:
    with Path("/dev/full").open("wb") as full, open_command("files", large, "--json", stdout=full.fileno()) as process:
        assert process.wait(60) == 1
        assert process.stderr is not None
        (line,) = process.stderr.read().splitlines()
        assert b"No space left" in line


def test_colour_on_a_terminal_only(large: Path) -> None:
    ours, theirs = os.openpty()
    environment = os.environ | {"TERM": "xterm-256color"}
    command = [*COMMAND, "files", str(large), "--limit", "2"]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment) as process:
        assert process.wait(60) == 0
    shown = os.read(ours, 100_000)
    os.close(ours)
    os.close(theirs)
    assert b"\x1b[1m" in shown
    assert b"\x1b" not in sidecar("files", large, "--limit", 2, environment=environment).out.encode()


def test_the_unexpected_is_one_line(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError(f"two\nlines and {SECRET}")

    monkeypatch.setattr("delta_sidecar.cli.files.list_files", broken)
    asked = ("files", large, "--storage-option", f"aws_secret_access_key={SECRET}")
    done = invoke(*asked)
    assert done.code == 1
    (line,) = done.err.splitlines()
    assert "RuntimeError: two lines" in line
    assert "--verbose" in line
    loud = invoke(*asked, "--verbose")
    assert loud.code == 1
    assert "Traceback" in loud.err
    assert SECRET not in line + loud.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["files", "s3://bucket/table", "--storage-option", SECRET],
        ["files", "s3://bucket/table", f"aws_secret_access_key={SECRET}", "more"],
        ["files", "s3://bucket/table", "--storage-options", f"aws_secret_access_key={SECRET}"],
        ["files", "s3://bucket/table", f"--storage-options=aws_secret_access_key={SECRET}"],
        ["files", f"https://account.blob.core.windows.net/?sig={SECRET}"],
        ["files", "az://container/table", "--storage-option", f"account_key={SECRET}"],
        ["files", "ftp://host/table", "--storage-option", f"account_key={SECRET}"],
    ],
)
def test_secrets_never_show(arguments: list[str]) -> None:
    done = sidecar(*arguments, "--verbose")
    assert done.code == 2
    assert SECRET not in done.out + done.err


def test_secrets_do_not_show_when_all_is_well(large: Path) -> None:
    options = ("--storage-option", f"aws_secret_access_key={SECRET}", "--verbose")
    for command in ("files", "info", "explain", "history"):
        done = sidecar(command, large, *options)
        assert done.code == 0
        assert SECRET not in done.out + done.err


def test_bad_arguments_are_one_line(large: Path) -> None:
    assert_refused(sidecar("files"), "TABLE", "sidecar files --help")
    assert_refused(sidecar("dance"), "dance")
    assert_refused(invoke("files", large, "--limit", "-1"), "--limit")
    assert_refused(invoke("files", large, "--limit", "many"), "--limit")
    assert_refused(invoke("history", large, "--limit", "-1"), "--limit")
    assert_refused(invoke("files", large, "--version", "one"), "--version")
    assert_refused(invoke("files", large, "--version", "0", "--timestamp", "2026-01-01"), "--timestamp")
    assert_refused(invoke("files", large, "--columns", ","), "--columns")
    assert_refused(invoke("files", large, "--nonsense"), "--nonsense")
    assert_refused(invoke("files", large, "--option", "batch"), "NAME=VALUE")
