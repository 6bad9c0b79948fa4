"""The surface is curated, and the error tree that is drawn is the one there is."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import delta_sidecar
from delta_sidecar import errors, lake, pipeline, search, server
from delta_sidecar.engines import kusto, spark
from tests.events_table import write_events
from tests.examples import examples, needs_spark, public_names, run
from tests.sweep import sweep

PACKAGES = [delta_sidecar, lake, pipeline, search]
MODULES = [kusto, server, spark]
"""Public modules of packages that are not: what they list in `__all__` is meant for users."""
GUIDES = Path(__file__).resolve().parents[1] / "docs" / "guide"


@pytest.mark.parametrize("package", PACKAGES)
def test_all_names_are_there_and_sorted(package: ModuleType) -> None:
    names = package.__all__
    assert names == sorted(names)
    assert all(hasattr(package, name) for name in names)


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_else_is_public(package: ModuleType) -> None:
    """Modules and what imports bring in aside, every public attribute is listed."""
    public = {name for name in vars(package) if not name.startswith("_") and name != "annotations"}
    modules = {name for name in public if inspect.ismodule(getattr(package, name))}
    assert public - modules - set(package.__all__) == {"TYPE_CHECKING", "lazy_names"} - modules


@pytest.mark.parametrize("package", PACKAGES)
def test_no_name_is_that_of_a_module(package: ModuleType) -> None:
    """A module with the name of a function takes its place as soon as someone imports it."""
    files = Path(str(package.__file__)).parent.iterdir()
    assert {file.stem for file in files}.isdisjoint(package.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_types_are_imported_for_the_checker_from_where_names_are_found(package: ModuleType) -> None:
    tree = ast.parse(Path(str(package.__file__)).read_text())
    (block,) = (n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    typed = {name.name for node in block.body if isinstance(node, ast.ImportFrom) for name in node.names}
    assert typed == set(package._MODULES)


def test_an_unknown_name_is_an_attribute_error() -> None:
    for package in PACKAGES:
        with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nope'"):
            package.nope


@sweep("name", sorted(public_names()))
def test_every_name_has_a_docstring_with_an_example(name: str) -> None:
    public = public_names()[name]
    text = inspect.getdoc(public) or ""
    assert ">>> " in text
    if inspect.isfunction(public):
        assert "Raises:" in text
        (arguments,) = re.findall(r"Args:\n(.*?)\n\n", text, re.DOTALL)
        told = set(re.findall(r"^    (\w+): ", arguments, re.MULTILINE))
        parameters = set(inspect.signature(public).parameters)
        assert told <= parameters
        assert told == parameters or re.search(r"rguments( that are not listed)? are those of `\w+`", text)


@pytest.mark.parametrize("example", [e for e in examples() if not needs_spark(e)], ids=lambda e: e.name)
def test_examples_run(example: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_events(tmp_path / "events")
    monkeypatch.chdir(tmp_path)
    run(example)


@pytest.mark.parametrize("page", sorted(GUIDES.glob("*.md")), ids=lambda page: page.name)
def test_guides_import_public_names_only(page: Path) -> None:
    imports = re.findall(r"^(?:from|import) (delta_sidecar[\w.]*)", page.read_text(), re.MULTILINE)
    assert set(imports) <= {module.__name__ for module in (*PACKAGES, *MODULES)}


def error_classes() -> dict[str, type[Exception]]:
    return {n: c for n, c in vars(errors).items() if inspect.isclass(c) and issubclass(c, Exception)}


def test_every_error_is_public() -> None:
    assert set(error_classes()) <= set(delta_sidecar.__all__)


def drawn() -> dict[str, str | None]:
    """Each class of the drawing, with the one it hangs below."""
    parents: list[str] = []
    found: dict[str, str | None] = {}
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^((?:│   |    )*(?:├── |└── )?)(\w+Error)\b", line)
        if match is None:
            continue
        depth = len(match[1]) // 4
        parents[depth:] = [match[2]]
        found[match[2]] = parents[depth - 1] if depth else None
    return found


def test_the_tree_that_is_drawn_is_the_tree_there_is() -> None:
    real = {
        name: None if c.__bases__ == (Exception,) else c.__bases__[0].__name__ for name, c in error_classes().items()
    }
    assert drawn() == real
    assert len(real) > 15


@sweep("name", sorted(error_classes()))
def test_every_error_says_what_it_is(name: str) -> None:
    assert error_classes()[name].__doc__


@pytest.mark.slow
def test_the_pipeline_needs_no_spark_before_it_is_called() -> None:
    """Every name of it can be had where pyspark is not installed; what needs Spark says so."""
    code = """
import sys
sys.modules["pyspark"] = sys.modules["pyspark.sql"] = None
from delta_sidecar import pipeline, SparkError
for name in pipeline.__all__:
    getattr(pipeline, name)
try:
    pipeline.ingest("landing", "events", "ts")
except SparkError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "pyspark is not installed; run: pip install 'delta-sidecar[spark]'"


def test_the_import_is_light() -> None:
    """Nothing heavy comes with the package, nor with the listing of a table."""
    heavy = ("pyspark", "pandas", "duckdb", "pyarrow.flight", "pyarrow.dataset", "polars", "datafusion", "deltalake")
    code = f"import sys, delta_sidecar; delta_sidecar.DeltaTable; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
