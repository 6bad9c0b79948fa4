"""Options of the reader: from the argument, the table property or the environment, in that order."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from delta_sidecar.errors import OptionError, did_you_mean
from delta_sidecar.limits import CommitLimits, ReaderLimits

STRATEGIES = ("auto", "reverse", "forward")


@dataclass(frozen=True, slots=True)
class Settings:
    """All reader options. Option names are `delta.sidecar.<field>`, except `delta.commit.parallelism`."""

    enabled: bool = True
    """Look for an index beside the checkpoint (`delta.sidecar.enabled`)."""
    commit_parallelism: int = 10
    """Commits fetched at once (`delta.commit.parallelism`)."""
    row_groups_per_batch: int = 4
    """Row groups of an index decoded ahead of the consumer, at most; twice as many if stats leave few rows. No batch
    holds several of them: the name is that of the option."""
    strategy: str = "auto"
    """`reverse`: files as commits are read; `forward`: all commits first; `auto` chooses."""
    batch_size: int = 17_000
    """Files in a batch, at most. Larger batches are not faster and take more memory."""
    row_batch_size: int = 65_536
    """Rows of data in a batch, at most."""
    memory_budget: int = 64 << 20
    """Bytes of rows read ahead of the consumer; up to half as many bytes of commits are held in addition."""
    cache_size: int = 32 << 20
    """Bytes of the one cache for all tables of a process. The table that was opened last sets its size."""
    read_threads: int = 0
    """Data files read at once; 0 means one for each core on a local disk, 16 elsewhere."""
    partition_timezone: str = "UTC"
    """Time zone of partition timestamps that were written without one."""
    limits: ReaderLimits = field(default_factory=ReaderLimits)
    """Thresholds for measurements and tests; not an option."""

    @property
    def commit_limits(self) -> CommitLimits:
        """The limits for commits, with the values of the options."""
        held = self.memory_budget // 2
        return replace(self.limits.commits, parallelism=self.commit_parallelism, held_bytes=held)

    def with_options(self, options: Mapping[str, Any] | None, source: str = "option") -> Settings:
        """These settings with some options changed; an unknown name is an error."""
        if not options:
            return self
        changes: dict[str, Any] = {}
        for name, value in options.items():
            known = _FIELD_OF.get(name.lower())
            if known is None:
                near = did_you_mean(name, OPTION_NAMES)
                raise OptionError(f"unknown {source} {name!r}{near}; known: {', '.join(OPTION_NAMES)}")
            changes[known] = _parse(known, value, f"{source} {name}")
        return replace(self, **changes)

    def with_properties(self, properties: Mapping[str, str]) -> Settings:
        """These settings with the options among a table's properties; other properties are ignored."""
        return self.with_options({k: v for k, v in properties.items() if k.lower() in _FIELD_OF}, "table property")


def settings_of(
    options: Mapping[str, Any] | None,
    properties: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    limits: ReaderLimits | None = None,
) -> Settings:
    """The settings in effect: argument before table property before environment before default."""
    environment = os.environ if environment is None else environment
    named = {name: text for variable, name in _VARIABLES.items() if (text := environment.get(variable))}
    settings = Settings(limits=limits or ReaderLimits()).with_options(named, "environment setting")
    return settings.with_properties(properties or {}).with_options(options)


def _option_name(field: str) -> str:
    return "delta.commit.parallelism" if field == "commit_parallelism" else f"delta.sidecar.{field}"


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}[str(value).lower()]


def _positive(value: Any) -> int:
    number = int(value)
    if number < 1:
        raise ValueError(value)
    return number


def _natural(value: Any) -> int:
    number = int(value)
    if number < 0:
        raise ValueError(value)
    return number


def _strategy(value: Any) -> str:
    if value not in STRATEGIES:
        raise ValueError(value)
    return str(value)


def _zone(value: Any) -> str:
    from zoneinfo import ZoneInfo

    return ZoneInfo(str(value)).key


_FIELD_OF = {_option_name(f.name): f.name for f in fields(Settings) if f.name != "limits"}
OPTION_NAMES = tuple(sorted(_FIELD_OF))
_VARIABLES = {name.upper().replace(".", "_"): name for name in _FIELD_OF}
_PARSERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "enabled": (_boolean, "true or false"),
    "strategy": (_strategy, "one of " + ", ".join(STRATEGIES)),
    "read_threads": (_natural, "a whole number, 0 for automatic"),
    "cache_size": (_natural, "a number of bytes, 0 for no cache"),
    "partition_timezone": (_zone, "the name of a time zone, such as UTC or Europe/Berlin"),
}
_WHOLE: tuple[Callable[[Any], Any], str] = (_positive, "a whole number above 0")


def _parse(field: str, value: Any, where: str) -> Any:
    parser, meaning = _PARSERS.get(field, _WHOLE)
    try:
        return parser(value)
    except (ValueError, KeyError, TypeError):
        raise OptionError(f"{where} is {value!r}; it takes {meaning}") from None
    except Exception as error:  # zoneinfo raises several kinds for a bad name
        raise OptionError(f"{where} is {value!r} ({error}); it takes {meaning}") from None
