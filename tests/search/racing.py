"""Processes that write to one search table at once, or die at a write. Run as a program: it forks before any thread
starts, so each process is whole and none has to import everything again.

    python -m tests.search.racing race URI WRITERS APPENDS OPTIONS
    python -m tests.search.racing die URI
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from delta_sidecar import ConflictError
from delta_sidecar.search import SearchTable, Split, append, checkpoint, clean_log, purge, replace
from delta_sidecar.storage import open_store
from delta_sidecar.storage.local import LocalStore
from tests.search.made import FAR

CLEAN = {"logRetention.duration": 0, "checkpointRetention.duration": 0}


def forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def write(uri: str, writer: int, appends: int, options: dict[str, str]) -> None:
    store = open_store(uri, options or None)
    for number in range(appends):
        path = f"w{writer}-{number}.split"
        store.put_if_absent(path, b"split")
        append(store, [Split(path=path, size=5)])


def merge(uri: str, options: dict[str, str], ends: float) -> None:
    """Merge what is there, again and again; another writer's conflict is not an error."""
    store = open_store(uri, options or None)
    number = 0
    while time.time() < ends:
        table = SearchTable(store)
        inputs = [split for split in table.merge_candidates() if not split.path.startswith("old")][:5]
        if len(inputs) < 2:
            time.sleep(0.01)
            continue
        parts = [part for split in inputs for part in split.extra.get("parts", [split.path])]
        path = f"m{os.getpid()}-{number}.split"
        number += 1
        store.put_if_absent(path, b"split")
        try:
            replace(store, [split.path for split in inputs], [Split(path=path, size=5, extra={"parts": parts})])
        except ConflictError:
            continue


def clean(uri: str, options: dict[str, str], ends: float) -> None:
    """Checkpoint, clean and purge all the time."""
    store = open_store(uri, options or None)
    while time.time() < ends:
        checkpoint(store)
        clean_log(store, options=CLEAN)
        purge(store, retention=timedelta(minutes=10))
        time.sleep(0.05)


def race(uri: str, writers: int, appends: int, options: dict[str, str], extras: bool) -> None:
    began = time.time()
    children = [forked(lambda w=w: write(uri, w, appends, options)) for w in range(writers)]  # type: ignore[misc]
    ends = began + 3600
    others: list[int] = []
    if extras:
        others = [forked(lambda: merge(uri, options, ends)) for _ in range(2)]
        others.append(forked(lambda: clean(uri, options, ends)))
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    for child in others:
        os.kill(child, signal.SIGKILL)
    killed = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in others]
    print(json.dumps({"codes": codes, "others": killed, "seconds": time.time() - began}))


def die(uri: str) -> None:
    """Repeat one round of work, killed at its first write, its second, and so on until it lives; look after each."""
    left = 0

    def dying(method: Callable[..., Any]) -> Callable[..., Any]:
        def at_a_write(self: LocalStore, path: str, *rest: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return method(self, path, *rest)

        return at_a_write

    def work() -> None:
        for name in ("put_if_absent", "replace", "delete"):
            setattr(LocalStore, name, dying(getattr(LocalStore, name)))
        for number in range(2):
            append(uri, [Split(path=f"{time.time_ns()}-{number}.split")], options={"checkpoint.interval": 2})
        live = [split.path for split in SearchTable(uri).splits()]
        replace(uri, live[:2], [Split(path=f"{time.time_ns()}-m.split")])
        checkpoint(uri)
        clean_log(uri, options=CLEAN, now_ms=FAR)
        purge(uri, retention=timedelta(0), now_ms=FAR)

    deaths = 0
    while True:
        left = deaths
        code = os.waitstatus_to_exitcode(os.waitpid(forked(work), 0)[1])
        table = SearchTable(uri)
        kept = [version for version in table.versions() if version]
        assert kept[-1] == table.version
        for version in kept:
            SearchTable(uri, version).splits()
        if code == 0:
            break
        assert code == -signal.SIGKILL
        deaths += 1
    print(json.dumps({"deaths": deaths, "splits": len(SearchTable(uri).splits())}))


if __name__ == "__main__":
    mode, uri, *rest = sys.argv[1:]
    if mode == "die":
        die(uri)
    else:
        race(uri, int(rest[0]), int(rest[1]), json.loads(rest[2]), extras=mode == "all")
