"""Helpers for tests of Delta readers: logs in any state, a model to compare with, stores that count, wait or fail."""

from __future__ import annotations

from delta_sidecar.testing.actions import AddFile, DeletionVector, RemoveFile, add, remove
from delta_sidecar.testing.model import TableState, replay
from delta_sidecar.testing.stores import CountingStore, Faults, FaultyStore, InStepStore, Request, SlowStore
from delta_sidecar.testing.table_builder import LogBuilder

__all__ = [
    "AddFile",
    "CountingStore",
    "DeletionVector",
    "Faults",
    "FaultyStore",
    "InStepStore",
    "LogBuilder",
    "RemoveFile",
    "Request",
    "SlowStore",
    "TableState",
    "add",
    "remove",
    "replay",
]
