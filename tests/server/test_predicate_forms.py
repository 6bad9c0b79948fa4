"""A predicate means the same over the wire as without a server: the same rows, or the same kind of error."""

from __future__ import annotations

import datetime as dt
import math
import shutil
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar import Connection, DeltaTable, connect
from delta_sidecar.errors import DeltaSidecarError, InputError, OtherTableError, PredicateError
from delta_sidecar.predicates.predicate_tuples import RowFilters, literal, parse_filters
from delta_sidecar.server.json_literals import json_of, literal_of
from delta_sidecar.server.json_predicates import condition_of_tree, tree_of
from tests.engines.tables import TABLES
from tests.server.serving import serving

INF, NAN = math.inf, math.nan
ZONED = dt.datetime(2026, 2, 10, 20, 7, 0, 1, tzinfo=dt.UTC)
VALUES: list[Any] = [
    None, "", "a", "1", "2026-02-10", "Infinity", "x\u00e9'", 0, 1, -3, 5, 10**18,
    10**30, -(10**30), 1.5, 0.1, -0.0, INF, -INF, NAN,
    True, False, b"", b"\x00\xff", b"abc", bytearray(b"abc"),
    Decimal("0.25"), Decimal("1E+3"), Decimal("-0"), Decimal("NaN"),
    dt.date(2026, 2, 10), ZONED, ZONED.replace(tzinfo=None), ZONED.astimezone(dt.timezone(dt.timedelta(hours=5.5))),
    np.int64(5), np.float64(1.5), np.float32(0.1), np.float64("nan"), np.bool_(True), np.str_("a"),
    np.datetime64("2026-02-10T20:07:00.000001"),
    pd.Timestamp("2026-02-10T20:07:00.000001001Z"), object(), {"a": 1},
]  # fmt: skip
COLUMNS = ["id", "f", "g", "s", "raw", "dec", "flag", "day", "ts", "wall", "p", "st.a", "arr", "nope", ""]


def lists() -> list[Any]:
    return [
        [], ["a", None], ["0", None], [None], [1, 5], (1, 5), {1, 5}, [1.5, INF], [INF], [NAN],
        [b"abc"], [b"abc", None],
        np.array([1, 5]), range(3), "a", 5, None, [ZONED], [""],
    ]  # fmt: skip


def sweep() -> Iterator[list[Any]]:
    for column in COLUMNS:
        for value in VALUES:
            for op in ("=", "!=", "<", "in"):
                yield [(column, op, [value] if op == "in" else value)]
        for values in lists():
            for op in ("in", "not in"):
                yield [(column, op, values)]
        yield from ([(column, op)] for op in ("is null", "is not null", "="))
        yield [(column, "like", "a%")]
        yield [(column, "nope", 1)]
    yield []
    yield [[]]
    yield [[("id", "<", 5)], [("s", "not in", ["a"]), ("p", "=", None)]]
    yield [("id", "=", 5), ["id", "=", 5]]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lake")
    TABLES["plain"](root / "plain")
    return root


@pytest.fixture(scope="module")
def connection(lake: Path) -> Iterator[Connection]:
    with serving({"lake": lake}) as server, connect(server.url) as opened:
        yield opened


def test_tuples_arrive_as_they_were_meant() -> None:
    """What is sent gives the condition that a table without a server binds."""
    seen = 0
    for filters in sweep():
        for form in (filters, RowFilters(filters)):
            try:
                meant = parse_filters(form)
            except DeltaSidecarError:
                continue
            if meant is not None:
                seen += 1
                assert repr(condition_of_tree(tree_of(meant))) == repr(meant), filters
    assert seen > 2_000


@given(
    st.floats() | st.decimals(allow_nan=False) | st.integers() | st.binary() | st.text() | st.dates() | st.datetimes()
)
def test_literals_arrive_as_they_were_meant(value: Any) -> None:
    meant, arrived = literal(value), literal_of(json_of(literal(value)))
    assert type(arrived) is type(meant)
    if not (isinstance(value, Decimal) and abs(value.adjusted()) > 400):  # beyond every type
        assert repr(arrived) == repr(meant)


def outcome(read: Any) -> Any:
    try:
        return sorted(read().column("id").to_pylist())
    except DeltaSidecarError as error:
        return type(error), str(error)


@pytest.mark.slow
def test_filters_find_the_same_rows(lake: Path, connection: Connection) -> None:
    local, remote = DeltaTable(lake / "plain"), connection.table("lake/plain")
    found = 0
    for filters in [
        *([(column, "=", value)] for column in ("f", "raw", "p", "s")
          for value in (INF, NAN, b"abc", None, "", np.float32(0.1))),
        *([("f", op, INF)] for op in ("<", "!=", ">=")),
        *([(column, op, values)] for column in ("p", "f", "raw") for op in ("in", "not in") for values in lists()[:4]),
        [("ts", "<", ZONED)], [("id", "=", np.int64(5))], [("dec", "=", Decimal("0.25"))], [("id", "in", {3, 5})],
    ]:  # fmt: skip
        there = outcome(lambda f=filters: remote.to_pyarrow_table(filters=f))
        assert there == outcome(lambda f=filters: local.to_pyarrow_table(filters=f)), filters
        found += isinstance(there, list) and bool(there)
        there = outcome(lambda f=filters: remote.to_batches(predicate=f).read_all())
        assert there == outcome(lambda f=filters: local.to_batches(predicate=f).read_all()), filters
    assert found > 20


def test_partitions_filters_and_a_predicate_all_hold(lake: Path, connection: Connection) -> None:
    local, remote = DeltaTable(lake / "plain"), connection.table("lake/plain")
    given = local.to_pyarrow_table([("p", "=", "1")], ["id"], None, "id > 13")
    assert remote.to_pyarrow_table([("p", "=", "1")], ["id"], None, "id > 13") == given
    assert remote.to_pyarrow_table("p = '1'", ["id"], filters=[("id", ">", 13)]) == given
    assert (
        remote.to_pandas("p = '1'", ["id"], filters="id > 12", predicate={"column": "id", "op": ">", "value": 13})[
            "id"
        ].tolist()
        == given.column("id").to_pylist()
    )
    with pytest.raises(InputError, match="leave filesystem out"):
        remote.to_pyarrow_table(filesystem=object())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tree", "sql"),
    [
        ({"f": INF}, "f = CAST('Infinity' AS DOUBLE)"),
        ({"column": "f", "op": "<", "value": INF}, "f < CAST('Infinity' AS DOUBLE)"),
        ({"f": NAN}, "f = CAST('NaN' AS DOUBLE)"),
        ({"raw": b"abc"}, "raw = X'616263'"),
        ({"id": np.int64(5)}, "id = 5"),
        ({"id": {5, 6}}, "id IN (5, 6)"),
        ({"id": range(3)}, "id IN (0, 1, 2)"),
        ({"ts": ZONED}, "ts = '2026-02-10T20:07:00.000001Z'"),
        ({"dec": Decimal("0.25")}, "dec = 0.25"),
        ({"id": 10**30}, "id = 1e30"),
        ({"p": ["1", None]}, "p = '1' OR p IS NULL"),
        ({"not": {"p": ["1", None]}}, "NOT (p = '1' OR p IS NULL)"),
        ({"st.a": 5}, "st.a = 5"),
        ({"op": "and", "terms": [{"op": "not", "term": {"p": "1"}}, {"op": "<>", "column": ["id"], "value": 3}]},
         "NOT p = '1' AND id <> 3"),
        ({"op": "or", "terms": [{"op": "in", "column": ["id"], "values": [3, 4]},
                   {"op": "==", "column": "id", "value": 7}]},
         "id IN (3, 4, 7)"),
        ({"op": "sql", "text": "id > 20"}, "id > 20"),
    ],
)  # fmt: skip
def test_objects(lake: Path, connection: Connection, tree: Any, sql: str) -> None:
    there = outcome(lambda: connection.table("lake/plain").to_pyarrow_table(predicate=tree))
    assert there == outcome(lambda: DeltaTable(lake / "plain").to_batches(predicate=sql).read_all())


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"column": "id", "op": "in", "value": 5}, "in needs a list of values, not 5"),
        ({"column": "id", "op": "between", "value": [10]}, "a list of two values, .* not a list of 1"),
        ({"and": {"p": "a"}}, '"and" needs a list of conditions, not an object'),
        ({"not": [{"p": "a"}]}, '"not" needs one condition, an object, not a list of 1'),
        ({"or": []}, "has no conditions"),
        ({"column": "id", "op": "in", "value": [1], "values": [1]}, "value or values, not both"),
        ({"column": "id", "op": "~", "value": 1}, "the operator '~' is not supported; use one of =, ==, "),
        ({"column": "id", "op": "=", "value": {"type": "money", "value": 1}}, "one of double, .*not 'money'"),
        ({"column": "id", "op": "=", "value": {"type": "binary", "value": "?"}}, "bytes in base64, not '\\?'"),
        ({"column": "id", "op": "=", "value": {"type": "date", "value": 5}}, 'such as "2026-02-08", not 5'),
        ({"column": "id", "op": "=", "value": {"a": 1}}, "a value has no field 'a'"),
        ({"p": [["a"]]}, "a list of 1 is not a value"),
        ({}, "an empty object is not a predicate"),
    ],
)
def test_objects_that_say_nothing(connection: Connection, tree: Any, message: str) -> None:
    with pytest.raises(PredicateError, match=message):
        connection.table("lake/plain").to_pyarrow_table(predicate=tree)


def test_a_list_without_values_finds_nothing(connection: Connection) -> None:
    for tree in ({"p": []}, {"column": "p", "op": "in", "value": []}):
        assert connection.table("lake/plain").to_pyarrow_table(predicate=tree).num_rows == 0


def test_a_table_in_the_place_of_another_is_not_read(tmp_path: Path) -> None:
    TABLES["plain"](tmp_path / "a" / "one")
    TABLES["plain"](tmp_path / "b")
    first = tmp_path / "b" / "_delta_log" / f"{0:020}.json"
    first.write_text(first.read_text().replace(DeltaTable(tmp_path / "b").metadata().id, str(uuid.uuid4())))
    with serving({"lake": tmp_path / "a"}) as server, connect(server.url) as opened:
        table = opened.table("lake/one")
        shutil.rmtree(tmp_path / "a" / "one")
        shutil.copytree(tmp_path / "b", tmp_path / "a" / "one")
        other = opened.table("lake/one")
        assert other.metadata().id != table.metadata().id
        for read in (
            table.to_pyarrow_table,
            lambda: list(table.file_infos()),
            lambda: table.file_stats().read_all(),
            lambda: table.changes(0).read_all(),
            table.explain,
            table.update_incremental,
            lambda: table.load_as_version(0),
            lambda: table.load_as_version(99),
        ):
            with pytest.raises(OtherTableError, match="dropped and made again"):
                read()
        assert other.to_pyarrow_table().num_rows > 0


def test_columns_tokens_and_certificates_that_are_something_else(connection: Connection) -> None:
    with pytest.raises(InputError, match=r"write \['id'\]"):
        connection.table("lake/plain").to_batches(columns="id")
    for token in ("dsc_a\n", "dsc_\u00fc", "a b\tc"):
        with pytest.raises(InputError, match="characters that no token has"):
            connect("grpc://127.0.0.1:1", token)
    for path in ("cert.pem", b"cert.pem"):
        with pytest.raises(InputError, match="path of a file"):
            connect("grpc+tls://127.0.0.1:1", root_certificates=path)
