"""`sidecar splits`: build and look after the splits of a search table."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

from click.exceptions import Exit

from delta_sidecar.cli.failures import UNEXPECTED
from delta_sidecar.cli.output import write_facts, write_json, write_table
from delta_sidecar.cli.progress import Progress
from delta_sidecar.cli.stop_signals import stopped_by_signals
from delta_sidecar.errors import ConflictError, OptionError, StoreUnavailableError
from delta_sidecar.pipeline.ingest_job import bytes_of
from delta_sidecar.pipeline.session import spark_session
from delta_sidecar.pipeline.streaming import await_end
from delta_sidecar.search.companion.following import FollowReport, follow
from delta_sidecar.search.log.actions import to_wire
from delta_sidecar.search.splits.building import SplitsReport, build_splits, fields_of
from delta_sidecar.search.splits.cache import BUDGET, SplitCache, shared_splits
from delta_sidecar.search.splits.fields import FIELDS
from delta_sidecar.search.splits.merging import merge_splits
from delta_sidecar.search.splits.on_spark import stream_splits
from delta_sidecar.search.table import SearchTable
from delta_sidecar.search.upkeep import doctor, drop_partitions, prewarm, repair
from delta_sidecar.search.writing.retention import CleanupReport, clean_log, purge
from delta_sidecar.search.writing.transactions import checkpoint, upgrade_protocol
from delta_sidecar.table import DeltaTable
from delta_sidecar.texts import counted, printable, sized

_log = logging.getLogger(__name__)

_AGE = re.compile(r"(\d+)\s*([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def _age(text: str) -> timedelta:
    """`7d`, `12h`, `30m`, `0s`."""
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise OptionError(f"{text!r} is no time; write 7d, 12h or 30m")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


@dataclass(frozen=True, slots=True)
class Place:
    """The table of a command, and how its report is printed."""

    table: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    as_json: bool = False

    def tell(self, report: Any, facts: Iterable[tuple[str, str]]) -> None:
        if self.as_json:
            write_json(report if isinstance(report, dict) else asdict(report))
        else:
            write_facts(facts)


@dataclass(frozen=True, slots=True)
class BuildOrder:
    """The arguments of `sidecar splits build`."""

    source: str
    place: Place
    text: Sequence[str] = ()
    key: Sequence[str] = ()
    time: str | None = None
    filters: Sequence[str] = ()
    stored: Sequence[str] = ()
    analyzers: Mapping[str, str] = field(default_factory=dict)
    partition_columns: Sequence[str] = ()
    mode: str = "append"
    rows_per_split: int = 1_000_000
    engine: str = "auto"
    source_format: str | None = None
    read_options: Mapping[str, str] = field(default_factory=dict)
    app_id: str | None = None
    batch_id: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    stream: bool = False
    checkpoint_location: str | None = None
    every: str | None = None
    verbose: bool = False

    def check(self) -> None:
        """Refuse options that do not go together."""
        if not self.stream:
            if self.checkpoint_location is not None or self.every is not None:
                raise OptionError("--checkpoint-location and --every need --stream")
            return
        if self.checkpoint_location is None:
            raise OptionError("--stream needs --checkpoint-location, where Spark keeps the progress of the stream")
        if self.batch_id is not None:
            raise OptionError("--batch-id is for a single batch; a stream numbers its batches itself")
        if self.mode != "append":
            raise OptionError(f"--mode {self.mode} is for a single build; a stream appends")
        if self.engine == "process":
            raise OptionError("a stream runs on Spark; leave --engine out")


def build(order: BuildOrder) -> None:
    """Build splits and print what was written."""
    order.check()
    if order.stream:
        _build_stream(order)
        return
    with Progress() as progress:
        progress.say("reading the source")
        done = build_splits(
            order.source,
            order.place.table,
            text=order.text,
            key=order.key,
            time=order.time,
            filters=order.filters,
            stored=order.stored,
            analyzers=order.analyzers,
            partition_columns=order.partition_columns,
            mode=order.mode,
            rows_per_split=order.rows_per_split,
            engine=order.engine,
            source_format=order.source_format,
            read_options=order.read_options,
            app_id=order.app_id,
            batch_id=order.batch_id,
            properties=order.properties,
            master=order.master,
            conf=order.conf,
            storage_options=order.place.storage_options or None,
            progress=progress.say,
        )
    order.place.tell(done, _built(done))


def _build_stream(order: BuildOrder) -> None:
    """Add what is new at the source, batch by batch, until there is nothing more, or until stopped."""
    assert order.checkpoint_location is not None
    place, done = order.place, list[SplitsReport]()

    def on_batch(report: SplitsReport) -> None:
        done.append(report)
        if place.as_json:
            write_json(asdict(report))

    uris = [order.source, place.table, order.checkpoint_location]
    stores = place.storage_options or None
    with Progress() as progress:
        progress.say("starting Spark")
        session = spark_session(order.master, order.conf, stores, uris, "delta-sidecar splits", order.verbose)
        with session as spark, stopped_by_signals() as stop:
            progress.watch(spark)
            query = stream_splits(
                order.source,
                place.table,
                order.checkpoint_location,
                spark=spark,
                source_format=order.source_format,
                read_options=order.read_options,
                available_now=order.every is None,
                processing_time=order.every,
                app_id=order.app_id,
                on_batch=on_batch,
                storage_options=stores,
                text=order.text,
                key=order.key,
                time=order.time,
                filters=order.filters,
                stored=order.stored,
                analyzers=order.analyzers,
                partition_columns=order.partition_columns,
                rows_per_split=order.rows_per_split,
                properties=order.properties,
            )
            await_end(query, stop.is_set)
    if not place.as_json:
        write_facts(_streamed(done))


def _streamed(done: Sequence[SplitsReport]) -> Iterator[tuple[str, str]]:
    if not done:
        yield "batches", "0: nothing is new"
        return
    rows, splits, size = (sum(getattr(one, name) for one in done) for name in ("rows", "splits", "bytes"))
    yield "batches", f"{len(done):,}"
    yield "version", str(done[-1].version)
    yield "added", f"{counted(rows, 'row')} in {counted(splits, 'split')}, {sized(size)}"
    if repeated := sum(one.is_repeated for one in done):
        yield "skipped", f"{repeated:,}: already in the table"


def _built(done: SplitsReport) -> Iterator[tuple[str, str]]:
    yield "version", str(done.version)
    if done.is_repeated:
        yield "added", "nothing: this batch is in the table already"
        return
    where = "on Spark" if done.engine == "spark" else "in one process"
    yield "added", f"{counted(done.rows, 'row')} in {counted(done.splits, 'split')}, {sized(done.bytes)}"
    if done.removed:
        yield "removed", counted(done.removed, "split")
    yield "built", f"{where}, in {done.seconds:.1f} s"


@dataclass(frozen=True, slots=True)
class FollowOrder:
    """The arguments of `sidecar splits follow`."""

    place: Place
    search: str | None = None
    text: Sequence[str] = ()
    key: Sequence[str] = ()
    time: str | None = None
    filters: Sequence[str] = ()
    stored: Sequence[str] = ()
    analyzers: Mapping[str, str] = field(default_factory=dict)
    rows_per_split: int = 1_000_000
    engine: str = "auto"
    once: bool = False
    interval: float = 10.0
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


def follow_table(order: FollowOrder) -> None:
    """Bring a companion in step, once or until stopped. Between the rounds it only looks for a new version. Neither a
    store that does not answer for a while nor faster writers end it."""
    with Progress() as progress, stopped_by_signals() as stop:
        if order.once:
            _follow_round(order, progress, None)
            return
        known: int | None = None
        while True:
            try:
                known = _follow_round(order, progress, known)
                progress.say(f"in step with version {known}, waiting for the next")
            except (StoreUnavailableError, ConflictError) as error:
                _log.warning("%s; trying again in %g s", error, order.interval)
                progress.say(f"waiting, because {error}")
            if stop.wait(order.interval):
                return


def _follow_round(order: FollowOrder, progress: Progress, known: int | None) -> int:
    """Follow the table if it has another version than the one that is known; the version that is known then."""
    if known is not None:
        version = DeltaTable(order.place.table, None, order.place.storage_options).version()
        if version == known:
            return known
    progress.say("comparing the table with its companion")
    done = _followed(order, progress)
    if order.once or done.added or done.removed:
        order.place.tell(done, _follow_facts(done))
    return done.table_version


def _followed(order: FollowOrder, progress: Progress) -> FollowReport:
    return follow(
        order.place.table,
        order.search,
        text=order.text,
        key=order.key,
        time_column=order.time,
        filters=order.filters,
        stored=order.stored,
        analyzers=order.analyzers,
        rows_per_split=order.rows_per_split,
        engine=order.engine,
        master=order.master,
        conf=order.conf,
        storage_options=order.place.storage_options or None,
        progress=progress.say,
    )


def _follow_facts(done: FollowReport) -> Iterator[tuple[str, str]]:
    yield "table", f"version {done.table_version}"
    yield "companion", f"version {done.version}"
    yield "indexed", f"{counted(done.indexed_rows, 'row')} of {counted(done.indexed_files, 'file')}"
    yield "splits", f"{done.added} added, {done.removed} removed"
    where = "on Spark" if done.engine == "spark" else "in one process"
    yield "done", f"{where}, in {done.seconds:.1f} s"


def merge(
    place: Place,
    target_size: str,
    most_inputs: int,
    most_results: int | None,
    most_segments: int,
    where: str | None,
    dry_run: bool,
) -> None:
    """Merge splits and print what became of them."""
    size = bytes_of(target_size, "target size")
    with Progress() as progress:
        done = merge_splits(
            place.table,
            target_size=size,
            most_inputs=most_inputs,
            most_results=most_results,
            most_segments=most_segments,
            where=where,
            dry_run=dry_run,
            storage_options=place.storage_options or None,
            progress=progress.say,
        )
    facts = [("merged" if not dry_run else "would merge", f"{counted(done.merged, 'split')} into {done.added}")]
    facts += [("version", str(done.version))] if done.version is not None else []
    facts += [("skipped", path) for path in done.skipped]
    place.tell(done, facts)


def purge_splits(place: Place, older_than: str, log: bool, dry_run: bool) -> None:
    """Delete old splits, and version files if they are asked for."""
    stores = place.storage_options or None
    cleaned = clean_log(place.table, dry_run=dry_run, storage_options=stores) if log else None
    done = purge(place.table, retention=_age(older_than), dry_run=dry_run, storage_options=stores)
    reports = [("splits", done)] if cleaned is None else [("log", cleaned), ("splits", done)]
    if place.as_json:
        write_json({name: asdict(report) for name, report in reports})
    else:
        write_facts([fact for name, report in reports for fact in _cleaned(name, report)])


def _cleaned(name: str, done: CleanupReport) -> Iterator[tuple[str, str]]:
    verb = "would be deleted" if done.dry_run else "deleted"
    yield name, f"{counted(len(done.deleted), 'file')} {verb}, {sized(done.bytes)}"
    yield from (("", path) for path in done.deleted[:20])
    if len(done.deleted) > 20:
        yield "", f"and {len(done.deleted) - 20:,} more"
    yield from (("note", note) for note in done.notes)


def write_checkpoint(place: Place) -> None:
    """Write a checkpoint of the newest version."""
    version = checkpoint(place.table, storage_options=place.storage_options or None)
    place.tell({"version": version}, [("checkpoint", f"version {version}")])


def describe(place: Place, version: int | None, where: str | None, splits: bool) -> None:
    """Print what a search table is, or its splits."""
    table = SearchTable(place.table, version, place.storage_options or None)
    found = table.splits(where)
    if splits:
        _print_splits(place, found)
        return
    properties = table.metadata.properties
    rows, size = sum(split.numRecords or 0 for split in found), sum(split.size for split in found)
    if place.as_json:
        fields = [asdict_of(one) for one in fields_of(table)] if FIELDS in properties else None
        write_json(
            {
                "uri": table.uri,
                "version": table.version,
                "splits": len(found),
                "rows": rows,
                "bytes": size,
                "partition_columns": table.partition_columns,
                "fields": fields,
                "protocol": {"reader": table.protocol.minReaderVersion, "writer": table.protocol.minWriterVersion},
                "notes": list(table.notes),
            }
        )
        return
    facts = [
        ("table", table.uri),
        ("version", str(table.version)),
        ("splits", f"{len(found):,}, {sized(size)}"),
        ("rows", f"{rows:,}"),
        ("partitions", ", ".join(table.partition_columns) or "none"),
    ]
    for one in fields_of(table) if FIELDS in properties else ():
        how = [one.kind, *([one.analyzer] if one.is_text and one.analyzer else []), *(["stored"] * one.stored)]
        facts.append((f"  {one.name}", ", ".join(how)))
    skips = table.skips()
    facts += [("skipped", f"{skip.path}: {skip.reason} ({counted(skip.skipCount, 'time')})") for skip in skips]
    write_facts([*facts, *(("note", note) for note in table.notes)])


def asdict_of(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__struct_fields__}


def _print_splits(place: Place, found: Sequence[Any]) -> None:
    if place.as_json:
        for split in found:
            write_json(to_wire(split))
        return
    rows = (
        (
            printable(split.path),
            f"{split.numRecords or 0:,}",
            f"{split.size:,}",
            printable(f"{split.timeRangeStart or ''} {split.timeRangeEnd or ''}".strip()),
        )
        for split in found
    )
    write_table(["path", "rows", "bytes", "time"], rows, ["rows", "bytes"], ["path"])


def drop(place: Place, where: str, dry_run: bool) -> None:
    """Drop partitions and print what went."""
    commit, gone = drop_partitions(place.table, where, dry_run=dry_run, storage_options=place.storage_options or None)
    rows = sum(split.numRecords or 0 for split in gone)
    verb = "would drop" if dry_run else "dropped"
    facts = [(verb, f"{counted(len(gone), 'split')}, {counted(rows, 'row')}")]
    version = commit.version if commit is not None else None
    facts += [("version", str(version))] if version is not None else []
    place.tell({"version": version, "splits": [split.path for split in gone], "rows": rows}, facts)


def repair_table(place: Place, whole: bool, dry_run: bool) -> None:
    """Take lost splits out and print them."""
    done = repair(place.table, whole=whole, dry_run=dry_run, storage_options=place.storage_options or None)
    facts = [("checked", counted(done.checked, "split"))]
    facts += [
        ("would remove" if dry_run else "removed", f"{lost.reason} ({counted(lost.rows or 0, 'row')})")
        for lost in done.lost
    ]
    facts += [("kept", one.reason) for one in done.unknown]
    facts += [("version", str(done.version))] if done.version is not None else []
    place.tell(done, facts)


def fetch(place: Place, where: str | None, cache: str | None, budget: str | None) -> None:
    """Fetch splits to this machine."""
    size = bytes_of(budget, "budget") if budget else BUDGET
    held = SplitCache(cache, size) if cache or budget else shared_splits()
    with Progress() as progress:
        done = prewarm(
            place.table, where=where, cache=held, storage_options=place.storage_options or None, progress=progress.say
        )
    got = f"{done.fetched:,} of {counted(done.splits, 'split')}, {sized(done.bytes)}"
    place.tell(done, [("fetched", got), ("directory", done.directory)])


def check(place: Place, whole: bool) -> None:
    """Look for what is wrong; a problem is exit code 1."""
    found = doctor(place.table, whole=whole, storage_options=place.storage_options or None)
    facts = [
        ("version", str(found.version)),
        ("splits", f"{found.splits:,}, {counted(found.rows, 'row')}, {sized(found.bytes)}"),
        *(("problem", text) for text in found.problems),
        *(("advice", text) for text in found.advice),
    ]
    place.tell(found, facts if found.problems else [*facts, ("health", "no problem was found")])
    if not found.is_healthy:
        raise Exit(UNEXPECTED)


def upgrade(place: Place, reader: int, writer: int, features: Sequence[str]) -> None:
    """Raise the protocol of a table."""
    done = upgrade_protocol(place.table, reader, writer, features, storage_options=place.storage_options or None)
    table = SearchTable(place.table, None, place.storage_options or None)
    protocol = table.protocol
    words = f"{protocol.minReaderVersion}/{protocol.minWriterVersion} {' '.join(protocol.readerFeatures or ())}".strip()
    place.tell(done, [("version", str(done.version)), ("protocol", words)])
