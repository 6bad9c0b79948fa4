"""Lists of files over Arrow Flight beside the same in this process: `make bench-flight N=10000000`.

The table has an index and a tail of ten commits. The server is a process of its own (`sidecar serve`), so is the local
reader; both are warm, and what is asked is asked of each in turn. `first` is until the first batch: for Flight
GetFlightInfo, DoGet and the batch, for the local reader opening the table, planning and the batch. Then a hundred
clients in four processes ask at once, half of them going away after their first batch: for one hour, which nobody
asked for before, and after that each for an hour of its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow.flight as flight
from rich.console import Console
from rich.table import Table

from benchmarks.goals import Judgement
from benchmarks.index_tables import ensure_indexed
from benchmarks.report import RESULTS, environment, goals_table
from benchmarks.runs import read_once
from benchmarks.specs import BUCKET, IndexedSpec

FIRST_RATIO, FIRST_MORE_S = 2.0, 0.030
RATE = 1 / 2
PEAK_MB, FIRST_P95_S = 300, 2.0
CLIENTS, PROCESSES = 100, 4
_HOUR = "%Y%m%d%H"
PROGRESS = Console(stderr=True, highlight=False)


@dataclass(frozen=True, slots=True)
class Listing:
    """One listing: seconds to its first batch and to its end, and its files."""

    first: float
    whole: float
    files: int

    @property
    def rate(self) -> float:
        return self.files / self.whole


def main(arguments: list[str] | None = None, results: Path = RESULTS) -> int:
    """Make the table, measure, judge, save; 1 if a goal was missed."""
    args = _parser().parse_args(arguments)
    spec = IndexedSpec(args.files, checkpoint=False)
    table = ensure_indexed(spec, args.workers)
    PROGRESS.print(f"table of {args.files:,}: {table}", markup=False)
    read_once(table)
    last, *others = [_hour(hour) for hour in hours_before(spec.log.last_hour, CLIENTS + 2)]
    with serving(table) as server:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, context) as reader, flight.connect(server.url) as client:
            pairs = [_in_turn(reader, client, table) for _ in range(args.repeat + 1)][1:]
            alone = server.peak_mb()
    with serving(table) as server, ProcessPoolExecutor(PROCESSES, context) as pool:
        _together(pool, server.url, [others[-1]] * PROCESSES)
        began = time.perf_counter()
        firsts = _together(pool, server.url, [last] * CLIENTS)
        seconds, peak = time.perf_counter() - began, server.peak_mb()
        own = _together(pool, server.url, others[:CLIENTS])
        own_peak = server.peak_mb()
    local, remote = _median([pair[0] for pair in pairs]), _median([pair[1] for pair in pairs])
    p95 = _p95(firsts)
    judged = judgements(local, remote, p95, _p95(own), max(peak, own_peak))
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(_table(args.files, local, remote), goals_table(judged))
    console.print(f"{CLIENTS} clients: {seconds:.1f} s, first batch p50 {_ms(statistics.median(firsts))}, "
                  f"p95 {_ms(p95)}, peak {peak:,.0f} MB; each an hour of its own: p50 {_ms(statistics.median(own))}, "
                  f"p95 {_ms(_p95(own))}, peak {own_peak:,.0f} MB; one client at a time: {alone:,.0f} MB")  # fmt: skip
    results.mkdir(exist_ok=True)
    document = {
        "environment": environment(), "spec": asdict(spec), "local": asdict(local), "flight": asdict(remote),
        "clients": {"count": CLIENTS, "seconds": seconds, "first": firsts, "peak_mb": peak}, "alone_peak_mb": alone,
        "own_hours": {"first": own, "peak_mb": own_peak},
        "goals": [asdict(judgement) for judgement in judged],
    }  # fmt: skip
    (results / "flight.json").write_text(json.dumps(document, indent=1) + "\n")
    return 1 if any(judgement.verdict != "PASS" for judgement in judged) else 0


def judgements(local: Listing, remote: Listing, p95: float, own_p95: float, peak_mb: float) -> list[Judgement]:
    """The goals: pure, so that they can be tested. `own_p95` is of clients that each ask for something else."""
    first_limit = FIRST_RATIO * local.first + FIRST_MORE_S
    return [
        _judged(
            "first batch", f"≤ 2 × local + 30 ms = {_ms(first_limit)}", _ms(remote.first), remote.first <= first_limit
        ),
        _judged(
            "all files", "≥ 1/2 of the local rate", f"{remote.rate / local.rate:.2f}", remote.rate >= RATE * local.rate
        ),
        _judged(f"{CLIENTS} clients, p95 of first batch", f"≤ {FIRST_P95_S:g} s", _ms(p95), p95 <= FIRST_P95_S),
        _judged("… each an hour of its own", f"≤ {FIRST_P95_S:g} s", _ms(own_p95), own_p95 <= FIRST_P95_S),
        _judged(f"{CLIENTS} clients, peak of the server", f"≤ {PEAK_MB} MB", f"{peak_mb:.0f} MB", peak_mb <= PEAK_MB),
    ]


def _judged(subject: str, goal: str, reached: str, holds: bool) -> Judgement:
    return Judgement(subject, goal, reached, "PASS" if holds else "MISS")


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms"


def _in_turn(reader: ProcessPoolExecutor, client: flight.FlightClient, table: Path) -> tuple[Listing, Listing]:
    return reader.submit(read_here, str(table)).result(), read_there(client)


def read_here(table: str) -> Listing:
    """A listing by `DeltaTable`."""
    from delta_sidecar import DeltaTable

    began = time.perf_counter()
    batches = iter(DeltaTable(table).scan_files())
    files = next(batches).num_rows
    first = time.perf_counter() - began
    files += sum(batch.num_rows for batch in batches)
    return Listing(first, time.perf_counter() - began, files)


def read_there(client: flight.FlightClient) -> Listing:
    """The same listing by the server."""
    began = time.perf_counter()
    info = client.get_flight_info(flight.FlightDescriptor.for_command(b'{"table": "bench"}'))
    batches = client.do_get(info.endpoints[0].ticket)
    files = batches.read_chunk().data.num_rows
    first = time.perf_counter() - began
    for chunk in batches:
        files += chunk.data.num_rows
    return Listing(first, time.perf_counter() - began, files)


def hours_before(last: str, count: int) -> list[str]:
    """An hour and those before it, latest first."""
    newest = datetime.strptime(last, _HOUR)
    return [(newest - timedelta(hours=back)).strftime(_HOUR) for back in range(count)]


def _hour(hour: str) -> bytes:
    return json.dumps({"table": "bench", "predicate": f"{BUCKET} = '{hour}'"}).encode()


def _together(pool: ProcessPoolExecutor, url: str, requests: list[bytes]) -> list[float]:
    """Seconds to the first batch of as many clients as there are requests, all at once; the least first."""
    orders = [(url, requests[place::PROCESSES]) for place in range(PROCESSES)]
    return sorted(first for found in pool.map(_clients, orders) for first in found)


def _p95(ordered: list[float]) -> float:
    return ordered[int(len(ordered) * 0.95)]


def _clients(order: tuple[str, list[bytes]]) -> list[float]:
    """Seconds to the first batch of some clients of this process at once; every second one then goes away."""
    url, requests = order
    count = len(requests)
    ready, firsts = threading.Barrier(count), list[float]()

    def ask(number: int) -> None:
        client = flight.connect(url)
        ready.wait()
        began = time.perf_counter()
        info = client.get_flight_info(flight.FlightDescriptor.for_command(requests[number]))
        batches = client.do_get(info.endpoints[0].ticket)
        batches.read_chunk()
        firsts.append(time.perf_counter() - began)
        if number % 2:
            batches.cancel()
        else:
            for _ in batches:
                pass
        client.close()

    asking = [threading.Thread(target=ask, args=(number,)) for number in range(count)]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    if len(firsts) != count:
        raise RuntimeError(f"{count - len(firsts)} of {count} clients failed")
    return firsts


@dataclass(frozen=True, slots=True)
class Server:
    """A running `sidecar serve`."""

    url: str
    pid: int

    def peak_mb(self) -> float:
        """The high-water mark of its resident memory."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


@contextmanager
def serving(table: Path) -> Iterator[Server]:
    """The server over one table, as its operators start it."""
    command = [sys.executable, "-m", "delta_sidecar.cli.main", "serve", f"bench={table}", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    told = json.loads(process.stderr.readline())
    threading.Thread(target=process.stderr.read, daemon=True).start()
    try:
        yield Server(told["url"], process.pid)
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.wait(60)


def _median(found: list[Listing]) -> Listing:
    first, whole = (statistics.median(getattr(each, name) for each in found) for name in ("first", "whole"))
    return Listing(first, whole, found[0].files)


def _table(files: int, local: Listing, remote: Listing) -> Table:
    table = Table("", "first batch, ms", "all, s", "files/s", title=f"{files:,} files", title_justify="left")
    for name, found in (("local", local), ("Flight", remote)):
        table.add_row(name, f"{found.first * 1000:,.1f}", f"{found.whole:,.2f}", f"{found.rate:,.0f}")
    return table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.flight", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=1_000_000, help="files of the table")
    parser.add_argument("--repeat", type=int, default=5, help="listings of each; the median counts")
    parser.add_argument("--workers", type=int, help="processes that write the index")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
