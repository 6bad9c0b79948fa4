"""The schema contract of a batch: which columns and types it must fit, and what may happen to the rest.

It comes from a schema that is given, else from the table, else from the batch itself. A field that the source has and
the contract lacks is refused by name, added to the table, or kept as JSON text in `_rescued`: never left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from delta_sidecar.errors import InputError, UnsupportedTypeError
from delta_sidecar.pipeline.failures import spark_failures
from delta_sidecar.pipeline.records.inference import NOTHING, merged, settled
from delta_sidecar.pipeline.records.terms import ELEMENTS, VALUES, Path, Problem
from delta_sidecar.values.bucket_columns import quoted
from delta_sidecar.values.column_names import folded, named_twice

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField, StructType

RESCUED: Final = "_rescued"
SCHEMA: Final = "the schema"
"""What a given schema is called when it is compared with a table."""
CORRUPT: Final = "_corrupt_record"
LEFT: Final = "__left"
REASON: Final = "__reason"
ORIGIN: Final = "__origin"
RAW: Final = "__raw"
PROBLEMS: Final = "__problems"
BAD_TIME: Final = "__bad_time"
TIME_PROBLEM: Final = "__time_problem"
"""Why a time cannot be read."""
TIME: Final = "__time"
"""The time as a timestamp, while the column that it is made of is there, too."""
NOTES: Final = (LEFT, REASON, ORIGIN, RAW, PROBLEMS, BAD_TIME, TIME_PROBLEM, TIME)
"""Columns that stand beside those of a batch while it is made ready: no source may have one of these names."""
_RESERVED: Final = frozenset(NOTES)


@dataclass(frozen=True, slots=True)
class Contract:
    """What a batch must fit. `schema` has neither the bucket nor `_rescued`."""

    schema: StructType
    merge: bool = False
    rescue: bool = False
    grown: bool = False
    """The schema has columns that the table lacks."""

    def refuse_or_grow(self, where: str, problems: Iterable[Problem]) -> Contract:
        """The contract with the new fields among the problems; an error where it does not allow one of them."""
        all_problems = list(problems)
        misfits = [problem for problem in all_problems if not problem.is_new]
        if misfits and not self.rescue:
            raise InputError(
                f"{where}: values do not fit: {_abridge(map(self._misfit, misfits))}; "
                "fix them, or pass --rescue (rescue=True) to keep them in _rescued"
            )
        new = [problem for problem in all_problems if problem.is_new]
        if not new or (self.rescue and not self.merge):
            return self
        if not self.merge:
            raise _lacking(where, sorted({problem.name for problem in new}))
        kinds: dict[Path, tuple[Path, pa.DataType]] = {}
        for problem in new:
            key = tuple(folded(step) if isinstance(step, str) else step for step in problem.path)
            path, before = kinds.get(key, (problem.path, NOTHING))
            kinds[key] = path, merged(before, problem.kind)
        schema = self.schema
        for path, kind in kinds.values():
            schema = with_field(schema, path, spark_type(settled(kind)))
        return replace(self, schema=schema, grown=True)

    def _misfit(self, problem: Problem) -> str:
        kind = find_type(self.schema, problem.path)
        return f"{problem.name} is {'?' if kind is None else kind.simpleString()}, not {problem.example}"


def check_reserved(names: Iterable[str], where: str, *more: str) -> None:
    """Refuse a source whose columns would be taken for ours, or for `more` that stand beside them."""
    if taken := sorted(name for name in names if folded(name) in _RESERVED.union(more)):
        raise InputError(f"{where} has a column {taken[0]}, a name that ingest reserves; rename it")


def check_columns_once(names: Iterable[str], where: str, path: str = "") -> None:
    """Refuse columns of which two have one name."""
    if twice := named_twice(names):
        raise InputError(f"{where} has the column {path + twice!r} twice; give the columns names of their own")


def check_named_once(kind: Any, where: str, path: str = "") -> None:
    """Refuse a type that has two fields of one name, at any depth: their values would be taken for each other's."""
    fields = getattr(kind, "fields", ())
    check_columns_once((field.name for field in fields), where, path)
    for field in fields:
        check_named_once(field.dataType, where, f"{path}{field.name}.")
    for part in ("elementType", "keyType", "valueType"):
        if hasattr(kind, part):
            check_named_once(getattr(kind, part), where, path)


def check_typed(schema: StructType, where: str) -> None:
    """Refuse a column that no file could hold."""
    if name := untyped(schema):
        raise InputError(
            f"{where}: column {name} has no type (it is void, or a struct without fields), so no file can hold it; "
            "cast it, leave it out, or give its type (--schema)"
        )


def untyped(kind: Any, path: str = "", inside: bool = False) -> str | None:
    """Where, in a type, there is a struct of which nothing has a type, or a void inside an array or a map; None if
    there is neither. Delta leaves out a void that stands beside columns or fields with types."""
    from pyspark.sql import types as t

    if isinstance(kind, t.StructType):
        typed = [field for field in kind.fields if inside or not isinstance(field.dataType, t.NullType)]
        if path and not typed:
            return path
        parts = [(field.dataType, f"{path}.{field.name}" if path else field.name, inside) for field in typed]
    elif isinstance(kind, t.ArrayType):
        parts = [(kind.elementType, path, True)]
    elif isinstance(kind, t.MapType):
        parts = [(kind.keyType, path, True), (kind.valueType, path, True)]
    else:
        return path if inside and isinstance(kind, t.NullType) else None
    return next(filter(None, (untyped(*part) for part in parts)), None)


def schema_of(given: StructType | str) -> StructType:
    """A schema from DDL or from Spark's JSON."""
    from pyspark.sql.types import StructType as Struct

    if not isinstance(given, str):
        return _checked(given)
    text = given.strip()
    if text.startswith("{"):
        import json

        try:
            return _checked(Struct.fromJson(json.loads(text)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"the schema is not a Spark schema in JSON: {error!r}") from None
    with spark_failures("the schema is not DDL"):
        made: StructType = Struct.fromDDL(text)  # type: ignore[assignment]
    return _checked(made)


def _checked(schema: StructType) -> StructType:
    """The schema; a length of text in it is refused, because nothing would enforce it."""
    check_named_once(schema, SCHEMA)
    check_typed(schema, SCHEMA)
    for field in schema.fields:
        if kind := _with_length(field.dataType):
            raise UnsupportedTypeError(f"the schema has column {field.name} with a {kind}: write STRING instead")
    return schema


def _with_length(kind: Any) -> str | None:
    """The type of text with a length inside a type; None if there is none."""
    from pyspark.sql import types as t

    if isinstance(kind, t.CharType | t.VarcharType):
        return kind.simpleString()
    if isinstance(kind, t.StructType):
        parts: list[Any] = [field.dataType for field in kind.fields]
    elif isinstance(kind, t.ArrayType):
        parts = [kind.elementType]
    else:
        parts = [kind.keyType, kind.valueType] if isinstance(kind, t.MapType) else []
    return next(filter(None, map(_with_length, parts)), None)


def without(schema: StructType, *names: str) -> StructType:
    """The schema less some columns, whatever their case."""
    from pyspark.sql.types import StructType as Struct

    dropped = {folded(name) for name in names}
    return Struct([field for field in schema.fields if folded(field.name) not in dropped])


def find_type(schema: Any, path: Path) -> DataType | None:
    """The type at a path."""
    kind = schema
    for step in path:
        if step == ELEMENTS and hasattr(kind, "elementType"):
            kind = kind.elementType
        elif step == VALUES and hasattr(kind, "valueType"):
            kind = kind.valueType
        else:
            known = _field(kind, str(step))
            if known is None:
                return None
            kind = known.dataType
    return kind  # type: ignore[no-any-return]


def _field(kind: Any, name: str) -> StructField | None:
    fields = {folded(field.name): field for field in getattr(kind, "fields", ())}
    return fields.get(folded(name))


def with_field(kind: Any, path: Path, new: DataType) -> Any:
    """A type with one field more, or with that field widened, at a path."""
    from pyspark.sql import types as t

    if not path:
        return new
    step, rest = path[0], path[1:]
    if step == ELEMENTS:
        return t.ArrayType(with_field(kind.elementType, rest, new), True)
    if step == VALUES:
        return t.MapType(kind.keyType, with_field(kind.valueType, rest, new), True)
    known = _field(kind, str(step))
    if known is None:
        return t.StructType([*kind.fields, t.StructField(str(step), new)])
    kept = t.StructField(known.name, with_field(known.dataType, rest, new), known.nullable, known.metadata)
    return t.StructType([kept if field.name == known.name else field for field in kind.fields])


# Differences of two schemas of typed sources.


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A column that the contract has otherwise."""

    path: Path
    source: str
    contract: str

    def __str__(self) -> str:
        name = ".".join(str(step) for step in self.path if isinstance(step, str))
        return f"{name} is {self.source}, but in the contract {self.contract}"


@dataclass(frozen=True, slots=True)
class Differences:
    """What a source has that the contract lacks, or has otherwise."""

    new: tuple[tuple[Path, DataType], ...]
    wrong: tuple[Mismatch, ...]


def differences(source: StructType, contract: StructType) -> Differences:
    """New fields and types that do not widen, into structs, arrays and maps."""
    new: list[tuple[Path, DataType]] = []
    wrong: list[Mismatch] = []
    for item in _differences(source, contract, ()):
        if isinstance(item, Mismatch):
            wrong.append(item)
        else:
            new.append(item)
    return Differences(tuple(new), tuple(wrong))


def _differences(source: Any, contract: Any, path: Path) -> Iterator[Mismatch | tuple[Path, DataType]]:
    from pyspark.sql import types as t

    if isinstance(source, t.StructType) and isinstance(contract, t.StructType):
        for field in source.fields:
            known = _field(contract, field.name)
            if known is None:
                yield (*path, field.name), field.dataType
            else:
                yield from _differences(field.dataType, known.dataType, (*path, known.name))
    elif isinstance(source, t.ArrayType) and isinstance(contract, t.ArrayType):
        yield from _differences(source.elementType, contract.elementType, (*path, ELEMENTS))
    elif isinstance(source, t.MapType) and isinstance(contract, t.MapType):
        if not widens(source.keyType, contract.keyType):
            yield Mismatch(path, source.simpleString(), contract.simpleString())
        yield from _differences(source.valueType, contract.valueType, (*path, VALUES))
    elif not widens(source, contract):
        yield Mismatch(path, source.simpleString(), contract.simpleString())


def hold(source: StructType, contract: Contract, where: str) -> Contract:
    """The contract for a typed source: with its new fields where they may be added, an error where it does not fit."""
    difference = differences(source, contract.schema)
    if difference.wrong and not contract.rescue:
        way = "cast them, ingest into a new table, or pass --rescue (rescue=True) to keep what does not fit in _rescued"
        if where == SCHEMA:
            way = "give the table's types, or ingest into a new table"
        raise InputError(f"{where}: columns do not fit: {_abridge(map(str, difference.wrong))}; {way}")
    if not difference.new or (contract.rescue and not contract.merge):
        return contract
    if not contract.merge:
        names = [".".join(str(step) for step in path if isinstance(step, str)) for path, _ in difference.new]
        raise _lacking(where, names)
    schema = contract.schema
    for path, kind in difference.new:
        schema = with_field(schema, path, kind)
    return replace(contract, schema=schema, grown=True)


_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_DIGITS: Final = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_EXACT: Final = {"float": ("tinyint", "smallint"), "double": ("tinyint", "smallint", "int", "float")}


def widens(source: DataType, target: DataType) -> bool:
    """Whether every value of one type is one of the other, exactly."""
    from pyspark.sql import types as t

    names = source.simpleString(), target.simpleString()
    if names[0] == names[1] or isinstance(source, t.NullType):
        return True
    if isinstance(target, t.DecimalType):
        whole = target.precision - target.scale
        if isinstance(source, t.DecimalType):
            return source.precision - source.scale <= whole and source.scale <= target.scale
        return _DIGITS.get(names[0], 99) <= whole
    if names[1] in _INTEGERS:
        return names[0] in _INTEGERS and _INTEGERS.index(names[0]) <= _INTEGERS.index(names[1])
    return names[0] in _EXACT.get(names[1], ()) or _is_text(source, target)


def _is_text(source: DataType, target: DataType) -> bool:
    from pyspark.sql import types as t

    text = (t.StringType, t.CharType, t.VarcharType)
    return isinstance(source, text) and isinstance(target, t.StringType)


def unified(a: Any, b: Any, path: Path = ()) -> Any:
    """The narrowest type that holds values of both, for sources that have no contract; Mismatch where there is none."""
    from pyspark.sql import types as t

    if isinstance(a, t.StructType) and isinstance(b, t.StructType):
        fields = {folded(field.name): field for field in a.fields}
        for field in b.fields:
            known = fields.get(folded(field.name))
            kind = field.dataType if known is None else unified(known.dataType, field.dataType, (*path, field.name))
            fields[folded(field.name)] = t.StructField(known.name if known else field.name, kind)
        return t.StructType(list(fields.values()))
    if isinstance(a, t.ArrayType) and isinstance(b, t.ArrayType):
        return t.ArrayType(unified(a.elementType, b.elementType, (*path, ELEMENTS)))
    if isinstance(a, t.MapType) and isinstance(b, t.MapType):
        return t.MapType(unified(a.keyType, b.keyType, path), unified(a.valueType, b.valueType, (*path, VALUES)))
    if widens(a, b):
        return b
    if widens(b, a):
        return a
    raise _NotUnified(Mismatch(path, b.simpleString(), a.simpleString()))


class _NotUnified(Exception):
    """Two types have none in common."""

    def __init__(self, mismatch: Mismatch) -> None:
        super().__init__(str(mismatch))
        self.mismatch = mismatch


def unify(schemas: Iterable[tuple[str, StructType]]) -> StructType:
    """One schema for sources that have several; an error that names the column and both places."""
    from pyspark.sql.types import StructType as Struct

    result: StructType = Struct([])
    first: dict[str, str] = {}
    for where, schema in schemas:
        try:
            result = unified(result, schema)
        except _NotUnified as error:
            top = str(error.mismatch.path[0]) if error.mismatch.path else "?"
            raise InputError(
                f"column {top} is {error.mismatch.source} in {where} and {error.mismatch.contract} in "
                f"{first.get(folded(top), 'another file')}; give --schema (schema=…)"
            ) from None
        for field in schema.fields:
            first.setdefault(folded(field.name), where)
    return result


def _lacking(where: str, names: Iterable[str]) -> InputError:
    way = "pass --merge-schema (merge_schema=True) to add them"
    if where == SCHEMA:
        return InputError(f"{where} has columns that the table lacks: {_abridge(names)}; {way}, or leave them out")
    way += ", or --rescue (rescue=True) to keep them in _rescued"
    return InputError(f"{where} has columns that the contract lacks: {_abridge(names)}; {way}")


def _abridge(items: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(items))
    return ", ".join(distinct[:10]) + (f" and {len(distinct) - 10} more" if len(distinct) > 10 else "")


# Spark's types as Arrow's, and back.


def arrow_schema(schema: StructType) -> pa.Schema:
    """A schema as Arrow has it."""
    return pa.schema([pa.field(field.name, arrow_type(field.dataType, field.name)) for field in schema.fields])


def arrow_type(kind: Any, path: str) -> pa.DataType:
    """A type as Arrow has it; types that no text can be read as are refused."""
    from pyspark.sql import types as t

    if isinstance(kind, t.StructType):
        return pa.struct([pa.field(f.name, arrow_type(f.dataType, f"{path}.{f.name}")) for f in kind.fields])
    if isinstance(kind, t.ArrayType):
        return pa.list_(arrow_type(kind.elementType, path))
    if isinstance(kind, t.MapType):
        return pa.map_(arrow_type(kind.keyType, path), arrow_type(kind.valueType, path))
    if isinstance(kind, t.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, t.StringType | t.CharType | t.VarcharType):
        return pa.string()
    plain = _PLAIN.get(kind.simpleString())
    if plain is None:
        raise UnsupportedTypeError(f"column {path} is {kind.simpleString()}, which cannot be read from text")
    return plain


_PLAIN: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def spark_type(kind: pa.DataType, nanos_as_numbers: bool = False) -> DataType:
    """A type of Arrow's, as Spark has it."""
    from pyspark.sql import types as t

    def inner(part: pa.DataType) -> DataType:
        return spark_type(part, nanos_as_numbers)

    if pa.types.is_struct(kind):
        return t.StructType([t.StructField(part.name, inner(part.type)) for part in kind])
    if pa.types.is_dictionary(kind):
        return inner(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return t.ArrayType(inner(kind.value_type))
    if pa.types.is_map(kind):
        return t.MapType(inner(kind.key_type), inner(kind.item_type))
    if pa.types.is_decimal(kind):
        return t.DecimalType(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        if kind.unit == "ns" and nanos_as_numbers:
            return t.LongType()
        return t.TimestampNTZType() if kind.tz is None else t.TimestampType()
    name = next((name for test, name in _SPARK_NAMES if test(kind)), None)
    if name is None:
        raise UnsupportedTypeError(f"Spark has no type for Arrow's {kind}")
    made: DataType = getattr(t, f"{name}Type")() if name != "Decimal" else t.DecimalType(20, 0)
    return made


_SPARK_NAMES: Final = (
    (pa.types.is_string, "String"),
    (pa.types.is_large_string, "String"),
    (pa.types.is_large_binary, "Binary"),
    (pa.types.is_fixed_size_binary, "Binary"),
    (pa.types.is_binary, "Binary"),
    (pa.types.is_boolean, "Boolean"),
    (pa.types.is_int8, "Byte"),
    (pa.types.is_int16, "Short"),
    (pa.types.is_uint8, "Short"),
    (pa.types.is_int32, "Integer"),
    (pa.types.is_uint16, "Integer"),
    (pa.types.is_int64, "Long"),
    (pa.types.is_uint32, "Long"),
    (pa.types.is_uint64, "Decimal"),
    (pa.types.is_float32, "Float"),
    (pa.types.is_float64, "Double"),
    (pa.types.is_date, "Date"),
    (pa.types.is_null, "Null"),
)


def ddl(kind: DataType) -> str:
    """A type as SQL, with all its fields; Spark's own short text leaves some out of a wide struct."""
    from pyspark.sql import types as t

    if isinstance(kind, t.StructType):
        return f"STRUCT<{', '.join(f'{quoted(f.name)}: {ddl(f.dataType)}' for f in kind.fields)}>"
    if isinstance(kind, t.ArrayType):
        return f"ARRAY<{ddl(kind.elementType)}>"
    if isinstance(kind, t.MapType):
        return f"MAP<{ddl(kind.keyType)}, {ddl(kind.valueType)}>"
    return kind.simpleString()
