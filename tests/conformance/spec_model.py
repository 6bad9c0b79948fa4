"""The live files of a log and those that a predicate keeps, by the text of `docs/spec/reading.md` alone.

A plain replay from version 0 and the rules of pruning, file by file. Nothing of the package's reader is used: this says
what the corpus expects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance import spec_values as spec
from tests.conformance.spec_values import UNKNOWN

Node = Mapping[str, Any]
OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
WIDER = {
    "byte": ("short", "integer", "long", "double"),
    "short": ("integer", "long", "double"),
    "integer": ("long", "double"),
    "float": ("double",),
    "date": ("timestamp_ntz",),
}
PARTITION_TYPES = {*spec.BITS, *spec.TIMES, "float", "double", "boolean", "string", "date", "binary"}
DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}


@dataclass(frozen=True, slots=True)
class Table:
    """One version of a table."""

    protocol: Mapping[str, Any]
    metadata: Mapping[str, Any]
    files: list[dict[str, Any]]
    """The bodies of the live adds."""


def replay(commits: Sequence[Iterable[Mapping[str, Any]]], table: str = "file:///t") -> Table:
    """The state after these commits, version 0 first: newest commit first, as the spec says."""
    seen: set[tuple[str, str]] = set()
    live: list[dict[str, Any]] = []
    protocol: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] | None = None
    for commit in reversed(commits):
        actions = [(kind, body) for action in commit for kind, body in action.items()]
        adds = {_key(table, body): body for kind, body in actions if kind == "add"}
        live += [dict(body) for key, body in adds.items() if key not in seen]
        seen |= {_key(table, body) for kind, body in actions if kind in ("add", "remove")}
        newest = dict(actions)
        protocol = protocol or newest.get("protocol")
        metadata = metadata or newest.get("metaData")
    assert protocol is not None
    assert metadata is not None
    return Table(protocol, metadata, live)


def _key(table: str, body: Mapping[str, Any]) -> tuple[str, str]:
    return spec.canonical_path(table, body["path"]), spec.vector_id(body.get("deletionVector"))


def read_commits(table: Path, version: int) -> list[list[dict[str, Any]]]:
    """The commits of a log on disk; every one must be there."""
    files = [table / "_delta_log" / f"{v:020}.json" for v in range(version + 1)]
    return [[json.loads(line) for line in file.read_text("utf-8").splitlines() if line] for file in files]


# Columns.


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column of a predicate."""

    names: tuple[str, ...]
    physical: tuple[str, ...]
    type: str
    metadata: Mapping[str, Any]
    is_partition: bool


def leaf_of(table: Table, names: Sequence[str]) -> Leaf:
    level: Any = json.loads(table.metadata["schemaString"])
    physical: list[str] = []
    field: Mapping[str, Any] = {}
    for name in names:
        field = next(f for f in level["fields"] if f["name"] == name)
        physical.append(_physical(table, field))
        level = field["type"]
    kind = level if isinstance(level, str) else "nested"
    is_partition = len(names) == 1 and names[0] in table.metadata["partitionColumns"]
    return Leaf(tuple(names), tuple(physical), kind, field.get("metadata") or {}, is_partition)


def _physical(table: Table, field: Mapping[str, Any]) -> str:
    reader, features = table.protocol["minReaderVersion"], table.protocol.get("readerFeatures") or ()
    mode = (table.metadata.get("configuration") or {}).get("delta.columnMapping.mode", "none")
    mapped = (reader == 2 or (reader == 3 and "columnMapping" in features)) and mode in ("name", "id")
    return field["metadata"]["delta.columnMapping.physicalName"] if mapped else field["name"]


def literal(value: Any, kind: str) -> Any:
    """A literal of a predicate in the form that bounds compare in."""
    scaled = spec.decimal_type(kind)
    if scaled is not None:
        return spec.exact_decimal(value, scaled[1])
    if kind in ("float", "double"):
        return float(value)
    if kind == "boolean":
        return int(value)
    if isinstance(value, str):
        typed = spec.bound(value, kind, "min")
        assert typed is not UNKNOWN, (value, kind)
        return typed
    return value


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a column in a file."""

    low: Any
    high: Any
    nulls: Any
    rows: Any
    may_hold_nan: bool = False


def facts_of(add: Mapping[str, Any], leaf: Leaf) -> Facts:
    if leaf.is_partition:
        if leaf.type not in PARTITION_TYPES and spec.decimal_type(leaf.type) is None:
            return Facts(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
        value = spec.partition_value((add.get("partitionValues") or {}).get(leaf.physical[0]), leaf.type)
        if value is None:
            return Facts(UNKNOWN, UNKNOWN, 1, 1)
        if value is UNKNOWN:
            return Facts(UNKNOWN, UNKNOWN, UNKNOWN, 1)
        is_nan = value != value
        return Facts(UNKNOWN if is_nan else value, UNKNOWN if is_nan else value, 0, 1)
    if not _has_facts(leaf):
        return Facts(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
    stats = spec.stats_of(add.get("stats"))
    low, high = (
        spec.widened(
            spec.bound(_member(stats.get(key), leaf.physical), leaf.type, side), leaf.type, side, leaf.metadata
        )
        for key, side in (("minValues", "min"), ("maxValues", "max"))
    )
    nulls, rows = _count(_member(stats.get("nullCount"), leaf.physical)), _count(stats.get("numRecords"))
    return Facts(low, high, nulls, rows, leaf.type in ("float", "double"))


def _has_facts(leaf: Leaf) -> bool:
    changes = leaf.metadata.get("delta.typeChanges")
    entries = [c for c in changes if isinstance(c, dict)] if isinstance(changes, list) else []
    pairs = [(c.get("fromType"), c.get("toType")) for c in entries]
    read = [(old, new) for old, new in pairs if isinstance(old, str) and isinstance(new, str)]
    return leaf.type != "nested" and all(is_widening(old, new) for old, new in read)


def is_widening(old: str, new: str) -> bool:
    after, before = spec.decimal_type(new), spec.decimal_type(old)
    if after is not None and before is not None:
        return after[1] >= before[1] and after[0] - after[1] >= before[0] - before[1]
    if after is not None:
        return old in DIGITS and after[0] - after[1] >= DIGITS[old]
    return old == new or new in WIDER.get(old, ())


def _member(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _count(value: Any) -> Any:
    return value if type(value) is int and value >= 0 else UNKNOWN


# The rules.


def may(node: Node, wanted: bool, facts: Callable[[Any], tuple[Facts, str]]) -> bool:
    """Whether some row may make the node true (`wanted`), or false."""
    match node["op"]:
        case "and" | "or" as op:
            answers = [may(term, wanted, facts) for term in node["terms"]]
            return all(answers) if (op == "and") == wanted else any(answers)
        case "not":
            return may(node["term"], not wanted, facts)
    known, kind = facts(node["column"])
    is_present = known.nulls is UNKNOWN or known.rows is UNKNOWN or known.nulls != known.rows
    match node["op"]:
        case "is null":
            return known.nulls is UNKNOWN or known.nulls != 0 if wanted else is_present
        case "in":
            values = [literal(value, kind) for value in node["values"]]
            if wanted:
                return is_present and any(possible("=", value, known) for value in values)
            is_one = UNKNOWN not in (known.low, known.high) and known.low == known.high and known.low in values
            return is_present and (known.may_hold_nan or not is_one)
        case op:
            op = op if wanted else OPPOSITE[op]
            if known.may_hold_nan and (op == "!=" or not wanted):
                return is_present
            return is_present and possible(op, literal(node["value"], kind), known)


def possible(op: str, value: Any, known: Facts) -> bool:
    low, high = known.low, known.high
    match op:
        case "=":
            return not ((low is not UNKNOWN and low > value) or (high is not UNKNOWN and high < value))
        case "!=":
            return low is UNKNOWN or high is UNKNOWN or low != value or high != value
        case "<":
            return low is UNKNOWN or low < value
        case "<=":
            return low is UNKNOWN or low <= value
        case ">":
            return high is UNKNOWN or high > value
    return high is UNKNOWN or high >= value


def kept(table: Table, node: Node | None, buckets: Sequence[Bucket] = ()) -> list[dict[str, Any]]:
    """The live files that may hold a matching row; with `buckets`, by what follows for these as well."""
    if node is None:
        return list(table.files)
    return [add for add in table.files if _keeps(table, node, add, buckets)]


def _keeps(table: Table, node: Node, add: Mapping[str, Any], buckets: Sequence[Bucket]) -> bool:
    def facts(names: Any) -> tuple[Facts, str]:
        leaf = leaf_of(table, names)
        return facts_of(add, leaf), leaf.type

    if not may(node, True, facts):
        return False
    used = [bucket for bucket in buckets if bucket.derived(node) is not None]
    outside = any(not may(bucket.derived(node) or {}, True, facts) for bucket in used)
    return not outside or any(bucket.is_contradicted(table, add) for bucket in used)


# Time buckets.


@dataclass(frozen=True, slots=True)
class Bucket:
    """Partition columns generated from a time column; the maker of a table says so."""

    time: str
    time_type: str
    form: str
    columns: tuple[str, ...]
    granularity: str | None = None

    @property
    def slack(self) -> int:
        return 0 if self.form == "text" else (18 if self.time_type == "timestamp" else 36) * spec.HOUR

    def derived(self, node: Node) -> Node | None:
        """What follows for the bucket; None for nothing."""
        match node["op"]:
            case "and":
                found = [d for term in node["terms"] if (d := self.derived(term)) is not None]
                return {"op": "and", "terms": found} if found else None
            case "or":
                every = [self.derived(term) for term in node["terms"]]
                return None if None in every else {"op": "or", "terms": every}
            case "is null" if node["column"] == [self.time]:
                return {"op": "and", "terms": [{"op": "is null", "column": [name]} for name in self.columns]}
            case "in" if node["column"] == [self.time]:
                return self.derived(
                    {"op": "or", "terms": [{"op": "=", "column": [self.time], "value": v} for v in node["values"]]}
                )
            case "=" | "<" | "<=" | ">" | ">=" as op if node["column"] == [self.time]:
                at = literal(node["value"], self.time_type)
                terms = [self._at_least(at + (op == ">"))] if op in ("=", ">", ">=") else []
                terms += [self._at_most(at - (op == "<"))] if op in ("=", "<", "<=") else []
                return {"op": "and", "terms": terms}
        return None

    def _at_least(self, micros: int) -> Node:
        column = [self.columns[0]]
        if self.form == "text":
            low = {"op": ">=", "column": column, "value": self._text(micros)}
            return {"op": "or", "terms": [low, {"op": "<", "column": column, "value": "0"}]}
        if self.form == "date":
            return {"op": ">=", "column": column, "value": self._date(micros - self.slack)}
        return self._beyond(self.columns, self._units(micros - self.slack), ">")

    def _at_most(self, micros: int) -> Node:
        column = [self.columns[0]]
        if self.form == "text":
            return {"op": "<=", "column": column, "value": self._text(micros)}
        if self.form == "date":
            return {"op": "<=", "column": column, "value": self._date(micros + self.slack)}
        return self._beyond(self.columns, self._units(micros + self.slack), "<")

    def _text(self, micros: int) -> str:
        days, rest = divmod(micros, spec.DAY)
        clock = rest // spec.SECOND
        digits = "{:04}{:02}{:02}".format(*spec.date_of(days))
        digits += f"{clock // 3600:02}{clock // 60 % 60:02}{clock % 60:02}"
        return digits[: 6 + 2 * spec.GRANULARITIES.index(str(self.granularity))]

    @staticmethod
    def _date(micros: int) -> str:
        return "{:04}-{:02}-{:02}".format(*spec.date_of(micros // spec.DAY))

    @staticmethod
    def _units(micros: int) -> tuple[int, ...]:
        days, rest = divmod(micros, spec.DAY)
        return (*spec.date_of(days), rest // spec.HOUR)

    def _beyond(self, columns: Sequence[str], values: Sequence[int], op: str) -> Node:
        first = {"column": [columns[0]], "value": values[0]}
        if len(columns) == 1:
            return {"op": op + "=", **first}
        same = {"op": "and", "terms": [{"op": "=", **first}, self._beyond(columns[1:], values[1:], op)]}
        return {"op": "or", "terms": [{"op": op, **first}, same]}

    def is_contradicted(self, table: Table, add: Mapping[str, Any]) -> bool:
        leaves = [leaf_of(table, [name]) for name in self.columns]
        values = [spec.partition_value(add["partitionValues"].get(leaf.physical[0]), leaf.type) for leaf in leaves]
        time = leaf_of(table, [self.time])
        stats = spec.stats_of(add.get("stats"))
        low, high = (
            spec.bound(_member(stats.get(key), time.physical), time.type, side)
            for key, side in (("minValues", "min"), ("maxValues", "max"))
        )
        nulls = _count(_member(stats.get("nullCount"), time.physical))
        if None in values:
            return spec.contradicts(None, True, low, high, nulls)
        found = spec.interval(self.form, self.time_type, values, granularity=self.granularity)
        return spec.contradicts(found, False, low, high, nulls)


def as_sql(node: Node, kind_of: Callable[[Sequence[str]], str]) -> str:
    """A predicate as SQL text, for readers that take that."""
    match node["op"]:
        case "and" | "or" as op:
            return f" {op.upper()} ".join(f"({as_sql(term, kind_of)})" for term in node["terms"])
        case "not":
            return f"NOT ({as_sql(node['term'], kind_of)})"
    name = ".".join(f"`{part.replace('`', '``')}`" for part in node["column"])
    kind = kind_of(node["column"])
    match node["op"]:
        case "is null":
            return f"{name} IS NULL"
        case "in":
            return f"{name} IN ({', '.join(_sql(value, kind) for value in node['values'])})"
    return f"{name} {node['op']} {_sql(node['value'], kind)}"


def _sql(value: Any, kind: str) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if kind.startswith("decimal"):
        return str(value)
    if kind in ("float", "double") and isinstance(value, str):
        return f"CAST('{value}' AS DOUBLE)"
    if not isinstance(value, str):
        return repr(value)
    escaped = re.sub("'", "''", value)
    return f"'{escaped}'"
