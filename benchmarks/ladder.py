"""The ladder: `python -m benchmarks.ladder --files 10000000`, or `make ladder N=10000000`.

From `deltalake`'s open to the index read by the part: time to the first file and to the last, memory, requests, each
the median of three fresh processes, goals beside the figures. Also bare pyarrow reads of the same columns of the same
files, a table of which a late commit removed half a million files, and a store that takes 30 ms a request.

`--publish` keeps the result in benchmarks/published/, draws docs/images/ladder.svg and writes the tables between the
markers of docs/benchmarks.md, and a few of their rows between those of README.md; with `--load` it does so from an
earlier result.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import ladder_picture
from benchmarks.goals import Judgement, Verdict, judge, ladder_goals
from benchmarks.index_tables import IndexSizes, checkpoint_size, ensure_indexed, index_sizes
from benchmarks.ladder_table import KEYS, between_markers, brief_markdown, console_tables, markdown, rungs
from benchmarks.measure import ROOT, Measurement
from benchmarks.report import RESULTS, Run, goals_table, load_recorded, save, show_notes
from benchmarks.runs import measured, read_once
from benchmarks.specs import IndexedSpec, Spec, table_dir

PUBLISHED = Path(__file__).parent / "published"
REMOVED = 500_000
CORE_BYTES = 30
"""Bytes that a file may take in the core."""
IMAGE = "images/ladder.svg"
"""The picture, below `docs`."""
PROGRESS = Console(stderr=True, highlight=False)


def main(arguments: list[str] | None = None, results: Path = RESULTS, root: Path = ROOT) -> int:
    """Measure, or load; show, save, publish; 1 if a measurement failed or a goal was missed."""
    args = _parser().parse_args(arguments)
    run = _loaded(args.load) if args.load else _measured(args, results)
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(*console_tables(run.files, run.measurements), goals_table(run.judgements))
    show_notes(run.measurements, console)
    name = f"ladder-{run.files}.json"
    source = args.load or results / name
    if not args.load:
        save(run, source)
    if args.publish:
        publish(json.loads(source.read_text()), root)
    bad = [judgement for judgement in run.judgements if judgement.verdict in ("MISS", "FAILED")]
    return 1 if bad or any(entry.error for entry in run.measurements.values()) else 0


def specs_of(files: int) -> dict[str, Spec]:
    """The table, and the same with files removed: half a million, or one in twenty of a smaller one."""
    removed = min(REMOVED, files // 20)
    return {"indexed": IndexedSpec(files), "masked": IndexedSpec(files, removed=removed)}


def size_goals(size: IndexSizes, checkpoint: int) -> list[Judgement]:
    """What the index may take on disk."""
    core, share = size.core / size.files, size.whole / checkpoint
    return [
        Judgement("index", f"core ≤ {CORE_BYTES} bytes a file", f"{core:.1f}", _verdict(core <= CORE_BYTES)),
        Judgement("index", "bytes ≤ the checkpoint's", f"{share:.2f} ×", _verdict(share <= 1)),
    ]


def recorded_peers(files: int, places: list[Path]) -> dict[str, Measurement]:
    """deltalake's newest figures of that many files, each labelled with the run that it was measured in."""
    documents = [(path, json.loads(path.read_text())) for place in places for path in sorted(place.glob("*.json"))]
    right = [(path, found) for path, found in documents if found.get("files") == files and "measurements" in found]
    peers: dict[str, Measurement] = {}
    for path, document in sorted(right, key=lambda entry: str(entry[1]["environment"]["time"])):
        own = {entry["key"] for entry in document["measurements"] if entry["key"] in KEYS and not entry["recorded"]}
        peers |= {key: found for key, found in load_recorded(path, files, "deltalake").items() if key in own}
    return peers


def publish(document: Mapping[str, Any], root: Path) -> None:
    """Keep a result, draw it, and write its tables into the page of benchmarks and, in short, into the README."""
    files, found = document["files"], measurements_of(document)
    target = root / "benchmarks" / "published" / f"ladder-{files}.json"
    target.write_text(json.dumps(document, indent=1) + "\n")
    (root / "docs" / IMAGE).write_text(ladder_picture.svg(files, rungs(found)))
    for page, image, tables in (
        (root / "docs" / "benchmarks.md", IMAGE, markdown(files, found)),
        (root / "README.md", f"docs/{IMAGE}", brief_markdown(files, found)),
    ):
        picture = f"![Time and memory of listing the last hour of {files:,} files, level by level]({image})"
        page.write_text(between_markers(page.read_text(), f"{picture}\n\n{tables}"))


def measurements_of(document: Mapping[str, Any]) -> dict[str, Measurement]:
    """The measurements of a saved result."""
    return {entry["key"]: Measurement(**entry) for entry in document["measurements"]}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ladder", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", "--n", type=int, default=1_000_000, help="files in checkpoint and index")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="GLOB", help="e.g. 'index.*' 'slow.*'")
    parser.add_argument("--skip-peers", action="store_true", help="deltalake's figures from an earlier run, labelled")
    parser.add_argument("--repeat", type=int, default=3, help="runs a workload; the median counts")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds a run may take")
    parser.add_argument("--publish", action="store_true", help="into benchmarks/published, docs and README.md")
    parser.add_argument("--load", type=Path, metavar="JSON", help="measure nothing: show or publish this result")
    return parser


def _measured(args: argparse.Namespace, results: Path) -> Run:
    specs = specs_of(args.files)
    for name, spec in specs.items():
        PROGRESS.print(f"table {name}: {table_dir(spec)}", markup=False)
        assert isinstance(spec, IndexedSpec)
        read_once(ensure_indexed(spec))
    found = recorded_peers(args.files, [results, PUBLISHED]) if args.skip_peers else {}
    for key in _chosen(args):
        if key not in found:
            spec = specs["masked" if key.startswith("masked.") else "indexed"]
            found[key] = measured(key, spec, args.repeat, args.timeout, PROGRESS)
    size, checkpoint = index_sizes(IndexedSpec(args.files)), checkpoint_size(IndexedSpec(args.files))
    judgements = [*(judge(goal, found) for goal in ladder_goals(args.files)), *size_goals(size, checkpoint)]
    sizes = {"core": size.core, "stats": size.stats, "manifest": size.manifest, "checkpoint": checkpoint}
    return Run(args.files, specs, {key: found[key] for key in KEYS if key in found}, judgements, sizes)


def _chosen(args: argparse.Namespace) -> list[str]:
    keys = [key for key in KEYS if any(fnmatch.fnmatch(key, pattern) for pattern in args.only)]
    if not keys:
        raise SystemExit(f"no workload matches {' '.join(args.only)}; there are: {' '.join(KEYS)}")
    return [key for key in keys if not (args.skip_peers and key.startswith("deltalake."))]


def _loaded(path: Path) -> Run:
    document = json.loads(path.read_text())
    judgements = [Judgement(**entry) for entry in document["goals"]]
    return Run(document["files"], {}, measurements_of(document), judgements)


def _verdict(holds: bool) -> Verdict:
    return "PASS" if holds else "MISS"


if __name__ == "__main__":
    sys.exit(main())
