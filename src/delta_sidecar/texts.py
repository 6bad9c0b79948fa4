"""Counts, sizes and foreign texts as people read them."""

from __future__ import annotations

import re


def counted(count: int, noun: str) -> str:
    """A number of things, in words: `1 file`, `2 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


_UNITS = ("kB", "MB", "GB", "TB", "PB", "EB")


def sized(count: int) -> str:
    """A number of bytes for people: `1 byte`, `999 bytes`, `1.2 MB`, `128 GB`; a kB is 1,000 bytes."""
    if count < 1000:
        return counted(count, "byte")
    value = count / 1000
    for unit in _UNITS:
        if value < 999.5 or unit == _UNITS[-1]:
            break
        value /= 1000
    return f"{value:.1f} {unit}" if value < 99.95 else f"{value:,.0f} {unit}"


def printable(text: str) -> str:
    """Text from a table, without control characters for the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def general(reason: str) -> str:
    """A reason without names and numbers, so that figures count it as one."""
    return re.sub(r"\S*[/\\]\S*|'[^']*'|[0-9]+", "…", reason)[:100]
