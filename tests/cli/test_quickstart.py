"""The quickstart, the README and the notebook run from top to bottom in a fresh environment without extras."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.fresh_environment import FreshEnvironment, make_fresh_environment
from tests.cli.test_guides import BLOCK, GUIDES, NOT_HERE, ROOT

NOTEBOOK = ROOT / "docs" / "notebooks" / "quickstart.ipynb"
EXTRAS = ("pyspark", "delta", "deltalake", "pandas", "duckdb", "polars", "datafusion", "fastavro", "pytest")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> FreshEnvironment:
    return make_fresh_environment(tmp_path_factory.mktemp("fresh") / "env")


def run_block(fresh: FreshEnvironment, kind: str, text: str, folder: Path) -> None:
    if kind == "console":
        for session in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, expected = session.partition("\n")
            assert fresh.run(["sh", "-e", "-c", command], folder).stdout == expected
        return
    command = ["sh", "-e", "-c", text] if kind == "sh" else [fresh.python, "-W", "error", "-c", text]
    done = fresh.run([*command], folder)
    assert (done.returncode, done.stderr) == (0, ""), text
    assert done.stdout


def test_the_environment_has_no_extras(fresh: FreshEnvironment, tmp_path: Path) -> None:
    code = f"import importlib.util as u; print([name for name in {EXTRAS} if u.find_spec(name)])"
    assert fresh.run([fresh.python, "-c", code], tmp_path).stdout == "[]\n"


@pytest.mark.slow
@pytest.mark.parametrize("page", [GUIDES / "quickstart.md", ROOT / "README.md"], ids=lambda page: page.name)
def test_a_page_runs_from_top_to_bottom(page: Path, fresh: FreshEnvironment, tmp_path: Path) -> None:
    blocks = [(kind, text) for skipped, kind, text in BLOCK.findall(page.read_text()) if not skipped]
    todo = [(kind, text) for kind, text in blocks if not text.startswith(NOT_HERE)]
    assert {"sh", "python"} <= {kind for kind, _ in todo} <= {"sh", "python", "console"}
    for kind, text in todo:
        run_block(fresh, kind, text, tmp_path)


@pytest.mark.slow
def test_the_notebook_runs(fresh: FreshEnvironment, tmp_path: Path) -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) > 3
    run_block(fresh, "python", "\n\n".join(code), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_notebook_is_kept_without_results() -> None:
    document = json.loads(NOTEBOOK.read_text())
    for cell in document["cells"]:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
