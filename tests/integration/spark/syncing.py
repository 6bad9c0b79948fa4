"""A sync in a process of its own that is killed between two steps: a task in JSON, the report in JSON.

    python syncing.py '{"master": "sc://…", "sql": ["…"], "arguments": ["source", "target", "--key", "id"],
                        "as_command": false, "die": ["applied", "after"]}'

`sql` is run first. The process ends by SIGKILL before or after the step that `die` names.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from delta_sidecar.lake import change_apply, sync, sync_job
from delta_sidecar.lake.cursors import CdfCursorStore
from delta_sidecar.pipeline.session import spark_session

STEPS: dict[str, tuple[Any, str]] = {
    "plan": (CdfCursorStore, "plan"),
    "read": (sync_job, "result_of"),
    "write": (change_apply._Application, "run"),
    "applied": (sync_job, "applied"),
    "move": (CdfCursorStore, "advance"),
}


def killed(step: Callable[..., Any], when: str) -> Callable[..., Any]:
    def step_that_dies(*given: Any, **more: Any) -> Any:
        if when == "after":
            step(*given, **more)
        os.kill(os.getpid(), signal.SIGKILL)

    return step_that_dies


def main(order: dict[str, Any]) -> None:
    if order.get("die"):
        name, when = order["die"]
        place, attribute = STEPS[name]
        setattr(place, attribute, killed(getattr(place, attribute), when))
    source, target, *options = order["arguments"]
    if order["as_command"]:
        from delta_sidecar.cli.main import run

        sys.argv = ["sidecar", "sync", source, target, *options, "--master", order["master"], "--json"]
        run()
    with spark_session(order["master"]) as spark:
        for statement in order.get("sql", ()):
            spark.sql(statement).collect()
        given = dict(zip((name.removeprefix("--") for name in options[::2]), options[1::2]))
        if "key" in given:
            given["key"] = given["key"].split(",")
        print(json.dumps(msgspec.to_builtins(sync(spark, source, target, **given))))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
