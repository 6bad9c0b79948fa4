"""Run a search: hits of many splits, newest or best first, page by page.

Newest first opens splits from the latest on, and stops when no other split can hold a later hit than those found. Best
first opens every split that may hold a hit. A page says how many hits of each split were given, so that the next one
goes on behind them: splits never change, and a page belongs to one version and one `now()`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.errors import OptionError, PositionError, QueryError
from delta_sidecar.flow.ordered import Ordered
from delta_sidecar.search.log.actions import Split
from delta_sidecar.search.query.empty_answers import case_notes, may_have_notes
from delta_sidecar.search.query.engine import ask
from delta_sidecar.search.query.expression import Query
from delta_sidecar.search.query.highlights import Highlighter, Marks
from delta_sidecar.search.query.hit_rows import HitRows, readable_columns
from delta_sidecar.search.query.prepared import LiveRows, PreparedSearch, SearchedSplit
from delta_sidecar.search.query.scored_hits import ScoredHits
from delta_sidecar.search.splits.cache import SplitCache
from delta_sidecar.search.splits.fields import engine
from delta_sidecar.search.table import SearchTable
from delta_sidecar.values.types import StructField, arrow_type

if TYPE_CHECKING:
    from delta_sidecar.predicates.predicate_tuples import Filters

Order: TypeAlias = Literal["newest", "best"]
SCORE: Final = "score"
HIGHLIGHT: Final = "highlight"
MOST_HITS: Final = 10_000
"""Hits of one page."""
_EXPLAINED: Final = 200
"""Hits whose scores are asked for one by one, where they are sorted by time."""
_HELPERS: Final = 3
"""Splits that are opened beside the one that is searched."""


@dataclass
class SearchMetrics:
    """What a search did.

    Example:
        >>> import pyarrow as pa
        >>> from delta_sidecar.search import SearchTable, build_splits
        >>> rows = pa.table({"id": [7, 8], "body": ["disk full", "disk replaced"]})
        >>> _ = build_splits(rows, "logs", text=["body"], key=["id"])
        >>> SearchTable("logs").search("disk id:>100").metrics
        SearchMetrics(splits=1, candidates=0, opened=0)
    """

    splits: int = 0
    """Live splits of the table."""
    candidates: int = 0
    """Splits that may hold a hit, by partition, minimum and maximum, and time."""
    opened: int = 0
    """Splits that were searched."""


@dataclass(frozen=True)
class SearchHits:
    """The hits of a search: an Arrow stream that any engine reads.

    Example:
        >>> import pyarrow as pa
        >>> from delta_sidecar.search import SearchTable, build_splits
        >>> rows = pa.table({"id": [7, 8], "body": ["disk full", "disk replaced"]})
        >>> _ = build_splits(rows, "logs", text=["body"], key=["id"])
        >>> hits = SearchTable("logs").search("replaced", order="best")
        >>> hits.to_table()["id"].to_pylist(), hits.next_page
        ([8], None)
    """

    schema: pa.Schema
    version: int
    """The version of the table that was searched."""
    next_page: str | None
    """What `after` takes for the hits behind these; None if there are no more."""
    metrics: SearchMetrics
    notes: tuple[str, ...]
    """What the caller should know of the answer."""
    _batches: Iterable[pa.RecordBatch] = field(repr=False)

    def to_reader(self) -> pa.RecordBatchReader:
        """The hits as a reader of batches. A stream of all hits can be read once."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self._batches))

    def to_table(self) -> pa.Table:
        """The hits as a table."""
        return self.to_reader().read_all()

    def to_pylist(self) -> list[dict[str, Any]]:
        """The hits as dictionaries."""
        return list(self.to_table().to_pylist())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_reader().__arrow_c_stream__(requested_schema)


class _Hit(NamedTuple):
    """Sorted by what is better, then by the place of its split, then by its place there."""

    order: tuple[float, ...]
    split: int
    rank: int
    address: Any


class Page(msgspec.Struct, frozen=True):
    """How far each split was read, by a hash of its path: a checkpoint may change the order of splits."""

    version: int
    digest: str
    now: int
    """What `now()` is in the predicate, in microseconds since 1970."""
    given: dict[int, int]
    of_version: int | None = None
    """The version of the table that a companion is about."""


class _Explanation(msgspec.Struct):
    """Why a row has its score; only the score counts here."""

    value: float


_explanation: Final = msgspec.json.Decoder(_Explanation)


def search(
    table: SearchTable,
    query: str | Query,
    where: str | Filters | None = None,
    *,
    limit: int | None = 20,
    order: Order = "newest",
    columns: Sequence[str] | None = None,
    highlight: bool | tuple[str, str] = False,
    after: str | None = None,
    cache: SplitCache | None = None,
    of: LiveRows | None = None,
    of_version: int | None = None,
    notes: Sequence[str] = (),
) -> SearchHits:
    """See `SearchTable.search`. `of` is the table of a companion, at its version `of_version`."""
    if order not in ("newest", "best"):
        raise OptionError(f"order={order!r}: give newest or best")
    if not (limit is None or (type(limit) is int and 1 <= limit <= MOST_HITS)):
        raise OptionError(f"limit={limit!r}: give 1 to {MOST_HITS:,}, or None for a stream of all hits")
    if limit is None and (order == "best" or after is not None):
        raise OptionError("a stream of all hits comes newest split first, without pages; give a limit")
    page = None if after is None else page_of(after)
    if page is not None and page.version != table.version:
        table = SearchTable(table.store, page.version)
    prepared = PreparedSearch(table, query, where, cache, of, None if page is None else page.now)
    run = SearchRun(prepared, order, columns, highlight, page, of_version, notes)
    return run.stream() if limit is None else run.page(limit)


class _Found:
    """The first hits in order of the splits that were searched so far, and those of the splits that hold them."""

    def __init__(self, limit: int) -> None:
        self._most = limit + 1
        self.hits: list[_Hit] = []
        self.opened: dict[int, SearchedSplit] = {}
        self.searched = 0

    def add(self, number: int, searched: SearchedSplit, hits: Sequence[_Hit]) -> None:
        self.searched += 1
        self.opened[number] = searched
        self.hits += hits
        self.hits.sort()
        del self.hits[self._most :]
        kept = {hit.split for hit in self.hits}
        self.opened = {number: one for number, one in self.opened.items() if number in kept}


def _key(split: Split) -> int:
    """What a page calls a split."""
    return int.from_bytes(hashlib.blake2b(split.path.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def _marks(highlight: object) -> Marks | None:
    if isinstance(highlight, bool):
        return Marks() if highlight else None
    if isinstance(highlight, tuple | list) and len(highlight) == 2 and all(isinstance(one, str) for one in highlight):
        return Marks(*highlight)
    raise OptionError(f"highlight={highlight!r}: give True, or two texts that stand before and behind what was found")


def page_of(token: str) -> Page:
    """What the token of a page says.

    Args:
        token: `SearchHits.next_page`.

    Raises:
        PositionError: No search gave it.
    """
    try:
        return msgspec.msgpack.decode(base64.urlsafe_b64decode(token.encode()), type=Page)
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise PositionError("no search gave this page; search from the start") from None


class SearchRun:
    """A search with what is wanted of its hits.

    Args:
        prepared: The search.
        order: `newest` or `best` first.
        columns: Columns of the rows; all that can be given back if None.
        highlight: Whether to mark what was found, and with which marks.
        page: The page before.
        of_version: The version of the table that a companion is about.
        notes: What the answer is to say.

    Raises:
        QueryError: A column is not kept, or there is no text to highlight.
        UnknownColumnError: There is no such column.
        OptionError: A column is named twice, or the marks are not two texts.
        PositionError: The page belongs to another search.
    """

    def __init__(
        self,
        prepared: PreparedSearch,
        order: Order = "newest",
        columns: Sequence[str] | None = None,
        highlight: bool | tuple[str, str] = False,
        page: Page | None = None,
        of_version: int | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self._prepared = prepared
        self._order = order
        self._of_version = of_version
        self._notes = notes
        self._columns = self._chosen(columns)
        self._marks = _marks(highlight)
        self._highlighters = {} if self._marks is None else self._made_highlighters()
        self._digest = f"{prepared.digest}{order}"
        if page is not None and page.digest != self._digest:
            raise PositionError("the page belongs to another search or another table; search from the start")
        self._given = dict(page.given) if page is not None else {}
        self._splits = self._in_order()
        self._metrics = SearchMetrics(len(prepared.table.state.splits), len(self._splits))

    def _chosen(self, columns: Sequence[str] | None) -> list[StructField]:
        fields = self._prepared.fields
        if isinstance(columns, str):
            raise OptionError(f"columns={columns!r}: give a list of names")
        if self._prepared.of is None:
            chosen = readable_columns(fields.columns, fields.fields, fields.partitions, columns)
        else:
            names = fields.columns.names if columns is None else columns
            chosen = [fields.columns.resolve([name])[0] for name in names]
        twice = [name for name, number in Counter(column.name for column in chosen).items() if number > 1]
        if columns is not None and twice:
            raise OptionError(f"the column {twice[0]} is wanted twice; name it once")
        return chosen

    def _made_highlighters(self) -> dict[str, Highlighter]:
        fields = self._prepared.fields
        stored = [one for one in fields.fields.texts if one.stored or self._prepared.of is not None]
        if not stored:
            texts = ", ".join(one.name for one in fields.texts) or "no text"
            raise QueryError(
                f"highlighting needs the text, and these splits do not store it ({texts}); store it, or search a table "
                "through its companion"
            )
        return {one.name: Highlighter(self._prepared.query, one, fields) for one in stored}

    def _in_order(self) -> list[Split]:
        """Newest first: by the latest time, where an unknown one may be the latest; otherwise as the log has them."""
        splits = self._prepared.splits
        if self._order == "best" or self._prepared.time is None:
            return splits
        latest = [self._prepared.latest(split) for split in splits]
        order = sorted(range(len(splits)), key=lambda at: (latest[at] is not None, -(latest[at] or 0), at))
        return [splits[at] for at in order]

    @property
    def schema(self) -> pa.Schema:
        fields = [pa.field(SCORE, pa.float32())]
        fields += [pa.field(column.name, arrow_type(column.type)) for column in self._columns]
        if self._marks is not None:
            shown = pa.struct([pa.field(name, pa.string()) for name in self._highlighters])
            fields.append(pa.field(HIGHLIGHT, shown))
        return pa.schema(fields)

    # One page.

    def page(self, limit: int) -> SearchHits:
        """The next hits in order."""
        found = self._best(limit) if self._order == "best" else self._newest(limit)
        chosen = found.hits[:limit]
        given = dict(self._given)
        for hit in chosen:
            key = _key(self._splits[hit.split])
            given[key] = max(given.get(key, 0), hit.rank + 1)
        is_more = len(found.hits) > limit or found.searched < len(self._splits)
        token = self._token(given) if is_more and chosen else None
        batch = self._batch(chosen, found.opened)
        return self._hits([batch], token, () if chosen or self._given else self._reasons())

    def _reasons(self) -> Sequence[str]:
        """What may be wrong with a search that found nothing, as the first split tells."""
        splits = self._splits or self._prepared.table.state.splits
        if not may_have_notes(self._prepared) or not splits:
            return ()
        return case_notes(self._prepared, self._prepared.open(splits[0]))

    def _newest(self, limit: int) -> _Found:
        found = _Found(limit)
        for number, split in enumerate(self._splits):
            if len(found.hits) >= limit and not self._may_be_later(split, found.hits[limit - 1]):
                break
            searched = self._opened(split)
            # One more than is given tells whether there is a next page.
            found.add(number, searched, self._of_split(number, searched, limit + 1))
        return found

    def _may_be_later(self, split: Split, last: _Hit) -> bool:
        """Whether a split may hold a hit that comes before the last one of the page. Splits come latest first."""
        if self._prepared.time is None:
            return False
        latest = self._prepared.latest(split)
        return latest is None or (0, -latest) < last.order

    def _best(self, limit: int) -> _Found:
        found = _Found(limit)
        for number, (searched, hits) in enumerate(self._each(limit + 1)):
            found.add(number, searched, hits)
        return found

    def _each(self, limit: int) -> Iterator[tuple[SearchedSplit, list[_Hit]]]:
        def task(number: int, split: Split) -> Callable[[], tuple[SearchedSplit, list[_Hit]]]:
            def run() -> tuple[SearchedSplit, list[_Hit]]:
                searched = self._opened(split)
                return searched, self._of_split(number, searched, limit)

            return run

        tasks = (task(number, split) for number, split in enumerate(self._splits))
        yield from Ordered(tasks, min(_HELPERS, max(0, len(self._splits) - 1)), lambda: _HELPERS + 1)

    def _opened(self, split: Split) -> SearchedSplit:
        searched = self._prepared.open(split)
        self._metrics.opened += 1
        return searched

    def _of_split(self, number: int, searched: SearchedSplit, limit: int) -> list[_Hit]:
        """The next hits of a split that are rows; those that a companion's table has deleted are passed over."""
        rank, found = self._given.get(_key(searched.split), 0), list[_Hit]()
        while len(found) < limit:
            hits = self._ranked(number, searched, limit, rank)
            flags = searched.live([hit.address for hit in hits])
            found += [hit for hit, is_live in zip(hits, flags, strict=True) if is_live]
            rank += len(hits)
            if len(hits) < limit:
                break
        return found[:limit]

    def _ranked(self, number: int, searched: SearchedSplit, limit: int, rank: int) -> list[_Hit]:
        documents = searched.opened.searcher.num_docs
        if rank >= documents:
            return []
        how: dict[str, Any] = {"limit": min(limit, documents - rank), "offset": rank, "count": False}
        if self._order == "best":
            hits = searched.ask(**how).hits
            return [_Hit((-score,), number, rank + at, address) for at, (score, address) in enumerate(hits)]
        time = self._prepared.time
        if time is not None:
            hits = searched.ask(**how, order_by_field=time.engine_name).hits
            # Rows without a time come last.
            orders = [((1, 0) if moment is None else (0, -moment), address) for moment, address in hits]
            return [_Hit(order, number, rank + at, address) for at, (order, address) in enumerate(orders)]
        alike = engine().Query.const_score_query(searched.query, 1.0)
        hits = ask(lambda: searched.opened.searcher.search(alike, **how), searched.split.path).hits
        return [_Hit((0,), number, rank + at, address) for at, (_, address) in enumerate(hits)]

    # All hits.

    @property
    def paths(self) -> list[str]:
        """The splits that may hold a hit, in order."""
        return [split.path for split in self._splits]

    def stream(self, only: str | None = None, batch_rows: int = MOST_HITS) -> SearchHits:
        """Every hit, split by split; of one split, if its path is given.

        Raises:
            PositionError: There is no such split among those that may hold a hit.
        """
        chosen = [split for split in self._splits if only in (None, split.path)]
        if only is not None and not chosen:
            raise PositionError(
                f"version {self._prepared.table.version} of {self._prepared.table.uri} has no split {only} that may "
                "hold a hit of this search; search from the start"
            )

        def batches() -> Iterator[pa.RecordBatch]:
            for split in chosen:
                yield from self._all_of(self._opened(split), batch_rows)

        return self._hits(batches(), None)

    def _all_of(self, searched: SearchedSplit, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Every hit of a split, latest first. The engine is asked once; the hits wait as numbers."""
        time = self._prepared.time
        scored = ScoredHits.of(searched)
        ordered = scored.in_order(searched, None if time is None else time.engine_name, batch_rows)
        for first in range(0, len(ordered), batch_rows):
            chosen = ordered[first : first + batch_rows]
            addresses = scored.addresses(chosen)
            flags = searched.live(addresses)
            scores = scored.scores[chosen].tolist()
            pairs = zip(addresses, scores, flags, strict=True)
            hits = [_Hit((-score,), 0, 0, address) for address, score, is_live in pairs if is_live]
            if hits:
                yield self._batch(hits, {0: searched}, [-hit.order[0] for hit in hits])

    # Rows.

    def _batch(
        self, hits: Sequence[_Hit], opened: Mapping[int, SearchedSplit], scores: Sequence[float] | None = None
    ) -> pa.RecordBatch:
        """The rows of hits in their order. Scores are given for hits of one split, if they are known."""
        by_split: dict[int, list[int]] = {}
        for place, hit in enumerate(hits):
            by_split.setdefault(hit.split, []).append(place)
        if not by_split:
            return pa.RecordBatch.from_arrays([arrays.nulls(0, one.type) for one in self.schema], schema=self.schema)
        places = [place for of_split in by_split.values() for place in of_split]
        parts = [(opened[number], [hits[place] for place in of_split]) for number, of_split in by_split.items()]
        found = self._found(parts)
        if scores is None:
            scores = [score for searched, of_split in parts for score in self._scores(of_split, searched)]
        columns = [arrays.primitives(scores, pa.float32(), np.float32)]
        columns += [found[column.name] for column in self._columns]
        if self._marks is not None:
            columns.append(self._shown(found))
        joined = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return joined.take(arrays.indices(np.argsort(np.asarray(places, np.int64))))

    def _found(self, parts: Sequence[tuple[SearchedSplit, Sequence[_Hit]]]) -> dict[str, pa.Array]:
        """Columns of hits, split by split."""
        needed = self._needed()
        addressed = [(searched, [hit.address for hit in of_split]) for searched, of_split in parts]
        if self._prepared.of is not None:
            return self._prepared.of.rows([(one.opened, addresses) for one, addresses in addressed], needed)
        found = []
        for searched, addresses in addressed:
            reader = HitRows(searched.opened, searched.split, self._prepared.fields.partitions)
            found.append(reader.columns(addresses, needed))
        return {column.name: pa.concat_arrays([one[column.name] for one in found]) for column in needed}

    def _needed(self) -> list[StructField]:
        texts = [self._prepared.fields.columns.resolve([name])[0] for name in self._highlighters]
        return list({column.name: column for column in (*self._columns, *texts)}.values())

    def _scores(self, hits: Sequence[_Hit], searched: SearchedSplit) -> list[float]:
        if self._order == "best":
            return [-hit.order[0] for hit in hits]
        explain, searcher = searched.query.explain, searched.opened.searcher
        if len(hits) > _EXPLAINED:
            return ScoredHits.of(searched).scores_of([hit.address for hit in hits])
        told = (explain(searcher, hit.address).to_json() for hit in hits)
        return [_explanation.decode(text).value for text in told]

    def _shown(self, found: Mapping[str, pa.Array]) -> pa.Array:
        assert self._marks is not None
        shown = []
        for name, highlighter in self._highlighters.items():
            texts = found[name].to_pylist()
            shown.append(arrays.strings([highlighter.shown(text, self._marks) for text in texts]))
        return pa.StructArray.from_arrays(shown, names=list(self._highlighters))

    def _token(self, given: dict[int, int]) -> str:
        page = Page(self._prepared.table.version, self._digest, self._prepared.now, given, self._of_version)
        return base64.urlsafe_b64encode(msgspec.msgpack.encode(page)).decode()

    def _hits(self, batches: Iterable[pa.RecordBatch], token: str | None, reasons: Sequence[str] = ()) -> SearchHits:
        notes = (*self._prepared.table.notes, *self._notes, *reasons)
        return SearchHits(self.schema, self._prepared.table.version, token, self._metrics, notes, batches)
