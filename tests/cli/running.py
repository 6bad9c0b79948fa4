"""The command as a process of its own, as users run it."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

COMMAND = [sys.executable, "-m", "delta_sidecar.cli.main"]


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def objects(self) -> list[Any]:
        """The JSON lines it printed."""
        assert self.code == 0, self.err
        return [json.loads(line) for line in self.out.splitlines()]


def sidecar(*arguments: object, environment: Mapping[str, str] | None = None) -> Done:
    """Run `sidecar` in a fresh process."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def invoke(*arguments: object) -> Done:
    """Run `sidecar` in this process: what most tests need, and much quicker."""
    from click.testing import CliRunner

    from delta_sidecar.cli.main import app

    with logs_as_they_were():
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return Done(result.exit_code, result.stdout, result.stderr)


@contextmanager
def logs_as_they_were() -> Iterator[None]:
    """The command sets what the library logs, and where: for a process, not for the tests that come after it."""
    before = {logger.name: (logger.level, logger.handlers, logger.propagate) for logger in library_loggers()}
    try:
        yield
    finally:
        for logger in library_loggers():
            level, logger.handlers, logger.propagate = before.get(logger.name, (logging.NOTSET, [], True))
            logger.setLevel(level)


def library_loggers() -> list[logging.Logger]:
    known = [*logging.root.manager.loggerDict]
    return [logging.getLogger(name) for name in known if name.partition(".")[0] == "delta_sidecar"]


def assert_refused(done: Done, *words: str) -> None:
    """Exit code 2, nothing printed, one line that says the words."""
    assert done.code == 2, (done.code, done.out, done.err)
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("sidecar: ")
    for word in words:
        assert word.lower() in line.lower()
