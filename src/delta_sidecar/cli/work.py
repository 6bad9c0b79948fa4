"""What every command does around its work: open the table, log if it is asked to, report failures as one line."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from delta_sidecar.cli import arguments
from delta_sidecar.cli.failures import reported
from delta_sidecar.cli.logs import log_to_stderr

if TYPE_CHECKING:
    from delta_sidecar.table import DeltaTable

_log = logging.getLogger(__name__)


@contextmanager
def opened_table(source: arguments.Source, verbose: bool) -> Iterator[DeltaTable]:
    """The table, with failures reported and logs on stderr when they are wanted."""
    with working(verbose, source.storage_options):
        from delta_sidecar.cli.reports import log_opening, log_total

        table = source.open()
        log_opening(table)
        yield table
        log_total(table)


@contextmanager
def working(verbose: bool, secrets: Mapping[str, str]) -> Iterator[None]:
    """Logs on stderr when they are wanted, failures as one line."""
    log_to_stderr(verbose, secrets)
    begun = time.monotonic()
    with reported(verbose, secrets):
        yield
        _log.info("done in %.3f s", time.monotonic() - begun)
