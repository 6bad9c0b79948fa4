"""`sidecar ui`: the page of one table, for this machine."""

from __future__ import annotations

import sys
from functools import partial

from delta_sidecar.cli.arguments import Source
from delta_sidecar.cli.failures import without_secrets
from delta_sidecar.cli.stop_signals import stopped_by_signals
from delta_sidecar.server import start_page


def show(source: Source, port: int, open_it: bool) -> None:
    """Serve the page until SIGTERM or Ctrl-C."""
    clean = partial(without_secrets, secrets=source.storage_options)
    page = start_page(source.table, port, source.storage_options, options=source.options, clean=clean)
    with page, stopped_by_signals(again_ends=True) as stop:
        sys.stdout.write(f"{page.url}\n")
        sys.stdout.flush()
        if sys.stderr.isatty():
            sys.stderr.write("Ctrl-C stops it.\n")
        if open_it:
            import webbrowser

            webbrowser.open(page.url)
        stop.wait()
