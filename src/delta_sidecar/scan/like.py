"""The range of strings a LIKE pattern allows: what begins with its literal prefix, in UTF-8 byte order."""

from __future__ import annotations

from dataclasses import dataclass


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
