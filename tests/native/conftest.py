"""The summary of a run says how much was tried: one that tried nothing must not look like one that found nothing."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.native.library import tried

KEY = "native_cases"
of_workers: Counter[str] = Counter()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker tells the process that started it what it tried."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[KEY] = dict(tried)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    of_workers.update(getattr(node, "workeroutput", {}).get(KEY, {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts = of_workers + tried
    if counts:
        text = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
        terminalreporter.write_line(f"native cases: {text}")
