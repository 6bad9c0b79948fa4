"""What the random landings compared, told at the end of a run."""

from __future__ import annotations

import sys
from collections import Counter

import pytest


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Tell what failed at once: a run may take two hours."""
    if report.failed and sys.__stderr__ is not None:
        print(report.longreprtext, file=sys.__stderr__, flush=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Sum up what each function tried, on whichever worker."""
    total: Counter[str] = Counter()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            total.update(dict(report.user_properties).get("tried", {}))
    if total:
        terminalreporter.write_line("ingest: " + ", ".join(f"{count} {what}" for what, count in sorted(total.items())))
