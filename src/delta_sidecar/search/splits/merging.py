"""Merge small splits into larger ones, without dividing a text into words again.

The segments of the inputs are put into one index by a list that names them all. That is all, unless there are many:
then the engine merges those of about the same size, from eight on. The new split is written before the commit that
replaces its inputs. If one of them was removed meanwhile, what is there then is planned anew.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from delta_sidecar.errors import (
    ConflictError,
    CorruptDataError,
    CorruptLogError,
    OptionError,
    StorageError,
    UnsupportedFeatureError,
)
from delta_sidecar.search.log.actions import Split
from delta_sidecar.search.log.options import SearchOptions
from delta_sidecar.search.splits.fields import FLOAT, INTEGER, PATH_FIELD, SplitFields, engine
from delta_sidecar.search.splits.file import META, read_split_list, unpack_split
from delta_sidecar.search.splits.writer import remove_folder, stored_split
from delta_sidecar.search.table import SearchTable, path_below, store_of
from delta_sidecar.search.writing.transactions import Place, replace, skip
from delta_sidecar.storage.store import Store

if TYPE_CHECKING:
    from delta_sidecar.predicates.predicate_tuples import Filters

_log = logging.getLogger(__name__)

TARGET: Final = 1 << 30
MOST_SEGMENTS: Final = 100
_HEAP: Final = 15_000_000
"""The engine's least: nothing is indexed here."""
_ROUNDS: Final = 20
"""How often merges are planned anew after a conflict."""


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What a merge did.

    Example:
        >>> from delta_sidecar.search import create_table, merge_splits
        >>> _ = create_table("logs", '{"type":"struct","fields":[]}')
        >>> merge_splits("logs").merged
        0
    """

    merged: int
    """Splits that were replaced."""
    added: int
    """Splits in their place."""
    skipped: tuple[str, ...] = ()
    """Splits that are damaged or missing: left out, and left alone until they have cooled down."""
    conflicts: int = 0
    """Merges that were given up because another writer had removed an input."""
    version: int | None = None
    """The version of the last merge."""
    planned: tuple[tuple[str, ...], ...] = ()
    """The inputs of each merge."""
    dry_run: bool = False


def merge_splits(
    table: Place,
    *,
    target_size: int = TARGET,
    most_inputs: int = 1000,
    most_results: int | None = None,
    most_segments: int = MOST_SEGMENTS,
    where: str | Filters | None = None,
    dry_run: bool = False,
    options: Mapping[str, Any] | SearchOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> MergeReport:
    """Merge small splits of a table, partition by partition. Texts are not divided into words again.

    A split that is damaged is left out, noted in the log with how often, and left alone for a day.

    Args:
        table: The table.
        target_size: Bytes that a split should have; those that have it already are left as they are.
        most_inputs: How many splits become one, at most.
        most_results: How many merges are done, at most: those of the most splits first.
        most_segments: The engine merges the segments of a split that has more of them. Fewer make a split smaller and
            searches a little faster, and cost several times as much to make.
        where: Only splits that may hold a matching row: a condition on partition columns, for instance.
        dry_run: Only report.
        options: Settings by the names of note 004.
        storage_options: Credentials and settings of the object store.
        progress: Called with one line of text whenever a merge begins.

    Raises:
        OptionError: A number is too small.
        ConflictError: Other writers were faster at every attempt.
        UnsupportedFeatureError: The table needs a writer feature that is unknown.
        CorruptTableError: The log is broken.
        InputError: The extra `search` is not installed.
        StorageError: The store cannot be reached.

    Example:
        >>> import pyarrow as pa
        >>> from delta_sidecar.search import SearchTable, build_splits, merge_splits
        >>> for number in range(3):
        ...     _ = build_splits(pa.table({"body": [f"line {number}"]}), "logs", text=["body"])
        >>> merge_splits("logs").merged
        3
        >>> [split.numRecords for split in SearchTable("logs").splits()]
        [3]
    """
    if target_size < 1 or most_inputs < 2 or most_segments < 1 or (most_results is not None and most_results < 1):
        raise OptionError("a merge needs a target size, segments and results of 1 or more, and 2 inputs or more")
    store = store_of(table, storage_options, SearchOptions.of(options))
    run = _Merging(store, options, progress or (lambda _: None), most_segments)
    return run.merge(target_size, most_inputs, most_results, where, dry_run)


def plan_merges(
    splits: Iterable[Split], target_size: int, most_inputs: int, most_results: int | None = None
) -> list[list[Split]]:
    """Which splits become one: of one partition and with the same fields, neighbours in time."""
    alike: dict[Any, list[Split]] = {}
    for split in splits:
        if split.size < target_size and _is_ours(split):
            key = (tuple(sorted(split.partitionValues.items(), key=repr)), split.docMappingJson)
            alike.setdefault(key, []).append(split)
    plans: list[list[Split]] = []
    for group in alike.values():
        group.sort(key=lambda split: (split.timeRangeStart or "", split.modificationTime, split.path))
        begun: list[Split] = []
        for split in group:
            if begun and (sum(s.size for s in begun) + split.size > target_size or len(begun) == most_inputs):
                plans.append(begun)
                begun = []
            begun.append(split)
        plans.append(begun)
    plans = [plan for plan in plans if len(plan) > 1]
    plans.sort(key=len, reverse=True)
    return plans[:most_results]


def _is_ours(split: Split) -> bool:
    try:
        SplitFields.parse(split.docMappingJson or "null", split.path)
    except (UnsupportedFeatureError, CorruptLogError):
        return False
    return True


@dataclass
class _Merging:
    store: Store
    options: Mapping[str, Any] | SearchOptions | None
    progress: Callable[[str], None]
    most_segments: int = MOST_SEGMENTS
    merged: int = 0
    added: int = 0
    conflicts: int = 0
    version: int | None = None
    skipped: list[str] = field(default_factory=list)

    def merge(
        self,
        target_size: int,
        most_inputs: int,
        most_results: int | None,
        where: str | Filters | None,
        dry_run: bool,
    ) -> MergeReport:
        done: list[tuple[str, ...]] = []
        for _ in range(_ROUNDS):
            table = SearchTable(self.store, options=self.options)
            wanted = {split.path for split in table.splits(where)}
            candidates = [split for split in table.merge_candidates() if split.path in wanted]
            left = None if most_results is None else most_results - len(done)
            plans = plan_merges(candidates, target_size, most_inputs, left)
            if dry_run:
                planned = tuple(tuple(split.path for split in plan) for plan in plans)
                return MergeReport(sum(map(len, planned)), len(planned), planned=planned, dry_run=True)
            if not plans:
                break
            before = self.conflicts
            for plan in plans:
                inputs = self._merged(plan)
                if inputs is not None:
                    done.append(inputs)
            if self.conflicts == before or left == 0:
                break
        else:
            raise ConflictError(
                f"{self.store.root_uri} was merged in part, {self.merged} splits into {self.added}: others were "
                f"faster in each of {_ROUNDS} rounds; run it again"
            )
        return MergeReport(
            self.merged, self.added, tuple(self.skipped), self.conflicts, self.version, planned=tuple(done)
        )

    def _merged(self, plan: Sequence[Split]) -> tuple[str, ...] | None:
        """Merge some splits, without those that are damaged; None if that left nothing to do."""
        self.progress(f"merging {len(plan)} splits of {plan[0].partitionValues or 'the table'}")
        folder = Path(tempfile.mkdtemp(prefix="merge-"))
        try:
            inputs, damaged = linked(self.store, plan, folder / "index")
            for split, reason in damaged:
                self._skip(split, reason)
            if len(inputs) < 2:
                return None
            if segment_count(folder / "index") > self.most_segments:
                merged_index(inputs, folder / "index")
            result = stored_split(
                self.store, folder / "index", folder / "split", inputs[0].partitionValues, merged_facts(inputs)
            )
        finally:
            remove_folder(folder)
        return self._committed(inputs, result)

    def _committed(self, inputs: Sequence[Split], result: Split) -> tuple[str, ...] | None:
        paths = tuple(split.path for split in inputs)
        try:
            commit = replace(self.store, paths, [result], options=self.options)
        except ConflictError:
            self.conflicts += 1
            delete_uncommitted(self.store, [result])
            return None
        self.merged += len(inputs)
        self.added += 1
        self.version = commit.version
        return paths

    def _skip(self, split: Split, reason: str) -> None:
        try:
            skip(self.store, split.path, reason, options=self.options)
        except ConflictError:
            return
        self.skipped.append(split.path)


def delete_uncommitted(store: Store, splits: Iterable[Split]) -> None:
    """Delete files that no version names, as far as the store lets us; `purge` deletes the others later."""
    for split in splits:
        try:
            store.delete(split.path)
        except StorageError as error:
            _log.warning("%s of %s was not committed, and not deleted: %s", split.path, store.root_uri, error)


def linked(store: Store, splits: Sequence[Split], folder: Path) -> tuple[list[Split], list[tuple[Split, str]]]:
    """Put the segments of splits into one index.

    Args:
        store: The store of the table.
        splits: Splits with the same fields.
        folder: The directory of the index, which is made.

    Returns:
        The splits that are in it, and those that are damaged or missing, each with the reason.
    """
    folder.mkdir()
    good: list[Split] = []
    damaged: list[tuple[Split, str]] = []
    meta: dict[str, Any] = {}
    segments: list[Any] = []
    documents = 0
    for split in splits:
        draft = Path(tempfile.mkdtemp(prefix="unpack-", dir=folder.parent))
        try:
            own, count = _unpacked(store, split, draft)
            if meta and own["schema"] != meta["schema"]:
                raise CorruptDataError(f"{split.path} has another schema than its fields say")
        except (CorruptDataError, UnsupportedFeatureError) as error:
            damaged.append((split, str(error)))
            shutil.rmtree(draft, ignore_errors=True)
            continue
        for file in draft.iterdir():
            if file.name != META and not file.name.startswith("."):
                file.rename(folder / file.name)
        shutil.rmtree(draft, ignore_errors=True)
        meta = {**own, "opstamp": max(own.get("opstamp", 0), meta.get("opstamp", 0))}
        segments += own["segments"]
        documents += count
        good.append(split)
    if good:
        names = sorted(file.name for file in folder.iterdir())
        (folder / META).write_bytes(msgspec.json.encode({**meta, "segments": segments}))
        (folder / ".managed.json").write_bytes(msgspec.json.encode([*names, META]))
        _check_opens(folder, "what the splits were merged into", documents)
    return good, damaged


def _unpacked(store: Store, split: Split, folder: Path) -> tuple[dict[str, Any], int]:
    """Unpack a split and see that it opens: what it says of its segments, and how many documents it has."""
    path = path_below(store, split.path)
    try:
        unpack_split(store, read_split_list(store, path, split), folder)
        own: dict[str, Any] = msgspec.json.decode((folder / META).read_bytes(), type=dict[str, Any])
        own["schema"], own["segments"]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, FileNotFoundError) as error:
        raise CorruptDataError(f"{split.path} has no list of segments that can be read ({error})") from None
    except StorageError as error:
        # A split that is shorter than the log says is damaged; anything else is the store's own failure.
        if store.head(path).size == split.size:
            raise
        raise CorruptDataError(str(error)) from None
    return own, _check_opens(folder, split.path, split.numRecords)


def segment_count(folder: Path) -> int:
    """How many segments an index has."""
    return len(msgspec.json.decode((folder / META).read_bytes())["segments"])


def _check_opens(folder: Path, name: str, expected: int | None) -> int:
    """Open an index and count its documents."""
    try:
        index = engine().Index.open(str(folder))
        index.config_reader("manual")
        count = int(index.searcher().num_docs)
    except (ValueError, OSError) as error:
        raise CorruptDataError(f"{name} cannot be opened ({error})") from None
    if expected is not None and count != expected:
        raise CorruptDataError(f"{name} has {count} documents instead of {expected}")
    return count


def merged_index(splits: Sequence[Split], folder: Path, dead_paths: Iterable[int] = ()) -> int:
    """Let the engine merge the segments of an index.

    Args:
        splits: The splits whose segments are in it.
        folder: The directory of the index.
        dead_paths: Of a companion: keys of files whose rows are to be left out.

    Returns:
        How many documents it has.
    """
    fields = SplitFields.parse(splits[0].docMappingJson or "null", splits[0].path)
    index = engine().Index.open(str(folder))
    index.config_reader("manual")
    fields.register(index)
    writer = index.writer(_HEAP, 1)
    for key in dead_paths:
        writer.delete_documents_by_term(PATH_FIELD, key)
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return int(index.searcher().num_docs)


# What the log says of a merged split.


def merged_facts(splits: Sequence[Split]) -> dict[str, Any]:
    """What the `add` action of a merged split says of its rows. A bound that one of the inputs does not have is none,
    unless that input has no value at all."""
    fields = SplitFields.parse(splits[0].docMappingJson or "null", splits[0].path)
    kinds = {one.name: one.kind for one in fields.fields}
    records = sum(split.numRecords or 0 for split in splits)
    nulls = {name: _summed(splits, name) for name in kinds}
    known = {name: count for name, count in nulls.items() if count is not None}
    lows = {name: _bound(splits, name, kinds[name], min, "minValues") for name in kinds}
    highs = {name: _bound(splits, name, kinds[name], max, "maxValues") for name in kinds}
    moments = fields.time if fields.time in kinds else None
    sources = [path for split in splits for path in split.companionSourceFiles or ()]
    versions = [split.companionDeltaVersion for split in splits if split.companionDeltaVersion is not None]
    return {
        "numRecords": records,
        "minValues": _without_nones(lows),
        "maxValues": _without_nones(highs),
        "stats": msgspec.json.encode({"numRecords": records, "nullCount": known}).decode(),
        "timeRangeStart": lows.get(moments) if moments else None,
        "timeRangeEnd": highs.get(moments) if moments else None,
        "uncompressedSizeBytes": sum(split.uncompressedSizeBytes or 0 for split in splits),
        "docMappingJson": splits[0].docMappingJson,
        "numMergeOps": 1 + max(split.numMergeOps or 0 for split in splits),
        "companionSourceFiles": list(dict.fromkeys(sources)) if fields.companion else None,
        "companionDeltaVersion": min(versions) if versions else None,
        "tags": merged_tags(splits),
    }


def merged_tags(splits: Sequence[Split]) -> dict[str, str | None] | None:
    """The tags of all inputs. Of the numbers of batches, the highest of each application."""
    tags: dict[str, str | None] = {}
    for split in splits:
        for name, value in (split.tags or {}).items():
            known = tags.get(name)
            if known is not None and value is not None and known.isdigit() and value.isdigit():
                value = str(max(int(known), int(value)))
            tags[name] = value
    return tags or None


def _without_nones(values: Mapping[str, str | None]) -> dict[str, str | None]:
    return {name: value for name, value in values.items() if value is not None}


def _nulls(split: Split) -> Mapping[str, int]:
    found = msgspec.json.decode(split.stats) if split.stats else {}
    counts = found.get("nullCount") if isinstance(found, dict) else None
    return counts if isinstance(counts, dict) else {}


def _summed(splits: Sequence[Split], name: str) -> int | None:
    counts = [_nulls(split).get(name) for split in splits]
    return sum(counts) if all(isinstance(count, int) for count in counts) else None  # type: ignore[arg-type]


def _bound(splits: Sequence[Split], name: str, kind: str, choose: Any, side: str) -> str | None:
    found: list[str] = []
    for split in splits:
        text = (getattr(split, side) or {}).get(name)
        if text is not None:
            found.append(text)
        elif _nulls(split).get(name) != split.numRecords:
            return None
    # Times and dates are written with fixed width, so their texts compare as they do.
    numbers: Callable[[str], Any] = {INTEGER: int, FLOAT: float}.get(kind, str)
    return choose(found, key=numbers) if found else None
