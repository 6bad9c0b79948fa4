"""The rows that a reader gives beside those of the model, value by value: every difference as one line."""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

from tests.integration.ingest.model import (
    CORRUPT,
    RESCUED,
    Bad,
    Csv,
    Either,
    JsonText,
    Kept,
    Num,
    State,
    parsed_json,
)  # fmt: skip

MISSING = object()


def row_differences(state: State, rows: Sequence[Mapping[str, Any]], key: str) -> Iterator[str]:
    """Rows that are missing, too many, or hold another value than the model's; `key` names a column of unique text."""
    expected = {_identity(row, key): row for row in state.rows}
    assert len(expected) == len(state.rows), "keys of a case are unique"
    real: dict[Any, Mapping[str, Any]] = {}
    for row in rows:
        identity = _identity(row, key)
        if identity in real:
            yield f"row {identity} is there twice"
        real[identity] = row
    yield from (f"row {identity} is lost: {expected[identity]}" for identity in expected.keys() - real.keys())
    yield from (f"row {identity} came from nowhere: {real[identity]}" for identity in real.keys() - expected.keys())
    for identity in expected.keys() & real.keys():
        yield from (f"row {identity}: {line}" for line in _row(expected[identity], real[identity]))


def _identity(row: Mapping[str, Any], key: str) -> Any:
    value = _by_name(row, key)
    if isinstance(value, Kept):
        value = value.value
    if isinstance(value, Csv):
        value = value.text
    if value is None or value is MISSING:
        return ("corrupt", str(_by_name(row, CORRUPT)))
    return value if isinstance(value, str) else repr(value)


def _by_name(row: Mapping[str, Any], name: str) -> Any:
    if name in row:
        return row[name]
    return next((value for key, value in row.items() if key.lower() == name.lower()), MISSING)


def _row(expected: Mapping[str, Any], real: Mapping[str, Any]) -> Iterator[str]:
    for name in expected.keys() - {RESCUED}:
        value = _by_name(real, name)
        if not same(expected[name], None if value is MISSING else value):
            yield f"{name} is {value!r}, not {expected[name]!r}"
    known = {name.lower() for name in expected}
    yield from (
        f"{name} is {value!r}, not null"
        for name, value in real.items()
        if name.lower() not in known | {RESCUED} and value is not None
    )
    rescued = real.get(RESCUED)
    left = expected.get(RESCUED)
    if left is None and rescued is not None and rescues({}, parsed_json(rescued)):
        return
    if (left is None) != (rescued is None):
        yield f"{RESCUED} is {rescued!r}, not {left!r}"
    elif left is not None and rescued is not None:
        try:
            value = parsed_json(rescued)
        except ValueError as error:
            yield f"{RESCUED} is no JSON ({error}): {rescued!r}"
            return
        if not rescues(left, value):
            yield f"{RESCUED} is {rescued!r}, not {left!r}"


def same(expected: Any, real: Any) -> bool:
    """Whether a value of the table is the expected one."""
    match expected:
        case Either(one, other):
            return same(one, real) or same(other, real)
        case JsonText(value):
            return isinstance(real, str) and _json_of(real, value)
        case Kept(value):
            return kept(value, real)
        case dict():
            if isinstance(real, list):  # a map
                return len(real) == len(expected) and all(
                    key in expected and same(expected[key], value) for key, value in real
                )
            if not isinstance(real, dict):
                return False
            spelled = {name.lower(): value for name, value in expected.items()}
            if any(value is not None and name.lower() not in spelled for name, value in real.items()):
                return False
            return all(same(value, _none_if_missing(_by_name(real, name))) for name, value in expected.items())
        case list():
            return (
                isinstance(real, list)
                and len(real) == len(expected)
                and all(same(one, other) for one, other in zip(expected, real))
            )
        case float():
            return isinstance(real, float) and (expected == real or (math.isnan(expected) and math.isnan(real)))
        case bool() | None:
            return expected is real
        case int():
            return isinstance(real, (int, Decimal)) and not isinstance(real, bool) and expected == real
        case Decimal():
            return isinstance(real, Decimal) and expected == real
        case dt.datetime():
            return (
                isinstance(real, dt.datetime)
                and (real.tzinfo is None) == (expected.tzinfo is None)
                and real == expected
            )
    return type(expected) is type(real) and expected == real


def _none_if_missing(value: Any) -> Any:
    return None if value is MISSING else value


def _json_of(text: str, value: Any) -> bool:
    try:
        return rescues(value, parsed_json(text))
    except ValueError:
        return False


def kept(value: Any, real: Any) -> bool:
    """Whether a value of the source is in the table in whatever type, or as its text."""
    match value, real:
        case None, None:
            return True
        case str(), str():
            return value == real
        case Csv(text), str():
            return text == real
        case Csv(text), bool():
            return text == str(real).lower()
        case ((Num(text) | Csv(text)), (int() | float() | Decimal())) if not isinstance(real, bool):
            if text != text.strip() or (text.lstrip("-").startswith("0") and text[1:2].isdigit()):
                return False
            try:
                return real == (float(text) if isinstance(real, float) else Decimal(text))
            except ArithmeticError:
                return False
        case bool(), bool():
            return value is real
        case list(), list():
            return len(value) == len(real) and all(kept(one, other) for one, other in zip(value, real))
        case dict(), dict():
            spelled = {name.lower(): part for name, part in value.items()}
            more = any(part is not None and name.lower() not in spelled for name, part in real.items())
            return not more and all(kept(part, _none_if_missing(_by_name(real, name))) for name, part in value.items())
        case _, str():
            return _json_of(real, value)
    return same(value, real)


def rescues(value: Any, real: Any) -> bool:
    """Whether JSON (numbers as written) holds a value of the source; null and absent are one."""
    match value, real:
        case (None, None):
            return True
        case Csv(text), str() | Num():
            return text == (real if isinstance(real, str) else real.text)
        case Csv(text), bool():
            return text == str(real).lower()
        case Num(a), Num(b):
            return a == b or Decimal(a) == Decimal(b)
        case Num("NaN" | "Infinity" | "-Infinity"), str():
            return value.text == real
        case float(), _ if math.isnan(value) or math.isinf(value):
            return real is not None
        case float(), Num(b):
            return value == float(b)
        case bool(), _:
            return value is real
        case ((int() | Decimal()), Num(text) | str(text)):
            try:
                return Decimal(text) == value
            except ArithmeticError:
                return False
        case dict(), dict():
            some = {name: part for name, part in value.items() if part is not None}
            theirs = {name: part for name, part in real.items() if part is not None}
            return some.keys() == theirs.keys() and all(rescues(part, theirs[name]) for name, part in some.items())
        case list(), list():
            return len(value) == len(real) and all(rescues(one, other) for one, other in zip(value, real))
        case str(), str():
            return value == real
        case bytes(), str():
            return base64.b64encode(value).decode() == real
        case (dt.date(), str()):
            return (dt.datetime if isinstance(value, dt.datetime) else dt.date).fromisoformat(real) == value
    return False


def bad_row_differences(state: State, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Bad rows that are missing, too many, or not the text of the record."""
    for row in rows:
        empty = [name for name in ("reason", "ingested_at") if not row[name]]
        yield from (f"{name} of a bad row is empty: {row}" for name in empty)
    loose = [each for each in state.bad if each.raw is None or each.record is not None]
    exact = [each for each in state.bad if each.raw is not None and each.record is None]
    for each in [*exact, *loose]:
        held = next(
            (row for row in rows if _same_file(row["file"], each.file, exact=each.in_file) and _holds(row, each)), None
        )
        if held is None:
            yield f"bad row of {each.file} is lost: {each.record or each.holds or each.raw!r}"
        else:
            rows = _less(rows, held)
    yield from (f"bad row came from nowhere: {row['file']}: {row['raw']!r} {row['raw_bytes']!r}" for row in rows)


def _in_column(value: Any, real: Any) -> bool:
    """Whether the row as JSON holds a value: a number stands as text in a column of text."""
    return rescues(value, real) or (isinstance(value, Num) and value.text == real)


def _less(rows: Sequence[Mapping[str, Any]], one: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rows without one of them, once."""
    place = next(number for number, row in enumerate(rows) if row is one)
    return [*rows[:place], *rows[place + 1 :]]


def _same_file(place: str | None, path: str, exact: bool) -> bool:
    """Whether a place, which may be a URI, ends with the path; a row of a Delta table need not have one."""
    if place is None:
        return not exact
    return not exact or place.endswith(path) or unquote(place).endswith(path)


def _holds(row: Mapping[str, Any], each: Bad) -> bool:
    """Whether a bad row holds the text of a record: all of it, or of a record among others its own."""
    if isinstance(each.raw, bytes):
        return bool(row["raw_bytes"] == each.raw)
    if row["raw"] is None:
        return False
    if each.raw is not None and row["raw"].strip() == each.raw.strip():
        return True
    if each.record is not None:
        try:
            value = parsed_json(row["raw"])
        except ValueError:
            return False
        return isinstance(value, dict) and all(
            part is None or _in_column(part, _none_if_missing(_by_name(value, name)))
            for name, part in each.record.items()
        )
    return each.holds is not None and each.holds in row["raw"]
