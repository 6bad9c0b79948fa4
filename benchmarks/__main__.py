"""The command: `python -m benchmarks --n 1000000` makes the tables, measures every reader, prints and saves."""

from __future__ import annotations

import argparse
import fnmatch
import sys
from pathlib import Path

from rich.console import Console

from benchmarks.generate import ensure
from benchmarks.goals import goals_for, judge
from benchmarks.measure import Measurement
from benchmarks.report import RESULTS, Run, load_recorded, save, show
from benchmarks.runs import measured, read_once
from benchmarks.specs import CommitSpec, LogSpec, RowsSpec, Spec, table_dir
from benchmarks.workloads import WORKLOADS, table_of

PROGRESS = Console(stderr=True, highlight=False)


def main() -> int:
    """Run what was asked for; 1 if a measurement failed or a goal was missed."""
    args = _parser().parse_args()
    specs = _specs(args)
    keys = _chosen(args)
    run_specs = {name: spec for name, spec in specs.items() if any(table_of(key) == name for key in keys)}
    _make_tables(run_specs)
    found = _recorded(args)
    for key in keys:
        if key not in found:
            found[key] = measured(key, run_specs[table_of(key)], args.repeat, args.timeout, PROGRESS)
    run = Run(args.n, run_specs, found, [judge(goal, found) for goal in goals_for(args.n)])
    show(run, Console(width=None if sys.stdout.isatty() else 160))
    save(run, RESULTS / f"{args.save}.json")
    bad = [judgement for judgement in run.judgements if judgement.verdict in ("MISS", "FAILED")]
    return 1 if bad or any(entry.error for entry in found.values()) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--n", "--files", type=int, default=1_000_000, help="files in the checkpoint")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="GLOB", help="e.g. 'ours.*' '*.rows_*'")
    parser.add_argument("--skip-deltalake", action="store_true", help="its goals are then reported as skipped")
    parser.add_argument("--deltalake-from", type=Path, metavar="JSON", help="its figures from an earlier run, labelled")
    parser.add_argument("--repeat", type=int, default=3, help="runs a workload; the median counts")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds a run may take")
    parser.add_argument("--commit-adds", type=int, default=1_000_000, help="adds of the single huge commit")
    parser.add_argument("--row-files", type=int, default=1_000, help="data files of the table with rows, 1 MB each")
    parser.add_argument("--crc", action="store_true", help="a .crc beside each commit of the tail")
    parser.add_argument("--stats", choices=("json", "parsed", "both"), default="json")
    parser.add_argument("--shuffled", action="store_true", help="checkpoint rows not in order of time")
    parser.add_argument("--save", default="latest", metavar="NAME", help="benchmarks/results/NAME.json")
    return parser


def _specs(args: argparse.Namespace) -> dict[str, Spec]:
    log = LogSpec(args.n, crc=args.crc, stats=args.stats, shuffled=args.shuffled)
    return {"log": log, "commit": CommitSpec(args.commit_adds), "rows": RowsSpec(args.row_files)}


def _chosen(args: argparse.Namespace) -> list[str]:
    keys = [key for key in WORKLOADS if any(fnmatch.fnmatch(key, pattern) for pattern in args.only)]
    if not keys:
        raise SystemExit(f"no workload matches {' '.join(args.only)}; there are: {' '.join(WORKLOADS)}")
    return [key for key in keys if not (args.skip_deltalake and key.startswith("deltalake."))]


def _recorded(args: argparse.Namespace) -> dict[str, Measurement]:
    if args.deltalake_from is None:
        return {}
    return load_recorded(args.deltalake_from, args.n, "deltalake")


def _make_tables(specs: dict[str, Spec]) -> None:
    """Make what is missing, and read it once, so that every reader finds the same warm file cache."""
    for name, spec in specs.items():
        PROGRESS.print(f"table {name}: {table_dir(spec)}", markup=False)
        read_once(ensure(spec))


if __name__ == "__main__":
    sys.exit(main())
