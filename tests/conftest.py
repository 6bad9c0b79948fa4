"""What every test may use: the golden tables, and markers that follow from the fixtures a test asks for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from delta_sidecar.storage.cache import shared_cache
from tests.golden import WHY_ABSENT, golden_root
from tests.integration import servers

SERVERS = ("spark", "cluster", "connect", "azurite", "s3", "kafka", "kusto")
"""Fixtures that start a process; the first one a test uses decides which worker runs it."""

SECOND_SPARK = ("ingest", "kafka", "sync", "changes")
"""Words in the files whose tests use a Spark of their own, so that two workers share the tests of Spark evenly."""

TOGETHER = 10
"""Tests of one file that a worker takes at once: not all, or one worker might have a long file left at the end."""

settings.register_profile(
    "house", max_examples=100, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("check", settings.get_profile("house"), max_examples=10)
settings.load_profile("house")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by the servers they use, and keep the users of a server on one worker: it starts once, and Spark
    twice.

    The other tests go to workers by tens of one file: what a file makes for all its tests is then mostly made once, and
    xdist, which looks at all groups after every test, has fewer of them to look at.

    First of all, for the markers are read by another hook of this name.
    """
    others: dict[str, int] = {}
    for item in items:
        used = set(getattr(item, "fixturenames", ()))
        for name in used & {*SERVERS, "golden"}:
            item.add_marker(name)
        if used & {*SERVERS}:
            item.add_marker("server")
        server = next((name for name in SERVERS if name in used), None)
        if server == "spark" and any(word in item.nodeid.partition("::")[0] for word in SECOND_SPARK):
            server = "second-spark"
        if item.get_closest_marker("xdist_group"):
            continue
        if server is None:
            file = item.nodeid.partition("::")[0]
            others[file] = others.get(file, -1) + 1
            server = f"{file.removeprefix('tests/').removesuffix('.py')} {others[file] // TOGETHER}"
        item.add_marker(pytest.mark.xdist_group(server))


@pytest.fixture(scope="session", autouse=True)
def nothing_waits_for_the_disk() -> Iterator[None]:
    """What a test writes need not outlive a power cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def golden() -> Path:
    """The directory of the golden tables."""
    root = golden_root()
    if root is None:
        pytest.skip(WHY_ABSENT)
    return root


@pytest.fixture(scope="session")
def azurite() -> Iterator[servers.ObjectServer]:
    """The Azure Blob emulator with an empty container."""
    if not servers.AZURITE_MAIN.exists():
        pytest.fail("the Azure Blob emulator is not set up: run `make setup`", pytrace=False)
    with servers.azurite_server() as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[servers.ObjectServer]:
    """An S3 server with an empty bucket."""
    with servers.s3_server() as server:
        yield server


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    """Every test opens its tables for the first time."""
    shared_cache.clear()
