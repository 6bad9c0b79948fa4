"""The picture is drawn from what was measured, and leaves out what was not."""

from __future__ import annotations

from typing import Any

from benchmarks.picture import rows_of, svg


def measured(key: str, seconds: float, error: str | None = None) -> dict[str, Any]:
    return {"key": key, "seconds": seconds, "peak_mb": 50.0, "error": error}


def test_rows_are_those_that_were_measured() -> None:
    result = {
        "files": 10_000_000,
        "measurements": [
            measured("ours.first_file", 0.04),
            measured("ours.all_arrow", 1.6, error="it failed"),
            measured("deltalake.open", 130.0),
        ],
    }
    (row,) = rows_of(result)
    assert row.label == "first file, 10 M"
    drawn = svg([row])
    assert "40 ms" in drawn
    assert "130.0 s" in drawn
