"""Random documents and random queries about them, as trees and as the texts people would write."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from delta_sidecar.search.query.expression import (
    Both,
    Either,
    Everything,
    Exists,
    Fuzzy,
    Pattern,
    Phrase,
    Query,
    Range,
    Regex,
    Wild,
    Without,
    Word,
)

VOCABULARY = [
    *["disk", "Disk", "DISK", "full", "web-7", "web-8", "error", "Errors", "running", "ran", "x", "42", "3.14"],
    *["Straße", "strasse", "GROSS", "Größe", "größe", "café", "cafe\u0301", "CAFÉ", "Ærø"],
    *["ΟΔΟΣ", "οδος", "İstanbul", "ıstanbul", "Москва", "москве"],
    *["磁盘", "磁盘已满", "已满", "ディスク", "ディスク満杯", "한국어", "漢字かな", "log磁盘7x满"],
    *[
        "\U0001f525",
        "a\U0001f525b",
        "e\u0301e\u0301",
        "C:\\temp",
        "/var/log",
        "key=value",
        "a_b",
        "don't",
        '"q"',
        "(p)",
        "[b]",
    ],
]
GLUE = [" ", " ", " ", "  ", ", ", " - ", "\t", "\n", ": "]
HOSTS = ["web-7", "Web-7", "WEB-7", "db 1", "", "höst", "磁盘", "a\nb", "x" * 300]
START = datetime(2026, 1, 1, tzinfo=UTC)


def document(chance: random.Random) -> dict[str, Any]:
    """A log line; each of its columns may be missing."""
    words = [chance.choice(VOCABULARY) for _ in range(chance.randrange(9))]
    body = "".join(word + chance.choice(GLUE) for word in words)
    made = {
        "body": body,
        "host": chance.choice(HOSTS),
        "n": chance.choice([0, 1, -5, 400, 404, 500, 2**63 - 1, -(2**63)]),
        "x": chance.choice([0.0, -0.0, 1.5, -2.25, float("inf"), float("-inf"), float("nan"), 1e300]),
        "ts": START + timedelta(hours=chance.randrange(72), microseconds=chance.randrange(3)),
        "flag": chance.random() < 0.5,
    }
    return {name: value if chance.random() < 0.85 else None for name, value in made.items()}


class Queries:
    """Random queries. Texts are taken from the vocabulary, or made of it, so that many of them find something."""

    def __init__(self, chance: random.Random, has_patterns: bool = True) -> None:
        self._chance = chance
        self._has_patterns = has_patterns

    def query(self, depth: int = 0) -> Query:
        chance = self._chance
        roll = chance.random()
        if depth < 3 and roll < 0.2:
            return Both(tuple(self.query(depth + 1) for _ in range(chance.randrange(2, 4))))
        if depth < 3 and roll < 0.4:
            return Either(tuple(self.query(depth + 1) for _ in range(chance.randrange(2, 4))))
        if depth < 3 and roll < 0.5:
            inner = self.query(depth + 1)
            return Without(inner) if not isinstance(inner, Without) else inner
        return self._leaf()

    def _leaf(self) -> Query:
        kinds: list[Any] = [self._word, self._word, self._phrase, self._phrase, self._typed, self._host]
        if self._has_patterns:
            kinds += [self._pattern, self._prefix, self._fuzzy, self._regex]
        kinds += [lambda: Everything(), lambda: Exists(self._chance.choice(["body", "host", "n", "ts"]))]
        made: Query = self._chance.choice(kinds)()
        return made

    def _field(self) -> str | None:
        return self._chance.choice([None, "body"])

    def _vocable(self) -> str:
        return self._chance.choice(VOCABULARY)

    def _word(self) -> Query:
        return Word(self._field(), self._vocable())

    def _phrase(self) -> Query:
        count = self._chance.randrange(1, 4)
        text = " ".join(self._vocable() for _ in range(count))
        return Phrase(self._field(), text, self._chance.choice([0, 0, 1, 2, 3]))

    def _host(self) -> Query:
        text = self._chance.choice(HOSTS)
        return self._chance.choice([Word("host", text) if text else Phrase("host", text), Phrase("host", text)])

    def _letters(self) -> str:
        text = self._vocable()
        begin = self._chance.randrange(len(text))
        return text[begin : begin + self._chance.randrange(1, 4)]

    def _prefix(self) -> Query:
        text = self._vocable()
        return Pattern(self._field(), (text[: self._chance.randrange(1, len(text) + 1)], Wild("*")))

    def _pattern(self) -> Query:
        parts: list[str | Wild] = []
        for number in range(self._chance.randrange(1, 4)):
            parts += [self._letters()] if number else []
            parts.append(Wild(self._chance.choice("*?")))
        if parts[0] == Wild("*") and len(parts) == 1:
            parts = ["a", Wild("*")]
        if isinstance(parts[0], Wild) and self._chance.random() < 0.5:
            parts.insert(0, self._letters())
        return Pattern(self._chance.choice([None, "body", "host"]), tuple(parts))

    def _fuzzy(self) -> Query:
        text = list(self._vocable())
        for _ in range(self._chance.randrange(3)):
            text.insert(self._chance.randrange(len(text) + 1), self._chance.choice("abeksü"))
        return Fuzzy(self._chance.choice([None, "body", "host"]), "".join(text), self._chance.randrange(3))

    def _regex(self) -> Query:
        patterns = [
            "d[iu]sk",
            ".*",
            "[0-9]+",
            "w.b",
            "(err|fu).*",
            "st.*e",
            ".",
            "[^a-z]+",
            "磁.*",
            "a|b|x",
            "web-[78]",
        ]
        return Regex(self._chance.choice([None, "body", "host"]), self._chance.choice(patterns))

    def _typed(self) -> Query:
        chance = self._chance
        field = chance.choice(["n", "x", "ts", "flag"])
        values = {
            "n": ["0", "1", "-5", "404", "500", "9223372036854775807", "-9223372036854775808"],
            "x": ["0", "-0.0", "1.5", "-2.25", "1e300"],
            "ts": ["2026-01-02T05:00:00Z", "2026-01-01T00:00:00.000001Z", "2026-01-03 00:00:00"],
            "flag": ["true", "false"],
        }[field]
        if field == "flag" or chance.random() < 0.3:
            return Word(field, chance.choice(values))
        low, high = (chance.choice([None, *values]) for _ in range(2))
        if low is None and high is None:
            low = values[0]
        return Range(field, low, high, chance.random() < 0.5, chance.random() < 0.5)


def written(query: Query, depth: int = 0) -> str:
    """The text of a query."""
    match query:
        case Both(queries):
            return _grouped(" AND ".join(written(one, depth + 1) for one in queries), depth)
        case Either(queries):
            return _grouped(" OR ".join(written(one, depth + 1) for one in queries), depth)
        case Without(one):
            return f"NOT {written(one, depth + 1)}"
        case Everything():
            return "*"
        case _:
            named = "" if query.field is None else f"{query.field}:"
            return named + _leaf(query)


def _grouped(text: str, depth: int) -> str:
    return f"({text})" if depth else text


def _leaf(query: Query) -> str:
    match query:
        case Word(_, text):
            return escaped(text)
        case Phrase(_, text, slop):
            inner = text.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{inner}"' + (f"~{slop}" if slop else "")
        case Pattern(_, parts):
            return "".join(part.sign if isinstance(part, Wild) else escaped(part) for part in parts)
        case Fuzzy(_, text, distance):
            return f"{escaped(text)}~{distance}"
        case Regex(_, pattern):
            return "/" + pattern.replace("/", "\\/") + "/"
        case Range(_, low, high, with_low, with_high):
            ends = [("*" if bound is None else f'"{bound}"') for bound in (low, high)]
            return f"{'[' if with_low else '{'}{ends[0]} TO {ends[1]}{']' if with_high else '}'}"
        case Exists():
            return "*"
    raise AssertionError(query)


def escaped(text: str) -> str:
    return "".join(f"\\{c}" if not c.isalnum() else c for c in text)
