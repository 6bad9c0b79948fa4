"""The check can fail: rows that are the model's pass, and every loss or change of one is reported. No Spark here."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import cache
from typing import Any

import pytest

from tests.integration.ingest.cases import case, lenient
from tests.integration.ingest.compare import bad_row_differences, row_differences
from tests.integration.ingest.model import (
    NOTHING,
    RESCUED,
    Csv,
    Done,
    Either,
    Findings,
    JsonText,
    Kept,
    Num,
    Options,
    Refusal,
    State,
    TextFile,
    TypedFile,
    UnclearError,
    applied,
    iso_time,
    placed,
    widens,
)  # fmt: skip
from tests.integration.ingest.types import BIGINT, DOUBLE, STRING, Array, Atom, Dec, Struct, Type

CASES = range(150)


@cache
def final_states() -> Sequence[tuple[int, str, State]]:
    """The state after the last batch of many cases, by the model."""
    return list(_final_states())


def _final_states() -> Iterator[tuple[int, str, State]]:
    for number in CASES:
        made = case(number)
        state = done = None
        for batch in made.batches:
            with suppress(UnclearError):
                done = applied(state, batch.files, lenient(batch.options))
            if isinstance(done, Done):
                state = done.state
        if state is not None:
            yield number, made.key, state


def real(value: Any) -> Any:
    """A value as a reader would give it."""
    match value:
        case Either(one, _) | Kept(one):
            return real(one)
        case JsonText(inner):
            return _json(inner)
        case Num(text):
            return Decimal(text)
        case Csv(text):
            return text
        case dict():
            return {name: real(part) for name, part in value.items()}
        case list():
            return [real(part) for part in value]
    return value


def _json(value: Any) -> str:
    match value:
        case Num(text):
            return text
        case Csv(text):
            return json.dumps(text)
        case dict():
            return "{" + ", ".join(f"{json.dumps(name)}: {_json(part)}" for name, part in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_json, value)) + "]"
        case int() | float() | Decimal() if not isinstance(value, bool):
            return json.dumps(str(value)) if value != value or abs(value) == float("inf") else str(value)
    return json.dumps(value)


def real_rows(state: State) -> list[dict[str, Any]]:
    rows = []
    for row in state.rows:
        made = {name: real(value) for name, value in row.items() if name != RESCUED}
        rows.append({**made, RESCUED: _json(row[RESCUED]) if RESCUED in row else None})
    return rows


def real_bad_rows(state: State) -> list[dict[str, Any]]:
    return [
        {
            "file": f"/landing/{bad.file}",
            "reason": "why",
            "ingested_at": dt.datetime(2026, 2, 10, tzinfo=dt.UTC),
            "raw": f"{{{bad.holds}}}" if bad.raw is None else None if isinstance(bad.raw, bytes) else bad.raw,
            "raw_bytes": bad.raw if isinstance(bad.raw, bytes) else None,
        }
        for bad in state.bad
    ]


@pytest.mark.slow
def test_the_models_own_rows_pass() -> None:
    for number, key, state in final_states():
        assert not list(row_differences(state, real_rows(state), key)), number
        assert not list(bad_row_differences(state, real_bad_rows(state))), number


def changed(rows: list[dict[str, Any]], drawn: random.Random) -> str | None:
    """Do one harm to the rows and say which; None if these rows cannot have it."""
    place = drawn.randrange(len(rows))
    row = rows[place]
    names = [name for name, value in row.items() if value is not None and name not in ("k", "_c0", RESCUED)]
    match drawn.choice(["drop", "repeat", "swap", "null", "text", "rescued", "leftover", "column"]):
        case "drop":
            del rows[place]
            return "dropped"
        case "repeat":
            rows.append(dict(row))
            return "repeated"
        case "swap" if len(names) > 1:
            one, other = drawn.sample(names, 2)
            if _alike(row[one], row[other]):
                return None
            row[one], row[other] = row[other], row[one]
            return f"{one} and {other} swapped"
        case "null" if names:
            name = drawn.choice(names)
            if _empty(row[name]):
                return None
            row[name] = None
            return f"{name} lost"
        case "text" if names:
            name = drawn.choice(names)
            row[name] = f"{row[name]}!" if isinstance(row[name], str) else "!"
            return f"{name} changed"
        case "rescued" if row[RESCUED]:
            row[RESCUED] = None
            return "the rescued lost"
        case "leftover" if row[RESCUED]:
            whole = json.loads(row[RESCUED])
            whole.pop(drawn.choice(list(whole)))
            row[RESCUED] = json.dumps(whole)
            return "a part of the rescued lost"
        case "column":
            row["unheard of"] = 1
            return "a value from nowhere"
    return None


def _alike(one: Any, other: Any) -> bool:
    return str(one) == str(other) or (_empty(one) and _empty(other)) or _number(one) == _number(other) is not None


def _number(value: Any) -> Any:
    try:
        return Decimal(str(value))
    except ArithmeticError:
        return None


def _empty(value: Any) -> bool:
    return isinstance(value, (list, dict)) or value is None


def test_every_harm_to_a_row_is_reported() -> None:
    drawn = random.Random(0)
    harms = 0
    for number, key, state in final_states():
        for _ in range(5):
            rows = real_rows(state)
            harm = changed(rows, drawn) if rows else None
            if harm is not None:
                harms += 1
                assert list(row_differences(state, rows, key)), f"case {number}: {harm}"
    assert harms > len(CASES)


def test_every_harm_to_a_bad_row_is_reported() -> None:
    tried = 0
    for number, _, state in final_states():
        rows = real_bad_rows(state)
        if rows:
            tried += 1
            assert list(bad_row_differences(state, rows[1:])), number
            assert list(bad_row_differences(state, [*rows, rows[0]])), number
            assert list(bad_row_differences(state, [{**rows[0], "raw": "other", "raw_bytes": None}, *rows[1:]])), number
    assert tried > 20


@pytest.mark.slow
def test_cases_have_everything() -> None:
    """All formats, options and troubles come up in a few hundred cases."""
    seen: set[str] = set()
    for number in CASES:
        made = case(number)
        state = None
        for batch in made.batches:
            try:
                outcome = applied(state, batch.files, batch.options)
            except UnclearError:
                break
            seen |= {made.batches[0].options.source_format, type(outcome).__name__, str(batch.options.time_format)}
            seen |= {name for name in ("merge", "rescue", "bad_rows", "schema") if getattr(batch.options, name)}
            seen |= {f"{name}={value}" for name, value in batch.options.read.items()}
            seen |= {suffix for suffix in (".gz", ".bz2") if any(file.path.endswith(suffix) for file in batch.files)}
            if any("=" in file.path for file in batch.files):
                seen.add("k=v")
            if any(isinstance(file, TextFile) and not file.data for file in batch.files):
                seen.add("an empty file")
            if isinstance(outcome, Done):
                state = outcome.state
                seen |= {"null bucket"} if outcome.null_bucket_rows else set()
                seen |= {"bad rows"} if outcome.bad_rows else set()
                seen |= {"rescued"} if outcome.state.rescued else set()
        seen.add("stream" if made.stream else "batch")
    wanted = {
        "json", "csv", "parquet", "delta", "Done", "Refusal", "None", "epoch-nanos", "dd/MM/yyyy HH:mm:ss",
        "merge", "rescue", "bad_rows", "schema", "header=false", "multiLine=true", "sep=;", "escape=\\", "comment=#",
        "nullValue=NA", "encoding=ISO-8859-1", "mode=PERMISSIVE",
        ".gz", ".bz2", "k=v", "an empty file", "null bucket", "bad rows", "rescued", "stream", "batch",
    }  # fmt: skip
    assert wanted <= seen, wanted - seen


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (Num("5"), Atom("int"), 5),
        (Num("1.5"), Atom("int"), NOTHING),
        (Num("3000000000"), Atom("int"), NOTHING),
        (Num("1.2567"), Dec(5, 2), NOTHING),
        (Num("1.20"), Dec(5, 2), Decimal("1.2")),
        (Num("9007199254740993"), DOUBLE, NOTHING),
        (Num("9007199254740992"), DOUBLE, 9007199254740992.0),
        (Csv("007"), STRING, "007"),
        (Num("5"), STRING, JsonText(Num("5"))),
        ([Num("1")], Array(BIGINT), [1]),
    ],
)
def test_values_of_the_guide(value: Any, kind: Type, expected: Any) -> None:
    """What the guide says of widening, value by value."""
    placed_value, left = placed(value, kind, "a", Findings())
    assert (NOTHING if left is not NOTHING else placed_value) == expected


def test_widening_of_the_guide() -> None:
    names = ["tinyint", "smallint", "int", "bigint", "float", "double"]
    pairs = {(one, other) for one in names for other in names if one != other and widens(Atom(one), Atom(other))}
    assert pairs == {
        ("tinyint", "smallint"), ("tinyint", "int"), ("tinyint", "bigint"), ("smallint", "int"), ("smallint", "bigint"),
        ("int", "bigint"),
        ("float", "double"), ("tinyint", "double"), ("smallint", "double"), ("int", "double"), ("tinyint", "float"),
        ("smallint", "float"),
    }  # fmt: skip
    assert widens(BIGINT, Dec(38, 18))
    assert widens(Dec(5, 2), Dec(10, 4))
    assert not widens(Dec(5, 2), Dec(5, 3))


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-02-10T23:45:00+01:00", dt.datetime(2026, 2, 10, 22, 45, tzinfo=dt.UTC)),
        ("2026-02-10 23:45:00", dt.datetime(2026, 2, 10, 23, 45, tzinfo=dt.UTC)),
        ("2026-02-10", dt.datetime(2026, 2, 10, tzinfo=dt.UTC)),
        ("2026-02-30", None),
        ("10:30:00", None),
    ],
)
def test_times_of_the_guide(text: str, time: dt.datetime | None) -> None:
    assert iso_time(text) == time


def test_columns_are_matched_by_name_and_new_ones_refused() -> None:
    files = [TextFile("a.csv", b"k,ts,v\nr1,2026-02-10,1\n"), TextFile("b.csv", b"v,k,ts\n2,r2,2026-02-11\n")]
    first = applied(None, files, Options("csv"))
    assert isinstance(first, Done)
    assert [(real(row["k"]), row["v"]) for row in first.state.rows] == [("r1", 1), ("r2", 2)]
    more = [TextFile("c.csv", b"k,ts,w\nr3,2026-02-10,1\n")]
    assert applied(first.state, more, Options("csv")) == Refusal((("w",),))
    rescued = applied(first.state, more, Options("csv", rescue=True))
    assert isinstance(rescued, Done)
    assert rescued.state.rows[-1][RESCUED] == {"w": Csv("1")}


def test_parquet_files_of_types_that_do_not_widen_are_refused() -> None:
    columns = [Struct((("k", STRING), ("ts", Atom("timestamp")), ("v", kind))) for kind in (STRING, BIGINT)]
    files = [TypedFile(f"{place}.parquet", each, ()) for place, each in enumerate(columns)]
    assert applied(None, files, Options("parquet")) == Refusal((("v",),))
