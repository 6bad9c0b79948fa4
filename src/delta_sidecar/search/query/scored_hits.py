"""All hits of a split and their scores, as numbers: a hit is a few bytes, and not a few objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from delta_sidecar.search.query.prepared import SearchedSplit
from delta_sidecar.search.splits.fields import engine

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DOCUMENT_BITS: Final = 32
_DOCUMENT: Final = (1 << _DOCUMENT_BITS) - 1
"""The engine's addresses are two numbers of 32 bits, a segment and a document in it."""


@dataclass(frozen=True)
class ScoredHits:
    """The hits, in the order of the split."""

    places: NDArray[np.uint64]
    """Segment and document of each hit, sorted."""
    scores: NDArray[np.float32]

    @classmethod
    def of(cls, searched: SearchedSplit) -> ScoredHits:
        """Ask the engine for all hits."""
        hits = searched.ask(limit=max(1, searched.opened.searcher.num_docs), count=False).hits
        places = np.fromiter((_place(address) for _, address in hits), np.uint64, len(hits))
        scores = np.fromiter((score for score, _ in hits), np.float32, len(hits))
        order = np.argsort(places)
        return cls(places[order], scores[order])

    def in_order(self, searched: SearchedSplit, time: str | None, at_once: int) -> NDArray[np.int64]:
        """The hits, latest first if there is a field of times, those without a time last; otherwise as they stand.
        The times are read from the engine in batches."""
        every = np.arange(len(self.places))
        if time is None:
            return every
        moments = np.zeros(len(every), np.int64)
        known = np.zeros(len(every), bool)
        for first in range(0, len(every), at_once):
            part = slice(first, first + at_once)
            values = searched.opened.searcher.fast_field_values(time, self.addresses(every[part]))
            known[part] = [value is not None for value in values]
            moments[part] = [0 if value is None else value for value in values]
        # Whatever the moment, ~ turns the order round and fits 64 bits.
        return np.lexsort((~moments, ~known))

    def addresses(self, chosen: NDArray[np.int64]) -> list[Any]:
        """The engine's addresses of some hits."""
        make = engine().DocAddress
        return [make(place >> _DOCUMENT_BITS, place & _DOCUMENT) for place in self.places[chosen].tolist()]

    def scores_of(self, addresses: Sequence[Any]) -> list[float]:
        """The scores of some hits."""
        wanted = np.fromiter(map(_place, addresses), np.uint64, len(addresses))
        return list(self.scores[np.searchsorted(self.places, wanted)].tolist())


def _place(address: Any) -> int:
    return int(address.segment_ord << _DOCUMENT_BITS | address.doc)
