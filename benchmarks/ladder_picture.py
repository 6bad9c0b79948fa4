"""The ladder as a picture: time on the left (first file above, complete below), memory on the right, logarithmic."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from benchmarks.ladder_table import Figures, Rung
from benchmarks.picture import BAR, GAP, bar, memory_text, time_text

WIDTH, LEFT = 1040, 400
SECONDS = (0.001, 1000.0)
MEGABYTES = (1.0, 100_000.0)
COLOURS = {"first file": "#74b9c4", "complete": "#0b7285", "peak memory over imports": "#6c5b7b"}


def svg(files: int, rows: Sequence[tuple[Rung, Figures]]) -> str:
    """The picture of some levels."""
    step = 2 * BAR + GAP
    height = 58 + step * len(rows)
    body = "".join(_row(rung, figures, 48 + step * i) for i, (rung, figures) in enumerate(rows))
    label = f"time and memory of listing the last hour of {files:,} files, level by level"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="{label}">'
        f'<rect width="100%" height="100%" fill="white"/>{_heading(files)}{body}</svg>\n'
    )


def _heading(files: int) -> str:
    half = (WIDTH - LEFT) // 2
    places = (LEFT, LEFT + 90, LEFT + half)
    legend = "".join(
        f'<rect x="{x}" y="8" width="11" height="11" fill="{colour}"/><text x="{x + 16}" y="18">{name}</text>'
        for x, (name, colour) in zip(places, COLOURS.items(), strict=True)
    )
    scales = "".join(f'<text x="{x}" y="38" fill="#555">(logarithmic)</text>' for x in (LEFT, LEFT + half))
    return f'<text x="10" y="18" font-weight="bold">last hour of {files:,} files</text>{legend}{scales}'


def _row(rung: Rung, figures: Figures, top: int) -> str:
    half = (WIDTH - LEFT) // 2
    what = escape(f"{rung.level}  {rung.what.replace('`', '')}")
    drawn = [f'<text x="10" y="{top + BAR + 4}">{what}</text>']
    for i, (name, seconds) in enumerate((("first file", figures.first), ("complete", figures.complete))):
        drawn.append(bar(LEFT, top + i * BAR, seconds, SECONDS, COLOURS[name], time_text(seconds), half))
    if figures.peak is not None:
        colour, text = COLOURS["peak memory over imports"], memory_text(figures.peak)
        drawn.append(bar(LEFT + half, top + BAR // 2, figures.peak, MEGABYTES, colour, text, half))
    return "".join(drawn)
