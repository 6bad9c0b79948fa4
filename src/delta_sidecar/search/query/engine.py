"""A plan as the engine's query objects. The engine's own parser is never used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from delta_sidecar.errors import CorruptDataError, QueryError
from delta_sidecar.predicates.expression import Expression
from delta_sidecar.search.query.plan import (
    AllOf,
    Always,
    AnyOf,
    Except,
    Interval,
    Lookup,
    Matching,
    MatchingSequence,
    Near,
    Never,
    OfSplit,
    Plan,
    Present,
    WordSequence,
)
from delta_sidecar.search.splits.fields import engine

EngineQuery: TypeAlias = Any
_ANY_TERM: Final = "(?s).*"


def engine_query(plan: Plan, schema: Any, holds: Callable[[Expression], bool]) -> EngineQuery:
    """The engine's query of a plan.

    Args:
        plan: The plan.
        schema: The engine's schema, of the split or of the table's fields.
        holds: Whether a condition on partition values is true in the split.

    Raises:
        QueryError: A regular expression is not one that the engine understands.
    """
    return _Maker(schema, holds).query(plan)


def check_plan(plan: Plan, schema: Any) -> None:
    """Refuse what the engine would refuse, before a split is opened.

    Args:
        plan: The plan.
        schema: The engine's schema of the table's fields.

    Raises:
        QueryError: A regular expression is not one that the engine understands.
    """
    engine_query(plan, schema, lambda _: True)


def filtered(query: EngineQuery, condition: EngineQuery | None) -> EngineQuery:
    """A query whose hits also fulfil a condition, which does not count for their scores."""
    if condition is None:
        return query
    tantivy = engine()
    must = tantivy.Occur.Must
    return tantivy.Query.boolean_query([(must, query), (must, tantivy.Query.const_score_query(condition, 0.0))])


def ask(search: Callable[[], Any], path: str) -> Any:
    """The answer of the engine about a split; its errors as ours.

    Args:
        search: Asks the engine.
        path: The split, for messages.

    Raises:
        QueryError: The query is too much for the engine.
        CorruptDataError: The split is broken.
    """
    try:
        return search()
    except ValueError as error:
        text = " ".join(str(error).split())
        if "max expansions" in text or "memory" in text.lower() or "bucket" in text.lower():
            raise QueryError(f"the query asks too much of {path} ({text}); narrow it") from None
        raise CorruptDataError(f"{path} cannot be searched ({text}); build the split again") from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise CorruptDataError(f"{path} cannot be searched ({' '.join(str(error).split())}); build it again") from None


class _Maker:
    def __init__(self, schema: Any, holds: Callable[[Expression], bool]) -> None:
        self._schema = schema
        self._holds = holds
        self._engine = engine()

    def query(self, plan: Plan) -> EngineQuery:
        make, schema = self._engine.Query, self._schema
        match plan:
            case AllOf(plans):
                return self._all(plans)
            case AnyOf(plans):
                return self._any(plans)
            case Except(inner):
                occur = self._engine.Occur
                return make.boolean_query([(occur.Must, make.all_query()), (occur.MustNot, self.query(inner))])
            case Always():
                return make.all_query()
            case Never():
                return make.empty_query()
            case OfSplit(condition):
                return make.all_query() if self._holds(condition) else make.empty_query()
            case Lookup(name, (int() as value,)) if not isinstance(value, bool):
                # How rare a number is says nothing: it counts as much as a range does.
                return make.const_score_query(make.term_query(schema, name, value), 1.0)
            case Lookup(name, (value,)):
                return make.term_query(schema, name, value)
            case Lookup(name, values):
                return make.term_set_query(schema, name, list(values))
            case WordSequence(name, words):
                return make.phrase_query(schema, name, list(words))
            case MatchingSequence(name, regexes):
                for regex in regexes:
                    self._regex(name, regex)
                return make.regex_phrase_query(schema, name, list(regexes))
            case Matching(name, regex):
                return self._regex(name, regex)
            case Near(name, text, distance):
                return make.fuzzy_term_query(schema, name, text, distance, True)
            case Interval(name, low, high):
                kinds = self._engine.FieldType
                kind = kinds.Float if isinstance(low, float) else kinds.Integer
                return make.range_query(schema, name, kind, low, high)
            case Present(name, is_fast):
                return make.exists_query(name) if is_fast else self._regex(name, _ANY_TERM)

    def _regex(self, name: str, regex: str) -> EngineQuery:
        try:
            return self._engine.Query.regex_query(self._schema, name, regex)
        except ValueError as error:
            reason = str(error).strip().removesuffix("'").splitlines()[-1].strip()
            shown = reason.rpartition("RegexQueryError: ")[2].removeprefix("error: ")
            raise QueryError(f"the regular expression /{regex[:80]}/ is not understood: {shown}") from None

    def _all(self, plans: Iterable[Plan]) -> EngineQuery:
        """What must not match stands beside what must, so that the engine skips rather than walks all rows."""
        occur, pairs = self._engine.Occur, []
        for plan in plans:
            if isinstance(plan, Except):
                pairs.append((occur.MustNot, self.query(plan.plan)))
            else:
                pairs.append((occur.Must, self.query(plan)))
        if all(how == occur.MustNot for how, _ in pairs):
            pairs.append((occur.Must, self._engine.Query.all_query()))
        return self._engine.Query.boolean_query(pairs)

    def _any(self, plans: Iterable[Plan]) -> EngineQuery:
        occur = self._engine.Occur
        return self._engine.Query.boolean_query([(occur.Should, self.query(plan)) for plan in plans])
