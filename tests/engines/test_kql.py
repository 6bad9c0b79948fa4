"""KQL conditions mean what the predicates mean, by a model of Kusto's documented logic."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from delta_sidecar.engines import kql
from delta_sidecar.errors import DeltaSidecarError, InputError, PredicateError, UnsupportedTypeError
from delta_sidecar.predicates.binding import bind_predicate
from delta_sidecar.values.types import (
    ArrayType,
    DecimalType,
    PrimitiveType,
    StructField,
    StructType,
    UnknownType,
    parse_type,
)
from tests.engines.kql_model import holds, kusto_row
from tests.engines.kql_predicates import POOLS, SCHEMA, bound, rows
from tests.properties.predicates import Predicate, predicates


@given(predicate=predicates(POOLS), row=rows(), with_nan=st.booleans())
def test_a_row_is_kept_if_and_only_if_the_predicate_is_true(
    predicate: Predicate, row: dict[str, Any], with_nan: bool
) -> None:
    try:
        condition = kql.condition(bound(predicate))
    except PredicateError:
        event("refused")
        return
    assert holds(condition, kusto_row(row), with_nan) == (predicate(row) is True), condition


@given(predicate=predicates({name: POOLS[name] for name in ("l", "d", "sr", "ts")}), row=rows())
def test_without_null_strings_nothing_is_refused(predicate: Predicate, row: dict[str, Any]) -> None:
    assert holds(kql.condition(bound(predicate)), kusto_row(row)) == (predicate(row) is True)


@pytest.mark.parametrize(
    ("predicate", "condition"),
    [
        ("l = 7", "['l'] == long(7)"),
        ("l != 7", "(isnotnull(['l']) and ['l'] != long(7))"),
        ("NOT (l < 7)", "['l'] >= long(7)"),
        ("l IS NULL OR l > 7", "(isnull(['l']) or ['l'] > long(7))"),
        ("l NOT IN (1, 2)", "(isnotnull(['l']) and not(['l'] in (long(1), long(2))))"),
        ("d > 0.5", "not(isnan(['d'])) and ['d'] > real(0.5)"),
        ("NOT (d > 0.5)", "isnotnull(['d']) and (isnan(['d']) or ['d'] <= real(0.5))"),
        ("d = 'NaN'", "false"),
        ("s = 'a'", "['s'] == \"a\""),
        ("s > 'a' AND s < 'b'", "strcmp(['s'], \"a\") > 0 and strcmp(['s'], \"b\") < 0"),
        ("s LIKE 'a%'", "['s'] startswith_cs \"a\""),
        ("s LIKE '%a'", "['s'] endswith_cs \"a\""),
        ("s LIKE '%a%'", "['s'] contains_cs \"a\""),
        ("s LIKE 'a_c%'", "['s'] matches regex \"(?s)\\\\Aa.c.*\\\\z\""),
        ("s IS NULL OR s = ''", "isempty(['s'])"),
        ("s != 'a' AND s != ''", "['s'] != \"a\" and isnotempty(['s'])"),
        ("sr IS NOT NULL", "true"),
        ("flag", "['flag'] == true"),
        ("flag <= true", "isnotnull(['flag'])"),
        ("day = '2026-02-10'", "['day'] == datetime(2026-02-10)"),
        ("ts >= '2026-02-10T22:00:00.5Z'", "['ts'] >= datetime(2026-02-10T22:00:00.500000Z)"),
        ("c < 1.5", "['c'] < decimal(1.50)"),
        ("i < l", "['i'] < ['l']"),
        ("i < c", "todecimal(['i']) < ['c']"),
        ("i != d", "(isnotnull(['i']) and isnotnull(['d']) and (isnan(['d']) or toreal(['i']) != ['d']))"),
    ],
)
def test_conditions(predicate: str, condition: str) -> None:
    assert kql.condition(bound(predicate)).strip("()") == condition.strip("()")


@pytest.mark.parametrize(
    ("predicate", "why"),
    [
        ("s IS NULL", "separates null from ''"),
        ("s IS NOT NULL", "separates null from ''"),
        ("s != 'a'", "add AND s != ''"),
        ("s = ''", "separates null from ''"),
        ("s < 'b'", "separates null from ''"),
        ("s LIKE '%'", "separates null from ''"),
        ("s = sr", "separates null from ''"),
        ("s > '😀'", "characters after U+D7FF"),
        ("c > d", "cannot be compared exactly"),
        ("sr < sr", "have no order"),
    ],
)
def test_what_has_no_exact_kql_is_refused(predicate: str, why: str) -> None:
    with pytest.raises(PredicateError, match="Kusto") as refused:
        kql.condition(bound(predicate))
    assert why in str(refused.value)


@pytest.mark.parametrize("predicate", ["x = X'00'", "inner.a = 1", "list IS NULL", "inner IS NULL"])
def test_columns_without_kql_are_refused_by_name(predicate: str) -> None:
    inner = StructType((StructField("a", PrimitiveType("long"), physical_name="a"),))
    types = {"x": PrimitiveType("binary"), "inner": inner, "list": ArrayType(PrimitiveType("long"))}
    schema = StructType(tuple(StructField(name, kind, physical_name=name) for name, kind in types.items()))
    expression = bind_predicate(predicate, schema, [])
    assert expression is not None
    with pytest.raises(PredicateError, match=r"Kusto: column (x|inner|inner\.a|list) is "):
        kql.condition(expression)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("byte", "int"), ("short", "int"), ("integer", "int"), ("long", "long"), ("float", "real"), ("double", "real"),
     ("decimal(34,2)", "decimal"), ("string", "string"), ("boolean", "bool"), ("date", "datetime"),
     ("timestamp", "datetime"), ("timestamp_ntz", "datetime")],
)  # fmt: skip
def test_types(name: str, kind: str) -> None:
    assert kql.type_of(StructField("x", parse_type(name))) == kind


@pytest.mark.parametrize("kind", [PrimitiveType("binary"), PrimitiveType("variant"), PrimitiveType("void"),
                                  DecimalType(35, 0), UnknownType("geometry")])  # fmt: skip
def test_other_types_are_refused_by_name(kind: PrimitiveType) -> None:
    with pytest.raises(UnsupportedTypeError, match="column x is "):
        kql.type_of(StructField("x", kind))


@pytest.mark.parametrize("name", ["ts", "device id", "größe", "数量", "a-b", "a.b", "where", "1day", "_x_"])
def test_names(name: str) -> None:
    assert kql.name(name) == f"['{name}']"


@pytest.mark.parametrize("name", ["", "a'b", "a;b", "a\nb", "a/b", "__x", "x__", "a" * 1025, 'a"]', "a\\b"])
def test_names_that_kusto_does_not_take(name: str) -> None:
    with pytest.raises(InputError, match="Kusto has no column or table named"):
        kql.name(name)


def test_a_year_that_kusto_does_not_have_is_refused() -> None:
    for days in (-719_163, 2_932_897):
        with pytest.raises(InputError, match="the years 1 to 9999"):
            kql.literal(days, PrimitiveType("date"), "here")
    assert kql.literal(-719_162, PrimitiveType("date"), "here") == "datetime(0001-01-01)"


def test_floats_that_are_no_numbers() -> None:
    written = [kql.literal(value, PrimitiveType("double"), "here") for value in (math.nan, math.inf, -math.inf, -0.0)]
    assert written == ["real(nan)", "real(+inf)", "real(-inf)", "real(-0.0)"]


def test_half_a_character_is_refused() -> None:
    with pytest.raises(DeltaSidecarError, match="half of a surrogate pair"):
        kql.text("\ud83d", "here")


def test_all_columns_of_the_predicates_have_a_type() -> None:
    assert {kql.type_of(column) for column in SCHEMA} == {
        "int", "long", "real", "decimal", "string", "bool", "datetime",
    }  # fmt: skip
