"""Search over the splits of a table: order, pages, pruning, rows, highlights, counts, and what it costs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

tantivy = pytest.importorskip("tantivy", reason="the extra `search` is not installed")

from delta_sidecar import (  # noqa: E402
    CorruptDataError,
    OptionError,
    PositionError,
    PredicateError,
    QueryError,
    UnknownColumnError,
    UnsupportedFeatureError,
)
from delta_sidecar.predicates.binding import bind_predicate  # noqa: E402
from delta_sidecar.predicates.evaluation import matching  # noqa: E402
from delta_sidecar.search import (  # noqa: E402
    SearchTable,
    Split,
    SplitCache,
    SplitFields,
    append,
    build_splits,
    create_table,
    overwrite,
)
from delta_sidecar.search.query.prepared import PreparedSearch, SearchedSplit  # noqa: E402
from delta_sidecar.search.query.searching import SearchRun, _Found, _Hit  # noqa: E402
from delta_sidecar.search.splits.analyzers import Analyzer  # noqa: E402
from delta_sidecar.search.splits.fields import FIELDS  # noqa: E402
from delta_sidecar.storage import open_store  # noqa: E402
from delta_sidecar.testing import CountingStore  # noqa: E402
from delta_sidecar.values.arrow_types import table_schema  # noqa: E402
from tests.search.lines import BEGIN, SCHEMA, log_lines  # noqa: E402
from tests.search.searchable import (  # noqa: E402
    CHOICE,
    COLUMNS,
    COUNT,
    ROWS,
    ids,
    lines,
    make_table,
    region_of,
    write,
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("searching") / "logs"
    make_table(made)
    return made


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> SplitCache:
    return SplitCache(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def table(root: Path) -> SearchTable:
    return SearchTable(root)


def test_newest_first_gives_the_latest_rows(table: SearchTable, cache: SplitCache) -> None:
    hits = table.search("disk", limit=7, cache=cache)
    assert ids(hits) == [row["id"] for row in lines("disk")[:7]]
    assert hits.metrics.opened == 1
    assert hits.metrics.candidates == 5


def test_rows_have_their_columns_and_scores(table: SearchTable, cache: SplitCache) -> None:
    first = table.search("disk", limit=1, cache=cache).to_pylist()[0]
    wanted = lines("disk")[0]
    assert {name: first[name] for name in wanted} == wanted
    assert first["region"] == region_of(wanted["id"])
    assert first["score"] > 0
    assert list(first) == ["score", *COLUMNS.names]


def test_best_first_is_sorted_by_score(table: SearchTable, cache: SplitCache) -> None:
    hits = table.search("disk OR full OR lost", limit=50, order="best", cache=cache)
    scores = hits.to_table()["score"].to_pylist()
    assert scores == sorted(scores, reverse=True)
    assert hits.metrics.opened == 5
    newest = table.search("disk OR full OR lost", limit=500, cache=cache).to_pylist()
    by_id = {row["id"]: row["score"] for row in newest}
    for row in hits.to_pylist():
        assert row["score"] == pytest.approx(by_id[row["id"]], rel=1e-5)


def pages(table: SearchTable, query: str, cache: SplitCache, **how: Any) -> Iterator[list[int]]:
    after = None
    while True:
        hits = table.search(query, after=after, cache=cache, **how)
        yield ids(hits)
        after = hits.next_page
        if after is None:
            return


@pytest.mark.parametrize("order", ["newest", "best"])
@pytest.mark.parametrize("limit", [1, 9, 40, 500])
def test_pages_give_every_hit_once(table: SearchTable, cache: SplitCache, order: str, limit: int) -> None:
    query = "n7 OR n77 OR n177 OR n377" if limit == 1 else "timeout"
    whole = ids(table.search(query, limit=1000, order=order, cache=cache))  # type: ignore[arg-type]
    assert len(whole) == (4 if limit == 1 else len(lines("timeout")))
    found = list(pages(table, query, cache, limit=limit, order=order))
    assert [one for page in found for one in page] == whole
    assert all(len(page) == limit for page in found[:-1] if page)


def test_pages_stay_at_their_version(tmp_path: Path, cache: SplitCache) -> None:
    root = tmp_path / "logs"
    fields = make_table(root)
    table = SearchTable(root)
    first = table.search("timeout", limit=10, cache=cache)
    overwrite(root, [write(root, fields, log_lines(20, 9000), "eu")])
    newer = SearchTable(root)
    second = newer.search("timeout", limit=10, after=first.next_page, cache=cache)
    assert second.version == first.version == table.version < newer.version
    assert ids(first) + ids(second) == [row["id"] for row in lines("timeout")[:20]]


def test_a_page_of_another_search_is_refused(table: SearchTable, cache: SplitCache) -> None:
    page = table.search("timeout", limit=5, cache=cache).next_page
    for query, how in (("disk", {}), ("timeout", {"order": "best"}), ("timeout", {"where": "ok"})):
        with pytest.raises(PositionError, match="another search"):
            table.search(query, after=page, cache=cache, **how)  # type: ignore[arg-type]
    with pytest.raises(PositionError, match="no search gave this page"):
        table.search("timeout", after="!!", cache=cache)


@pytest.mark.parametrize(
    ("query", "where", "keep"),
    [
        ("disk", "region = 'eu'", lambda row: region_of(row["id"]) == "eu"),
        ("disk", "id >= 350", lambda row: row["id"] >= 350),
        ("disk", "region = 'us' AND ratio IS NULL", lambda row: row["ratio"] is None and region_of(row["id"]) == "us"),
        ("disk", "NOT (region = 'us' OR ok)", lambda row: region_of(row["id"]) == "eu" and not row["ok"]),
        ("disk", "ts < '2026-01-01T00:00:05Z'", lambda row: row["ts"] < BEGIN + timedelta(seconds=5)),
        ("disk", "id IN (3, 4, 5, 77, 401, 402)", lambda row: row["id"] in (3, 4, 5, 77, 401, 402)),
        ("disk", "id NOT IN (3, 4, 5, 77)", lambda row: row["id"] not in (3, 4, 5, 77)),
        ("disk host:web-3", None, lambda row: row["host"] == "web-3"),
        ("disk region:us", None, lambda row: region_of(row["id"]) == "us"),
        ("disk -region:u*", None, lambda row: region_of(row["id"]) == "eu"),
        ("disk AND id:[120 TO 130}", None, lambda row: 120 <= row["id"] < 130),
        ("disk day:2026-01-01", None, lambda row: True),
        ("disk ok:true", "host IN ('web-1', 'web-2')", lambda row: row["ok"] and row["host"] in ("web-1", "web-2")),
    ],
)
def test_predicates_and_fields_leave_rows_out(
    table: SearchTable, cache: SplitCache, query: str, where: str | None, keep: Any
) -> None:
    wanted = [row["id"] for row in lines("disk") if keep(row)]
    assert ids(table.search(query, where, limit=1000, cache=cache)) == wanted
    assert table.count(query, where, cache=cache) == len(wanted)


@pytest.mark.parametrize(
    ("query", "where", "opened"),
    [
        ("disk", "region = 'eu'", 2),
        ("disk region:eu", None, 2),
        ("disk", "id > 399", 1),
        ("disk id:>399", None, 1),
        ("disk AND (id:5 OR id:444)", None, 2),
        ("disk", "ts >= '2026-01-01T00:00:14.800Z'", 1),
        ("disk id:99999", None, 0),
        ("disk -id:5", None, 5),
        ("disk OR id:5", None, 5),
    ],
)
def test_splits_are_left_out_before_they_are_opened(
    table: SearchTable, cache: SplitCache, query: str, where: str | None, opened: int
) -> None:
    metrics = table.search(query, where, order="best", cache=cache).metrics
    assert (metrics.splits, metrics.candidates, metrics.opened) == (5, opened, opened)


def test_a_split_without_times_may_be_the_newest(tmp_path: Path, cache: SplitCache) -> None:
    import msgspec

    root = tmp_path / "logs"
    fields = make_table(root)
    late = write(root, fields, log_lines(10, 900), "eu")
    bare = msgspec.structs.replace(late, minValues=None, maxValues=None, timeRangeStart=None, timeRangeEnd=None)
    overwrite(root, [*SearchTable(root).splits(), bare])
    assert ids(SearchTable(root).search("*", limit=3, cache=cache)) == [909, 908, 907]


def test_overlapping_splits_are_merged_by_time(tmp_path: Path, cache: SplitCache) -> None:
    root = tmp_path / "logs"
    fields = SplitFields.choose(COLUMNS, **CHOICE)
    create_table(root, table_schema(COLUMNS).to_json(), ["region"], configuration={FIELDS: fields.to_json()})
    for shift in range(3):
        append(root, [write(root, fields, ROWS.take(list(range(shift, COUNT, 3))), "eu")])
    table = SearchTable(root)
    assert ids(table.search("*", limit=20, cache=cache)) == list(range(COUNT - 1, COUNT - 21, -1))
    found = [one for page in pages(table, "*", cache, limit=64) for one in page]
    assert found == list(range(COUNT - 1, -1, -1))


def test_a_table_without_a_time_column_gives_the_newest_splits_first(tmp_path: Path, cache: SplitCache) -> None:
    root = tmp_path / "logs"
    make_table(root, time=None, filters=["ts"])
    hits = SearchTable(root).search("*", limit=3, cache=cache)
    assert ids(hits) == [400, 401, 402]
    assert hits.metrics.opened == 1
    with pytest.raises(QueryError, match="needs a time column"):
        SearchTable(root).histogram("1h", cache=cache)


def test_rows_without_a_time_come_last(tmp_path: Path, cache: SplitCache) -> None:
    root = tmp_path / "logs"
    fields = SplitFields.choose(COLUMNS, **CHOICE)
    create_table(root, table_schema(COLUMNS).to_json(), ["region"], configuration={FIELDS: fields.to_json()})
    rows = log_lines(6).to_pylist()
    rows[4]["ts"] = rows[2]["ts"] = None
    append(root, [write(root, fields, pa.Table.from_pylist(rows, SCHEMA), "eu")])
    found = [one for page in pages(SearchTable(root), "*", cache, limit=2) for one in page]
    assert found == [5, 3, 1, 0, 2, 4]


def test_a_stream_gives_all_hits(table: SearchTable, cache: SplitCache) -> None:
    stream = table.search("timeout", limit=None, columns=["id"], cache=cache)
    reader = pa.RecordBatchReader.from_stream(stream)
    assert [batch.num_rows > 0 for batch in reader] == [True] * 5
    everything = table.search("*", limit=None, cache=cache).to_table()
    assert sorted(everything["id"].to_pylist()) == list(range(COUNT))
    assert min(everything["score"].to_pylist()) > 0


def test_polars_and_duckdb_read_the_stream(table: SearchTable, cache: SplitCache) -> None:
    polars = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    frame = polars.DataFrame(table.search("timeout", limit=5, cache=cache))
    assert frame["id"].to_list() == [row["id"] for row in lines("timeout")[:5]]
    found = table.search("timeout", limit=None, cache=cache).to_reader()  # noqa: F841
    counted = duckdb.connect().execute("select host, count(*) from found group by 1 order by 1").fetchall()
    assert dict(counted) == Counter(row["host"] for row in lines("timeout"))


def test_highlights_mark_what_was_found(table: SearchTable, cache: SplitCache) -> None:
    row = table.search('"disk full"~1 -lost n*', limit=1, highlight=True, cache=cache).to_pylist()[0]
    plain, shown = row["body"], row["highlight"]["body"]
    assert shown.replace("**", "") == plain
    assert "**disk**" in shown
    assert "**full**" in shown
    assert f"**n{row['id']}**" in shown
    marked = table.search("disk", limit=1, highlight=("<b>", "</b>"), cache=cache).to_pylist()[0]
    assert "<b>disk</b>" in marked["highlight"]["body"]
    nothing = table.search("host:web-1", limit=1, highlight=True, cache=cache).to_pylist()[0]
    assert nothing["highlight"] == {"body": None}


def test_highlighting_needs_stored_text(tmp_path: Path, cache: SplitCache) -> None:
    root = tmp_path / "logs"
    make_table(root, stored=[])
    table = SearchTable(root)
    with pytest.raises(QueryError, match=r"highlighting needs the text, and these splits do not store it \(body\)"):
        table.search("disk", highlight=True, cache=cache)
    with pytest.raises(QueryError, match="the values of body are not stored"):
        table.search("disk", columns=["body"], cache=cache)
    assert "body" not in table.search("disk", cache=cache).schema.names


def test_counts(table: SearchTable, cache: SplitCache) -> None:
    assert table.count(cache=cache) == COUNT
    assert table.count("disk", cache=cache) == len(lines("disk"))
    assert table.count("nowhere", cache=cache) == 0
    assert table.count("*", "id < 0", cache=cache) == 0


@pytest.mark.parametrize(("interval", "seconds"), [("1s", 1), ("5s", 5), ("500ms", 0.5), ("1h", 3600), ("1d", 86400)])
def test_histograms(table: SearchTable, cache: SplitCache, interval: str, seconds: float) -> None:
    wanted: Counter[datetime] = Counter()
    for row in lines("error"):
        at = row["ts"].timestamp()
        wanted[datetime.fromtimestamp(at - at % seconds, UTC)] += 1
    found = table.histogram(interval, "error", cache=cache).to_pylist()
    assert {row["ts"]: row["count"] for row in found} == wanted
    assert [row["ts"] for row in found] == sorted(wanted)


@pytest.mark.parametrize("interval", ["", "h", "0h", "1y", "-1h", "1.5h", "1 month"])
def test_an_interval_that_is_none_is_refused(table: SearchTable, interval: str) -> None:
    with pytest.raises(OptionError, match="write 30s, 15m"):
        table.histogram(interval)


@pytest.mark.slow
def test_too_many_spans_are_refused(tmp_path: Path, cache: SplitCache) -> None:
    root = tmp_path / "logs"
    fields = SplitFields.choose(COLUMNS, **CHOICE)
    create_table(root, table_schema(COLUMNS).to_json(), ["region"], configuration={FIELDS: fields.to_json()})
    append(root, [write(root, fields, log_lines(70_000), "eu")])
    table = SearchTable(root)
    with pytest.raises(QueryError, match="asks too much"):
        table.histogram("1ms", cache=cache)
    with pytest.raises(QueryError, match="more than 65,000 different values"):
        table.top_terms("id", cache=cache)


@pytest.mark.parametrize("column", ["host", "ok", "region", "HOST"])
def test_top_terms_of_values(table: SearchTable, cache: SplitCache, column: str) -> None:
    name = column.lower()
    rows = [{**row, "region": region_of(row["id"])} for row in lines("error")]
    counts = Counter(row[name] for row in rows)
    found = table.top_terms(column, "error", limit=3, cache=cache).to_pylist()
    wanted = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:3]
    assert [(row[column if name == "region" else name], row["count"]) for row in found] == wanted


def test_top_terms_of_a_text_are_its_words(table: SearchTable, cache: SplitCache) -> None:
    counts = Counter(word for row in lines("error") for word in set(row["body"].split()))
    found = table.top_terms("body", "error", limit=5, cache=cache).to_pylist()
    assert [(row["body"], row["count"]) for row in found] == sorted(counts.items(), key=lambda p: (-p[1], p[0]))[:5]
    with pytest.raises(QueryError, match="ratio is double"):
        table.top_terms("ratio", cache=cache)
    with pytest.raises(QueryError, match="nothere is not indexed"):
        table.top_terms("nothere", cache=cache)


def test_requests_of_a_search(root: Path, tmp_path: Path) -> None:
    """Cold: a footer and the files of one split; warm: nothing at all."""
    store = CountingStore(open_store(root))
    table = SearchTable(store)
    assert table.state
    store.reset()
    cache = SplitCache(tmp_path / "cache")
    table.search("disk", limit=5, cache=cache)
    assert set(store.paths()) == {table.search("disk", limit=5, cache=cache) and table.splits()[0].path}
    assert store.counts()["range"] <= 2
    store.reset()
    table.search("full", limit=5, cache=cache)
    assert store.counts() == {}
    table.search("full", limit=5, order="best", cache=cache)
    assert len(set(store.paths())) == 4
    assert cache.counts.fetched == 5


@pytest.mark.parametrize(
    ("how", "error", "problem"),
    [
        ({"query": "disk AND"}, QueryError, "character 9"),
        ({"query": "nothere:a"}, QueryError, "no field 'nothere'"),
        ({"where": "nothere = 1"}, UnknownColumnError, "nothere"),
        ({"where": "id ="}, PredicateError, "id ="),
        ({"where": "body = 'x'"}, QueryError, "divided into words"),
        ({"query": "/di(/"}, QueryError, "not understood"),
        ({"limit": 0}, OptionError, "limit=0"),
        ({"limit": 10_001}, OptionError, "limit=10001"),
        ({"order": "oldest"}, OptionError, "newest or best"),
        ({"limit": None, "order": "best"}, OptionError, "newest split first"),
        ({"columns": ["nothere"]}, UnknownColumnError, "nothere"),
    ],
)
def test_wrong_calls_are_refused_before_a_split_is_opened(
    table: SearchTable, tmp_path: Path, how: dict[str, Any], error: type[Exception], problem: str
) -> None:
    cache = SplitCache(tmp_path / "cache")
    with pytest.raises(error, match=problem):
        table.search(**{"query": "disk", "cache": cache, **how})
    assert cache.counts.opened == 0


def test_an_empty_table_answers(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    fields = SplitFields.choose(COLUMNS, **CHOICE)
    create_table(root, table_schema(COLUMNS).to_json(), ["region"], configuration={FIELDS: fields.to_json()})
    table = SearchTable(root)
    assert table.search("disk").to_table().num_rows == 0
    assert table.count("disk") == 0
    assert table.histogram("1h").num_rows == 0
    assert table.top_terms("host").num_rows == 0
    with pytest.raises(QueryError):
        table.search("/(/")


def test_tables_of_other_programs_are_refused_by_name(tmp_path: Path) -> None:
    create_table(tmp_path, table_schema(COLUMNS).to_json())
    append(tmp_path, [Split(path="a.split", size=10, docMappingJson='[{"name":"body"}]')])
    with pytest.raises(UnsupportedFeatureError, match="written by another program"):
        SearchTable(tmp_path).search("disk")
    other = tmp_path / "other"
    create_table(other, table_schema(COLUMNS).to_json())
    with pytest.raises(UnsupportedFeatureError, match=r"text search in .* is not supported"):
        SearchTable(other).search("disk")


def test_a_damaged_split_is_named(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    make_table(root)
    table = SearchTable(root)
    broken = root / table.splits()[0].path
    data = bytearray(broken.read_bytes())
    data[100] ^= 0xFF
    broken.write_bytes(bytes(data))
    with pytest.raises(CorruptDataError, match="is damaged"):
        table.search("disk", cache=SplitCache(tmp_path / "cache"))


@pytest.mark.parametrize("query", ["host:WEB-3", 'disk host:"Web-3"', "host:web-1 AND host:Web-2"])
def test_another_case_is_told(table: SearchTable, cache: SplitCache, query: str) -> None:
    (note,) = table.search(query, cache=cache).notes
    assert "host is compared with its case" in note


def test_nothing_is_told_where_nothing_is_wrong(table: SearchTable, cache: SplitCache) -> None:
    for query in ("host:web-99", "nowhere", "id:77777", "-host:WEB-3 nowhere"):
        hits = table.search(query, cache=cache)
        assert (hits.to_table().num_rows, hits.notes) == (0, ())


def test_splits_of_other_fields_are_asked_in_their_way(tmp_path: Path, cache: SplitCache) -> None:
    """The analyzer of a table was changed: older splits keep theirs."""
    root = tmp_path / "logs"
    make_table(root)
    stemmed = SplitFields.choose(COLUMNS, **{**CHOICE, "analyzers": {"body": "en"}})
    rows = log_lines(2, 900).set_column(3, "body", pa.array(["disks failing", "plain"]))
    append(root, [write(root, stemmed, rows, "eu")])
    found = ids(SearchTable(root).search("disk", limit=1000, cache=cache))
    assert found == [900, *(row["id"] for row in lines("disk"))]


def test_nan_is_a_value_in_no_order(tmp_path: Path) -> None:
    """As a predicate of `DeltaTable` has it: NaN is not null, and only `!=` and negations are true of it."""
    ratios = [1.0, float("nan"), None, float("-nan"), float("inf"), -3.0]
    rows = pa.table({"id": range(6), "ratio": pa.array(ratios, pa.float64())})
    build_splits(rows, tmp_path / "logs", key=["id"], filters=["ratio"])
    table = SearchTable(tmp_path / "logs")
    for where, wanted in [
        ("ratio > 0", [0, 4]),
        ("ratio <= 1", [0, 5]),
        ("ratio != 1", [1, 3, 4, 5]),
        ("NOT (ratio > 0)", [1, 3, 5]),
        ("ratio IS NULL", [2]),
        ("ratio IS NOT NULL", [0, 1, 3, 4, 5]),
    ]:
        predicate = bind_predicate(where, table.schema(), [])
        assert predicate is not None
        assert [at for at, flag in enumerate(matching(predicate, rows.to_batches()[0]).to_pylist()) if flag] == wanted
        assert sorted(table.search("*", where).to_table()["id"].to_pylist()) == wanted, where
    assert sorted(table.search("ratio:[0 TO *]").to_table()["id"].to_pylist()) == [0, 4]
    assert math.isnan(table.search("id:1").to_pylist()[0]["ratio"])


def test_a_key_is_looked_up_as_a_term(tmp_path: Path) -> None:
    """One that is no whole number, or none of 64 bits, is in no row; the score is that of any other condition."""
    rows = pa.table({"id": [5, None, -(2**63), 2**63 - 1], "body": ["disk"] * 4})
    build_splits(rows, tmp_path / "logs", text=["body"], key=["id"])
    table = SearchTable(tmp_path / "logs")
    for query, wanted in [
        ("id:5", [5]),
        ("id:6", []),
        (f"id:{2**63 - 1}", [2**63 - 1]),
        (f"id:{-(2**63)}", [-(2**63)]),
        ("id:>=5", [5, 2**63 - 1]),
        ("id:(5 OR 6)", [5]),
        ("NOT id:5", [-(2**63), 2**63 - 1, None]),
    ]:
        found = table.search(query).to_table()["id"].to_pylist()
        assert sorted(found, key=lambda one: (one is None, one)) == wanted, query
    assert table.search("*", f"id IN (5, {2**63 - 1}, {2**64})").to_table().num_rows == 2
    assert table.count("*", f"id IN ({2**64})") == table.count(f"id:{2**64}") == 0
    assert table.search("id:5", order="best").to_pylist()[0]["score"] == 1.0


def test_pages_go_on_with_the_time_of_the_first(table: SearchTable, cache: SplitCache) -> None:
    found = list(pages(table, "timeout", cache, limit=40, where="ts > now() - INTERVAL 100 YEARS"))
    assert [one for page in found for one in page] == [row["id"] for row in lines("timeout")]


def test_pages_go_on_where_splits_are_listed_in_another_order(
    tmp_path: Path, cache: SplitCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a checkpoint of another writer."""
    root = tmp_path / "logs"
    make_table(root, time=None, filters=["ts"])
    table = SearchTable(root)
    first = table.search("*", limit=130, cache=cache)
    splits = PreparedSearch.splits.func
    monkeypatch.setattr(PreparedSearch, "splits", property(lambda self: splits(self)[::-1]))
    found, after = ids(first), first.next_page
    while after is not None:
        page = table.search("*", limit=130, after=after, cache=cache)
        found += ids(page)
        after = page.next_page
    assert sorted(found) == list(range(COUNT))


def test_a_page_holds_open_the_splits_of_its_hits_only(tmp_path: Path, cache: SplitCache) -> None:
    root = tmp_path / "logs"
    make_table(root)
    searched = PreparedSearch(SearchTable(root), "*", None, cache)
    found = _Found(3)
    for number, split in enumerate(searched.splits):
        found.add(number, searched.open(split), [_Hit((-number,), number, rank, None) for rank in range(4)])
    assert (found.searched, len(found.hits), list(found.opened)) == (5, 4, [4])


def test_a_stream_asks_each_split_once(tmp_path: Path, cache: SplitCache, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "logs"
    make_table(root)
    table = SearchTable(root)
    asked: list[dict[str, Any]] = []
    ask_engine = SearchedSplit.ask
    monkeypatch.setattr(SearchedSplit, "ask", lambda self, **how: asked.append(how) or ask_engine(self, **how))
    run = SearchRun(PreparedSearch(table, "*", None, cache), columns=["id"])
    batches = list(run.stream(batch_rows=30).to_reader())
    assert [batch.num_rows for batch in batches] == [30, 30, 30, 10] * 5
    assert [one for batch in batches for one in batch["id"].to_pylist()] == list(range(COUNT - 1, -1, -1))
    assert len(asked) == 5


def test_scores_of_a_stream_are_those_of_a_page(tmp_path: Path, cache: SplitCache) -> None:
    root = tmp_path / "logs"
    fields = SplitFields.choose(COLUMNS, **CHOICE)
    create_table(root, table_schema(COLUMNS).to_json(), ["region"], configuration={FIELDS: fields.to_json()})
    rows = log_lines(60).to_pylist()
    for number in range(0, 60, 7):
        rows[number]["ts"] = None if number % 2 else rows[3]["ts"]
    append(root, [write(root, fields, pa.Table.from_pylist(rows, SCHEMA), "eu")])
    table = SearchTable(root)
    stream = table.search("disk OR full OR lost", limit=None, cache=cache).to_table()
    page = table.search("disk OR full OR lost", limit=100, cache=cache).to_table()
    assert stream["id"].to_pylist() == page["id"].to_pylist()
    assert stream["score"].to_pylist() == pytest.approx(page["score"].to_pylist(), rel=1e-5)


def test_a_stream_of_a_split_that_is_not_there_is_refused(table: SearchTable, cache: SplitCache) -> None:
    run = SearchRun(PreparedSearch(table, "disk", None, cache))
    with pytest.raises(PositionError, match=r"version 5 of .* has no split gone\.split"):
        run.stream("gone.split")


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ({"limit": 1.5}, "limit=1.5"),
        ({"limit": "3"}, "limit='3'"),
        ({"limit": True}, "limit=True"),
        ({"columns": ["body", "id", "BODY"]}, "the column body is wanted twice"),
        ({"columns": "body"}, "give a list of names"),
        ({"highlight": ("a",)}, "give True, or two texts"),
        ({"highlight": "x"}, "give True, or two texts"),
        ({"highlight": (1, 2)}, "give True, or two texts"),
    ],
)
def test_arguments_of_another_kind_are_refused(table: SearchTable, how: dict[str, Any], problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        table.search("disk", **how)


def test_texts_that_are_not_unicode_are_refused(table: SearchTable) -> None:
    with pytest.raises(QueryError, match="the query is not valid Unicode at character 6"):
        table.search("disk \ud800")
    with pytest.raises(PredicateError, match="the predicate is not valid Unicode"):
        table.search("disk", "host = '\ud800'")
    with pytest.raises(QueryError, match="is not valid Unicode"):
        table.search("disk", [("host", "=", "\ud800")])
    with pytest.raises(OptionError, match="limit='3'"):
        table.top_terms("host", limit="3")  # type: ignore[arg-type]


def test_a_regular_expression_is_marked_in_linear_time(tmp_path: Path, cache: SplitCache) -> None:
    root = tmp_path / "logs"
    words = ["a" * 60, "a" * 60 + "b", "disk", "Länge7"]
    build_splits(pa.table({"body": [" ".join(words)]}), root, text=["body"], stored=["body"])
    table = SearchTable(root)

    def marked(query: str) -> str:
        return str(table.search(query, highlight=("<", ">"), cache=cache).to_pylist()[0]["highlight"]["body"])

    assert marked("disk /(a+)+b/") == f"{words[0]} <{words[1]}> <disk> Länge7"
    assert marked("disk *a*a*a*a*a*a*a*a*a*b") == f"{words[0]} <{words[1]}> <disk> Länge7"
    assert marked("/l.nge[0-9]/") == f"{words[0]} {words[1]} disk <Länge7>"
    assert marked("l?nge*") == f"{words[0]} {words[1]} disk <Länge7>"


def test_weeks_begin_on_monday(tmp_path: Path, cache: SplitCache) -> None:
    moments = [datetime(2026, 1, day, 12, tzinfo=UTC) for day in (4, 5, 11, 12, 20)]
    for kind, to in ((pa.timestamp("us", "UTC"), lambda at: at), (pa.date32(), lambda at: at.date())):
        root = tmp_path / str(kind)
        build_splits(
            pa.table({"ts": pa.array([to(at) for at in moments], kind), "body": ["x"] * 5}),
            root,
            text=["body"],
            time="ts",
        )
        table = SearchTable(root)
        weeks = table.histogram("1w", cache=cache).to_pylist()
        assert [(row["ts"].isoformat()[:10], row["count"]) for row in weeks] == [
            ("2025-12-29", 1),
            ("2026-01-05", 2),
            ("2026-01-12", 1),
            ("2026-01-19", 1),
        ]
        assert sum(row["count"] for row in table.histogram("2w", cache=cache).to_pylist()) == 5
        found = {
            query: table.count(query, cache=cache) for query in ("ts:2026", "ts:2026-01", "ts:2025-12", "ts:2026-01-05")
        }
        assert found == {"ts:2026": 5, "ts:2026-01": 5, "ts:2025-12": 0, "ts:2026-01-05": 1}
        ranges = {"ts:>2026-01": 0, "ts:<2026": 0, "ts:>=2026-01": 5, "ts:[* TO 2026-01]": 5, "ts:{2025 TO 2027}": 5}
        assert {query: table.count(query, cache=cache) for query in ranges} == ranges
        with pytest.raises(QueryError, match="2026-13"):
            table.count("ts:2026-13", cache=cache)


def test_values_that_are_too_long_for_the_index_are_refused(table: SearchTable) -> None:
    long = "x" * 65_531
    for where in (f"host = '{long}'", f"host <> '{long}'", f"host IN ('a', '{long}')", f"host LIKE '{long}%'"):
        with pytest.raises(QueryError, match=r"for host has 65,53\d bytes; values of up to 65,530 are indexed"):
            table.search("*", where)
    assert table.count("*", f"host = '{long[:-1]}'") == 0


def test_each_word_is_divided_once(table: SearchTable, monkeypatch: pytest.MonkeyPatch) -> None:
    divided: list[str] = []
    divide = Analyzer._divided
    monkeypatch.setattr(Analyzer, "_divided", lambda self, text, how: divided.append(text) or divide(self, text, how))
    PreparedSearch(table, " OR ".join(f"w{number}" for number in range(100)))
    assert len(divided) == 100
