"""Search in log lines beside DuckDB's LIKE over the same Parquet, tantivy alone, and SQLite FTS5.

`python -m benchmarks.search_queries --lines 1000000`, or `make bench-search-queries`. Lines are made once and kept.
`--spark` builds the splits in tasks on local Spark, and measures that; `--splits 64 --merge` builds 64 splits and links
them into one first, so that the questions go to an index of many segments. A
question is asked in turn by each, several times, warm; what counts is CPU time, of all threads. Tantivy alone has the
same splits, unpacked and open, and query objects made by hand: what is over it is ours.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tantivy
from rich.console import Console
from rich.table import Table

from benchmarks.goals import Judgement
from benchmarks.report import RESULTS, environment, goals_table
from benchmarks.specs import tables_dir
from delta_sidecar.search import SearchTable, SplitCache, build_splits, merge_splits

PER_SPLIT = 250_000
BATCH = 50_000
ROUNDS = 7
VERBS = ["started", "finished", "failed", "retried", "skipped", "accepted"]
THINGS = ["request", "upload", "checksum", "session", "backup", "compaction"]
ENDS = ["mismatch", "timeout", "ok", "lost", "slow", "refused"]
PROGRESS = Console(stderr=True, highlight=False)


@dataclass(frozen=True)
class Question:
    """One question, as each asks it."""

    name: str
    query: str
    like: str
    match: str | None
    """SQLite has no key to look up here."""
    by_hand: Callable[[Any], Any]
    goal: float | None
    """At most so much of the CPU time of DuckDB's LIKE."""


def _phrase(schema: Any) -> Any:
    return tantivy.Query.phrase_query(schema, "body", ["checksum", "mismatch"])


def _rare(schema: Any) -> Any:
    must = tantivy.Occur.Must
    words = ("n777", "failed")
    return tantivy.Query.boolean_query([(must, tantivy.Query.term_query(schema, "body", word)) for word in words])


def _key(schema: Any) -> Any:
    return tantivy.Query.term_query(schema, "id", 777_777)


QUESTIONS = [
    Question(
        "phrase", '"checksum mismatch"', "body LIKE '%checksum mismatch%'", '"checksum mismatch"', _phrase, 1 / 10
    ),
    Question(
        "rare AND", "n777 failed", "body LIKE '%n777 %' AND body LIKE '%failed%'", "n777 AND failed", _rare, 1 / 50
    ),
    Question("key", "id:777777", "id = 777777", None, _key, None),
]


SCHEMA = pa.schema({"id": pa.int64(), "ts": pa.timestamp("us", "UTC"), "host": pa.string(), "body": pa.string()})


def line_batches(count: int, batch: int = BATCH) -> Iterator[pa.RecordBatch]:
    """Lines with a time, a host and a text of frequent and rare words."""
    dice = np.random.default_rng(7)
    for first in range(0, count, batch):
        size = min(batch, count - first)
        verbs, things, ends = (dice.integers(0, 6, size) for _ in range(3))
        nodes, users, taken = (
            dice.integers(0, 1500, size),
            dice.integers(0, 200_000, size),
            dice.integers(1, 5000, size),
        )
        body = [
            f"{VERBS[v]} {THINGS[t]} {ENDS[e]} on node n{n} for user u{u} in {ms} ms"
            for v, t, e, n, u, ms in zip(verbs, things, ends, nodes, users, taken, strict=True)
        ]
        ids = np.arange(first, first + size)
        stamps = pa.array(1_767_225_600_000_000 + ids * 37_000, pa.int64()).view(SCHEMA.field("ts").type)
        hosts = [f"web-{number}" for number in (ids % 40)]
        yield pa.record_batch([pa.array(ids), stamps, pa.array(hosts), pa.array(body)], schema=SCHEMA)


def make_lines(place: Path, count: int) -> None:
    """The lines as Parquet with zstd."""
    with pq.ParquetWriter(place, SCHEMA, compression="zstd") as writer:
        for batch in line_batches(count):
            writer.write_batch(batch)


def prepared(count: int, splits: int | None, merged: bool, on_spark: bool) -> Path:
    """The lines, the splits and SQLite's index, made once."""
    place = tables_dir() / f"lines-{count}-3"
    place.mkdir(parents=True, exist_ok=True)
    if not (place / "lines").exists():
        PROGRESS.print(f"making {count:,} lines in {place}", markup=False)
        make_lines(place / "lines.parquet", count)
        (place / "lines").touch()
    if not (place / "fts").exists():
        PROGRESS.print("making SQLite's index", markup=False)
        make_fts(place)
        (place / "fts").touch()
    table = splits_of(place, splits, merged, on_spark)
    if not (table / "done").exists():
        shutil.rmtree(table, ignore_errors=True)
        PROGRESS.print(f"making splits in {table}", markup=False)
        how: dict[str, Any] = {"text": ["body"], "key": ["id"], "time": "ts", "filters": ["host"]}
        how["rows_per_split"] = PER_SPLIT if splits is None else -(-count // splits)
        if on_spark:
            from benchmarks.search_spark import build_on_spark

            build_on_spark(place / "lines.parquet", table, **how)
        else:
            build_splits(str(place / "lines.parquet"), table, **how, engine="process")
        if merged:
            merge_splits(table, target_size=1 << 40)
        (table / "done").touch()
    return place


def splits_of(place: Path, splits: int | None, merged: bool, on_spark: bool) -> Path:
    return place / f"splits{splits or ''}{'-merged' if merged else ''}{'-spark' if on_spark else ''}"


def make_fts(place: Path) -> None:
    (place / "fts.db").unlink(missing_ok=True)
    with sqlite3.connect(place / "fts.db") as database:
        database.execute("CREATE VIRTUAL TABLE lines USING fts5(body, content='')")
        for batch in pq.ParquetFile(place / "lines.parquet").iter_batches(BATCH, columns=["id", "body"]):
            rows = zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
            database.executemany("INSERT INTO lines(rowid, body) VALUES (?, ?)", rows)


@dataclass
class Figure:
    """What an asker took for a question."""

    question: str
    asker: str
    count: int
    cpu_ms: float
    wall_ms: float


def measured(askers: dict[str, Callable[[], int]], question: str) -> list[Figure]:
    """Each asker in turn, warm; medians."""
    counts = {name: ask() for name, ask in askers.items()}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in askers}
    for _ in range(ROUNDS):
        for name, ask in askers.items():
            cpu, wall = time.process_time(), time.perf_counter()
            ask()
            taken[name].append((time.process_time() - cpu, time.perf_counter() - wall))
    return [
        Figure(question, name, counts[name], *(1000 * statistics.median(one) for one in zip(*taken[name], strict=True)))
        for name in askers
    ]


def askers_of(place: Path, question: Question, table: SearchTable, cache: SplitCache) -> dict[str, Callable[[], int]]:
    """Who counts, and who gives the first twenty."""
    engine = duckdb.connect()
    database = sqlite3.connect(place / "fts.db")
    opened = [cache.open_split(table.store, split) for split in table.splits()]
    by_hand = [(one.searcher, question.by_hand(one.index.schema)) for one in opened]
    lines = f"read_parquet('{place / 'lines.parquet'}')"

    def like() -> int:
        return int(engine.execute(f"SELECT count(*) FROM {lines} WHERE {question.like}").fetchall()[0][0])

    def like_newest() -> int:
        text = f"SELECT id, ts, host FROM {lines} WHERE {question.like} ORDER BY ts DESC LIMIT 20"
        return len(engine.execute(text).fetchall())

    def fts(text: str) -> Callable[[], int]:
        return lambda: len(database.execute(text, (question.match,)).fetchall())

    def fts_count() -> int:
        return int(database.execute("SELECT count(*) FROM lines WHERE lines MATCH ?", (question.match,)).fetchone()[0])

    askers = {
        "DuckDB LIKE, count": like,
        "ours, count": lambda: table.count(question.query, cache=cache),
        "tantivy alone, count": lambda: sum(s.search(q, limit=1, count=True).count for s, q in by_hand),
        "SQLite FTS5, count": fts_count,
        "DuckDB LIKE, 20 newest": like_newest,
        "ours, 20 newest": lambda: table.search(question.query, limit=20, cache=cache).to_table().num_rows,
        "ours, 20 best": lambda: table.search(question.query, limit=20, order="best", cache=cache).to_table().num_rows,
        "SQLite FTS5, 20 best": fts("SELECT rowid FROM lines WHERE lines MATCH ? ORDER BY rank LIMIT 20"),
    }
    return {name: ask for name, ask in askers.items() if question.match is not None or "SQLite" not in name}


def main(arguments: list[str] | None = None, results: Path = RESULTS) -> int:
    """Make what is missing, measure, judge, save; 1 if a goal was missed."""
    parser = argparse.ArgumentParser(prog="benchmarks.search_queries", description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--splits", type=int, help="so many splits; one for each 250,000 lines if not given")
    parser.add_argument("--merge", action="store_true", help="link them into one before they are asked")
    parser.add_argument("--spark", action="store_true", help="build them on local Spark")
    given = parser.parse_args(arguments)
    count, how = given.lines, (given.splits, given.merge, given.spark)
    place = prepared(count, *how)
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(", ".join(f"{name} {version(name)}" for name in ("tantivy", "duckdb", "pyarrow")))
    figures: list[Figure] = []
    judgements: list[Judgement] = []
    with tempfile.TemporaryDirectory(dir=place) as folder:
        cache = SplitCache(folder)
        cold = time.perf_counter()
        table = SearchTable(splits_of(place, *how))
        table.search(QUESTIONS[0].query, limit=20, cache=cache)
        console.print(f"cold, first page from the newest split: {1000 * (time.perf_counter() - cold):.0f} ms")
        for question in QUESTIONS:
            found = measured(askers_of(place, question, table, cache), question.name)
            figures += found
            judgements += judged(question, {one.asker: one for one in found})
    console.print(table_of(figures, count), goals_table(judgements))
    results.mkdir(exist_ok=True)
    document = {"environment": environment(), "lines": count, "figures": [asdict(one) for one in figures]}
    saved = {**document, "goals": [asdict(one) for one in judgements]}
    kind = splits_of(place, *how).name.removeprefix("splits")
    (results / f"search_queries{kind}.json").write_text(json.dumps(saved, indent=1) + "\n")
    return 1 if any(one.verdict != "PASS" for one in judgements) else 0


def judged(question: Question, found: dict[str, Figure]) -> list[Judgement]:
    """Ours beside DuckDB's LIKE, and the same answer of all."""
    counts = {one.count for name, one in found.items() if name.endswith("count")}
    same = Judgement(
        question.name, "one count", ", ".join(map(str, sorted(counts))), "PASS" if len(counts) == 1 else "MISS"
    )
    result = [same]
    if question.goal is None:
        return result
    for ours, peer in (("ours, count", "DuckDB LIKE, count"), ("ours, 20 newest", "DuckDB LIKE, 20 newest")):
        ratio = found[ours].cpu_ms / found[peer].cpu_ms
        goal = f"≤ 1/{1 / question.goal:.0f} of the CPU of {peer}"
        verdict: Any = "PASS" if ratio <= question.goal else "MISS"
        result.append(Judgement(f"{question.name}: {ours}", goal, f"1/{1 / ratio:.0f}", verdict))
    return result


def table_of(figures: list[Figure], count: int) -> Table:
    """CPU and wall time, and the ratio to DuckDB's LIKE."""
    table = Table(title=f"{count:,} lines", title_justify="left")
    for header in ("question", "asker", "rows", "CPU ms", "wall ms", "of LIKE's CPU"):
        table.add_column(header, justify="left" if header in ("question", "asker") else "right", no_wrap=True)
    like = {one.question: one.cpu_ms for one in figures if one.asker == "DuckDB LIKE, count"}
    for one in figures:
        ratio = one.cpu_ms / like[one.question]
        shown = f"1/{1 / ratio:.0f}" if ratio < 1 else f"{ratio:.1f} ×"
        table.add_row(one.question, one.asker, f"{one.count:,}", f"{one.cpu_ms:.1f}", f"{one.wall_ms:.1f}", shown)
    return table


if __name__ == "__main__":
    sys.exit(main())
