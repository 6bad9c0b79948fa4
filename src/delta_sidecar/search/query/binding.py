"""A query as lookups in the fields of a table: each word divided as its field was, each value read as its type.

What a field cannot answer is refused by name, because an empty answer would say that nothing is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from math import comb
from typing import Final, NoReturn

from delta_sidecar.errors import PredicateError, QueryError, did_you_mean
from delta_sidecar.predicates.binding import Binder
from delta_sidecar.predicates.condition import Comparison, DayOf, Likeness, Name, Negation, Nullness
from delta_sidecar.predicates.expression import And, Column, Compare, Expression, Operator, Or, all_of
from delta_sidecar.predicates.like import like_text
from delta_sidecar.predicates.literals import Text
from delta_sidecar.search.query import plan
from delta_sidecar.search.query.expression import (
    ANY,
    Both,
    Either,
    Everything,
    Exists,
    Fuzzy,
    Leaf,
    Pattern,
    Phrase,
    Query,
    Range,
    Regex,
    Wild,
    Without,
    Word,
    leaves,
)
from delta_sidecar.search.query.plan import AllOf, Always, AnyOf, Except, Plan
from delta_sidecar.search.query.where import check_type, escaped, rows_where
from delta_sidecar.search.splits.analyzers import Analyzer, analyzer
from delta_sidecar.search.splits.fields import KEYWORD, STORED, TEXT, SplitField, SplitFields
from delta_sidecar.values.calendar import month_length
from delta_sidecar.values.column_names import folded
from delta_sidecar.values.types import PrimitiveType, StructType

MOST_PATTERNS: Final = 500
"""Each pattern walks the dictionary of every split."""
MOST_PLACINGS: Final = 256
"""A phrase with room between its words is looked up at every distance."""
_DAY: Final = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?", re.ASCII)
"""A day, a month or a year."""
_UPPER: Final = re.compile(r"\\(?:[pP]\{[^}]*\}|[pP].|[xuU]\{[^}]*\}|.)|\(\?[^:)]*[:)]|\[:\^?\w+:\]", re.DOTALL)
"""What in a regular expression has letters that do not stand for themselves."""


@dataclass(frozen=True)
class QueryFields:
    """What queries can ask of a table.

    Args:
        fields: What the splits index.
        columns: The columns of the table.
        partitions: The names of the partition columns.
    """

    fields: SplitFields
    columns: StructType
    partitions: tuple[str, ...] = ()

    @cached_property
    def binder(self) -> Binder:
        return Binder(self.columns, frozenset(self.partitions))

    @cached_property
    def texts(self) -> list[SplitField]:
        """The fields of words without a field: texts, else keywords."""
        return self.fields.texts or [field for field in self.fields if field.kind == KEYWORD]

    def check(self, field: SplitField) -> None:
        """Refuse a column whose type has changed since it was indexed."""
        column = next((one for one in self.columns if one.name == field.name), None)
        if column is not None:
            check_type(field, column.type)

    def find(self, name: str) -> SplitField | Column | None:
        """The field of that name, or the partition column.

        Raises:
            QueryError: The column has another type than when it was indexed.
        """
        field = self.fields.find(name)
        if field is not None and field.kind != STORED:
            self.check(field)
            return field
        known = {part: part for part in self.partitions} | {folded(part): part for part in self.partitions}
        part = known.get(name, known.get(folded(name)))
        return None if part is None else self.binder.column(Name((part,)))


def bind_query(query: Query, fields: QueryFields) -> Plan:
    """What a query asks of each split.

    Args:
        query: The query, of `parse_query`.
        fields: What can be asked.

    Raises:
        QueryError: A field is unknown, or cannot answer what is asked of it.
    """
    patterns = sum(isinstance(leaf, Pattern | Fuzzy | Regex) for leaf, _ in leaves(query))
    if patterns > MOST_PATTERNS:
        raise QueryError(f"the query has {patterns:,} patterns (*, ?, ~, //); it may have {MOST_PATTERNS}")
    return _Binding(fields).plan(query)


def pruning_of(query: Query, fields: QueryFields) -> Expression | None:
    """What every row fulfils that the query finds, as far as minimum and maximum can tell; None if nothing."""
    match query:
        case Both(queries):
            return all_of(pruning_of(one, fields) for one in queries)
        case Either(queries):
            found = [pruning_of(one, fields) for one in queries]
            kept = tuple(one for one in found if one is not None)
            return Or(kept) if len(kept) == len(found) else None
        case Word(str()) | Phrase(str()) | Range():
            return _Binding(fields).condition(query)
    return None


class _Binding:
    def __init__(self, fields: QueryFields) -> None:
        self._fields = fields

    def plan(self, query: Query) -> Plan:
        match query:
            case Both(queries):
                return AllOf(tuple(map(self.plan, queries)))
            case Either(queries):
                return AnyOf(tuple(map(self.plan, queries)))
            case Without(one):
                return Except(self.plan(one))
            case Everything():
                return Always()
            case _:
                return self._leaf(query)

    def _leaf(self, leaf: Leaf) -> Plan:
        if leaf.field is not None:
            found = self._fields.find(leaf.field)
            if found is None:
                self._unknown(leaf.field, leaf.at)
            return self._of_field(leaf, found)
        if not self._fields.texts:
            _refuse("the table has no text to search; write field:value", leaf)
        texts = self._fields.texts
        divided = texts if len(texts) == 1 else [field for field in texts if not _is_void(leaf, field)]
        if not divided:
            _refuse(_no_words(leaf, self._fields.texts[0]), leaf)
        for field in divided:
            self._fields.check(field)
        found_in = tuple(self._of_field(leaf, field) for field in divided)
        return found_in[0] if len(found_in) == 1 else AnyOf(found_in)

    def _of_field(self, leaf: Leaf, field: SplitField | Column) -> Plan:
        if isinstance(field, Column) or field.kind not in (TEXT, KEYWORD):
            return self._typed(leaf, field)
        match leaf:
            case Word(_, text):
                return _words(field, text, 0, leaf)
            case Phrase(_, text, slop):
                return _words(field, text, slop, leaf)
            case Pattern():
                return _pattern(field, leaf)
            case Fuzzy(_, text, distance):
                return plan.Near(field.engine_name, _piece(field, text, leaf, "~"), distance)
            case Regex(_, pattern):
                return _regex(field, pattern, leaf)
            case Exists():
                return plan.Present(field.engine_name, field.fast)
            case Range():
                problem = f"{field.name} is a text, and texts have no ranges; {field.name}:abc* finds a prefix"
                raise _refusal(problem, leaf)

    def _typed(self, leaf: Leaf, field: SplitField | Column) -> Plan:
        condition = self._condition(leaf, field)
        if condition is None:
            name = field.name if isinstance(field, SplitField) else str(field)
            kind = field.type if isinstance(field, SplitField) else "a partition column"
            _refuse(f"{name} is {kind}: it has values and ranges, and no patterns", leaf)
        return rows_where(condition, self._fields.fields)

    def condition(self, leaf: Word | Phrase | Range) -> Expression | None:
        """The leaf as a predicate, if it is one: a value or a range of a typed column, or a whole text."""
        assert leaf.field is not None
        found = self._fields.find(leaf.field)
        if isinstance(found, SplitField) and found.kind in (TEXT, KEYWORD):
            if found.kind == TEXT or found.analyzer != "raw" or isinstance(leaf, Range):
                return None
            return Compare(self._fields.binder.column(Name((found.name,))), "=", leaf.text)
        return None if found is None else self._condition(leaf, found)

    def _condition(self, leaf: Leaf, field: SplitField | Column) -> Expression | None:
        name = Name((field.name if isinstance(field, SplitField) else field.path[0],))
        bind = self._fields.binder.bind
        try:
            match leaf:
                case Word(_, text) | Phrase(_, text, 0):
                    return self._compared(name, "=", text)
                case Range():
                    low = (
                        None if leaf.low is None else self._compared(name, ">=" if leaf.includes_low else ">", leaf.low)
                    )
                    high = (
                        None
                        if leaf.high is None
                        else self._compared(name, "<=" if leaf.includes_high else "<", leaf.high)
                    )
                    return all_of((low, high)) or bind(Negation(Nullness(name)))
                case Exists():
                    return bind(Negation(Nullness(name)))
                case Pattern(_, parts) if isinstance(field, Column) and field.type == PrimitiveType("string"):
                    return bind(Likeness(name, "".join(map(_as_like, parts))))
        except PredicateError as error:
            _refuse(str(error), leaf)
        return None

    def _compared(self, name: Name, op: Operator, text: str) -> Expression:
        """A day, a month or a year of a time or a date is all of it: `ts:2026-01` is each moment of that month."""
        bind = self._fields.binder.bind
        column = self._fields.binder.column(name)
        is_time = column.type in (PrimitiveType("timestamp"), PrimitiveType("timestamp_ntz"))
        days = _days(text) if is_time or column.type == PrimitiveType("date") else None
        if days is None:
            return bind(Comparison(name, op, Text(text)))
        operand = DayOf(name) if is_time else name
        first, last = (Text(day) for day in days)
        if op == "=" and first != last:
            return And((bind(Comparison(operand, ">=", first)), bind(Comparison(operand, "<=", last))))
        return bind(Comparison(operand, op, first if op in (">=", "<") else last))

    def _unknown(self, name: str, at: int) -> NoReturn:
        known = [field.name for field in self._fields.fields if field.kind != STORED] + list(self._fields.partitions)
        raise QueryError(
            f"there is no field {name!r} (before character {at + 1}){did_you_mean(name, known)}; fields: "
            f"{', '.join(known)}; a text with a colon is quoted"
        )


def _days(text: str) -> tuple[str, str] | None:
    """The first and the last day of a day, a month or a year; None for what is something else."""
    found = _DAY.fullmatch(text)
    if found is None:
        return None
    year, month, day = (None if part is None else int(part) for part in found.groups())
    assert year is not None
    if year == 0 or (month is not None and not 1 <= month <= 12):
        return None
    first, last = month or 1, month or 12
    return f"{year:04}-{first:02}-{day or 1:02}", f"{year:04}-{last:02}-{day or month_length(year, last):02}"


def _as_like(part: str | Wild) -> str:
    if isinstance(part, Wild):
        return "%" if part.sign == ANY else "_"
    return like_text(part)


def _refusal(problem: str, leaf: Leaf) -> QueryError:
    return QueryError(f"{problem} (character {leaf.at + 1} of the query)")


def _refuse(problem: str, leaf: Leaf) -> NoReturn:
    raise _refusal(problem, leaf)


def analyzer_of(field: SplitField) -> Analyzer:
    return analyzer(field.analyzer or "default")


def _is_void(leaf: Leaf, field: SplitField) -> bool:
    """Whether a text has no word at all for this field, and so cannot be in it."""
    if not isinstance(leaf, Word | Phrase):
        return False
    made = analyzer_of(field)
    return not made.words(leaf.text) and not made.long_words(leaf.text)


def _no_words(leaf: Leaf, field: SplitField) -> str:
    text = leaf.text if isinstance(leaf, Word | Phrase) else ""
    return f"{text!r} has no word that the analyzer {analyzer_of(field).name} of {field.name} would index"


def _words(field: SplitField, text: str, slop: int, leaf: Leaf) -> Plan:
    made = analyzer_of(field)
    words, long_words = made.division(text)
    for long in long_words:
        _refuse(
            f"the word {long[:20]!r}… has more than {made.most_bytes} bytes and is not indexed in {field.name}", leaf
        )
    if not words:
        _refuse(_no_words(leaf, field), leaf)
    if len(words) == 1:
        return plan.Lookup(field.engine_name, (words[0].text,))
    _check_positions(field, leaf)
    first = words[0].position
    placed = [(word.position - first, word.text) for word in words]
    gaps = len(words) - 1
    if comb(slop + gaps, gaps) > MOST_PLACINGS:
        most = max(room for room in range(slop) if comb(room + gaps, gaps) <= MOST_PLACINGS)
        _refuse(f"a phrase of {len(words)} words takes up to ~{most}", leaf)
    phrases = tuple(plan.WordSequence(field.engine_name, placing) for placing in _placings(placed, slop))
    return phrases[0] if len(phrases) == 1 else AnyOf(phrases)


def _placings(placed: Sequence[tuple[int, str]], slop: int) -> Iterator[tuple[tuple[int, str], ...]]:
    """The phrase with every way to put at most `slop` words between its own.

    The engine's own slop also lets words change places, and is not exact for three words and more.
    """
    gaps = len(placed) - 1
    for chosen in combinations_with_replacement(range(gaps + 1), slop):
        # Each word between is put into a gap, or (the last number) nowhere.
        yield tuple(
            (offset + sum(gap < number for gap in chosen), word) for number, (offset, word) in enumerate(placed)
        )


def _check_positions(field: SplitField, leaf: Leaf) -> None:
    if not field.positions:
        _refuse(f"{field.name} is indexed without positions, so phrases cannot be found in it; search its words", leaf)


def _check_unstemmed(field: SplitField, leaf: Leaf, sign: str) -> None:
    language = analyzer_of(field).language
    if language is not None:
        _refuse(
            f"{field.name} keeps words without their endings ({language}), so {sign} cannot be answered here",
            leaf,
        )


def _piece(field: SplitField, text: str, leaf: Leaf, sign: str) -> str:
    """A piece of one word, as the index has it."""
    _check_unstemmed(field, leaf, sign)
    made = analyzer_of(field)
    piece = made.piece(text)
    if piece is not None and len(piece.encode()) > made.most_bytes:
        _refuse(f"{piece[:20]!r}… has more than {made.most_bytes} bytes and is not indexed in {field.name}", leaf)
    # A character that is a word of its own, as in Chinese, has no pieces around it.
    is_within = made.is_whole or len(made.words(f"a{text[:64]}a")) == 1 or not text
    if piece is None or not is_within:
        words = " ".join(word.text for word in made.words(text))
        how = f'; search for whole words: "{words}"' if words else ""
        _refuse(f"{sign} works within one word, and {text!r} reaches over its border in {field.name}{how}", leaf)
    return piece


def _pattern(field: SplitField, leaf: Pattern) -> Plan:
    made = analyzer_of(field)
    texts = [part for part in leaf.parts if isinstance(part, str)]
    is_prefix = len(leaf.parts) == 2 and isinstance(leaf.parts[0], str) and leaf.parts[1] == Wild(ANY)
    _check_unstemmed(field, leaf, "*")
    if is_prefix and not made.is_whole:
        words = made.words(texts[0])
        if len(words) > 1 and words[-1].end == len(texts[0]) and not made.long_words(texts[0]):
            _check_positions(field, leaf)
            regexes = [escaped(word.text) for word in words]
            return plan.MatchingSequence(field.engine_name, (*regexes[:-1], _anywhere(regexes[-1])))
    regex = "(?s)"
    for part in leaf.parts:
        if isinstance(part, Wild):
            regex += ".*" if part.sign == ANY else "."
        else:
            regex += escaped(_piece(field, part, leaf, str(leaf)))
    return plan.Matching(field.engine_name, regex)


def _anywhere(regex: str) -> str:
    return f"(?s){regex}.*"


def _regex(field: SplitField, pattern: str, leaf: Leaf) -> Plan:
    _check_unstemmed(field, leaf, "//")
    if analyzer_of(field).lowers and "(?i" not in pattern:
        literal = _UPPER.sub("", pattern)
        upper = next((c for c in literal if c != c.lower()), None)
        if upper is not None:
            _refuse(
                f"{field.name} is indexed in lower case, and {upper!r} of /{pattern}/ is not; write (?i) first", leaf
            )
    return plan.Matching(field.engine_name, pattern)
