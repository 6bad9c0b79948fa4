"""The public names, and the examples in their docstrings."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from typing import Any

import delta_sidecar
from delta_sidecar import lake, pipeline, search, server
from delta_sidecar.engines import kusto, spark


def public_names() -> dict[str, Any]:
    """Every public function and class but the errors, by its full name."""
    found = {
        f"{package.__name__}.{name}": getattr(package, name)
        for package in (delta_sidecar, lake, pipeline, search, kusto, server, spark)
        for name in package.__all__
    }
    return {name: public for name, public in found.items() if callable(public) and not is_error(public)}


def is_error(public: object) -> bool:
    return inspect.isclass(public) and issubclass(public, Exception)


def examples() -> list[doctest.DocTest]:
    """The examples of public names and of the public methods of public classes."""
    return [test for name, public in public_names().items() for test in _examples_of(name, public)]


def needs_spark(example: doctest.DocTest) -> bool:
    return any(re.search(r"\bspark\b", line.source) for line in example.examples)


def _examples_of(name: str, public: object) -> Iterator[doctest.DocTest]:
    parser = doctest.DocTestParser()
    members = inspect.getmembers(public) if inspect.isclass(public) else []
    methods = [(f"{name}.{m}", method) for m, method in members if not m.startswith("_")]
    for each, documented in [(name, public), *methods]:
        test = parser.get_doctest(inspect.getdoc(documented) or "", {}, each, each, 0)
        if test.examples:
            yield test


def run(example: doctest.DocTest, **names: object) -> None:
    """Run an example in the current directory; it fails if it prints anything else than its text."""
    example.globs.update(names)
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(example, out=said.append)
    assert not result.failed, "".join(said)
