"""The picture of listings in docs/benchmarks.md, drawn from saved results.

    python -m benchmarks.picture benchmarks/published/*.json > docs/images/listing.svg

Bars on a logarithmic scale, time on the left, memory on the right, ours beside deltalake.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROWS = (
    ("first file", "ours.first_file", "deltalake.open"),
    ("all files", "ours.all_arrow", "deltalake.open"),
    ("files by a stats predicate", "ours.stats_predicate", "deltalake.stats_predicate"),
)
COLOURS = {"ours": "#0b7285", "deltalake": "#c9a227"}
WIDTH, LEFT, BAR, GAP = 890, 215, 13, 12
SECONDS = (0.01, 1000.0)
MEGABYTES = (10.0, 100_000.0)


@dataclass(frozen=True, slots=True)
class Bar:
    reader: str
    seconds: float
    megabytes: float


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    bars: tuple[Bar, Bar]


def rows_of(result: dict[str, Any]) -> Iterator[Row]:
    """The rows of one saved run; a measurement that is not there leaves its row out."""
    found = {m["key"]: m for m in result["measurements"] if m["error"] is None}
    for label, ours, theirs in ROWS:
        if ours in found and theirs in found:
            bars = tuple(Bar(k.partition(".")[0], found[k]["seconds"], found[k]["peak_mb"]) for k in (ours, theirs))
            yield Row(f"{label}, {result['files'] // 1_000_000} M", (bars[0], bars[1]))


def svg(rows: Sequence[Row]) -> str:
    step = 2 * BAR + GAP
    height = 58 + step * len(rows)
    body = "".join(_row(row, 48 + step * i) for i, row in enumerate(rows))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="time and memory of Delta Sidecar and deltalake">'
        f'<rect width="100%" height="100%" fill="white"/>{_heading()}{body}</svg>\n'
    )


def _heading() -> str:
    half = (WIDTH - LEFT) // 2
    legend = "".join(
        f'<rect x="{LEFT + i * 130}" y="8" width="11" height="11" fill="{colour}"/>'
        f'<text x="{LEFT + 16 + i * 130}" y="18">{"Delta Sidecar" if name == "ours" else name}</text>'
        for i, (name, colour) in enumerate(COLOURS.items())
    )
    titles = (
        f'<text x="{LEFT}" y="38" fill="#555">time (logarithmic)</text>'
        f'<text x="{LEFT + half}" y="38" fill="#555">peak memory over imports (logarithmic)</text>'
    )
    return legend + titles


def _row(row: Row, top: int) -> str:
    half = (WIDTH - LEFT) // 2
    label = f'<text x="{LEFT - 10}" y="{top + BAR + 4}" text-anchor="end">{row.label}</text>'
    drawn = [label]
    for i, found in enumerate(row.bars):
        y, colour = top + i * BAR, COLOURS[found.reader]
        drawn.append(bar(LEFT, y, found.seconds, SECONDS, colour, time_text(found.seconds), half))
        drawn.append(bar(LEFT + half, y, found.megabytes, MEGABYTES, colour, memory_text(found.megabytes), half))
    return "".join(drawn)


def bar(x: int, y: int, value: float, scale: tuple[float, float], colour: str, text: str, room: int) -> str:
    """A bar on a logarithmic scale, its value behind it."""
    low, high = scale
    length = max(2.0, (room - 80) * math.log(max(value, low) / low) / math.log(high / low))
    return (
        f'<rect x="{x}" y="{y}" width="{length:.1f}" height="{BAR - 2}" fill="{colour}"/>'
        f'<text x="{x + length + 5:.1f}" y="{y + BAR - 3}" font-size="11">{text}</text>'
    )


def time_text(seconds: float) -> str:
    """A time for people."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def memory_text(megabytes: float) -> str:
    """Memory for people."""
    return f"{megabytes:.0f} MB" if megabytes < 1000 else f"{megabytes / 1000:.1f} GB"


def main(paths: Sequence[str]) -> None:
    results = [json.loads(Path(path).read_text()) for path in paths]
    results.sort(key=lambda result: result["files"])
    sys.stdout.write(svg([row for result in results for row in rows_of(result)]))


if __name__ == "__main__":
    main(sys.argv[1:])
