"""Pieces of SQL from a caller, put into a statement so that none can reach beyond its place."""

from __future__ import annotations

from delta_sidecar.errors import OptionError


def fragment(what: str, text: str) -> str:
    """A piece of SQL in parentheses; `OptionError` if it is empty, or if it would swallow what comes after it: a
    comment, an open quote, a parenthesis too many."""
    if type(text) is not str:
        raise OptionError(f"{what} is a {type(text).__name__}; give SQL as text")
    if not text.strip():
        raise OptionError(f"{what} is empty; write true to mean all rows, or leave it out")
    reason = _overreach(text)
    if reason is not None:
        raise OptionError(f"{what} {reason}, so the rest of the statement would not be read as meant: {text}")
    return f"({text})"


def new_value(what: str, text: str) -> str:
    """A new value; the word DEFAULT stands for the column's default and takes no parentheses."""
    checked = fragment(what, text)
    return "DEFAULT" if text.strip().upper() == "DEFAULT" else checked


def _overreach(text: str) -> str | None:
    """How a piece of SQL reaches beyond its end; None if it does not."""
    place = depth = 0
    while place < len(text):
        character = text[place]
        if character in "'\"`":
            place = _after_quote(text, place)
            if place < 0:
                return "has a quote that is not closed"
            continue
        if text.startswith(("--", "/*", "*/"), place):
            return "has a comment"
        if character == ";":
            return "has a semicolon"
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return "closes a parenthesis that it does not open"
        place += 1
    return "has a parenthesis that is not closed" if depth else None


def _after_quote(text: str, start: int) -> int:
    """The place after a quoted text or name; -1 if it has no end."""
    quote = text[start]
    before = text[start - 1] if start else ""
    is_raw = before in ("r", "R") and not (start > 1 and (text[start - 2].isalnum() or text[start - 2] in "_$"))
    has_escapes = quote != "`" and not is_raw
    place = start + 1
    while place < len(text):
        if has_escapes and text[place] == "\\":
            place += 2
        elif text[place] == quote:
            return place + 1
        else:
            place += 1
    return -1
