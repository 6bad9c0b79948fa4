"""Many writers on one table at once, killed at random: every row of every source is in it exactly once.

Three ingests, a stream, `maintain` in a loop, and a Spark driver that appends by itself: each a process of its own.
Some are killed at a random moment and started again, as a scheduler would. `make races ROUNDS=20` runs such rounds,
`make test` one with an ingest and a source less.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.pipeline.spark_build import build_index
from delta_sidecar.storage import open_store
from tests.integration.servers import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VARIABLE = "DELTA_SIDECAR_ROUNDS"
ROUNDS = int(os.environ.get(VARIABLE, "1"))
ROWS = 20
"""Of each source."""
INGESTS = "abc" if VARIABLE in os.environ else "ab"
SOURCES = len(INGESTS)
"""Of each writer."""
KILLED = 2
"""Writers that are killed in a round, each once, or now and then once more."""
SECONDS = 600


@dataclass(slots=True)
class Writer:
    """A process that is started, killed and started again until it ends by itself."""

    order: dict[str, Any]
    kills: list[float]
    """Seconds after it is ready at which it is killed, one for each time it is started."""
    starts: int = 0
    process: subprocess.Popen[bytes] | None = None
    ready_at: float | None = None
    killed: int = 0
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = Path(self.order["place"], f"{self.order['name']}.log")

    @property
    def ready(self) -> Path:
        return Path(self.order["place"], f"{self.order['name']}.ready")

    def start(self) -> None:
        self.ready.unlink(missing_ok=True)
        self.ready_at = None
        self.starts += 1
        command = [sys.executable, "-m", "tests.integration.spark.racing", json.dumps(self.order)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=ROOT, start_new_session=True
            )

    def step(self) -> bool:
        """Kill it if its time has come, start it again if it was killed; whether it has ended well."""
        assert self.process is not None
        code = self.process.poll()
        if code == 0:
            return True
        if code is not None:
            assert code == -signal.SIGKILL, f"{self.order['name']} failed: {self.log.read_text()[-3000:]}"
            self.start()
        elif self.kills and self.ready_at is None and self.ready.exists():
            self.ready_at = time.monotonic()
        elif self.kills and self.ready_at is not None and time.monotonic() - self.ready_at > self.kills[0]:
            del self.kills[0]
            self.killed += 1
            self.kill()
        return False

    def kill(self) -> None:
        """The driver and its JVM, as if the machine had gone."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def write_source(path: Path, first: int) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [{"id": n, "ts": f"2026-02-10T{n % 5:02}:{n % 60:02}:00Z"} for n in range(first, first + ROWS)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def writers(table: Path, place: Path, rng: random.Random) -> tuple[list[Writer], int]:
    """All writers with their sources, and how many rows these have."""
    roles = dict.fromkeys(INGESTS, "ingest") | {"s": "stream", "f": "append", "m": "maintain"}
    doomed = set(rng.sample(sorted(roles), KILLED))
    found, first = [], 0
    for name, role in roles.items():
        sources = []
        for number in range(SOURCES if role != "maintain" else 0):
            sources.append(write_source(place / f"source-{name}" / f"{number}.json", first))
            first += ROWS
        if role == "stream":
            sources = [str(place / f"source-{name}")]
        order = {"role": role, "name": name, "table": str(table), "place": str(place), "sources": sources}
        kills = [rng.uniform(0, 10) for _ in range(rng.choice((1, 1, 2)))] if name in doomed else []
        found.append(Writer(order, kills))
    return found, first


def run(found: Sequence[Writer], place: Path) -> None:
    """All at once, until all have ended; the maintainer when the others have."""
    deadline = time.monotonic() + SECONDS
    try:
        for writer in found:
            writer.start()
        while True:
            assert time.monotonic() < deadline, {w.order["name"]: w.log.read_text()[-500:] for w in found}
            at_work = [writer.order["role"] for writer in found if not writer.step()]
            if not at_work:
                return
            if at_work == ["maintain"]:
                (place / "stop").touch()
            time.sleep(0.05)
    finally:
        for writer in found:
            writer.kill()


@pytest.mark.long
@pytest.mark.parametrize("number", range(ROUNDS))
def test_every_row_is_there_once(number: int, spark: SparkSession, tmp_path: Path) -> None:
    table, place = tmp_path / "table", tmp_path / "place"
    place.mkdir()
    found, rows = writers(table, place, random.Random(number))
    began = time.monotonic()
    run(found, place)
    kills = {writer.order["name"]: writer.killed for writer in found if writer.killed}
    lines = (place / "maintained").read_text().splitlines() if (place / "maintained").exists() else []
    states = Counter(f"{step} {state}" for line in lines for step, state, _ in json.loads(line))
    print(f"round {number}: {time.monotonic() - began:.0f} s, killed {kills}, maintained {dict(states)}")

    ours = DeltaTable(str(table))
    assert sorted(ours.to_pyarrow_table(columns=["id"])["id"].to_pylist()) == list(range(rows))
    theirs = [row.id for row in spark.read.format("delta").load(str(table)).select("id").collect()]
    assert sorted(theirs) == list(range(rows))
    assert not [line for line in lines if '"failed"' in line]
    store = open_store(table)
    assert verify_index(store).problems == ()
    build_index(str(table))
    assert verify_index(store, ours.version()).ok
