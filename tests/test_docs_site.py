"""The documentation builds as a site: every link leads somewhere, every public name is there, nothing is fetched."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import delta_sidecar

ROOT = Path(__file__).resolve().parents[1]
FETCHED = re.compile(r"""<(?:script|link|img|iframe)[^>]+(?:src|href)=["']?(https?:)?//|@import|url\(["']?https?:""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a dead link, a dead anchor, a page without a place or a missing name is an error."""
    target = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(target)]
    environ = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environ)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.mark.slow
def test_pages_fetch_nothing_from_elsewhere(site: Path) -> None:
    pages = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    assert len(pages) > 20
    assert [path.name for path in pages if FETCHED.search(path.read_text())] == []


@pytest.mark.slow
def test_public_names_are_in_the_reference(site: Path) -> None:
    text = "".join((site / "reference" / name).read_text() for name in ("python.html", "errors.html"))
    documented = {anchor.rpartition(".")[2] for anchor in re.findall(r'id="(delta_sidecar\.[\w.]+)"', text)}
    assert set(delta_sidecar.__all__) - {"__version__"} <= documented


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_of_pages_outside_the_site_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / page).read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
