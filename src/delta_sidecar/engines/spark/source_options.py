"""The options of a read: what Spark hands over as texts, with names in lower case."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from delta_sidecar.errors import InputError, OptionError, did_you_mean
from delta_sidecar.storage.options import AZURE, GOOGLE, S3
from delta_sidecar.table import DeltaTable

_OWN: Final = ("path", "version", "timestamp", "predicate", "columns")
_SAME: Final = {"versionasof": "version", "timestampasof": "timestamp"}
"""As delta-spark names them."""
_READER: Final = "delta."


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Which table is read, at which version, and what of it."""

    path: str
    version: int | None = None
    timestamp: str | None = None
    predicate: str | None = None
    columns: tuple[str, ...] | None = None
    reader: Mapping[str, str] = field(default_factory=dict)
    """The reader's own options (`delta.sidecar.…`)."""
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Credentials and settings of the object store."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        """The options that texts mean; `OptionError` names one that means nothing."""
        own: dict[str, str] = {}
        reader: dict[str, str] = {}
        storage: dict[str, str] = {}
        for key, text in options.items():
            name = _SAME.get(key.lower(), key.lower())
            if name in _OWN:
                own[name] = text
            elif name.startswith(_READER):
                reader[name] = text
            else:
                storage[_storage_name(key)] = text
        if not own.get("path"):
            raise InputError("no table is named; give one path: spark.read.format('sidecar').load(path)")
        version, columns = own.get("version"), own.get("columns")
        check_one_version(version, own.get("timestamp"))
        return cls(
            path=own["path"],
            version=None if version is None else _version(version),
            timestamp=own.get("timestamp"),
            predicate=own.get("predicate"),
            columns=None if columns is None else _names(columns),
            reader=reader,
            storage=storage,
        )

    def open(self, version: int | None = None) -> DeltaTable:
        """The table at `version`, else at the version or time that the options name, else at its newest version."""
        pinned = self.version if version is None else version
        table = DeltaTable(self.path, pinned, dict(self.storage) or None, options=dict(self.reader))
        if version is None and self.timestamp is not None:
            table.load_as_version(self.timestamp)
        return table


def check_one_version(version: int | str | None, timestamp: str | None) -> None:
    """Refuses a version beside a time: each of them names one."""
    if version is not None and timestamp is not None:
        raise OptionError("version and timestamp are both given; give one of them")


def _storage_name(key: str) -> str:
    """The key of a storage option; one that no store knows is a slip, not an option of another engine."""
    if any(service.name(key) is not None for service in (S3, AZURE, GOOGLE)):
        return key
    near = did_you_mean(key, _OWN)
    raise OptionError(
        f"unknown option {key!r}{near}; it takes {', '.join(_OWN)}, the reader's options (delta.sidecar.…) and "
        "storage options as deltalake names them"
    )


def _version(text: str) -> int:
    if not text.strip().isdecimal():
        raise OptionError(f"option version is {text!r}; it takes a whole number")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    """Names separated by commas, or a JSON list of names."""
    names: list[Any] = [part.strip() for part in text.split(",")]
    if text.lstrip().startswith("["):
        try:
            names = json.loads(text)
        except ValueError:
            names = []
    if not names or not all(isinstance(name, str) and name for name in names):
        raise OptionError(f"option columns is {text!r}; it takes names separated by commas, or a JSON list")
    return tuple(names)
