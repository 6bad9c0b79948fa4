"""How a text becomes words: analyzers by name, the same for indexing and for queries.

The engine divides the text in both places, so that a query finds what was indexed. A name in the schema of a split is
not one of the engine's own, but for `raw` (`Analyzer.tokenizer`): its `default` drops words of 40 bytes, which a
checksum has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from delta_sidecar.errors import OptionError, did_you_mean, needs_extra

MOST_BYTES: Final = 255
"""Longer words are not indexed, unless the whole value is one word."""
MOST_RAW_BYTES: Final = 65_530
"""The longest term that the engine keeps."""
_PREFIX: Final = "sidecar."
_RAW: Final = "raw"
_ALONE: Final = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}"
_CJK: Final = rf"[{_ALONE}]|[[\p{{L}}\p{{M}}\p{{N}}]--[{_ALONE}]]+"
"""A word for each character of scripts that are written without blanks. Marks stay with their letters."""
_LANGUAGES: Final = {
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}


class Word(NamedTuple):
    """A word of a text, as it is indexed."""

    text: str
    position: int
    start: int
    """Where it is in the text, in characters."""
    end: int


@dataclass(frozen=True)
class Analyzer:
    """How the texts of a column are divided into words.

    Use `analyzer` to get one by its name.
    """

    name: str
    divides: str
    """What separates words: `words`, `whitespace`, `cjk`, or `nothing`: the whole value is one word."""
    lowers: bool = False
    folds: bool = False
    language: str | None = None
    """The language whose endings are cut off."""

    @property
    def tokenizer(self) -> str:
        """The name in the schema of a split. For whole values the engine's own does the same, in fast fields, too."""
        return _RAW if self.name == _RAW else _PREFIX + self.name

    @property
    def is_whole(self) -> bool:
        return self.divides == "nothing"

    @property
    def most_bytes(self) -> int:
        """A word that takes more bytes is not indexed."""
        return MOST_RAW_BYTES if self.is_whole else MOST_BYTES

    def engine(self) -> Any:
        """The engine's `TextAnalyzer`.

        Raises:
            InputError: The extra `search` is not installed.
        """
        return _engine(self, True)

    def register(self, index: Any) -> None:
        """Make the analyzer known to an index of the engine whose schema names it.

        Args:
            index: The engine's `Index`, before a document is added.
        """
        if self.tokenizer != _RAW:
            index.register_tokenizer(self.tokenizer, self.engine())
            index.register_fast_field_tokenizer(self.tokenizer, self.engine())

    def words(self, text: str) -> list[Word]:
        """The words of a text that are indexed, in order.

        Args:
            text: The text.

        Example:
            >>> from delta_sidecar.search.splits.analyzers import analyzer
            >>> [word.text for word in analyzer("default").words("Disk FULL on web-7")]
            ['disk', 'full', 'on', 'web', '7']
        """
        return [word for word in self._divided(text, False) if len(word.text.encode()) <= self.most_bytes]

    def division(self, text: str) -> tuple[list[Word], list[str]]:
        """The words of a text that are indexed, and those that are too long for it."""
        divided = self._divided(text, False)
        words = [word for word in divided if len(word.text.encode()) <= self.most_bytes]
        return words, [word.text for word in divided if len(word.text.encode()) > self.most_bytes]

    def long_words(self, text: str) -> list[str]:
        """The words of a text that are too long to be indexed."""
        return [word.text for word in self._divided(text, False) if len(word.text.encode()) > self.most_bytes]

    def piece(self, text: str) -> str | None:
        """A piece of a word as it would be indexed within one; None if it reaches over the border of a word.

        Args:
            text: The piece, such as the text before the `*` of a prefix.
        """
        if not text or self.is_whole:
            return "".join(word.text for word in self._divided(text, True))
        found = self._divided(text, True)
        is_one = len(found) == 1 and found[0].start == 0 and found[0].end == len(text)
        return found[0].text if is_one else None

    def _divided(self, text: str, unstemmed: bool) -> list[Word]:
        tokens = _engine(self, False, unstemmed).pre_tokenize(text).tokens
        return [Word(t.text, t.position, t.char_offset_from, t.char_offset_to) for t in tokens]


@lru_cache(maxsize=128)
def _engine(analyzer: Analyzer, is_limited: bool, unstemmed: bool = False) -> Any:
    try:
        from tantivy import Filter, TextAnalyzerBuilder, Tokenizer
    except ImportError:
        raise needs_extra("dividing texts into words", "tantivy", "search") from None
    tokenizer = {
        "words": Tokenizer.simple,
        "whitespace": Tokenizer.whitespace,
        "cjk": lambda: Tokenizer.regex(_CJK),
        "nothing": Tokenizer.raw,
    }[analyzer.divides]()
    builder = TextAnalyzerBuilder(tokenizer)
    if analyzer.lowers:
        builder = builder.filter(Filter.lowercase())
    if analyzer.folds:
        builder = builder.filter(Filter.ascii_fold())
    if analyzer.language is not None and not unstemmed:
        builder = builder.filter(Filter.stemmer(_LANGUAGES[analyzer.language]))
    if is_limited:
        builder = builder.filter(Filter.remove_long(analyzer.most_bytes + 1))
    return builder.build()


_PLAIN: Final = {
    made.name: made
    for made in (
        Analyzer("default", "words", lowers=True),
        Analyzer("simple", "words"),
        Analyzer("whitespace", "whitespace"),
        Analyzer("raw", "nothing"),
        Analyzer("raw_lower", "nothing", lowers=True),
        Analyzer("folded", "words", lowers=True, folds=True),
        Analyzer("cjk", "cjk", lowers=True),
    )
}
ANALYZERS: Final[dict[str, Analyzer]] = _PLAIN | {
    code: Analyzer(code, "words", lowers=True, language=code) for code in _LANGUAGES
}
"""The analyzers by name."""
_BY_LANGUAGE: Final = {language: code for code, language in _LANGUAGES.items()}


def analyzer(name: str) -> Analyzer:
    """An analyzer by its name, by the name of its language, or by the name in the schema of a split.

    `default` divides at everything but letters and digits and lowers case; `simple` keeps the case; `whitespace`
    divides at blanks only and keeps the case; `raw` takes the whole value, `raw_lower` in lower case; `folded` is
    `default` without accents; `cjk` makes each Chinese, Japanese or Thai character a word; `en`, `de` and other
    languages are `default` with endings cut off.

    Args:
        name: The name.

    Raises:
        OptionError: There is no such analyzer.

    Example:
        >>> from delta_sidecar.search.splits.analyzers import analyzer
        >>> [word.text for word in analyzer("en").words("Running disks")]
        ['run', 'disk']
    """
    plain = name.removeprefix(_PREFIX)
    found = ANALYZERS.get(_BY_LANGUAGE.get(plain.lower(), plain))
    if found is None:
        meant = did_you_mean(plain, [*ANALYZERS, *_BY_LANGUAGE])
        raise OptionError(f"there is no analyzer {name!r}{meant}; there are {', '.join(ANALYZERS)}")
    return found
