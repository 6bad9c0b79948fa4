"""Splits on this machine's disk, unpacked, within a budget of bytes; the least recently used go first.

The engine reads nothing but files, so a split is fetched and unpacked once and then shared by all threads, and, if the
directory is one that stays, by later processes. A split never changes, so nothing here goes stale. A directory appears
under its name only when it is whole; files that are deleted stay readable for those who have them open.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from delta_sidecar.errors import CorruptDataError, OptionError, StorageError
from delta_sidecar.search.log.actions import Split
from delta_sidecar.search.splits.fields import SplitFields, engine
from delta_sidecar.search.splits.file import read_split_list, unpack_split
from delta_sidecar.search.table import path_below
from delta_sidecar.storage.store import HasPlace, Store

BUDGET: Final = 10 << 30
DIRECTORY: Final = "DELTA_SIDECAR_SPLIT_CACHE"
"""The environment variable that names a directory which stays."""
BYTES: Final = "DELTA_SIDECAR_SPLIT_CACHE_BYTES"
_OLD_DRAFT: Final = 3600
"""Seconds after which an unfinished directory belongs to nobody."""


@dataclass(frozen=True)
class OpenedSplit:
    """A split that can be searched."""

    path: str
    index: Any = field(repr=False)
    """The engine's `Index`."""
    searcher: Any = field(repr=False)
    """The engine's `Searcher`; threads may share it."""
    fields: SplitFields
    size: int
    """Bytes on disk."""


@dataclass(slots=True)
class CacheCounts:
    """What a cache did."""

    opened: int = 0
    fetched: int = 0
    fetched_bytes: int = 0
    dropped: int = 0


@dataclass(slots=True)
class _Queue:
    """Threads that want the same split."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    threads: int = 0


class SplitCache:
    """Unpacked splits within a budget of bytes.

    Args:
        directory: Where they are kept: one that stays, or none for a temporary one of this process.
        budget: Bytes on disk, at most. A split that is larger by itself is opened all the same.

    Raises:
        OptionError: The budget is less than 1.

    Example:
        >>> import pyarrow as pa
        >>> from delta_sidecar.search import SplitCache, SplitFields, SplitWriter
        >>> from delta_sidecar.storage import open_store
        >>> rows = pa.table({"body": ["disk full", "disk replaced"]})
        >>> with SplitWriter(SplitFields.choose(rows.schema, text=["body"])) as writer:
        ...     writer.add(rows)
        ...     split = writer.finish(open_store("logs"))
        >>> SplitCache().open_split(open_store("logs"), split).searcher.num_docs
        2
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None, budget: int = BUDGET) -> None:
        if budget < 1:
            raise OptionError(f"the budget of the cache is {budget} bytes; give 1 or more")
        self._given = directory
        self._made: Path | None = None
        self._budget = budget
        self._lock = threading.Lock()
        self._opening: dict[str, _Queue] = {}
        self._open: OrderedDict[str, OpenedSplit] = OrderedDict()
        self.counts = CacheCounts()

    @property
    def directory(self) -> Path:
        with self._lock:
            if self._made is None:
                self._made = self._make_directory()
            return self._made

    def _make_directory(self) -> Path:
        if self._given is not None:
            made = Path(self._given)
            made.mkdir(parents=True, exist_ok=True)
            return made
        temporary = Path(tempfile.mkdtemp(prefix="delta-sidecar-splits-"))
        owner = os.getpid()

        def remove() -> None:
            if os.getpid() == owner:
                shutil.rmtree(temporary, ignore_errors=True)

        atexit.register(remove)
        return temporary

    @property
    def budget(self) -> int:
        return self._budget

    @property
    def size(self) -> int:
        """Bytes of the splits on disk."""
        return sum(_size(name) for name in os.listdir(self.directory) if _is_split(name))

    def open_split(self, store: Store, split: Split, fields: SplitFields | None = None) -> OpenedSplit:
        """A split, ready to be searched; fetched and unpacked if it is not at hand.

        Args:
            store: The store of the table.
            split: The split, as the log has it.
            fields: Its fields, where the log does not say them with the split.

        Raises:
            MissingDataError: The file of the split is not there.
            CorruptDataError: It is damaged.
            UnsupportedFeatureError: Another program wrote it.
            InputError: The extra `search` is not installed.
            StorageError: The store cannot be reached.
        """
        key = _key(store, split)
        with self._lock:
            found = self._open.get(key)
            if found is not None:
                self._open.move_to_end(key)
                return found
        with self._alone(key):
            with self._lock:
                found = self._open.get(key)
            if found is None:
                found = self._opened(store, split, key, fields)
            return found

    def holds(self, store: Store, split: Split) -> bool:
        """Whether a split is on disk already."""
        return self._folder(_key(store, split)) is not None

    def forget(self, store: Store, split: Split) -> None:
        """Delete a split from the cache."""
        self._drop(_key(store, split))

    def clear(self) -> None:
        """Delete every split from the cache."""
        for name in os.listdir(self.directory):
            if _is_split(name):
                self._drop(name.partition("-")[0])

    @contextmanager
    def _alone(self, key: str) -> Iterator[None]:
        """One thread at a time for a split."""
        with self._lock:
            queue = self._opening.setdefault(key, _Queue())
            queue.threads += 1
        try:
            with queue.lock:
                yield
        finally:
            with self._lock:
                queue.threads -= 1
                if not queue.threads:
                    del self._opening[key]

    def _opened(self, store: Store, split: Split, key: str, fields: SplitFields | None) -> OpenedSplit:
        if fields is None or split.docMappingJson is not None:
            fields = SplitFields.parse(split.docMappingJson or "null", split.path)
        failure: CorruptDataError | None = None
        # A directory may be deleted by another process before it is opened, or be damaged: then it is made anew, once.
        for _ in range(2):
            folder = self._folder(key) or self._fetched(store, split, key)
            try:
                found = _open(folder, split.path, fields)
            except CorruptDataError as error:
                failure = error
                self._drop(key)
                continue
            with suppress(OSError):
                os.utime(folder)
            with self._lock:
                self._open[key] = found
                self.counts.opened += 1
            return found
        assert failure is not None
        raise failure

    def _folder(self, key: str) -> Path | None:
        names = [name for name in os.listdir(self.directory) if name.startswith(f"{key}-")]
        return self.directory / names[0] if names else None

    def _fetched(self, store: Store, split: Split, key: str) -> Path:
        listed = read_split_list(store, path_below(store, split.path), split)
        # Its name says how many bytes it will have: others make room for it, too.
        draft = self.directory / f".{uuid.uuid4().hex}-{listed.size}"
        target = self.directory / f"{key}-{listed.size}"
        try:
            draft.mkdir()
            self._make_room(key)
            unpack_split(store, listed, draft)
            _rename(draft, target)
        except OSError as error:
            raise StorageError(
                f"{split.path} cannot be unpacked in {self.directory} ({error}); make room there, or name another "
                f"directory with {DIRECTORY}"
            ) from None
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        with self._lock:
            self.counts.fetched += 1
            self.counts.fetched_bytes += listed.size
        return target

    def _make_room(self, key: str) -> None:
        """Delete splits until those that stay and those that are being unpacked fit into the budget."""
        entries = _entries(self.directory)
        held = [(used, name) for name, used in entries if _is_split(name)]
        drafts = [name for name, used in entries if _is_draft(name) and time.time() - used <= _OLD_DRAFT]
        size = sum(_size(name) for _, name in held) + sum(map(_size, drafts))
        with self._lock:
            in_use = {name: number for number, name in enumerate(self._open)}
        # Those open in this process were used after all others.
        held.sort(key=lambda entry: (in_use.get(entry[1].partition("-")[0], -1), entry[0]))
        for _, name in held:
            if size <= self._budget:
                break
            if not name.startswith(key):
                self._drop(name.partition("-")[0])
                size -= _size(name)
        for name, used in entries:
            if name.startswith(".") and time.time() - used > _OLD_DRAFT:
                shutil.rmtree(self.directory / name, ignore_errors=True)

    def _drop(self, key: str) -> None:
        with self._lock:
            self._open.pop(key, None)
        folder = self._folder(key)
        if folder is None:
            return
        # Renamed first, so that nobody opens half of it.
        doomed = folder.with_name(f".{uuid.uuid4().hex}")
        with suppress(OSError):
            folder.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)
        with self._lock:
            self.counts.dropped += 1


def _entries(directory: Path) -> list[tuple[str, float]]:
    """Names in a directory that others may delete from, and when each was last used."""
    found = []
    for name in os.listdir(directory):
        with suppress(FileNotFoundError):
            found.append((name, (directory / name).stat().st_mtime))
    return found


def _open(folder: Path, path: str, fields: SplitFields) -> OpenedSplit:
    try:
        index = engine().Index.open(str(folder))
        # The files never change: without this a thread would watch them.
        index.config_reader("manual")
        fields.register(index)
        index.reload()
        searcher = index.searcher()
    except (ValueError, OSError) as error:
        raise CorruptDataError(f"{path} is not a split that can be opened ({error}); build it again") from None
    return OpenedSplit(path, index, searcher, fields, _size(folder.name))


def _key(store: Store, split: Split) -> str:
    """What tells a split from all others, in every process: where it is, and what the log says of it."""
    place = (store.place if isinstance(store, HasPlace) else None) or repr(store.identity)
    named = f"{place}\n{path_below(store, split.path)}\n{split.size}\n{split.modificationTime}"
    return hashlib.sha256(named.encode()).hexdigest()[:32]


def _rename(draft: Path, target: Path) -> None:
    """Put a directory in its place, unless another process has put the same there meanwhile."""
    try:
        draft.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def _is_draft(name: str) -> bool:
    return name.startswith(".") and name.partition("-")[2].isdigit()


def _is_split(name: str) -> bool:
    return not name.startswith(".") and name.partition("-")[2].isdigit()


def _size(name: str) -> int:
    return int(name.rpartition("-")[2])


_shared: list[SplitCache] = []
_sharing = threading.Lock()


def shared_splits() -> SplitCache:
    """The cache of this process: in the directory that `DELTA_SIDECAR_SPLIT_CACHE` names, otherwise a temporary one;
    with `DELTA_SIDECAR_SPLIT_CACHE_BYTES` bytes at most.

    Raises:
        OptionError: The variable does not hold a number of bytes.
    """
    with _sharing:
        if not _shared:
            text = os.environ.get(BYTES, str(BUDGET))
            if not text.isdigit() or int(text) < 1:
                raise OptionError(f"{BYTES} is {text!r}; give a number of bytes")
            _shared.append(SplitCache(os.environ.get(DIRECTORY) or None, int(text)))
        return _shared[0]
