"""The nine settings of note 004, by the names they have there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

from delta_sidecar.errors import OptionError, did_you_mean
from delta_sidecar.limits import CommitLimits

PREFIX: Final = "spark.indextables."


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Settings of a search table. `SearchOptions.of` reads them from texts, by their names with or without the prefix
    `spark.indextables.`

    Example:
        >>> from delta_sidecar.search import SearchOptions
        >>> SearchOptions.of({"spark.indextables.checkpoint.interval": "50"}).checkpoint_interval
        50
    """

    log_retention: timedelta = timedelta(days=30)
    """`logRetention.duration`, in milliseconds: version files younger than this are not deleted."""
    checkpoint_retention: timedelta = timedelta(hours=2)
    """`checkpointRetention.duration`, in milliseconds: the same for checkpoints that newer ones replace."""
    failure_policy: str = "continue"
    """`cleanup.failurePolicy`: `continue` notes what could not be deleted, `fail` raises."""
    dry_run: bool = False
    """`cleanup.dryRun`: only report."""
    cache_enabled: bool = False
    """`transaction.cache.enabled`: open the newest version that this process knows, without asking the store."""
    cache_expiration: timedelta = timedelta(seconds=300)
    """`transaction.cache.expirationSeconds`: for so long."""
    parallelism: int = 8
    """`checkpoint.parallelism`: files of the log that are fetched at once."""
    read_timeout: timedelta | None = None
    """`checkpoint.read.timeoutSeconds`: how long a request to a remote store may take; None leaves it to the storage
    options."""
    checkpoint_interval: int = 10
    """`checkpoint.interval`: a commit whose version is a multiple of this writes a checkpoint."""
    _given: frozenset[str] = field(init=False, repr=False, compare=False)
    """The settings that were named: the table's own count for the others."""

    def __new__(cls, *args: Any, **given: Any) -> SearchOptions:
        made = object.__new__(cls)
        object.__setattr__(made, "_given", frozenset([*list(cls.__dataclass_fields__)[: len(args)], *given]))
        return made

    @classmethod
    def of(
        cls, options: Mapping[str, Any] | SearchOptions | None = None, configuration: Mapping[str, str] | None = None
    ) -> SearchOptions:
        """The settings in effect: those given, then the table's configuration, then the defaults.

        Args:
            options: Names and values, or ready settings, of which those count that were named when they were made. A
                name that is unknown is an error.
            configuration: The table's configuration; names that are no settings are ignored.

        Raises:
            OptionError: A name is unknown, or a value does not fit.
        """
        known = {name: value for name, value in (configuration or {}).items() if _short(name) in _SETTINGS}
        of_table = cls()._with(known, "table property")
        if isinstance(options, SearchOptions):
            return of_table._changed({name: getattr(options, name) for name in options._given})
        return of_table._with(options or {}, "option")

    def _with(self, values: Mapping[str, Any], source: str) -> SearchOptions:
        changes: dict[str, Any] = {}
        for name, value in values.items():
            setting = _SETTINGS.get(_short(name))
            if setting is None:
                near = did_you_mean(_short(name), _SETTINGS)
                raise OptionError(f"unknown {source} {name!r}{near}; the options are {', '.join(_NAMES)}")
            field, parse, expected = setting
            try:
                changes[field] = parse(value)
            except (ValueError, KeyError, OverflowError):
                raise OptionError(f"{source} {name} is {value!r}; give {expected}") from None
        return self._changed(changes)

    def _changed(self, changes: Mapping[str, Any]) -> SearchOptions:
        changed = replace(self, **changes)
        object.__setattr__(changed, "_given", self._given | set(changes))
        return changed

    @property
    def commit_limits(self) -> CommitLimits:
        return CommitLimits(parallelism=self.parallelism)


def _short(name: str) -> str:
    return name.lower().removeprefix(PREFIX)


def _natural(value: Any) -> int:
    number = int(value)
    if number < 0:
        raise ValueError(value)
    return number


def _positive(value: Any) -> int:
    number = _natural(value)
    if number == 0:
        raise ValueError(value)
    return number


def _milliseconds(value: Any) -> timedelta:
    return value if isinstance(value, timedelta) else timedelta(milliseconds=_natural(value))


def _seconds(value: Any) -> timedelta:
    return value if isinstance(value, timedelta) else timedelta(seconds=_natural(value))


def _boolean(value: Any) -> bool:
    return value if isinstance(value, bool) else {"true": True, "false": False}[str(value).lower()]


def _policy(value: Any) -> str:
    return {"continue": "continue", "fail": "fail"}[str(value).lower()]


_Setting = tuple[str, Callable[[Any], Any], str]
_BY_NAME: Final[dict[str, _Setting]] = {
    "logRetention.duration": ("log_retention", _milliseconds, "milliseconds, 0 or more"),
    "checkpointRetention.duration": ("checkpoint_retention", _milliseconds, "milliseconds, 0 or more"),
    "cleanup.failurePolicy": ("failure_policy", _policy, "continue or fail"),
    "cleanup.dryRun": ("dry_run", _boolean, "true or false"),
    "transaction.cache.enabled": ("cache_enabled", _boolean, "true or false"),
    "transaction.cache.expirationSeconds": ("cache_expiration", _seconds, "seconds, 0 or more"),
    "checkpoint.parallelism": ("parallelism", _positive, "a number, 1 or more"),
    "checkpoint.read.timeoutSeconds": ("read_timeout", _seconds, "seconds, 0 or more"),
    "checkpoint.interval": ("checkpoint_interval", _positive, "a number, 1 or more"),
}
_NAMES: Final = tuple(_BY_NAME)
_SETTINGS: Final = {name.lower(): setting for name, setting in _BY_NAME.items()}
