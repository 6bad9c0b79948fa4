"""Typed columns as the contract has them, by name at any depth: SQL expressions, no pass over the data.

Fields are put in the contract's order and case, missing ones are null, numbers are widened. What has no place in the
contract comes out as one JSON text per row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from delta_sidecar.pipeline.contract import ddl, widens
from delta_sidecar.values.bucket_columns import literal, quoted
from delta_sidecar.values.column_names import folded

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


_HIGH, _LOW = 2**64, 2**12


def is_as(source: Any, target: Any) -> bool:
    """Whether a type needs no change: same fields, same order, same types; what may be null does not matter."""
    from pyspark.sql import types as t

    if isinstance(source, t.StructType) and isinstance(target, t.StructType):
        return [f.name for f in source.fields] == [f.name for f in target.fields] and all(
            is_as(a.dataType, b.dataType) for a, b in zip(source.fields, target.fields)
        )
    if isinstance(source, t.ArrayType) and isinstance(target, t.ArrayType):
        return is_as(source.elementType, target.elementType)
    if isinstance(source, t.MapType) and isinstance(target, t.MapType):
        return is_as(source.keyType, target.keyType) and is_as(source.valueType, target.valueType)
    return bool(source.simpleString() == target.simpleString())


def columns(source: StructType, target: StructType) -> list[str]:
    """SQL: the columns of the contract, made of those of the source."""
    known = {folded(field.name): field for field in source.fields}
    return [
        f"{_member(None, known.get(folded(field.name)), field.dataType, 0)} AS {quoted(field.name)}"
        for field in target.fields
    ]


def _member(parent: str | None, field: Any, target: DataType, depth: int) -> str:
    if field is None:
        return f"CAST(NULL AS {ddl(target)})"
    sql = quoted(field.name) if parent is None else f"{parent}.{quoted(field.name)}"
    return value(sql, field.dataType, target, depth)


def value(sql: str, source: Any, target: Any, depth: int = 0) -> str:
    """SQL: a value in another type; null if it does not fit."""
    from pyspark.sql import types as t

    if is_as(source, target):
        return sql
    if isinstance(source, t.StructType) and isinstance(target, t.StructType):
        known = {folded(field.name): field for field in source.fields}
        members = ", ".join(
            f"{literal(f.name)}, {_member(sql, known.get(folded(f.name)), f.dataType, depth)}" for f in target.fields
        )
        return f"CASE WHEN {sql} IS NOT NULL THEN named_struct({members}) END"
    if isinstance(source, t.ArrayType) and isinstance(target, t.ArrayType):
        item = f"e{depth}"
        return f"transform({sql}, {item} -> {value(item, source.elementType, target.elementType, depth + 1)})"
    if isinstance(source, t.MapType) and isinstance(target, t.MapType) and widens(source.keyType, target.keyType):
        key, item = f"k{depth}", f"e{depth}"
        made = (
            f"transform_values({sql}, ({key}, {item}) -> {value(item, source.valueType, target.valueType, depth + 1)})"
        )
        if is_as(source.keyType, target.keyType):
            return made
        return f"transform_keys({made}, ({key}, {item}) -> CAST({key} AS {ddl(target.keyType)}))"
    if widens(source, target):
        return f"CAST({sql} AS {ddl(target)})"
    if _narrows(source, target):
        return _narrowed(sql, source, target)
    return f"CAST(NULL AS {ddl(target)})"


def _narrowed(sql: str, source: DataType, target: DataType) -> str:
    """SQL: a number in another type, null if it does not fit: what comes back from there must be the same.

    A cast from binary digits gives the largest integer for what is larger, and decimals by the shortest digits that
    tell one number from its neighbours. So integers are compared by all their digits instead.
    """
    there = f"try_cast({sql} AS {ddl(target)})"
    fits = f"try_cast({there} AS {ddl(source)}) <=> {sql}"
    if _is_binary(source) != _is_binary(target):
        binary, exact = (sql, there) if _is_binary(source) else (there, sql)
        same = f"{_digits(binary)} = CAST({exact} AS DECIMAL(38,0))"
        fits = f"CASE WHEN {binary} % 1 = 0 AND {exact} % 1 = 0 THEN {same} ELSE {fits} END"
    return f"CASE WHEN {fits} THEN {there} END"


def _is_binary(kind: DataType) -> bool:
    from pyspark.sql import types as t

    return isinstance(kind, t.FractionalType) and not isinstance(kind, t.DecimalType)


def _digits(sql: str) -> str:
    """SQL: all digits of an integer that a float or a double holds, as a decimal; null where it has more than 38.

    Remainders of powers of two are exact, and each part fits a bigint. Spark takes a cast from an integer over float to
    double for one from integer to double, which rounds less: it must not see that this one is the second.
    """
    whole = f"CAST(nanvl({sql}, {sql}) AS DOUBLE)"
    low = f"({whole} % {_HIGH}D)"
    middle = f"({low} % {_LOW}D)"
    parts = (
        f"try_multiply({_part(f'({whole} - {low}) / {_HIGH}D')}, CAST({_HIGH} AS DECIMAL(38,0)))",
        f"try_multiply({_part(f'({low} - {middle}) / {_LOW}D')}, CAST({_LOW} AS DECIMAL(38,0)))",
        _part(middle),
    )
    return f"try_add(try_add({parts[0]}, {parts[1]}), {parts[2]})"


def _part(sql: str) -> str:
    return f"CAST(try_cast({sql} AS BIGINT) AS DECIMAL(38,0))"


def _narrows(source: DataType, target: DataType) -> bool:
    from pyspark.sql import types as t

    return isinstance(source, t.NumericType) and isinstance(target, t.NumericType)


def rescued(source: StructType, target: StructType) -> str | None:
    """SQL: JSON text of what the contract has no place for; None where it has one for everything."""
    left = _left_fields(None, source, target, 0)
    if not left:
        return None
    return f"CASE WHEN {_any(left)} THEN {json_text(_named(left))} END"


def json_form(sql: str, kind: Any, depth: int = 0) -> str:
    """SQL: a value that JSON can hold: maps whose keys JSON has no text for become lists of their entries. Spark would
    write the names of Java objects."""
    from pyspark.sql import types as t

    if not _holds_odd_keys(kind):
        return sql
    if isinstance(kind, t.StructType):
        members = ", ".join(
            f"{literal(f.name)}, {json_form(f'{sql}.{quoted(f.name)}', f.dataType, depth)}" for f in kind.fields
        )
        return f"CASE WHEN {sql} IS NOT NULL THEN named_struct({members}) END"
    key, item = f"j{depth}", f"i{depth}"
    if isinstance(kind, t.ArrayType):
        return f"transform({sql}, {item} -> {json_form(item, kind.elementType, depth + 1)})"
    if not _is_odd_key(kind.keyType):
        return f"transform_values({sql}, ({key}, {item}) -> {json_form(item, kind.valueType, depth + 1)})"
    entry = ", ".join(
        f"'{part}', {json_form(f'{item}.{part}', of_part, depth + 1)}"
        for part, of_part in (("key", kind.keyType), ("value", kind.valueType))
    )
    return f"transform(map_entries({sql}), {item} -> named_struct({entry}))"


def _holds_odd_keys(kind: Any) -> bool:
    from pyspark.sql import types as t

    if isinstance(kind, t.StructType):
        return any(_holds_odd_keys(field.dataType) for field in kind.fields)
    if isinstance(kind, t.MapType):
        return _is_odd_key(kind.keyType) or _holds_odd_keys(kind.valueType)
    return isinstance(kind, t.ArrayType) and _holds_odd_keys(kind.elementType)


def _is_odd_key(kind: DataType) -> bool:
    from pyspark.sql import types as t

    return not isinstance(kind, t.StringType | t.NumericType | t.BooleanType)


def json_text(struct: str) -> str:
    """SQL: a struct as JSON text, times with all their digits."""
    digits = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
    formats = {"timeZone": "UTC", "timestampFormat": f"{digits}XXX", "timestampNTZFormat": digits}
    return f"to_json({struct}, map({', '.join(literal(text) for pair in formats.items() for text in pair)}))"


def _named(left: list[tuple[str, str]]) -> str:
    return "named_struct(" + ", ".join(f"{literal(name)}, {sql}" for name, sql in left) + ")"


def _any(left: list[tuple[str, str]]) -> str:
    return " OR ".join(f"({sql}) IS NOT NULL" for _, sql in left)


def _left_fields(parent: str | None, source: Any, target: Any, depth: int) -> list[tuple[str, str]]:
    known = {folded(field.name): field for field in target.fields}
    left = []
    for field in source.fields:
        sql = quoted(field.name) if parent is None else f"{parent}.{quoted(field.name)}"
        place = known.get(folded(field.name))
        rest = json_form(sql, field.dataType) if place is None else _left(sql, field.dataType, place.dataType, depth)
        if rest is not None:
            left.append((field.name, rest))
    return left


def _left(sql: str, source: Any, target: Any, depth: int) -> str | None:
    """SQL: what is left of a value, null where nothing is; None where nothing can be."""
    from pyspark.sql import types as t

    if isinstance(source, t.StructType) and isinstance(target, t.StructType):
        left = _left_fields(sql, source, target, depth)
        return f"CASE WHEN {_any(left)} THEN {_named(left)} END" if left else None
    item, whole = f"e{depth}", json_form(sql, source)
    if isinstance(source, t.ArrayType) and isinstance(target, t.ArrayType):
        rest = _left(item, source.elementType, target.elementType, depth + 1)
        return None if rest is None else f"CASE WHEN exists({sql}, {item} -> ({rest}) IS NOT NULL) THEN {whole} END"
    if isinstance(source, t.MapType) and isinstance(target, t.MapType) and widens(source.keyType, target.keyType):
        rest = _left(item, source.valueType, target.valueType, depth + 1)
        condition = f"exists(map_values({sql}), {item} -> ({rest}) IS NOT NULL)"
        return None if rest is None else f"CASE WHEN {condition} THEN {whole} END"
    if widens(source, target):
        return None
    if _narrows(source, target):
        return f"CASE WHEN ({value(sql, source, target, depth)}) IS NULL THEN {sql} END"
    return whole
