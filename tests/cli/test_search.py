"""`sidecar search`: hits, counts, pages, and one line for what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tantivy", reason="the extra `search` is not installed")

from tests.cli.running import assert_refused, invoke, sidecar
from tests.search.searchable import COUNT, lines, make_table


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("search") / "logs"
    make_table(made)
    return made


def test_hits_as_json(root: Path) -> None:
    done = invoke("search", root, "disk AND host:web-3", "--limit", 3, "--json", "--verbose")
    wanted = [row["id"] for row in lines("disk") if row["host"] == "web-3"][:3]
    assert [hit["id"] for hit in done.objects] == wanted
    assert "3 hits in 1 split of 5, version 5" in done.err
    assert "more: --after " in done.err


def test_pages_go_on(root: Path) -> None:
    first = invoke("search", root, "timeout", "--limit", 5, "--json", "--verbose")
    page = first.err.partition("--after ")[2].split()[0]
    second = invoke("search", root, "timeout", "--limit", 5, "--json", "--after", page)
    found = [hit["id"] for hit in (*first.objects, *second.objects)]
    assert found == [row["id"] for row in lines("timeout")[:10]]


def test_hits_as_a_table_and_with_marks(root: Path) -> None:
    plain = invoke("search", root, "disk", "--limit", 2, "--columns", "id,host")
    assert plain.out.splitlines()[0].split() == ["score", "id", "host"]
    assert len(plain.out.splitlines()) == 3
    marked = invoke("search", root, "disk", "--limit", 1, "--highlight")
    assert "**disk**" in marked.out
    assert f"id={lines('disk')[0]['id']}" in marked.out
    best = invoke("search", root, "disk", "--best", "--json")
    scores = [hit["score"] for hit in best.objects]
    assert scores == sorted(scores, reverse=True)


def test_counts(root: Path) -> None:
    assert invoke("search", root, "disk", "--count").out == f"{len(lines('disk'))}\n"
    assert invoke("search", root, "*", "--count", "--json").objects == [{"count": COUNT}]
    spans = invoke("search", root, "disk", "--histogram", "5s", "--json").objects
    assert sum(span["count"] for span in spans) == len(lines("disk"))
    tops = invoke("search", root, "disk", "--top-terms", "host", "--limit", 2, "--json").objects
    assert len(tops) == 2
    assert tops[0]["count"] >= tops[1]["count"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["disk AND"], "the query is not understood at character 9"),
        (["nothere:x"], "there is no field 'nothere'"),
        (["disk", "--where", "body = 'x'"], "body is divided into words"),
        (["disk", "--histogram", "soon"], "the interval 'soon' is not understood"),
        (["disk", "--after", "soon"], "search from the start"),
        (["\udcff"], "the query is not valid Unicode at character 1; give it as UTF-8"),
    ],
)
def test_what_is_wrong_is_one_line(root: Path, arguments: list[str], problem: str) -> None:
    assert_refused(invoke("search", root, *arguments), problem)


def test_two_questions_are_refused(root: Path) -> None:
    assert_refused(invoke("search", root, "disk", "--count", "--histogram", "1h"), "ask one")


@pytest.mark.slow
def test_the_command_in_its_own_process(root: Path) -> None:
    done = sidecar("search", root, "disk", "--limit", 1, "--json")
    assert len(done.objects) == 1
    refused = sidecar("search", root.parent / "none", "disk")
    assert refused.code == 2
    assert "Traceback" not in refused.err
