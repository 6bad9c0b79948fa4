"""Processes that build, merge and purge the splits of one table at once, or die at a write. Run as a program, as
`tests.search.racing` is, and for the same reason.

    python -m tests.search.split_racing race TABLE OPTIONS WRITERS BUILDS
    python -m tests.search.split_racing die TABLE OPTIONS STEP
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from delta_sidecar.search import build_splits, checkpoint, clean_log, merge_splits, purge
from delta_sidecar.storage.local import LocalStore
from delta_sidecar.storage.remote import ObstoreStore
from tests.search.lines import log_lines
from tests.search.made import FAR
from tests.search.racing import CLEAN, forked

ROWS = 20
CHOICES: dict[str, Any] = {"text": ["body"], "key": ["id"], "time": "ts"}


Options = dict[str, str] | None


def write(table: str, options: Options, writer: int, builds: int) -> None:
    for number in range(builds):
        first = (writer * builds + number) * ROWS
        # A job that was killed is run again with the number it had.
        for _ in range(2):
            rows = log_lines(ROWS, first=first)
            once: dict[str, Any] = {"app_id": f"w{writer}", "batch_id": number}
            build_splits(rows, table, **CHOICES, **once, storage_options=options)


def merge(table: str, options: Options, ends: float) -> None:
    while time.time() < ends:
        merge_splits(table, most_inputs=5, storage_options=options)
        time.sleep(0.01)


def clean(table: str, options: Options, ends: float) -> None:
    while time.time() < ends:
        checkpoint(table, storage_options=options)
        clean_log(table, options=CLEAN, storage_options=options)
        purge(table, retention=timedelta(minutes=10), storage_options=options)
        time.sleep(0.05)


def race(table: str, options: Options, writers: int, builds: int) -> None:
    ends = time.time() + 600
    children = [forked(lambda w=w: write(table, options, w, builds)) for w in range(writers)]  # type: ignore[misc]
    others = [forked(lambda: merge(table, options, ends)), forked(lambda: clean(table, options, ends))]
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    for child in others:
        os.kill(child, signal.SIGKILL)
    killed = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in others]
    print(json.dumps({"codes": codes, "others": killed}))


def die(table: str, options: Options, step: int) -> None:
    """Repeat a build and a merge, killed at the first write, the second (or every few), and so on until it lives; then
    purge."""
    left = 0

    def dying(method: Callable[..., Any]) -> Callable[..., Any]:
        def at_a_write(self: Any, path: str, *rest: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return method(self, path, *rest)

        return at_a_write

    def work() -> None:
        for kind in (LocalStore, ObstoreStore):
            for name in ("put_if_absent", "put_file", "replace", "delete"):
                if not hasattr(kind, name):
                    continue
                setattr(kind, name, dying(getattr(kind, name)))
        for number in range(2):
            rows = log_lines(ROWS, first=ROWS * number)
            build_splits(rows, table, **CHOICES, app_id="w", batch_id=number, storage_options=options)
        merge_splits(table, storage_options=options)
        checkpoint(table, storage_options=options)
        clean_log(table, options=CLEAN, now_ms=FAR, storage_options=options)
        purge(table, retention=timedelta(0), now_ms=FAR, storage_options=options)

    deaths = 0
    while True:
        left = deaths * step
        code = os.waitstatus_to_exitcode(os.waitpid(forked(work), 0)[1])
        if code == 0:
            break
        assert code == -signal.SIGKILL
        deaths += 1
    print(json.dumps({"deaths": deaths}))


if __name__ == "__main__":
    mode, place, stores, *rest = sys.argv[1:]
    if mode == "die":
        die(place, json.loads(stores), int(rest[0]))
    else:
        race(place, json.loads(stores), int(rest[0]), int(rest[1]))
