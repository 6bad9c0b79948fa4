"""The page in a browser: what is lit is what the scan reports, by keyboard, in light and dark, without a word in the
console. The pictures of the docs are made here: `make screenshots`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from delta_sidecar import DeltaTable, build_index
from delta_sidecar.index.read.index_base import IndexBase
from delta_sidecar.server import RunningPage, start_page
from delta_sidecar.server.page.access import Door
from delta_sidecar.server.page.application import PageService
from delta_sidecar.server.page.shown_tables import ShownTables
from delta_sidecar.server.reading import load_readers
from delta_sidecar.server.roots import Root, Roots
from delta_sidecar.server.tokens import new_token
from delta_sidecar.storage import open_store
from delta_sidecar.storage.metered import MeteredStore
from delta_sidecar.storage.uri import parse_location
from delta_sidecar.testing.actions import add
from delta_sidecar.testing.table_builder import LogBuilder
from tests.costs.test_page import table_of
from tests.events_table import write_events
from tests.server.page_table import write_telemetry
from tests.server.serving import serving

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

BROWSER = os.environ.get("DELTA_SIDECAR_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
PICTURES = os.environ.get("DELTA_SIDECAR_SCREENSHOTS")
"""Where pictures are kept; they are made of a larger table then."""

pytestmark = [
    pytest.mark.server,
    pytest.mark.xdist_group("chromium"),
    pytest.mark.skipif(BROWSER is None, reason="Chromium is missing; run: make setup-clients"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield running
        running.close()


class Tab:
    """A tab of the browser, with everything it said and asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))

    def ask(self, predicate: str) -> None:
        box = self.page.get_by_role("textbox", name="where")
        box.fill(predicate)
        box.press("Enter")
        playwright.expect(self.page.get_by_role("button", name="Light up")).to_be_enabled()

    def lit(self) -> dict[int, set[int]]:
        """The row groups that are lit, by the positions of their parts."""
        found: dict[int, set[int]] = {}
        for part, group in self.page.eval_on_selector_all(
            "#map .cell.lit", "all => all.map(each => [each.dataset.part, each.dataset.group])"
        ):
            found.setdefault(int(part), set()).add(int(group))
        return found


@contextmanager
def tab(browser: Any, url: str, scheme: Literal["light", "dark"] = "light", width: int = 1180) -> Iterator[Tab]:
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 860}, locale="en-US")
    try:
        made = Tab(context.new_page())
        made.page.goto(url)
        yield made
    finally:
        context.close()


@pytest.fixture(scope="module")
def telemetry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_telemetry(tmp_path_factory.mktemp("page") / "telemetry", 48, 44)


@pytest.fixture(scope="module")
def running(telemetry: Path) -> Iterator[RunningPage]:
    with start_page(telemetry) as page:
        yield page


def reported(root: Path, predicate: str) -> dict[int, set[int]]:
    """What the scan itself says that it read."""
    table = DeltaTable(root)
    base = table.snapshot.segment.base
    assert isinstance(base, IndexBase)
    positions = {part.id: at for at, part in enumerate(base.manifest.parts)}
    with table.scan_files(predicate) as scan:
        scan.read_all()
    assert scan.metrics.row_groups_read == sum(map(len, scan.row_groups_read.values()))
    return {positions[name]: set(groups) for name, groups in scan.row_groups_read.items()}


PREDICATES = [
    "ts >= '2026-02-08T02:00:00Z' and ts < '2026-02-08T09:00:00Z' and device = 555",
    "_event_hour in ('2026020703', '2026020812')",
    "device between 200 and 460",
    "ts < '1999-01-01T00:00:00Z'",
]


def test_what_is_lit_is_what_the_scan_reports(browser: Any, running: RunningPage, telemetry: Path) -> None:
    with tab(browser, running.url) as seen:
        playwright.expect(seen.page.get_by_role("heading", name="telemetry")).to_be_visible()
        assert seen.lit() == {}
        for predicate in PREDICATES:
            seen.ask(predicate)
            expected = reported(telemetry, predicate)
            groups = sum(map(len, expected.values()))
            playwright.expect(seen.page.locator("#verdict")).to_contain_text(f"{groups} of ")
            assert seen.lit() == expected
        playwright.expect(seen.page.get_by_role("row", name="Full load")).to_contain_text("from the checkpoint")
        assert seen.said == []
        assert {url.partition("/api")[0].rstrip("/") for url in seen.asked} <= {
            running.url,
            f"{running.url}/favicon.svg",
        }


def test_a_wrong_predicate_is_told_beneath_the_box(browser: Any, running: RunningPage) -> None:
    with tab(browser, running.url) as seen:
        box, wrong = seen.page.get_by_role("textbox", name="where"), seen.page.locator("#wrong")
        seen.ask(PREDICATES[1])
        assert seen.lit()
        seen.ask("devise = 3")
        playwright.expect(wrong).to_contain_text("devise")
        playwright.expect(box).to_have_attribute("aria-invalid", "true")
        assert seen.lit() == {}
        seen.ask(PREDICATES[1])
        playwright.expect(wrong).to_be_hidden()
        playwright.expect(box).to_have_attribute("aria-invalid", "false")
        assert seen.lit()
        assert seen.said == []


def test_by_keyboard_alone(browser: Any, running: RunningPage) -> None:
    with tab(browser, f"{running.url}/?where=device+%3D+555") as seen:
        page = seen.page
        playwright.expect(page.locator("#verdict")).to_be_visible()
        parts, versions = (page.get_by_role("slider", name=each) for each in ("Parts of the index", "Versions of"))
        parts.focus()
        page.keyboard.press("Home")
        assert (parts.get_attribute("aria-valuetext") or "").startswith("Part 1 of ")
        page.keyboard.press("ArrowRight")
        assert (parts.get_attribute("aria-valuetext") or "").startswith("Part 2 of ")
        versions.focus()
        page.keyboard.press("Home")
        playwright.expect(page.locator("#log-line")).to_contain_text("Version 0")
        playwright.expect(page.locator("#log-line")).to_contain_text("WRITE")
        assert page.eval_on_selector_all("button, a, input, [tabindex='0']", NAMELESS) == []
        assert seen.said == []


NAMELESS = """all => all.filter(each => each.checkVisibility() && !(each.textContent.trim()
  || each.getAttribute('aria-label') || (each.labels && each.labels.length))).map(each => each.outerHTML)"""
"""Controls that a screen reader could not name."""


def test_many_parts_share_columns_and_open_up(browser: Any, tmp_path: Path) -> None:
    table_of(tmp_path / "big", 40_000_000)
    with start_page(tmp_path / "big") as page, tab(browser, page.url) as seen:
        cells = seen.page.locator("#map .cell")
        playwright.expect(cells).to_have_count(250)
        parts = seen.page.get_by_role("slider", name="Parts of the index")
        parts.focus()
        seen.page.keyboard.press("Home")
        seen.page.keyboard.press("Enter")
        playwright.expect(cells).to_have_count(2 * 8)
        seen.page.get_by_role("button", name="Show all parts").click()
        playwright.expect(cells).to_have_count(250)
        assert seen.said == []


def test_tables_of_a_server_and_its_token(browser: Any, tmp_path: Path) -> None:
    write_events(tmp_path / "lake" / "events")
    token = new_token(tmp_path / "tokens", "people")
    options = {"page_host": "0.0.0.0", "page_port": 0, "insecure": True, "token_file": str(tmp_path / "tokens")}
    with serving({"lake": tmp_path / "lake"}, **options) as server:
        url = (server.page_url or "").replace("0.0.0.0", "127.0.0.1")
        with tab(browser, url) as seen:
            seen.page.get_by_label("Token").fill("wrong")
            seen.page.keyboard.press("Enter")
            playwright.expect(seen.page.locator("#token-line")).to_contain_text("not known")
            seen.page.get_by_label("Token").fill(token)
            seen.page.keyboard.press("Enter")
            seen.page.get_by_role("link", name="lake/events").click()
            playwright.expect(seen.page.get_by_text("There is no index to map")).to_be_visible()
            playwright.expect(seen.page.get_by_role("list").get_by_text("sidecar build")).to_be_visible()
            assert token not in seen.page.url
        with tab(browser, f"{url}/?table=lake/nothing") as seen:
            seen.page.get_by_label("Token").fill(token)
            seen.page.keyboard.press("Enter")
            playwright.expect(seen.page.locator("#error-line")).to_contain_text("there is no Delta table")


class Elsewhere(MeteredStore):
    """A local table that says it is in a bucket, for the pictures."""

    @property
    def root_uri(self) -> str:
        return f"s3://lake/{super().root_uri.rpartition('/')[2]}"

    def local_path(self, path: str) -> str | None:
        return None


@pytest.fixture(scope="module")
def pictured(telemetry: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if PICTURES is None:
        return telemetry
    return write_telemetry(tmp_path_factory.mktemp("pictures") / "telemetry", 96, 94, 1024)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures(browser: Any, pictured: Path, tmp_path: Path, scheme: Literal["light", "dark"]) -> None:
    place = Path(PICTURES) if PICTURES else tmp_path
    load_readers()
    store = Elsewhere(open_store(str(pictured)))
    shown = Root("telemetry", parse_location("s3://lake/telemetry"), {}, lambda location: store)
    service = PageService(ShownTables(Roots([shown]), only="telemetry"), Door(True, None))
    with RunningPage("127.0.0.1", 0, service) as page, tab(browser, page.url, scheme) as seen:
        for predicate in (PREDICATES[1], *[PREDICATES[0]] * 3):  # what is shown is not a process's first listing
            seen.ask(predicate)
            playwright.expect(seen.page.locator("#figures .bar").first).to_be_visible()
        assert seen.lit()
        seen.page.get_by_role("heading", name="telemetry").click()
        picture = place / f"page-{scheme}.png"
        box = seen.page.locator("#map-figure").bounding_box()
        upper = {"x": 0, "y": 0, "width": 1180, "height": box["y"] + box["height"] + 6}
        seen.page.screenshot(path=picture, full_page=True, **({"clip": upper} if scheme == "dark" else {}))
        assert picture.stat().st_size < 250_000
        background = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == {"light": "rgb(252, 252, 251)", "dark": "rgb(20, 23, 26)"}[scheme]
        seen.page.set_viewport_size({"width": 390, "height": 844})
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390, "nothing sticks out on a phone"
        seen.page.screenshot(path=tmp_path / f"narrow-{scheme}.png", full_page=True)
        assert seen.said == []


def test_a_picture_of_a_table_that_needs_care(browser: Any, tmp_path: Path) -> None:
    root = tmp_path / "clicks"
    log = LogBuilder(root).metadata({"x": "long"}).commit(*(add(f"{n}.parquet", 3_100_000) for n in range(1_200)))
    build_index(root)
    for version in range(130):
        log.commit(add(f"v{version}.parquet", 3_100_000))
    store = Elsewhere(open_store(str(root)))
    shown = Root("clicks", parse_location("s3://lake/clicks"), {}, lambda location: store)
    service = PageService(ShownTables(Roots([shown]), only="clicks"), Door(True, None))
    with RunningPage("127.0.0.1", 0, service) as page, tab(browser, page.url) as seen:
        section = seen.page.get_by_role("region", name="Health")
        playwright.expect(section).to_contain_text("4 things to mend")
        playwright.expect(section.get_by_role("button", name="Copy: sidecar maintain")).to_have_count(2)
        box = section.bounding_box()
        clip = {"x": 0, "y": box["y"], "width": 1180, "height": box["height"] + 24}
        seen.page.screenshot(
            path=(Path(PICTURES) if PICTURES else tmp_path) / "page-health.png", full_page=True, clip=clip
        )
        assert seen.said == []
