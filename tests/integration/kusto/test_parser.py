"""Microsoft's own parser accepts every query and command, and reads our literals as we mean them."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar.engines import kql
from delta_sidecar.engines.kusto import queries
from delta_sidecar.errors import PredicateError
from delta_sidecar.values.types import DecimalType, PrimitiveType
from tests.engines.kql_predicates import POOLS, SCHEMA, bound
from tests.engines.kusto_cases import ROOT, texts, wide
from tests.integration.servers import KustoParser
from tests.properties.predicates import Predicate, predicates

DECLARED = ", ".join(f"{kql.name(column.name)}:{kql.type_of(column)}" for column in SCHEMA)
SOURCE = f'inline_external_table ({DECLARED}) kind=storage dataformat=parquet (h@"{ROOT}")'
ODD = "'\"\\\n\r\t\0\x1b\u2028\u0085`@h%;a😀"
WORDS = [
    "where", "project", "union", "datatable", "kind", "in", "and", "or", "not", "let", "by", "of", "on", "with", "true",
    "null", "long", "datetime", "1day", "9", "count", "_x", "a-b", "a b", "a.b", "größe", "数量",
]  # fmt: skip


def test_every_shape_parses(kusto: KustoParser, tmp_path: Path) -> None:
    for text in texts(tmp_path):
        parsed = kusto.parse(text)
        assert parsed.diagnostics == [], text
        assert parsed.kind == ("Command" if text.startswith(".") else "Query")


def test_the_parser_finds_mistakes(kusto: KustoParser) -> None:
    for text in (f"{SOURCE} | where ['nope'] == 1", f"{SOURCE} | where ['s'] < \"b\"", f"{SOURCE} | whre ['l'] == 1"):
        assert kusto.parse(text).diagnostics


@given(predicate=predicates(POOLS))
def test_random_predicates_parse_or_are_refused(kusto: KustoParser, predicate: Predicate) -> None:
    try:
        condition = kql.condition(bound(predicate))
    except PredicateError:
        return
    assert kusto.parse(f"{SOURCE}\n| where {condition}").diagnostics == [], condition


@pytest.mark.parametrize("predicate", [
    "i < l", "i < d", "l != f", "i >= c", "c = l", "day < ts", "ts != ntz", "flag = flag", "sr = sr", "sr != sr",
    "flag != flag", "NOT (d < f)", "NOT (i < d)", "s LIKE '%a_\\%b%'", "sr LIKE '_'", "sr NOT LIKE '%a%'",
    "d IN (0.0, 1.5)", "sr IN ('', 'a')", "flag IN (true)", "NOT (s IS NULL OR s = '')",
])  # fmt: skip
def test_conditions_that_no_random_one_is(kusto: KustoParser, predicate: str) -> None:
    condition = kql.condition(bound(predicate))
    assert kusto.parse(f"{SOURCE}\n| where {condition}").diagnostics == [], condition


@given(
    text=st.text(st.characters(exclude_categories=["Cs"]))
    | st.text("'\"\\\n\r\t\0\x1b\u2028\u0085`@h%;a😀", max_size=8)
)
def test_strings_are_read_as_they_are_meant(kusto: KustoParser, text: str) -> None:
    parsed = kusto.parse(f"print {kql.text(text, 'here')}")
    assert (parsed.diagnostics, parsed.literals) == ([], [text])


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_longs_are_read_as_they_are_meant(kusto: KustoParser, value: int) -> None:
    parsed = kusto.parse(f"print {kql.literal(value, PrimitiveType('long'), 'here')}")
    assert parsed.diagnostics == []
    assert [int(read) for read in parsed.literals] == [value]


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_reals_are_read_as_they_are_meant(kusto: KustoParser, value: float) -> None:
    parsed = kusto.parse(f"print {kql.literal(value, PrimitiveType('double'), 'here')}")
    assert parsed.diagnostics == []
    assert [float(read) for read in parsed.literals] == [value]


@given(value=st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=8))
def test_decimals_are_read(kusto: KustoParser, value: Decimal) -> None:
    parsed = kusto.parse(f"print {kql.literal(value, DecimalType(34, 8), 'here')}")
    assert parsed.diagnostics == []


@given(micros=st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))
def test_times_are_read_as_they_are_meant(kusto: KustoParser, micros: int) -> None:
    written = kql.literal(micros, PrimitiveType("timestamp"), "here")
    parsed = kusto.parse(f"print {written}")
    assert parsed.diagnostics == []
    # The parser keeps milliseconds in Node.
    (read,) = parsed.literals
    assert str(read)[:23] == written[9:32]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None])
def test_reals_that_are_no_numbers(kusto: KustoParser, value: float | None) -> None:
    assert kusto.parse(f"print {kql.literal(value, PrimitiveType('double'), 'here')}").diagnostics == []


@pytest.mark.parametrize("word", WORDS)
def test_names_that_are_words_of_the_language(kusto: KustoParser, word: str) -> None:
    name = kql.name(word)
    source = f'inline_external_table ({name}:long) kind=storage dataformat=parquet (h@"x")'
    assert kusto.parse(f"{source} | where {name} > 1 | project {name}").diagnostics == []


@pytest.mark.slow
def test_a_query_of_a_megabyte(kusto: KustoParser, tmp_path: Path) -> None:
    split = queries(wide(tmp_path, 20_000), "l > 1", ["l", "ts"], uri_prefix=ROOT)
    assert len(split) == 2
    assert kusto.parse(split[0].text).diagnostics == []
