"""The same questions in every engine, of tables that delta-spark wrote: the rows that it gives, value by value.

Where an engine, or a predicate, means something else by a condition, that meaning is asked of delta-spark in its words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from delta_sidecar import DeltaTable, build_index
from delta_sidecar.engines.spark import register, sidecar_files
from delta_sidecar.errors import PredicateError, UnsupportedTableError
from delta_sidecar.pipeline.failures import own_error
from tests.integration.same import sorted_rows
from tests.integration.spark.oracle import SparkTable, with_setting
from tests.integration.spark.query_questions import CONDITIONS, MEANINGS, QUERIES, Meaning, Query
from tests.integration.spark.query_tables import NAMES, TABLES, Stored, make_rows
from tests.integration.spark.query_ways import SHARED_OUT, WAYS, chosen, written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_T = TypeVar("_T")
_QUESTION: Final = "__question"
_WHOLE: Final = "query_whole"
_CHOSEN: Final = "query_chosen"


@dataclass(frozen=True, slots=True)
class Asked:
    """A table, and what delta-spark answers."""

    name: str
    table: SparkTable
    rows: dict[str, list[str]]
    """By condition, in Spark's words."""
    answers: dict[str, list[str]]
    """By the name of a query; without its limit."""

    @property
    def stored(self) -> Stored:
        return TABLES[self.name]

    @property
    def ours(self) -> DeltaTable:
        return DeltaTable(str(self.table.root))

    def check_rows(self, name: str, meaning: Meaning, found: pa.Table) -> None:
        assert tuple(found.column_names) == NAMES
        assert sorted_rows(found) == self.rows[CONDITIONS[name].meant_by(meaning)], name

    def check_answer(self, name: str, found: pa.Table) -> None:
        limit, expected = QUERIES[name].limit, self.answers[name]
        if limit is None:
            assert sorted_rows(found) == expected, name
        else:
            assert found.num_rows == min(limit, len(expected)), name
            assert Counter(sorted_rows(found)) <= Counter(expected), name


def shared_out(asked: Asked, questions: dict[str, _T], tables: Sequence[str]) -> dict[str, _T]:
    """The questions whose turn it is, where each is asked of one of some tables, because asking takes long: of one
    that `make test` has, and of one that it leaves out."""
    among = [name for name in tables if TABLES[name].is_long is asked.stored.is_long]
    turn = among.index(asked.name)
    return {name: question for n, (name, question) in enumerate(questions.items()) if n % len(among) == turn}


@pytest.fixture(scope="module")
def with_rows(spark: SparkSession) -> SparkSession:
    make_rows(spark)
    return spark


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.long] * stored.is_long) for name, stored in TABLES.items()],
)
def asked(request: pytest.FixtureRequest, with_rows: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Asked:
    stored = TABLES[request.param]
    table = SparkTable(with_rows, tmp_path_factory.mktemp("queries") / stored.directory)
    stored.make(table)
    build_index(table.root)
    rows_of, everything = _rows_by_condition(table.frame())
    return Asked(request.param, table, rows_of, _expected_answers(with_rows.createDataFrame(everything)))


def _rows_by_condition(frame: DataFrame) -> tuple[dict[str, list[str]], pa.Table]:
    """The rows that each condition is true of, and all rows, by one job: Spark evaluates every condition of a row."""
    texts = list(dict.fromkeys(each.meant_by(meaning) for each in CONDITIONS.values() for meaning in MEANINGS))
    flags = [f"coalesce({text}, false) AS c{n}" for n, text in enumerate(texts)]
    found = frame.selectExpr("*", *flags).toArrow()
    everything = found.select(NAMES)
    return {text: sorted_rows(everything.filter(found[f"c{n}"])) for n, text in enumerate(texts)}, everything


def _expected_answers(rows: DataFrame) -> dict[str, list[str]]:
    rows.createOrReplaceTempView(_WHOLE)
    texts = {
        name: query.sql.format(t=chosen(CONDITIONS[query.condition].spark, _WHOLE), whole=_WHOLE)
        for name, query in QUERIES.items()
    }
    answers = _answers({name: rows.sparkSession.sql(text) for name, text in texts.items()})
    return {name: sorted_rows(found) for name, found in answers.items()}


def _answers(frames: dict[str, DataFrame]) -> dict[str, pa.Table]:
    """The rows of many frames of one schema, in one job."""
    from pyspark.sql import functions as F

    if not frames:
        return {}
    named = [frame.withColumn(_QUESTION, F.lit(name)) for name, frame in frames.items()]
    found = reduce(lambda one, other: one.unionAll(other), named).toArrow()
    return {name: found.filter(pc.equal(found[_QUESTION], name)).drop_columns(_QUESTION) for name in frames}


def test_the_tables_tell_the_questions_apart(asked: Asked) -> None:
    """A question that is true of all rows, or of none, tells little; nor does another meaning with the same rows."""
    for name, condition in CONDITIONS.items():
        count = len(asked.rows[condition.spark])
        assert count < 18, name
        assert bool(count) is (name not in ("no row", "NOT IN with null")), name
        for other in (condition.as_predicate, condition.as_arrow, condition.as_datafusion):
            assert other is None or asked.rows[other] != asked.rows[condition.spark], name


@pytest.mark.parametrize("way", list(WAYS))
def test_rows_are_those_of_delta_spark(asked: Asked, way: str) -> None:
    make, asked_way = WAYS[way]
    engine = way.partition(" ")[0]
    reason = getattr(asked.stored, engine, None)
    if asked_way == "files" and reason is not None:
        with pytest.raises(UnsupportedTableError, match=reason):
            asked.ours.engine_plan(engine, way="files")
        asked_way = "auto"
    asking = make(asked.ours, asked_way)
    among = list(TABLES) if way in SHARED_OUT else [asked.name]
    for name, condition in shared_out(asked, CONDITIONS, among).items():
        if asking.meaning == "predicate" and condition.refused is not None:
            with pytest.raises(PredicateError, match=condition.refused):
                asking.rows(condition)
        else:
            asked.check_rows(name, asking.meaning, asking.rows(condition))
    for name, query in shared_out(asked, QUERIES, among).items():
        asked.check_answer(name, asking.answer(query))


@contextmanager
def registered(spark: SparkSession, push_filters: bool = False) -> Iterator[None]:
    """The source, with small files in as few tasks as there may be."""
    with with_setting(spark, "spark.sql.files.openCostInBytes", "1b"):
        register(spark, push_filters=push_filters)
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def source(asked: Asked, **options: str) -> DataFrame:
    return asked.table.spark.read.format("sidecar").options(**options).load(str(asked.table.root))


def spark_answer(query: Query, rows: DataFrame, whole: DataFrame) -> DataFrame:
    rows.createOrReplaceTempView(_CHOSEN)
    whole.createOrReplaceTempView(_WHOLE)
    return rows.sparkSession.sql(written(query, _CHOSEN, _WHOLE))


def check_spark(asked: Asked, meaning: Meaning, rows: dict[str, DataFrame], answers: dict[str, DataFrame]) -> None:
    for name, found in _answers(rows).items():
        asked.check_rows(name, meaning, found)
    for name, found in _answers(answers).items():
        asked.check_answer(name, found)


def test_the_source_reads_by_a_predicate(asked: Asked) -> None:
    from pyspark.errors import AnalysisException

    rows, answers = {}, {}
    with registered(asked.table.spark):
        for name, condition in shared_out(asked, CONDITIONS, list(TABLES)).items():
            if condition.refused is None:
                rows[name] = source(asked, predicate=condition.predicate)
            else:
                with pytest.raises(AnalysisException) as told:
                    source(asked, predicate=condition.predicate)
                assert condition.refused in str(own_error(str(told.value)))
        for name, query in shared_out(asked, QUERIES, list(TABLES)).items():
            chosen_rows = source(asked, predicate=CONDITIONS[query.condition].predicate)
            answers[name] = spark_answer(query, chosen_rows, source(asked))
        check_spark(asked, "predicate", rows, answers)


def test_the_source_reads_for_filters_of_spark(asked: Asked) -> None:
    """Filters that are not pushed: the source is not told of them, so one scan serves all conditions."""
    with registered(asked.table.spark):
        frame = source(asked)
        assert _rows_by_condition(frame)[0] == asked.rows
        queries = shared_out(asked, QUERIES, list(TABLES)).items()
        answers = {n: spark_answer(q, frame.where(CONDITIONS[q.condition].spark), frame) for n, q in queries}
        check_spark(asked, "spark", {}, answers)


def test_the_source_reads_for_filters_that_are_pushed(asked: Asked) -> None:
    """A frame for each filter: Spark keeps one plan for a frame."""
    with registered(asked.table.spark, push_filters=True):
        wheres = shared_out(asked, CONDITIONS, list(TABLES)).items()
        rows = {name: source(asked).where(condition.spark) for name, condition in wheres}
        queries = shared_out(asked, QUERIES, list(TABLES)).items()
        answers = {
            name: spark_answer(query, source(asked).where(CONDITIONS[query.condition].spark), source(asked))
            for name, query in queries
        }
        check_spark(asked, "spark", rows, answers)


def test_spark_scans_the_pruned_files(asked: Asked) -> None:
    spark, root = asked.table.spark, asked.table.root
    if asked.stored.spark is not None:
        with pytest.raises(UnsupportedTableError, match=asked.stored.spark):
            sidecar_files(spark, root)
        return
    rows = {}
    among = [name for name, stored in TABLES.items() if stored.spark is None]
    for name, condition in shared_out(asked, CONDITIONS, among).items():
        refused = condition.refused or condition.refused_by_files
        if refused is None:
            rows[name] = sidecar_files(spark, root, condition.predicate)
        else:
            with pytest.raises(PredicateError, match=refused):
                sidecar_files(spark, root, condition.predicate)
    answers = {
        name: spark_answer(query, sidecar_files(spark, root, CONDITIONS[query.condition].predicate), whole)
        for whole in [sidecar_files(spark, root)]
        for name, query in shared_out(asked, QUERIES, among).items()
    }
    check_spark(asked, "predicate", rows, answers)
