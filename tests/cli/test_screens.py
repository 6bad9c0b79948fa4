"""What people see on a real terminal of 80 and 120 columns: nothing wraps, nothing is lost that tells files apart."""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import pytest

from delta_sidecar.testing.actions import add
from delta_sidecar.testing.table_builder import LogBuilder
from tests.cli.running import COMMAND

NAME = "part-{:05}-0123456789abcdef-4f2a-8e1b-c000.snappy.parquet"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    builder = LogBuilder(tmp_path_factory.mktemp("a" * 60) / "events")
    builder.metadata({"x": "long", "hour": "string"}, partition_by=["hour"])
    hour = {"hour": "2026021022"}
    return builder.commit(*(add(f"hour=2026021022/{NAME.format(i)}", size=10**i, partition=hour) for i in (3, 7))).root


def screen(width: int, *arguments: object) -> list[str]:
    """The lines on a terminal of that width, without colour."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"} | {"TERM": "xterm-256color"}
    command = [*COMMAND, *map(str, arguments)]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment) as process:
        assert process.wait(120) == 0
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    os.close(theirs)
    plain = re.sub(r"\x1b\[\d*[mK]|\r(?!\n)", "", shown.rpartition("\x1b[2K")[2])
    return plain.replace("\r\n", "\n").splitlines()


@pytest.mark.slow
def test_files(table: Path) -> None:
    assert screen(80, "files", table) == [
        "   size  modified              hour        path",
        " 1.0 kB  2023-11-14 22:13:20Z  2026021022  hour=2026021022/part-00003-012345678…",
        "10.0 MB  2023-11-14 22:13:20Z  2026021022  hour=2026021022/part-00007-012345678…",
    ]
    assert screen(120, "files", table)[1:] == [
        f" 1.0 kB  2023-11-14 22:13:20Z  2026021022  hour=2026021022/{NAME.format(3)}",
        f"10.0 MB  2023-11-14 22:13:20Z  2026021022  hour=2026021022/{NAME.format(7)}",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "command",
    ["explain", "build", *(pytest.param(name, marks=pytest.mark.slow) for name in ("info", "verify", "history"))],
)
def test_no_line_is_wider_than_the_terminal(table: Path, command: str, width: int) -> None:
    if command == "verify":
        screen(width, "build", table)
    lines = screen(width, command, table)
    assert lines
    assert max(map(len, lines)) <= width
