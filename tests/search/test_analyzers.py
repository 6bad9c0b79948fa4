"""Analyzers: the same words for an index and for a query."""

from __future__ import annotations

import pytest

tantivy = pytest.importorskip("tantivy", reason="the extra `search` is not installed")

from delta_sidecar import OptionError  # noqa: E402
from delta_sidecar.search.splits.analyzers import ANALYZERS, Analyzer, analyzer  # noqa: E402

TEXTS = [
    "Disk FULL on web-7: 99.5 %",
    "Straße ΟΔΟΣ İstanbul Ærø",
    "磁盘已满 error ディスク ดิสก์เต็ม",
    "\U0001f525 fire cafe\u0301 caf\u00e9",
    "a " + "x" * 255 + " " + "y" * 256 + " " + "é" * 127 + " " + "é" * 128 + " b",
    "tabs\tand\nlines\u00a0and\u3000more",
    "",
    "   ",
]


@pytest.mark.parametrize("name", ANALYZERS)
def test_an_index_holds_the_words_that_the_analyzer_gives(name: str) -> None:
    made = analyzer(name)
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("body", tokenizer_name=made.tokenizer)
    schema = builder.build()
    index = tantivy.Index(schema)
    made.register(index)
    writer = index.writer(15_000_000, 1)
    for text in TEXTS:
        document = tantivy.Document()
        document.add_text("body", text)
        writer.add_document(document)
    writer.commit()
    index.reload()
    held = {term for term, _ in index.searcher().terms_with_prefix("body", "")}
    assert held == {word.text for text in TEXTS for word in made.words(text)}


def test_words_know_where_they_are() -> None:
    text = "\U0001f525 Über web-7"
    words = analyzer("default").words(text)
    assert [text[word.start : word.end] for word in words] == ["Über", "web", "7"]
    assert [word.position for word in words] == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("default", ["the", "café", "s", "disks", "磁盘"]),
        ("simple", ["The", "CAFÉ", "s", "Disks", "磁盘"]),
        ("whitespace", ["The", "CAFÉ's", "Disks", "磁盘"]),
        ("raw", ["The CAFÉ's Disks 磁盘"]),
        ("raw_lower", ["the café's disks 磁盘"]),
        ("folded", ["the", "cafe", "s", "disks", "磁盘"]),
        ("cjk", ["the", "café", "s", "disks", "磁", "盘"]),
        ("en", ["the", "café", "s", "disk", "磁盘"]),
    ],
)
def test_each_analyzer_divides_in_its_way(name: str, words: list[str]) -> None:
    assert [word.text for word in analyzer(name).words("The CAFÉ's Disks 磁盘")] == words


def test_long_words_are_named() -> None:
    assert analyzer("default").long_words("a " + "x" * 256) == ["x" * 256]
    assert analyzer("raw").long_words("x" * 256) == []
    assert analyzer("raw").long_words("x" * 65_531) == ["x" * 65_531]


@pytest.mark.parametrize(
    ("name", "text", "piece"),
    [
        ("default", "CHECK", "check"),
        ("default", "web-7", None),
        ("default", "web-", None),
        ("default", "", ""),
        ("en", "Running", "running"),
        ("raw", "Web-7 ", "Web-7 "),
        ("raw_lower", "Web-7 ", "web-7 "),
        ("whitespace", "Web-7", "Web-7"),
        ("cjk", "磁盘", None),
        ("cjk", "a磁", None),
    ],
)
def test_a_piece_of_a_word_is_written_as_in_the_index(name: str, text: str, piece: str | None) -> None:
    assert analyzer(name).piece(text) == piece


def test_names_lead_back_to_analyzers() -> None:
    assert [analyzer(made.tokenizer) for made in ANALYZERS.values()] == list(ANALYZERS.values())
    assert analyzer("German") == analyzer("de")
    assert isinstance(analyzer("raw"), Analyzer)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(OptionError, match="no analyzer 'defualt' \\(did you mean default\\?\\)"):
        analyzer("defualt")
