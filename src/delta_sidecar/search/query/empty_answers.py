"""Why a search found nothing: a value that is there in another case only."""

from __future__ import annotations

from collections.abc import Iterator

from delta_sidecar.search.query.engine import ask, engine_query
from delta_sidecar.search.query.expression import Phrase, Word, leaves
from delta_sidecar.search.query.plan import Lookup, Matching, Plan
from delta_sidecar.search.query.prepared import PreparedSearch, SearchedSplit
from delta_sidecar.search.query.where import escaped
from delta_sidecar.search.splits.fields import KEYWORD, SplitField


def case_notes(prepared: PreparedSearch, searched: SearchedSplit) -> list[str]:
    """What to say where a split has a wanted value in another case, and not in the one that was asked for.

    Args:
        prepared: The search.
        searched: One of the splits, open.
    """
    return [
        f"{field.name} is compared with its case: {text!r} is not there, but it is in another case"
        for field, text in _values(prepared)
        if text.lower() != text.upper()
        and not _has(searched, Lookup(field.engine_name, (text,)))
        and _has(searched, Matching(field.engine_name, f"(?i){escaped(text)}"))
    ]


def may_have_notes(prepared: PreparedSearch) -> bool:
    """Whether a search asks for a value with letters, whose case counts."""
    return any(text.lower() != text.upper() for _, text in _values(prepared))


def _values(prepared: PreparedSearch) -> Iterator[tuple[SplitField, str]]:
    for leaf, is_wanted in leaves(prepared.query):
        if is_wanted and isinstance(leaf, Word | Phrase):
            names = [leaf.field] if leaf.field is not None else [field.name for field in prepared.fields.texts]
            for name in names:
                field = prepared.fields.find(name)
                if isinstance(field, SplitField) and field.kind == KEYWORD and field.analyzer == "raw":
                    yield field, leaf.text


def _has(searched: SearchedSplit, plan: Plan) -> bool:
    opened = searched.opened
    query = engine_query(plan, opened.index.schema, lambda _: True)
    return bool(ask(lambda: opened.searcher.search(query, limit=1, count=False), searched.split.path).hits)
