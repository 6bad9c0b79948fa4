"""The query language: what each form means, and what is refused with its position."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar import QueryError
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
from delta_sidecar.search.query.text import DEEPEST, MOST_CHARACTERS, MOST_TERMS, parse_query

A, B, C = Word(None, "a"), Word(None, "b"), Word(None, "c")


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("a", A),
        (" a ", A),
        ("a b", Both((A, B))),
        ("a AND b && c", Both((A, B, C))),
        ("a OR b || c", Either((A, B, C))),
        ("a b OR c", Either((Both((A, B)), C))),
        ("a OR b c", Either((A, Both((B, C))))),
        ("a AND (b OR c)", Both((A, Either((B, C))))),
        ("NOT a", Without(A)),
        ("-a +b", Both((Without(A), B))),
        ("!a", Without(A)),
        ("NOT NOT a", A),
        ("-(a b)", Without(Both((A, B)))),
        ("a AND NOT b", Both((A, Without(B)))),
        ("a and b or not", Both((A, Word(None, "and"), B, Word(None, "or"), Word(None, "not")))),
        ("ANDROID NOTE", Both((Word(None, "ANDROID"), Word(None, "NOTE")))),
        ("(((a)))", A),
        ("*", Everything()),
        ("host:*", Exists("host")),
        ("host:a", Word("host", "a")),
        ("host:(a OR b)", Either((Word("host", "a"), Word("host", "b")))),
        ("host:(*)", Exists("host")),
        ("my\\ host\\:x:a", Word("my host:x", "a")),
        ("host:web-7", Word("host", "web-7")),
        ("a-b+c!d=e>f/g&h|i", Word(None, "a-b+c!d=e>f/g&h|i")),
        ('"a b"', Phrase(None, "a b")),
        ('""', Phrase(None, "")),
        ('"a b"~3', Phrase(None, "a b", 3)),
        ('host:"a b"', Phrase("host", "a b")),
        (r'"a \"b\" \\ \n"', Phrase(None, r'a "b" \ \n')),
        ('"AND (OR) [x:y] *?~/"', Phrase(None, "AND (OR) [x:y] *?~/")),
        ("abc*", Pattern(None, ("abc", Wild("*")))),
        ("*abc", Pattern(None, (Wild("*"), "abc"))),
        ("a**b?c", Pattern(None, ("a", Wild("*"), "b", Wild("?"), "c"))),
        ("host:?", Pattern("host", (Wild("?"),))),
        (r"a\*b\?", Word(None, "a*b?")),
        ("abc~", Fuzzy(None, "abc", 2)),
        ("abc~1", Fuzzy(None, "abc", 1)),
        ("abc~0", Fuzzy(None, "abc", 0)),
        (r"abc\~1", Word(None, "abc~1")),
        ("/a[bc]+/", Regex(None, "a[bc]+")),
        (r"/a\/b\d/", Regex(None, r"a/b\d")),
        ("host:/a b|c/", Regex("host", "a b|c")),
        ("n:[1 TO 5]", Range("n", "1", "5")),
        ("n:{1 TO 5}", Range("n", "1", "5", False, False)),
        ("n:[1 TO 5}", Range("n", "1", "5", True, False)),
        ("n:[* TO 5]", Range("n", None, "5")),
        ("n:[1 TO *}", Range("n", "1", None, True, False)),
        ('ts:["2026-01-01 10:00" TO 2026-01-02T00:00:00Z]', Range("ts", "2026-01-01 10:00", "2026-01-02T00:00:00Z")),
        ("n:>5", Range("n", "5", None, False)),
        ("n:>=-5", Range("n", "-5", None)),
        ("n:<5", Range("n", None, "5", True, False)),
        ('ts:<="2026-01-01 10:00"', Range("ts", None, "2026-01-01 10:00")),
        ("n:-5", Word("n", "-5")),
        ('n:("-5" OR NOT 6)', Either((Phrase("n", "-5"), Without(Word("n", "6"))))),
        ("ts:2026-01-01T10:00:00Z", Word("ts", "2026-01-01T10:00:00Z")),
        ("ts:>=2026-01-01T10:00:00Z", Range("ts", "2026-01-01T10:00:00Z", None)),
        ("磁盘 \u3000满", Both((Word(None, "磁盘"), Word(None, "满")))),
        ("\U0001f525", Word(None, "\U0001f525")),
    ],
)
def test_each_form_has_its_meaning(text: str, query: Query) -> None:
    assert parse_query(text) == query


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the query is empty"),
        ("  ", "the query is empty"),
        ("a AND", "at character 6: the query ends where a word was expected"),
        ("OR a", r"at character 1 \('OR a'\): OR has nothing before it"),
        ("a OR OR b", "at character 6 .*: OR has nothing before it"),
        ("a AND AND b", "AND has nothing before it"),
        ("NOT", "the query ends"),
        ("(a", r"at character 1 .*: the parenthesis is not closed"),
        ("a)", "at character 2 .*: a parenthesis that was not opened"),
        ("()", "a word was expected before the parenthesis"),
        ('"a', "at character 1 .*: the quote is not closed"),
        ('"a"b', "at character 4 .*: a blank is missing behind a phrase"),
        ('a"b"', "at character 2 .*: a quote within a word"),
        ('"a b"~', "needs a number"),
        ('"a b"~99999999999', "~99999999 is too much"),
        ("a - b", "at character 3 .*: - has nothing behind it"),
        ("/var/log", "a regular expression ends with the slash; quote a path"),
        ("/var", "quote a path that begins with a slash"),
        ("//", "the regular expression is empty"),
        ("http://host", "a regular expression ends with the slash; quote a path"),
        (":a", "a colon without a field"),
        ("n:(-5 OR 6)", "a number below zero"),
        ("n:>5*", "neither wildcards nor ~"),
        ("host:", "nothing stands behind host:"),
        ("host: a", "nothing stands behind host:"),
        ("host:-a", "a value must stand behind host:"),
        ("host:AND b", "a value must stand behind host:"),
        ("ho*st:a", "a field's name has no wildcards"),
        ("[1 TO 2]", "a range needs a field"),
        ("n:[1 2]", "with TO between"),
        ("n:[1 TO 2", "not closed"),
        ("n:[1 TO ]", "a bound is missing"),
        ("n:[1 TO", "with TO between"),
        (">5", "a comparison needs a field"),
        ("n:>", "a value is missing"),
        ("a[0]", "a bracket within a word"),
        ("{a}", "a range needs a field"),
        ("a}", "a brace that was not opened"),
        ("a^2", "boosts are not offered"),
        ("abc~3", "differ in up to 2"),
        ("abc~0.8", "a whole number stands behind ~"),
        ("~1", "~ has no word before it"),
        ("ab*c~1", "either wildcards or ~"),
        ("a\\", "a backslash stands at the end"),
    ],
)
def test_what_is_not_understood_is_named_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(QueryError, match=problem):
        parse_query(text)


def test_many_terms_are_parsed_and_more_are_refused() -> None:
    words = " OR ".join(f"w{n}" for n in range(MOST_TERMS))
    parsed = parse_query(words)
    assert isinstance(parsed, Either)
    assert len(parsed.queries) == MOST_TERMS
    with pytest.raises(QueryError, match="more than 10,000 words"):
        parse_query(f"{words} OR x")
    assert parse_query("f:(" + " ".join("a" for _ in range(MOST_TERMS)) + ")")


def test_deep_nesting_is_parsed_and_deeper_is_refused() -> None:
    assert parse_query("(" * DEEPEST + "a" + ")" * DEEPEST) == A
    with pytest.raises(QueryError, match="more than 64 groups"):
        parse_query("(" * (DEEPEST + 1) + "a" + ")" * (DEEPEST + 1))
    with pytest.raises(QueryError, match="more than 64 groups"):
        parse_query("(" * 100_000)
    assert parse_query("NOT " * 50_000 + "a") == A
    assert parse_query("-" * 99_999 + "a") == Without(A)
    with pytest.raises(QueryError, match="1,000,000"):
        parse_query("a" * (MOST_CHARACTERS + 1))


@given(st.text(alphabet=st.sampled_from('ab:"()[]{}\\/~*?+-!&|<>=^ TOANDR1,.\n\U0001f525'), max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parse_query(text)
    except QueryError as error:
        message = str(error)
    else:
        message = ""
    assert "\n" not in message
