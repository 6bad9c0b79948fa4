"""The guides run: every Python and shell block of each, on a small local table.

The quickstart and the README make their own table: `test_quickstart.py` runs them. A `console` block holds commands
(after `$`) and exactly what they print. Blocks that install or build are not run, nor those after a
`<!-- not run: … -->` line, which says why.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import deltalake
import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.errors import NotOfferedError
from delta_sidecar.settings import Settings
from tests.events_table import write_events

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ROOT / "docs" / "guide"
PAGES = [page for page in sorted(GUIDES.glob("*.md")) if page.name != "quickstart.md"]
BLOCK = re.compile(r"(<!-- not run: [^\n]+ -->\n\n?)?```(\w+)\n(.*?)```", re.DOTALL)
ELSEWHERE = re.compile(r"(az|s3)://lake/events")
NOT_HERE = ("pip install", "make ", "git ")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the table `events` in it, as the current one."""
    write_events(tmp_path / "events")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blocks(page: Path, *kinds: str) -> list[str]:
    found = [(m[2], m[3]) for m in BLOCK.finditer(page.read_text()) if not m[1]]
    local = [(kind, ELSEWHERE.sub("events", text)) for kind, text in found]
    return [text for kind, text in local if kind in kinds and not text.startswith(NOT_HERE)]


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in which `sidecar` is the command under test."""
    command = f'sidecar() {{ {shlex.quote(sys.executable)} -m delta_sidecar.cli.main "$@"; }}\n'
    return subprocess.run(
        ["sh", "-e", "-c", command + script], cwd=folder, capture_output=True, text=True, env=os.environ
    )


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_of_a_page_runs(page: Path, here: Path) -> None:
    for line in "".join(blocks(page, "sh")).splitlines():
        if line.startswith("sidecar sample "):
            assert shell(line, here).returncode == 0
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_shell_of_a_page_runs(page: Path, here: Path) -> None:
    for block in blocks(page, "sh"):
        done = shell(block, here)
        assert (done.returncode, done.stderr) == (0, ""), block
        assert done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sessions_of_a_page_print_what_it_says(page: Path, here: Path) -> None:
    for block in blocks(page, "console"):
        for session in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = session.partition("\n")
            assert shell(command, here).stdout == expected


@pytest.mark.slow
def test_the_readme_runs_in_duckdb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without extras `test_quickstart.py` runs the rest of the README."""
    monkeypatch.chdir(tmp_path)
    assert shell("sidecar sample telemetry", tmp_path).returncode == 0
    names: dict[str, object] = {}
    skipped = []
    for reason, kind, text in BLOCK.findall((ROOT / "README.md").read_text()):
        if kind == "python":
            skipped += [text] if reason else []
            exec(compile(text, "README.md", "exec"), names)
    assert ["to_duckdb" in text for text in skipped] == [True]
    assert "files alone give the rows" in capsys.readouterr().out


def test_the_guides_have_something_to_run() -> None:
    for page, kinds in (
        ("cli.md", ("sh", "console")),
        ("options.md", ("python",)),
        ("coming-from-deltalake.md", ("python",)),
    ):
        assert all(blocks(GUIDES / page, kind) for kind in kinds)


def test_every_option_of_the_reader_is_documented() -> None:
    text = (GUIDES / "options.md").read_text()
    for setting in (each for each in fields(Settings) if each.name != "limits"):
        name = "delta.commit.parallelism" if setting.name == "commit_parallelism" else f"delta.sidecar.{setting.name}"
        default = str(setting.default).lower() if isinstance(setting.default, bool) else setting.default
        assert f"| `{name}` | `{name.upper().replace('.', '_')}` | `{default}` |" in text


def sections(page: str) -> dict[str, str]:
    return dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE))


def named(text: str) -> set[str]:
    """What a section speaks of: code that begins with a name."""
    return {name for span in re.findall(r"`([^`\n]+)`", text) for name in re.findall(r"^(?:DeltaTable\.)?(\w+)", span)}


def test_what_the_page_says_to_use_instead_is_what_the_error_says() -> None:
    rows = re.findall(
        r"^\| (`.+?`) \| (.+) \|$",
        sections((GUIDES / "coming-from-deltalake.md").read_text())["Not offered"],
        re.MULTILINE,
    )
    tools = {
        name: set(re.findall(r"deltalake|Spark|sidecar \w+", told)) for names, told in rows for name in named(names)
    }
    assert len(tools) >= 14
    for name, told in tools.items():
        with pytest.raises(NotOfferedError) as raised:
            getattr(DeltaTable, name)()
        assert told <= set(re.findall(r"deltalake|Spark|sidecar \w+", str(raised.value))), name


@pytest.mark.parametrize(
    "name", ["is_deltatable", "version", "protocol", "metadata", "schema", "history", "load_as_version", "scan",
             "update_incremental", "transaction_version", "count", "file_uris", "partitions", "get_add_actions",
             "deletion_vectors", "to_pyarrow_table", "to_pandas", "to_pyarrow_dataset", "__init__"],
)  # fmt: skip
def test_what_is_called_the_same_takes_the_same(name: str) -> None:
    theirs = list(inspect.signature(getattr(deltalake.DeltaTable, name)).parameters)
    ours = list(inspect.signature(getattr(DeltaTable, name)).parameters)
    assert ours[: len(theirs)] == theirs
