"""The pages of the spec: their links lead somewhere, and nothing outside is needed to follow them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SPEC = Path(__file__).resolve().parents[2] / "docs" / "spec"
PAGES = sorted(SPEC.rglob("*.md"))


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(SPEC).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
    assert links
    for link in (link for link in links if "://" not in link):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_vector_is_told_of() -> None:
    told = (SPEC / "vectors" / "README.md").read_text("utf-8")
    assert all(f"`{path.name}`" in told for path in (SPEC / "vectors").glob("*.json"))
