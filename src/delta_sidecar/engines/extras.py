"""Libraries of engines, which are extras: imported when they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from delta_sidecar.errors import InputError


def imported(name: str) -> Any:
    """A library; one line says how to install it where it is missing."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != name:
            raise
        raise InputError(f"{name} is not installed; run: pip install 'delta-sidecar[engines]'") from None
