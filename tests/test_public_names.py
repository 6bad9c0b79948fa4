"""The surface is curated, and the error tree that is drawn is the one there is."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

import pytest

import delta_sidecar
from delta_sidecar import errors


def test_all_names_are_there_and_sorted() -> None:
    names = delta_sidecar.__all__
    assert names == sorted(names)
    assert all(hasattr(delta_sidecar, name) for name in names)


def test_nothing_else_is_public() -> None:
    """Modules and what imports bring in aside, every public attribute is listed."""
    public = {name for name in dir(delta_sidecar) if not name.startswith("_") and name != "annotations"}
    modules = {name for name in public if inspect.ismodule(getattr(delta_sidecar, name))}
    extra = {name for name in public - modules - set(delta_sidecar.__all__) if name not in ("TYPE_CHECKING", "Any")}
    assert extra == set()


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


@pytest.mark.parametrize("name", sorted(error_classes()))
def test_every_error_says_what_it_is(name: str) -> None:
    assert error_classes()[name].__doc__


def test_the_import_is_light() -> None:
    """Nothing heavy comes with the package, nor with the listing of a table."""
    heavy = ("pyspark", "pandas", "duckdb", "pyarrow.flight", "pyarrow.dataset", "polars", "datafusion", "deltalake")
    code = f"import sys, delta_sidecar; delta_sidecar.DeltaTable; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
