"""Each query form finds what a plain-Python matcher finds, whatever the language and the analyzer."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

tantivy = pytest.importorskip("tantivy", reason="the extra `search` is not installed")

from delta_sidecar import QueryError  # noqa: E402
from delta_sidecar.predicates.binding import bind_predicate  # noqa: E402
from delta_sidecar.predicates.evaluation import matching  # noqa: E402
from delta_sidecar.search.query.binding import QueryFields, bind_query  # noqa: E402
from delta_sidecar.search.query.engine import ask, engine_query  # noqa: E402
from delta_sidecar.search.query.expression import Query, Word  # noqa: E402
from delta_sidecar.search.query.text import MOST_TERMS, parse_query  # noqa: E402
from delta_sidecar.search.query.where import rows_where  # noqa: E402
from delta_sidecar.search.splits.analyzers import analyzer  # noqa: E402
from delta_sidecar.search.splits.fields import SplitFields  # noqa: E402
from delta_sidecar.values.types import PrimitiveType, StructField, StructType  # noqa: E402
from tests.search.query_cases import Queries, document, written  # noqa: E402
from tests.search.query_model import DIVIDE, Model  # noqa: E402

COLUMNS = {"body": "string", "host": "string", "n": "long", "x": "double", "ts": "timestamp", "flag": "boolean"}
ARROW = pa.schema(
    {
        "body": pa.string(),
        "host": pa.string(),
        "n": pa.int64(),
        "x": pa.float64(),
        "ts": pa.timestamp("us", "UTC"),
        "flag": pa.bool_(),
    }
)
ANALYZERS = ["default", "simple", "whitespace", "raw", "raw_lower", "folded", "cjk", "en", "de"]
CASES = int(os.environ.get("DELTA_SIDECAR_QUERY_CASES", "120"))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def schema_of(**columns: str) -> StructType:
    return StructType(tuple(StructField(name, PrimitiveType(kind), True) for name, kind in columns.items()))


def fields_of(name: str) -> SplitFields:
    return SplitFields.choose(
        schema_of(**COLUMNS), text=["body"], filters=["host", "n", "x", "flag"], time="ts", analyzers={"body": name}
    )


class Indexed:
    """Documents in an index in memory."""

    def __init__(self, name: str, documents: list[dict[str, Any]]) -> None:
        self.fields = QueryFields(fields_of(name), schema_of(**COLUMNS))
        self.documents = documents
        self.schema = self.fields.fields.engine_schema()
        index = tantivy.Index(self.schema)
        self.fields.fields.register(index)
        writer = index.writer(15_000_000, 1)
        for one in documents:
            made = tantivy.Document()
            for column, add in (
                ("body", "text"),
                ("host", "text"),
                ("n", "integer"),
                ("x", "float"),
                ("flag", "boolean"),
            ):
                if one[column] is not None:
                    getattr(made, f"add_{add}")(column, one[column])
            if one["ts"] is not None:
                made.add_integer("ts", int((one["ts"] - EPOCH).total_seconds()) * 1_000_000 + one["ts"].microsecond)
            writer.add_document(made)
        writer.commit()
        index.reload()
        self.searcher = index.searcher()
        assert self.searcher.num_segments == 1

    def search(self, query: Query) -> set[int]:
        return self.hits(bind_query(query, self.fields))

    def hits(self, plan: Any) -> set[int]:
        made = engine_query(plan, self.schema, lambda _: True)
        found = ask(lambda: self.searcher.search(made, limit=len(self.documents)), "here")
        return {address.doc for _, address in found.hits}


def indexed(name: str, count: int = 150, seed: int = 0) -> Indexed:
    chance = random.Random(f"{name}{seed}")
    return Indexed(name, [document(chance) for _ in range(count)])


def stem(language: str, word: str) -> str:
    return analyzer(language).words(word)[0].text


def instant(text: str) -> datetime:
    when = datetime.fromisoformat(text)
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def model(name: str) -> Model:
    typed: dict[str, Callable[[str], Any]] = {"n": int, "x": float, "ts": instant, "flag": lambda t: t == "true"}
    return Model({"body": name, "host": "raw"}, ["body"], stem, typed)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in ("default", "raw", "cjk", "en") else [pytest.mark.slow]) for n in ANALYZERS],
)
def test_queries_find_what_the_model_finds(name: str) -> None:
    made, expected = indexed(name), model(name)
    queries = Queries(random.Random(name), has_patterns=name not in ("en", "de"))
    found = refused = 0
    for _ in range(CASES):
        query = queries.query()
        text = written(query)
        assert parse_query(text) == query, text
        try:
            hits = made.search(query)
        except QueryError:
            refused += 1
            continue
        wanted = {at for at, one in enumerate(made.documents) if expected.finds(query, one)}
        assert hits == wanted, text
        found += bool(hits)
    assert found > CASES * 0.3, "most queries should find something"
    assert refused < CASES * 0.6


WHERES = [
    "n = 404",
    "n != 404",
    "n > 1 AND n <= 500",
    "NOT (n < 400)",
    "n IN (0, 1, 404)",
    "n NOT IN (0, 1)",
    "n IS NULL",
    "n IS NOT NULL AND host IS NULL",
    "n > 9223372036854775806",
    "n < -9223372036854775807",
    "n > 1.5",
    "n = 1.5",
    "x = 0",
    "x < 0",
    "x >= 0",
    "x > 1e299",
    "x != 1.5",
    "NOT (x > 0)",
    "x IS NULL OR flag",
    "flag",
    "NOT flag",
    "flag != true",
    "flag IS NOT TRUE",
    "ts >= '2026-01-02'",
    "ts < '2026-01-02T05:00:00Z'",
    "date(ts) = '2026-01-02'",
    "ts = '2026-01-01T00:00:00.000001Z'",
    "host = 'web-7'",
    "host = ''",
    "host != 'web-7'",
    "host IN ('web-7', 'Web-7', 'none')",
    "host NOT IN ('web-7')",
    "host LIKE 'w%'",
    "host LIKE '%-7'",
    "host LIKE 'a_b'",
    "host NOT LIKE '%e%'",
    "host LIKE '%'",
    "host = 'web-7' OR (n = 404 AND NOT (flag AND x > 0))",
    "NOT (host = 'web-7' OR n = 404)",
    "n = NULL",
    "n IS DISTINCT FROM 404",
]


@pytest.fixture(scope="module")
def plain() -> Indexed:
    return indexed("default", 400, seed=1)


@pytest.mark.parametrize("where", WHERES)
def test_predicates_find_the_rows_for_which_they_are_true(plain: Indexed, where: str) -> None:
    predicate = bind_predicate(where, plain.fields.columns, [])
    assert predicate is not None
    batch = pa.RecordBatch.from_pylist(plain.documents, ARROW)
    wanted = {at for at, flag in enumerate(matching(predicate, batch).to_pylist()) if flag}
    assert plain.hits(rows_where(predicate, plain.fields.fields)) == wanted


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("body = 'disk'", "body is divided into words"),
        ("body IS NULL", "do not tell whether it is null"),
        ("body LIKE '%disk%'", "search for words in the query"),
        ("host > 'a'", "without an order"),
        ("n = x", "compares two columns"),
    ],
)
def test_predicates_that_the_fields_cannot_answer_are_refused(plain: Indexed, where: str, problem: str) -> None:
    predicate = bind_predicate(where, plain.fields.columns, [])
    assert predicate is not None
    with pytest.raises(QueryError, match=problem):
        rows_where(predicate, plain.fields.fields)


def test_a_column_without_an_index_is_refused_by_name() -> None:
    columns = schema_of(**COLUMNS)
    fields = SplitFields.choose(columns, text=["body"], stored=["n"])
    for where in ("n = 1", "host = 'a'"):
        predicate = bind_predicate(where, columns, [])
        assert predicate is not None
        with pytest.raises(QueryError, match=r"(n|host) is not indexed in these splits"):
            rows_where(predicate, fields)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("default", "hots:a", r"no field 'hots' \(before character 6\) \(did you mean host\?\)"),
        ("default", "12:30:45", "no field '12'.*a text with a colon is quoted"),
        ("default", "\U0001f525", "has no word that the analyzer default of body would index"),
        ("default", '"- !"', "has no word"),
        ("default", '""', "has no word"),
        ("default", "error \U0001f525", "character 7"),
        pytest.param("default", "x" * 256, "more than 255 bytes", id="long word"),
        pytest.param("default", "x" * 256 + "*", "more than 255 bytes", id="long prefix"),
        ("default", "web-7*x", "works within one word"),
        ("default", "web-*", "works within one word"),
        ("default", "web-7~1", "works within one word"),
        ("default", "body:[a TO b]", "texts have no ranges"),
        ("default", "host:>a", "texts have no ranges"),
        ("default", "/Disk/", "indexed in lower case"),
        ("default", "/di(sk/", "the regular expression /di\\(sk/ is not understood: unclosed group"),
        ("default", "/^disk$/", "not understood"),
        ("default", "n:abc", "character 3"),
        ("default", "n:4*", "n is long: it has values and ranges, and no patterns"),
        ("default", "n:4~1", "no patterns"),
        ("default", "ts:2026-13-01", "character 4"),
        ("default", "flag:maybe", "character 6"),
        ("default", '"a b c"~100', "takes up to ~21"),
        pytest.param("default", " ".join(["a*"] * 501), "501 patterns", id="many patterns"),
        ("cjk", "磁?满", "works within one word"),
        ("cjk", "磁盘~1", "works within one word"),
        ("en", "runn*", "keeps words without their endings"),
        ("en", "running~1", "keeps words without their endings"),
        ("en", "/run/", "keeps words without their endings"),
    ],
)
def test_what_a_field_cannot_answer_is_refused_by_name(name: str, text: str, problem: str) -> None:
    fields = QueryFields(fields_of(name), schema_of(**COLUMNS))
    with pytest.raises(QueryError, match=problem):
        engine_query(bind_query(parse_query(text), fields), fields.fields.engine_schema(), lambda _: True)


def test_a_phrase_needs_positions() -> None:
    import msgspec

    made = fields_of("default")
    bare = SplitFields(tuple(msgspec.structs.replace(one, positions=False) for one in made))
    fields = QueryFields(bare, schema_of(**COLUMNS))
    for text in ('"disk full"', "web-7", "web-7*"):
        with pytest.raises(QueryError, match="body is indexed without positions"):
            bind_query(parse_query(text), fields)
    assert bind_query(parse_query("disk"), fields)


def test_a_day_is_all_of_the_day(plain: Indexed) -> None:
    def days(text: str) -> set[int]:
        found = plain.search(parse_query(text))
        return {one["ts"].day for at, one in enumerate(plain.documents) if at in found}

    assert days("ts:2026-01-02") == {2}
    assert days("ts:[2026-01-01 TO 2026-01-02]") == {1, 2}
    assert days("ts:{2026-01-01 TO *]") == {2, 3}
    assert days("ts:<=2026-01-02") == {1, 2}
    assert days("ts:<2026-01-02") == {1}


@pytest.mark.slow
def test_ten_thousand_words_are_answered(plain: Indexed) -> None:
    disks = plain.search(Word(None, "disk"))
    assert disks
    rare = " OR ".join(f"nowhere{number}" for number in range(MOST_TERMS - 1))
    assert plain.search(parse_query(f"{rare} OR disk")) == disks
    assert plain.search(parse_query(" ".join(["disk"] * MOST_TERMS))) == disks
    phrase = '"' + " ".join(["disk"] * MOST_TERMS) + '"'
    assert plain.search(parse_query(phrase)) == set()


def test_deep_nesting_is_answered(plain: Indexed) -> None:
    disks = plain.search(Word(None, "disk"))
    assert plain.search(parse_query("(error OR " * 60 + "disk" + ")" * 60)) >= disks
    assert plain.search(parse_query("-(" * 60 + "disk" + ")" * 60)) == disks
    assert plain.search(parse_query("-(" * 61 + "disk" + ")" * 61)) == set(range(len(plain.documents))) - disks


def test_injections_are_texts(plain: Indexed) -> None:
    """A text that is quoted is only a text, whatever it holds."""
    expected = model("default")
    for text in [
        '") OR *',
        "a} OR b:{",
        "\\",
        '\\"',
        "*)(uid=*",
        "'; DROP TABLE x",
        'disk\\" OR x',
        "{{web}}",
        "[0 TO 9]",
    ]:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        query = parse_query(f'"{quoted}"')
        try:
            hits = plain.search(query)
        except QueryError as error:
            problem = str(error)
            assert not DIVIDE["default"](text), problem
            continue
        assert hits == {at for at, one in enumerate(plain.documents) if expected.finds(query, one)}
