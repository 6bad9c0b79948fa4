"""How the command ends: a closed pipe, an interrupt, the unexpected; and what it must never print."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from delta_sidecar.cli.failures import without_secrets
from delta_sidecar.testing.actions import add
from delta_sidecar.testing.table_builder import LogBuilder
from tests.cli.running import COMMAND, assert_refused, invoke, sidecar

ROOT = Path(__file__).resolve().parents[2]
SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough files that their listing fills every pipe."""
    return LogBuilder(tmp_path_factory.mktemp("large")).commit(*(add(f"{i:030}.parquet") for i in range(50_000))).root


def open_command(*arguments: object, stdout: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    return started([*COMMAND, *map(str, arguments)], stdout)


def started(command: list[str], stdout: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    """A process as a terminal starts it: a suite in the background would hand down that interrupts are ignored."""
    return subprocess.Popen(
        command,
        stdout=stdout,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--json"], ["--json", "--stats"], []], ids=["json", "stats", "table"])
def test_a_closed_pipe_is_not_an_error(large: Path, arguments: list[str]) -> None:
    with open_command("files", large, *arguments) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_pipe_closed_from_the_start(large: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open_command("info", large, stdout=writing) as process:
        os.close(writing)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.slow
def test_an_interrupt_is_one_line(large: Path) -> None:
    with open_command("files", large, "--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        time.sleep(0.3)  # the pipe is full, and the process waits in its write
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(60) == 130
        assert process.stderr.read() == b"sidecar: interrupted\n"


@pytest.mark.slow
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
        assert process.stderr.read() == b"sidecar: interrupted\n"


SIGNALS = [(signal.SIGINT, 130, b"interrupted"), (signal.SIGTERM, 143, b"terminated")]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code", "word"), SIGNALS)
def test_a_signal_leaves_no_half_of_a_file(
    large: Path, tmp_path: Path, number: signal.Signals, code: int, word: bytes
) -> None:
    with open_command("files", large, "--output", tmp_path / "files.csv") as process:
        while not any(tmp_path.iterdir()):
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(number)
        assert process.wait(60) == code
        assert process.stderr is not None
        assert process.stderr.read() == b"sidecar: " + word + b"\n"
    assert list(tmp_path.iterdir()) == []


DEAF = """
import threading
from pathlib import Path
from delta_sidecar.cli.interrupts import interrupts

interrupts.listen()
with interrupts.deleting(Path("half")), Path("half").open("w"):
    while True:
        try:
            print("ready", flush=True)
            threading.Event().wait()
        except KeyboardInterrupt:
            pass
"""
"""The main thread goes on whatever it is told, as one that waits inside a native library does."""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code", "word"), SIGNALS)
def test_a_process_that_is_ended_by_force_leaves_no_half_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int, word: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    with started([sys.executable, "-c", DEAF]) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.wait(30) == code
        assert process.stderr.read() == b"sidecar: " + word + b"\n"
    assert list(tmp_path.iterdir()) == []


class Busy(BaseHTTPRequestHandler):
    """An object store that has no time for anyone."""

    def do_GET(self) -> None:
        self.send_response(503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def busy() -> Iterator[list[str]]:
    """The arguments that lead to a store which answers 503."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Busy) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        named = {
            "endpoint": f"http://127.0.0.1:{server.server_port}",
            "allow_http": "true",
            "access_key_id": "me",
            "secret_access_key": SECRET,
            "backoff_config.init_backoff": "60s",
            "backoff_config.max_backoff": "60s",
        }
        yield [word for name, value in named.items() for word in ("--storage-option", f"{name}={value}")]
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_retries_show_and_an_interrupt_ends_them_at_once(busy: list[str]) -> None:
    """Threads of the pool wait for their next attempt, as the main thread does."""
    with open_command("files", "s3://bucket/table", *busy) as process:
        assert process.stderr is not None
        line = process.stderr.readline().decode()
        assert line.startswith("sidecar: s3://bucket/table/_delta_log/")
        assert "(503)" in line
        assert re.search(r"; attempt 2 of 8 in [3-6]\d\.\d s$", line)
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        assert process.wait(30) == 130
        assert time.monotonic() - begun < 20  # an attempt is 30 s away at least
        assert process.stderr.read() == b"sidecar: interrupted\n"


@pytest.mark.slow
def test_an_interrupt_ends_a_wait_for_a_silent_store() -> None:
    """The main thread is inside a native library, where Python hears of no signal."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"endpoint=http://127.0.0.1:{silent.getsockname()[1]}"
        options = [endpoint, "allow_http=true", "access_key_id=me", f"secret_access_key={SECRET}", "read_timeout=300"]
        arguments = [word for option in options for word in ("--storage-option", option)]
        with open_command("files", "s3://bucket/table", *arguments) as process:
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGINT)
                assert process.wait(30) == 130
            assert process.stderr is not None
            assert process.stderr.read() == b"sidecar: interrupted\n"


@pytest.mark.slow
def test_a_full_disk_is_one_line(large: Path) -> None:
    with Path("/dev/full").open("wb") as full, open_command("files", large, "--json", stdout=full.fileno()) as process:
        assert process.wait(60) == 2
        assert process.stderr is not None
        (line,) = process.stderr.read().splitlines()
        assert b"No space left" in line


@pytest.mark.slow
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
    done = invoke(*arguments, "--verbose")
    assert done.code == 2
    assert SECRET not in done.out + done.err


def test_a_process_shows_no_secret() -> None:
    done = sidecar("files", "az://container/table", "--storage-option", f"account_key={SECRET}", "--verbose")
    assert done.code == 2
    assert SECRET not in done.out + done.err


@pytest.mark.slow
def test_secrets_do_not_show_when_all_is_well(tmp_path: Path) -> None:
    table = LogBuilder(tmp_path).metadata({"x": "long"}).commit(add("a")).commit(add("b")).root
    options = ("--storage-option", f"aws_secret_access_key={SECRET}", "--verbose")
    for command in ("files", "info", "explain", "history"):
        done = invoke(command, table, *options)
        assert done.code == 0
        assert SECRET not in done.out + done.err
    done = sidecar("files", table, *options)
    assert done.code == 0
    assert SECRET not in done.out + done.err


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("sse_bucket_key_enabled", "true", "is it true? it takes true or false"),
        ("aws_access_key_id", "a", "a bucket of a table"),
        ("aws_access_key_id", "us-east-1", "the region us-east-1 has no bucket"),
        ("aws_secret_access_key", "minio", "no table at s3://lake/dominions, which minios has"),
        ("password", "password", "the password is wrong"),
        ("session_token", "table", "no Delta table at s3://bucket/table"),
        ("account_key", "1", "version 1 of 11"),
        ("web_identity_token_file", "/var/run/token", "/var/run/token cannot be read"),
        ("region", SECRET, SECRET),
    ],
)
def test_ordinary_words_stay_in_messages(name: str, value: str, text: str) -> None:
    assert without_secrets(text, {name: value}) == text


@pytest.mark.parametrize(
    "value", [SECRET, "hunter2", "minioadmin", "us-east-1", "test", "pw", "pass-word", "Zm9vYmFy=="]
)
def test_a_secret_is_hidden_where_it_is_given_as_one(value: str) -> None:
    text = without_secrets(f'password="{value}", secret_access_key={value}; Token: {value}', {"password": value})
    assert text == 'password="***", secret_access_key=***; Token: ***'


@pytest.mark.parametrize("value", [SECRET, "hunter2", "minioadmin", "pass-word"])
def test_a_secret_is_hidden_wherever_it_stands(value: str) -> None:
    assert (
        without_secrets(f"no room for {value}, s3://{value}/x", {"account_key": value}) == "no room for ***, s3://***/x"
    )


def test_an_endpoint_without_encryption_is_refused_at_once() -> None:
    s3 = ("--storage-option", "endpoint=http://127.0.0.1:9")
    assert_refused(invoke("files", "s3://bucket/table", *s3), "http://127.0.0.1:9", "allow_http=true")
    azure = ("--storage-option", "account_name=me", "--storage-option", "account_key=Zm9v")
    assert_refused(invoke("files", "az://lake/table", *s3, *azure), "http://127.0.0.1:9", "allow_http=true")


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["fles", "{large}"], "did you mean files?"),
        (["files", "{large}", "--limt", "1"], "did you mean --limit?"),
        (["files", "{large}", "--columns", "sise"], "did you mean size?"),
        (["files", "{large}", "--columns", "URI"], "did you mean uri?"),
        (["files", "{large}", "--where", "y = 1"], "columns here: x"),
        (["read", "{large}", "--columns", "X1"], "did you mean x?"),
        (["files", "{large}", "--option", "delta.sidecar.batchsize=1"], "did you mean delta.sidecar.batch_size?"),
        (["files", "{large}", "--format", "parqet"], "did you mean parquet?"),
    ],
)
def test_a_name_that_is_nearly_right(tmp_path: Path, arguments: list[str], meant: str) -> None:
    table = LogBuilder(tmp_path).metadata({"x": "long"}).commit(add("a")).root
    assert_refused(invoke(*(word.replace("{large}", str(table)) for word in arguments)), meant)


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


@pytest.mark.slow
def test_ctrl_c_ends_the_page_of_the_demo(tmp_path: Path) -> None:
    """The last line of the recipe, by make itself, for a small table: `make demo` takes minutes."""
    recipe = next(line for line in (ROOT / "Makefile").read_text().splitlines() if "sidecar ui" in line)
    assert recipe.startswith("\t")
    LogBuilder(tmp_path / "demo" / "telemetry").metadata({"x": "long"}).commit(add("a"))
    makefile = tmp_path / "Makefile"
    makefile.write_text(f"CACHE := {tmp_path}\nBIN := {Path(sys.executable).parent}\ndemo:\n{recipe}\n")
    # A make that runs this test would make this one a part of it, with lines about directories.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    }
    quiet = subprocess.run(
        ["make", "-f", makefile, "demo"], capture_output=True, text=True, timeout=60, env=environment
    )
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", ""), "without UI=1 nothing is served"
    with subprocess.Popen(
        ["make", "-f", makefile, "demo", "UI=1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = next(line for line in process.stdout if line.startswith(b"http")).decode().strip()
        with urllib.request.urlopen(url) as answer:
            assert answer.status == 200
        os.killpg(process.pid, signal.SIGINT)
        # What a shell calls 130: make ends by the signal, after the page has.
        assert process.wait(30) == -signal.SIGINT
        assert b"Traceback" not in process.stderr.read()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url)


def test_an_error_does_not_steer_the_terminal(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither as one line nor with its traceback: names of the table and of files are in it."""

    def broken(*_: object) -> None:
        raise RuntimeError("two\nlines\x1b[31m")

    monkeypatch.setattr("delta_sidecar.cli.files.list_files", broken)
    for arguments in ([], ["--verbose"]):
        done = invoke("files", large, *arguments)
        assert done.code == 1
        assert "\\x1b[31m" in done.err
        assert "\x1b" not in done.err
    assert "\x1b" not in invoke("files", large, "--no\x1b[31m").err
