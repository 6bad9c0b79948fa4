"""SQL's LIKE over Arrow strings: `%` any characters, `_` one, newlines included, nothing else special.

Arrow's own `match_like` knows only the backslash as escape; patterns are read here and become the
cheapest kernel that does it.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar import arrays

ANY, ONE = "%", "_"
_SPECIAL = frozenset(r"\.+*?()|[]{}^$")


def like_tokens(pattern: str, escape: str) -> list[tuple[str, str]]:
    """The pattern as wildcards `("%", "")`, `("_", "")` and texts `("", text)`, in order."""
    tokens: list[tuple[str, str]] = []
    characters = iter(pattern)
    for character in characters:
        if character in (ANY, ONE) and character != escape:
            tokens.append((character, ""))
            continue
        text = next(characters, character) if character == escape else character
        if tokens and not tokens[-1][0]:
            text = tokens.pop()[1] + text
        tokens.append(("", text))
    return tokens


def matching_like(strings: pa.Array, pattern: str, escape: str) -> pa.BooleanArray:
    """True where the whole string matches, null for null."""
    tokens = like_tokens(pattern, escape)
    match tokens:
        case []:
            return _equal(strings, "")
        case [("", text)]:
            return _equal(strings, text)
        case [("", text), ("%", _)]:
            return pc.starts_with(strings, text)
        case [("%", _), ("", text)]:
            return pc.ends_with(strings, text)
        case [("%", _), ("", text), ("%", _)]:
            return pc.match_substring(strings, text)
    return pc.match_substring_regex(strings, _regex(tokens))


def _equal(strings: pa.Array, text: str) -> pa.BooleanArray:
    return pc.equal(strings, arrays.strings([text])[0])


def _regex(tokens: list[tuple[str, str]]) -> str:
    parts = {ANY: ".*", ONE: "."}
    return r"(?s)\A" + "".join(parts.get(wildcard) or _quoted(text) for wildcard, text in tokens) + r"\z"


def _quoted(text: str) -> str:
    return "".join(r"\x00" if c == "\0" else f"\\{c}" if c in _SPECIAL else c for c in text)
