"""SQL's LIKE: `%` any characters, `_` one, newlines included, nothing else special.

Over Arrow strings, where a pattern becomes the cheapest kernel that does it (Arrow's own `match_like` knows only the
backslash as escape), and over bounds, as the range of strings that begin with its literal prefix.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.arrays import pc


@dataclass(frozen=True, slots=True)
class LikePrefix:
    text: str
    """What stands before the first wildcard, unescaped."""
    is_literal: bool
    """The pattern has no wildcard: it is an equality."""
    is_all: bool
    """The pattern is the prefix and `%`: every string in the range matches."""

    @property
    def start(self) -> bytes:
        return self.text.encode("utf-8", "surrogatepass")

    @property
    def stop(self) -> bytes | None:
        """The first bytes after all that begin with the prefix; None if there are none."""
        kept = self.start.rstrip(b"\xff")
        return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def like_prefix(pattern: str, escape: str) -> LikePrefix:
    """The literal prefix of a pattern."""
    text: list[str] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == escape and position + 1 < len(pattern):
            position += 1
            character = pattern[position]
        elif character in "%_":
            return LikePrefix("".join(text), False, set(pattern[position:]) == {"%"})
        text.append(character)
        position += 1
    return LikePrefix("".join(text), True, False)


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


def like_text(text: str) -> str:
    """The pattern that matches only this text, with the backslash as its escape character."""
    return "".join(f"\\{c}" if c in "\\%_" else c for c in text)


def backslash_pattern(tokens: list[tuple[str, str]]) -> str:
    """The tokens as a pattern again, with the backslash as its escape character."""
    return "".join(wildcard or like_text(text) for wildcard, text in tokens)


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
    return pc.match_substring_regex(strings, like_regex(tokens))


def _equal(strings: pa.Array, text: str) -> pa.BooleanArray:
    return pc.equal(strings, arrays.strings([text])[0])


def like_regex(tokens: list[tuple[str, str]]) -> str:
    """The regular expression that finds what the tokens of a pattern match, in the syntax of RE2 and of Rust."""
    parts = {ANY: ".*", ONE: "."}
    return r"(?s)\A" + "".join(parts.get(wildcard) or _quoted(text) for wildcard, text in tokens) + r"\z"


def _quoted(text: str) -> str:
    return "".join(r"\x00" if c == "\0" else f"\\{c}" if c in _SPECIAL else c for c in text)
