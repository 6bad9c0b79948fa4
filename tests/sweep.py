"""Many small cases in one test: a test of its own for each would take longer than what it checks."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from delta_sidecar.storage.cache import shared_cache


def sweep(names: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, but one test tries all cases; those that fail are reported together, by name.

    Fixtures are made once: a case must not change what they give.
    """
    arguments = [name.strip() for name in names.split(",")]
    values = [(case,) if len(arguments) == 1 else tuple(case) for case in cases]

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(check)
        def test(**fixtures: Any) -> None:
            assert values, "no case to try"
            failures: list[BaseException] = []
            for case in values:
                shared_cache.clear()
                try:
                    check(**fixtures, **dict(zip(arguments, case, strict=True)))
                except (Exception, pytest.fail.Exception) as failure:
                    failure.add_note(f"case: {case if len(case) > 1 else case[0]!r}")
                    failures.append(failure)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(values)} cases fail", failures)

        signature = inspect.signature(check)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
        test.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return test

    return decorate
