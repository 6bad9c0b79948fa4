"""Look after a search table: drop partitions, take out splits that are lost, fetch splits ahead, find what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from delta_sidecar.errors import (
    ConflictError,
    CorruptDataError,
    CorruptLogError,
    CorruptTableError,
    ObjectNotFoundError,
    OptionError,
    PredicateError,
    StorageError,
    UnsupportedFeatureError,
)
from delta_sidecar.limits import CommitLimits
from delta_sidecar.log.commits import CommitBytes
from delta_sidecar.log.discovery import list_log
from delta_sidecar.log.segment import LogListing
from delta_sidecar.predicates.binding import bind_predicate
from delta_sidecar.predicates.evaluation import matching
from delta_sidecar.predicates.expression import columns_of
from delta_sidecar.search.log.actions import Split, SplitKeys, commit_actions
from delta_sidecar.search.log.checkpoints import open_checkpoint
from delta_sidecar.search.log.dialect import LOG_DIRECTORY, SEARCH
from delta_sidecar.search.log.options import SearchOptions
from delta_sidecar.search.log.their_states import list_states
from delta_sidecar.search.splits.cache import SplitCache, shared_splits
from delta_sidecar.search.splits.file import SUFFIX, read_split_list, unpack_split
from delta_sidecar.search.splits.their_splits import partition_array
from delta_sidecar.search.table import SearchTable, present_ms, store_of
from delta_sidecar.search.writing.transactions import Place, SearchCommit, replace
from delta_sidecar.storage.store import ObjectMeta, Store
from delta_sidecar.texts import counted, sized

if TYPE_CHECKING:
    from delta_sidecar.predicates.predicate_tuples import Filters

_ATTEMPTS: Final = 20
_THREADS: Final = 4
_SMALL: Final = 10 << 20
_MANY_SMALL: Final = 50


def drop_partitions(
    table: Place,
    where: str | Filters,
    *,
    dry_run: bool = False,
    options: Mapping[str, Any] | SearchOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> tuple[SearchCommit | None, list[Split]]:
    """Remove the splits of whole partitions from a table. Their files stay until `purge`.

    Args:
        table: The table.
        where: A condition on partition columns alone.
        dry_run: Only say which.
        options: Settings by the names of note 004.
        storage_options: Credentials and settings of the object store.

    Returns:
        The commit, None if there was nothing to do; and the splits.

    Raises:
        PredicateError: The condition names another column, or cannot be parsed.
        ConflictError: Other writers committed first at every attempt.
        UnsupportedFeatureError: The table needs a writer feature that is unknown.
        CorruptTableError: The log is broken.
        StorageError: The store cannot be reached.

    Example:
        >>> import pyarrow as pa
        >>> from delta_sidecar.search import build_splits, drop_partitions
        >>> lines = pa.table({"day": ["mon", "tue"], "body": ["disk full", "disk replaced"]})
        >>> _ = build_splits(lines, "logs", text=["body"], partition_columns=["day"])
        >>> commit, dropped = drop_partitions("logs", "day = 'mon'")
        >>> commit.version, [split.partitionValues for split in dropped]
        (2, [{'day': 'mon'}])
    """
    store = store_of(table, storage_options, SearchOptions.of(options))
    for _ in range(_ATTEMPTS):
        opened = SearchTable(store, options=options)
        splits = _in_partitions(opened, where)
        if dry_run or not splits:
            return None, splits
        try:
            return replace(store, [s.path for s in splits], [], data_change=True, options=options), splits
        except ConflictError:
            continue
    raise ConflictError(f"partitions of {store.root_uri} were not dropped: other writers were faster; run it again")


def _in_partitions(table: SearchTable, where: str | Filters) -> list[Split]:
    """The splits for whose partition values a condition is true. Unlike pruning, which keeps what it cannot rule out,
    this is exact."""
    predicate = bind_predicate(where, table.schema(), table.partition_columns)
    if predicate is None:
        raise PredicateError("a condition is needed: which partitions are to be dropped")
    columns = {column.fields[0].name: column for column in columns_of(predicate)}
    for name, column in columns.items():
        if not column.is_partition:
            known = ", ".join(table.partition_columns) or "none"
            raise PredicateError(f"{name} is no partition column; only whole partitions can be dropped (by {known})")
    chosen = []
    for split in table.splits():
        values = [partition_array(split, column.fields[0], 1) for column in columns.values()]
        batch = pa.RecordBatch.from_arrays(values, names=list(columns))
        if matching(predicate, batch)[0].as_py():
            chosen.append(split)
    return chosen


@dataclass(frozen=True, slots=True)
class Lost:
    """A live split that cannot be searched: its file is missing or damaged, or of a layout that is unknown here."""

    path: str
    rows: int | None
    reason: str
    is_lost: bool = True
    """Whether the file is missing or damaged."""


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What `repair` found and did.

    Example:
        >>> from delta_sidecar.search import create_table, repair
        >>> _ = create_table("logs", '{"type":"struct","fields":[]}')
        >>> report = repair("logs")
        >>> report.checked, report.lost
        (0, ())
    """

    checked: int
    lost: tuple[Lost, ...]
    version: int | None = None
    """The version that took them out."""
    dry_run: bool = False
    unknown: tuple[Lost, ...] = ()
    """Splits of a layout that this version does not know: they are left as they are."""


def repair(
    table: Place,
    *,
    whole: bool = False,
    dry_run: bool = False,
    options: Mapping[str, Any] | SearchOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> RepairReport:
    """Take splits out of a table whose files are missing or damaged: queries fail on them. Their rows are lost to
    search until they are indexed again.

    Args:
        table: The table.
        whole: Read every split and compare its checksums; otherwise only its list of files is read.
        dry_run: Only report.
        options: Settings by the names of note 004.
        storage_options: Credentials and settings of the object store.

    Raises:
        ConflictError: Other writers committed first at every attempt.
        UnsupportedFeatureError: The table needs a writer feature that is unknown.
        CorruptTableError: The log is broken.
        StorageError: The store cannot be reached.

    Example:
        >>> import pyarrow as pa
        >>> from pathlib import Path
        >>> from delta_sidecar.search import SearchTable, build_splits, repair
        >>> _ = build_splits(pa.table({"body": ["disk full"]}), "logs", text=["body"])
        >>> next(Path("logs").glob("*.split")).unlink()
        >>> [lost.rows for lost in repair("logs").lost], SearchTable("logs").splits()
        ([1], [])
    """
    store = store_of(table, storage_options, SearchOptions.of(options))
    for _ in range(_ATTEMPTS):
        opened = SearchTable(store, options=options)
        splits = opened.splits()
        found = _damages(opened, splits, whole)
        lost = tuple(one for one in found if one.is_lost)
        unknown = tuple(one for one in found if not one.is_lost)
        if dry_run or not lost:
            return RepairReport(len(splits), lost, dry_run=dry_run, unknown=unknown)
        try:
            info = {"repaired": len(lost)}
            paths = [one.path for one in lost]
            commit = replace(store, paths, [], data_change=True, info=info, options=options)
        except ConflictError:
            continue
        return RepairReport(len(splits), lost, commit.version, unknown=unknown)
    raise ConflictError(f"{store.root_uri} was not repaired: other writers were faster; run it again")


def _damages(table: SearchTable, splits: Sequence[Split], whole: bool) -> list[Lost]:
    with ThreadPoolExecutor(_THREADS) as pool:
        found = pool.map(lambda split: damage_of(table, split, whole), splits)
        return [one for one in found if one is not None]


def damage_of(table: SearchTable, split: Split, whole: bool) -> Lost | None:
    """What is wrong with the file of a split; None if nothing is."""
    store, path = table.store, table.split_path(split)
    try:
        listed = read_split_list(store, path, split)
        if whole:
            with TemporaryDirectory(prefix="verify-") as folder:
                unpack_split(store, listed, Path(folder))
    except CorruptDataError as error:
        return Lost(split.path, split.numRecords, str(error))
    except UnsupportedFeatureError as error:
        return Lost(split.path, split.numRecords, str(error), is_lost=False)
    except StorageError:
        size = store.head(path).size
        if size == split.size:
            raise
        return Lost(split.path, split.numRecords, f"{path} has {size} bytes, the log says {split.size}")
    return None


@dataclass(frozen=True, slots=True)
class PrewarmReport:
    """What `prewarm` fetched.

    Example:
        >>> from delta_sidecar.search import create_table, prewarm
        >>> _ = create_table("logs", '{"type":"struct","fields":[]}')
        >>> prewarm("logs").splits
        0
    """

    splits: int
    fetched: int
    bytes: int
    directory: str


def prewarm(
    table: Place,
    *,
    where: str | Filters | None = None,
    cache: SplitCache | None = None,
    options: Mapping[str, Any] | SearchOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> PrewarmReport:
    """Fetch splits to this machine's disk, so that the first search is as fast as the next.

    Args:
        table: The table.
        where: Only splits that may hold a matching row.
        cache: Where they go; the cache of this process if not given.
        options: Settings by the names of note 004.
        storage_options: Credentials and settings of the object store.
        progress: Called with one line of text now and then.

    Raises:
        OptionError: The splits need more bytes than the cache may have.
        CorruptTableError: A split is damaged or missing, or the log is broken.
        InputError: The extra `search` is not installed.
        StorageError: The store cannot be reached.

    Example:
        >>> import pyarrow as pa
        >>> from delta_sidecar.search import SplitCache, build_splits, prewarm
        >>> _ = build_splits(pa.table({"body": ["disk full"]}), "logs", text=["body"])
        >>> report = prewarm("logs", cache=SplitCache("cache"))
        >>> report.splits, report.fetched
        (1, 1)
    """
    opened = SearchTable(store_of(table, storage_options, SearchOptions.of(options)), options=options)
    held = cache if cache is not None else shared_splits()
    splits = opened.splits(where)
    needed = sum(split.size for split in splits)
    if needed > held.budget:
        raise OptionError(f"the splits have {sized(needed)}, the cache may have {sized(held.budget)}; give it more")
    before = held.counts.fetched, held.counts.fetched_bytes
    tell = progress or (lambda _: None)
    with ThreadPoolExecutor(_THREADS) as pool:
        for number, _ in enumerate(pool.map(lambda split: held.open_split(opened.store, split), splits), 1):
            tell(f"{number} of {counted(len(splits), 'split')}")
    fetched, size = held.counts.fetched - before[0], held.counts.fetched_bytes - before[1]
    return PrewarmReport(len(splits), fetched, size, str(held.directory))


@dataclass(frozen=True, slots=True)
class Checkup:
    """What `doctor` found.

    Example:
        >>> from delta_sidecar.search import create_table, doctor
        >>> _ = create_table("logs", '{"type":"struct","fields":[]}')
        >>> doctor("logs").problems
        ()
    """

    version: int
    splits: int
    rows: int
    bytes: int
    problems: tuple[str, ...]
    """What is broken, and what to do."""
    advice: tuple[str, ...]
    """What could be better."""

    @property
    def is_healthy(self) -> bool:
        return not self.problems


def doctor(
    table: Place,
    *,
    whole: bool = False,
    options: Mapping[str, Any] | SearchOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Checkup:
    """Look for what is wrong with a search table: version 0, gaps, version files, checkpoints, lost and forgotten
    splits. Where the log is broken, only what is wrong with it is said.

    Args:
        table: The table.
        whole: Also read every split and compare its checksums.
        options: Settings by the names of note 004.
        storage_options: Credentials and settings of the object store.

    Raises:
        TableNotFoundError: There is no search table at that location.
        UnsupportedTableError: The table needs a newer reader.
        StorageError: The store cannot be reached.

    Example:
        >>> import pyarrow as pa
        >>> from delta_sidecar.search import build_splits, doctor
        >>> _ = build_splits(pa.table({"body": ["disk full"]}), "logs", text=["body"])
        >>> found = doctor("logs")
        >>> found.is_healthy, found.splits, found.advice
        (True, 1, ())
    """
    store = store_of(table, storage_options, SearchOptions.of(options))
    log = _LogFindings.of(store)
    try:
        opened = SearchTable(store, options=options)
        splits = opened.splits()
    except CorruptTableError as error:
        return Checkup(log.newest, 0, 0, 0, log.problems or (str(error),), ())
    damages = _damages(opened, splits, whole)
    lost = (f"{one.reason}; run: sidecar splits repair" for one in damages if one.is_lost)
    unknown = (f"{one.reason}; use a newer version of this program" for one in damages if not one.is_lost)
    return Checkup(
        opened.version,
        len(splits),
        sum(split.numRecords or 0 for split in splits),
        sum(split.size for split in splits),
        (*opened.notes, *log.problems, *lost, *unknown),
        tuple(_advice(opened, splits, log)),
    )


@dataclass(frozen=True, slots=True)
class _LogFindings:
    """What the files of a log say, each by itself."""

    newest: int
    checkpoint: int
    """The newest checkpoint; -1 if there is none."""
    problems: tuple[str, ...]
    named: frozenset[bytes]
    """The keys of all splits that a file of the log adds."""

    @classmethod
    def of(cls, store: Store) -> _LogFindings:
        listing, keys = list_log(store, 0, SEARCH), SplitKeys(store.root_uri)
        problems = list(_gaps(store, listing))
        named: set[bytes] = set()
        held = CommitBytes(store, CommitLimits(held_bytes=0), SEARCH)
        for version, file in sorted(listing.commits.items()):
            try:
                named.update(keys.keys(commit_actions(held.blocks(file), file.path).adds))
            except CorruptLogError as error:
                problems.append(f"version {version} cannot be read: {error}")
            except ObjectNotFoundError:
                continue
        for checkpoint in listing.checkpoints:
            try:
                named.update(keys.keys(open_checkpoint(store, checkpoint).read().splits))
            except (CorruptLogError, StorageError) as error:
                problems.append(f"{checkpoint} cannot be read ({error}); delete it and run: sidecar splits checkpoint")
        newest = max((c.version for c in listing.checkpoints), default=-1)
        return cls(listing.head, newest, tuple(problems), frozenset(named))


def _gaps(store: Store, listing: LogListing) -> Iterator[str]:
    versions = sorted(listing.commits)
    if versions and versions[0] != 0:
        yield f"version 0 of {store.root_uri} is gone; a checkpoint serves as long as it can be read"
    bases = [c.version for c in listing.checkpoints] + list(list_states(store))
    before = max(bases, default=min(versions, default=0))
    for version in versions:
        if version > before + 1:
            last = version - 1
            gap = f"version {last} is" if last == before + 1 else f"versions {before + 1} to {last} are"
            yield f"{gap} missing from the log; restore what is gone"
        before = max(before, version)


def _advice(table: SearchTable, splits: list[Split], log: _LogFindings) -> Iterator[str]:
    behind = table.version - log.checkpoint
    if behind > 10 * table.options.checkpoint_interval:
        yield f"{behind} versions follow the newest checkpoint; run: sidecar splits checkpoint"
    small = [split for split in splits if split.size < _SMALL]
    if len(small) > _MANY_SMALL:
        yield f"{len(small)} splits are smaller than {sized(_SMALL)}; run: sidecar splits merge"
    cooling = [skip for skip in table.skips() if skip.is_cooling(present_ms())]
    for skip in cooling:
        yield f"merges leave {skip.path} alone ({skip.reason}; {counted(skip.skipCount, 'time')})"
    keys = table.state.keys
    live = {keys.key(split.path) for split in splits}
    files = [m for page in table.store.list_after("") for m in page if _is_split(m.path)]
    dead = [meta for meta in files if keys.key(meta.path) not in live]
    held = [meta for meta in dead if keys.key(meta.path) in log.named]
    if held:
        days = table.options.log_retention.total_seconds() / 86_400
        yield (
            f"{_together(held)} of older versions, which the log keeps for {days:g} days and as long as no checkpoint "
            "stands for them; after that, sidecar splits purge --log deletes both"
        )
    if len(dead) > len(held):
        free = [meta for meta in dead if keys.key(meta.path) not in log.named]
        yield f"{_together(free)} in no version; sidecar splits purge deletes those that are old enough"


def _together(files: Sequence[ObjectMeta]) -> str:
    verb = "is" if len(files) == 1 else "are"
    return f"{counted(len(files), 'split')} ({sized(sum(meta.size for meta in files))}) {verb}"


def _is_split(path: str) -> bool:
    return path.endswith(SUFFIX) and not path.startswith(f"{LOG_DIRECTORY}/")
