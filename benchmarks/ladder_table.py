"""What the ladder shows: its levels and the questions beside them, as rows of figures and as Markdown.

The levels are those of the enhancement ladder that the project began with, a query for the last hour on each. Two of
its levels are one here: parts of a large table are found by the manifest alone, so there is no index without one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from benchmarks.measure import Measurement
from benchmarks.picture import memory_text, time_text

BEGIN, END = "<!-- ladder: written by `make ladder` -->", "<!-- /ladder -->"

Measurements = Mapping[str, Measurement]


@dataclass(frozen=True, slots=True)
class Rung:
    """A level of the ladder, and the workloads that measure it: the first that there is a figure of."""

    level: str
    what: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """Something that is asked of a table, and what the peer does for the same answer."""

    what: str
    key: str
    peer: str | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """What one row shows: seconds and MB."""

    first: float
    complete: float
    peak: float | None
    recorded: bool

    @classmethod
    def of(cls, found: Measurement) -> Figures:
        """The figures of a measurement; one without a first file of its own has it when it is complete."""
        if found.seconds is None:
            raise ValueError(f"{found.key} has no figures")
        first = found.told("first_s")
        # The process that is measured only waits for the command.
        peak = None if found.key == "index.explain" else found.peak_mb
        return cls(found.seconds if first is None else first, found.seconds, peak, found.recorded is not None)


RUNGS = (
    Rung(
        "L0",
        "`deltalake`: the whole checkpoint into memory, then the filter",
        ("deltalake.partition_predicate", "deltalake.open"),
    ),
    Rung("L1", "the checkpoint as a stream, commits one by one", ("checkpoint.last_hour_one_by_one",)),
    Rung("L2", "commits side by side", ("checkpoint.last_hour",)),
    Rung("L3, L4", "the index and its manifest, native stats of all columns", ("index.every_stat",)),
    Rung("L5", "only the columns that are needed (all files)", ("index.all_arrow",)),
    Rung("L6", "only the parts and row groups of the hour", ("index.last_hour",)),
    Rung("L7", "only as many as are asked for (100 files)", ("index.take",)),
)

QUESTIONS = (
    Question("first file", "index.first_file", "deltalake.open"),
    Question("last hour, by the bucket", "index.last_hour", "deltalake.open"),
    Question("last hour, by the time column", "index.last_hour_by_time", "deltalake.open"),
    Question("all files, as Arrow", "index.all_arrow", "deltalake.open"),
    Question("all files, as Python objects", "index.all_objects", "deltalake.open"),
    Question("files by a predicate on a stats column", "index.stats_predicate", "deltalake.stats_predicate"),
    Question("all files but those one late commit removed", "masked.all_arrow"),
    Question("last hour, 30 ms a request", "slow.last_hour"),
    Question("all files, 30 ms a request", "slow.all_arrow"),
    Question("`sidecar explain` of the last hour, with Python's start", "index.explain"),
    Question("first file, through the checkpoint", "checkpoint.first_file", "deltalake.open"),
    Question("all files, through the checkpoint", "checkpoint.all_arrow", "deltalake.open"),
    Question("bare pyarrow read of the same columns, part by part", "pyarrow.core_parts"),
    Question("bare pyarrow read of the same columns, in batches", "pyarrow.core_parts_streamed"),
)

BRIEF = ("index.first_file", "index.last_hour_by_time", "index.all_arrow", "index.stats_predicate")
"""The questions that the README shows."""

KEYS = tuple(
    dict.fromkeys(
        [
            *(key for rung in RUNGS for key in rung.keys),
            *(key for asked in QUESTIONS for key in (asked.key, asked.peer) if key),
        ]
    )
)
"""Every workload of the ladder."""


def rungs(found: Measurements) -> list[tuple[Rung, Figures]]:
    """The levels that were measured."""
    chosen = ((rung, next((found[key] for key in rung.keys if _is_good(found.get(key))), None)) for rung in RUNGS)
    return [(rung, Figures.of(best)) for rung, best in chosen if best is not None]


def questions(found: Measurements) -> list[tuple[Question, Figures, Figures | None]]:
    """The questions that were measured, each with its peer's figures where there are any."""
    rows = [(asked, found.get(asked.key), found.get(asked.peer or "")) for asked in QUESTIONS]
    return [
        (asked, Figures.of(ours), Figures.of(peer) if peer is not None and _is_good(peer) else None)
        for asked, ours, peer in rows
        if ours is not None and _is_good(ours)
    ]


def markdown(files: int, found: Measurements) -> str:
    """Both tables, and where figures of peers come from."""
    levels = [(rung.level, rung.what, _time(f.first, f), _time(f.complete, f), _memory(f)) for rung, f in rungs(found)]
    ladder = _table(("", f"last hour of {files:,} files", "first file", "complete", "peak memory"), levels)
    return "\n\n".join([ladder, _questions_table(files, found), *_notes(found)])


def brief_markdown(files: int, found: Measurements) -> str:
    """A few of the questions, and where figures of peers come from."""
    return "\n\n".join([_questions_table(files, found, BRIEF), *_notes(found)])


def between_markers(text: str, block: str) -> str:
    """A text whose part between the ladder's markers is another one; `ValueError` if it has no markers."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"the text needs the lines {BEGIN} and {END}, each once")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{block}\n{END}{rest.split(END)[1]}"


def console_tables(files: int, found: Measurements) -> list[Table]:
    """Both tables for a terminal, with Arrow's pool, requests and bytes."""
    levels = Table(title=f"the ladder: last hour of {files:,} files", title_justify="left")
    for header in ("level", "what", "first file", "complete", "peak"):
        levels.add_column(header, no_wrap=header != "what")
    for rung, f in rungs(found):
        levels.add_row(rung.level, rung.what, _time(f.first, f), _time(f.complete, f), _memory(f))
    asked = Table(title=f"questions, {files:,} files", title_justify="left")
    for header in ("question", "first file", "complete", "peak", "Arrow's pool", "requests", "MB read", "of deltalake"):
        asked.add_column(header, justify="left" if header == "question" else "right")
    for question, f, peer in questions(found):
        times = (_time(f.first, f), _time(f.complete, f), _memory(f))
        asked.add_row(question.what, *times, *_costs(found[question.key]), _share(f, peer))
    return [levels, asked]


def _is_good(found: Measurement | None) -> bool:
    return found is not None and found.error is None and found.seconds is not None


def _costs(found: Measurement) -> tuple[str, str, str]:
    pool, requests, size = found.arrow_peak_mb, found.told("requests"), found.told("bytes")
    return (
        "" if pool is None else f"{pool:.1f} MB",
        "" if requests is None else f"{requests:.0f}",
        "" if size is None else f"{size / 1e6:.1f}",
    )


def _time(seconds: float, figures: Figures) -> str:
    return f"{time_text(seconds)}{' *' if figures.recorded else ''}"


def _memory(figures: Figures) -> str:
    return "" if figures.peak is None else memory_text(figures.peak)


def _pair(peer: Figures | None) -> str:
    return "" if peer is None else f"{_time(peer.complete, peer)}, {_memory(peer)}"


def _share(figures: Figures, peer: Figures | None) -> str:
    if peer is None:
        return ""
    ratio = figures.complete / peer.complete
    return f"1/{1 / ratio:,.0f}" if ratio < 0.2 else f"{ratio:.2f}"


def _notes(found: Measurements) -> list[str]:
    labels = sorted({f"\\* {m.key.split('.')[0]}: {m.recorded}." for m in found.values() if m.recorded})
    return ["\n".join(labels)] if labels else []


def _questions_table(files: int, found: Measurements, keys: Sequence[str] = KEYS) -> str:
    asked = [
        (q.what, _time(f.complete, f), _memory(f), _pair(peer), _share(f, peer))
        for q, f, peer in questions(found)
        if q.key in keys
    ]
    return _table((f"{files:,} files", "Delta Sidecar", "peak memory", "`deltalake`", "ratio"), asked)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
