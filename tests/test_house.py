"""The project's own promises: what importing costs, and that the house is in order."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points, requires
from pathlib import Path

import pytest

from tests.golden import golden_names, golden_root

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("pyspark", "delta", "duckdb", "polars", "datafusion", "pandas", "pyarrow.flight", "deltalake")


def loaded_after(statement: str) -> set[str]:
    """The modules a fresh interpreter holds after `statement`."""
    program = f"import json, sys; {statement}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_import_loads_nothing_heavy() -> None:
    assert loaded_after("import delta_sidecar").isdisjoint(HEAVY)


def test_command_is_named_sidecar() -> None:
    (command,) = entry_points(group="console_scripts", name="sidecar")
    assert command.value == "delta_sidecar.cli.main:run"


def test_the_package_runs_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "delta_sidecar", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("sidecar ")


def pins() -> dict[str, str]:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    return dict(line.split("==") for line in lines)


def normalised(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name, requirement
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def test_every_requirement_is_pinned() -> None:
    wanted = {normalised(line) for line in requires("delta-sidecar") or ()}
    assert wanted <= {normalised(name) for name in pins()}


def test_pins_are_plain_versions() -> None:
    assert all(re.fullmatch(r"[0-9][0-9a-z.]*", version) for version in pins().values())


def test_spark_pins_agree_with_the_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    exact = dict(line.split("==") for line in extras["spark"] if "==" in line)
    assert exact == {name: pins()[name] for name in ("pyspark", "delta-spark")}


def test_make_help_names_every_target() -> None:
    text = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    listed = {line.split()[0] for line in text.splitlines()}
    assert listed >= {"help", "setup", "demo", "test", "check", "lint", "bench", "properties", "clean"}
    assert listed == set(re.findall(r"^\.PHONY: (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.server
@pytest.mark.parametrize("tool", ["java", "node", "npm"])
def test_a_missing_tool_is_one_clear_line(tool: str, tmp_path: Path) -> None:
    for name in {"sh", "sed", "java", "node", "npm", "env", "dirname", "readlink", "uname"} - {tool}:
        found = subprocess.run(["sh", "-c", f"command -v {name}"], capture_output=True, text=True, check=True)
        (tmp_path / name).symlink_to(found.stdout.strip())
    done = subprocess.run(
        ["/bin/sh", ROOT / "scripts" / "check_tools"], env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.lower().startswith(f"setup: {tool}")


def test_an_old_python_is_one_clear_line() -> None:
    done = subprocess.run([ROOT / "scripts" / "find_python", "/no/such/python"], capture_output=True, text=True)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "Python 3.11 or newer" in line
    assert "/no/such/python" in line


def test_golden_directory_holds_tables(golden: Path) -> None:
    assert golden == golden_root()
    assert all((golden / name).is_dir() for name in golden_names())
    assert golden_names()


def test_golden_directory_by_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DELTA_SIDECAR_GOLDEN", str(tmp_path))
    assert golden_root() == tmp_path
    monkeypatch.setenv("DELTA_SIDECAR_GOLDEN", str(tmp_path / "absent"))
    assert golden_root() is None
    assert golden_names() == []


def test_tests_of_a_server_stay_on_one_worker(request: pytest.FixtureRequest) -> None:
    """The marker must reach the id by which tests are handed out, or every worker starts every server."""
    if os.environ.get("PYTEST_XDIST_WORKER") is None or not request.config.getvalue("loadgroup"):
        pytest.skip("tests are not handed out by groups here")
    grouped = [item for item in request.session.items if item.get_closest_marker("xdist_group")]
    assert grouped, "every test has a group"
    assert all("@" in item.nodeid.rpartition("::")[2] for item in grouped)


def test_users_of_a_server_are_left_out_of_a_check(request: pytest.FixtureRequest) -> None:
    """`make check` goes by the marker, so that it needs neither Java nor Node."""
    servers = {"spark", "cluster", "connect", "azurite", "s3", "kafka"}
    users = [item for item in request.session.items if servers & {*getattr(item, "fixturenames", ())}]
    assert [item.nodeid for item in users if item.get_closest_marker("server") is None] == []


@pytest.mark.parametrize("script", sorted((ROOT / "scripts").glob("*.py")), ids=lambda path: path.name)
def test_scripts_import_what_is_there(script: Path) -> None:
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("delta_sidecar"):
            module = importlib.import_module(str(node.module))
            assert all(hasattr(module, name.name) for name in node.names), ast.unparse(node)


def test_no_test_patches_a_constant() -> None:
    """Sizes are values (`delta_sidecar.limits`), or arguments of whoever uses them."""
    patched = re.compile(r"""setattr\(\s*[^,()]+?(,\s*|\.)["']?_?[A-Z][A-Z0-9_]+["']""")
    tests = Path(__file__).parent
    found = [path.name for path in tests.rglob("*.py") if patched.search(path.read_text())]
    assert found == []


def test_engines_know_one_seam_of_a_table() -> None:
    """Beside the public methods of `DeltaTable`: `_access`, and `_at_this_version` for one that stays where it is."""
    private = re.compile(r"\btable\.(_[a-z]\w*)")
    engines = (ROOT / "src" / "delta_sidecar" / "engines").rglob("*.py")
    assert {name for file in engines for name in private.findall(file.read_text())} == {"_access", "_at_this_version"}
