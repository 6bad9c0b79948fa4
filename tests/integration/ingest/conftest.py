"""What the random landings compared, told at the end of a run."""

from __future__ import annotations

from collections import Counter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Sum up what each function tried, on whichever worker."""
    total: Counter[str] = Counter()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            total.update(dict(report.user_properties).get("tried", {}))
    if total:
        terminalreporter.write_line("ingest: " + ", ".join(f"{count} {what}" for what, count in sorted(total.items())))
