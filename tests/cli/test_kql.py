"""`sidecar kql`: queries and commands as text and as JSON, secrets only when they are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import assert_refused, invoke
from tests.events_table import write_events

ROOT = "https://account.blob.core.windows.net/lake/events"


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY", "AZURE_SAS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    write_events(tmp_path / "events")
    return tmp_path / "events"


def test_a_query(events: Path) -> None:
    done = invoke("kql", events, "--where", "id = 7", "--columns", "ts,id", "--uri-prefix", ROOT)
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "inline_external_table (['ts']:datetime, ['id']:long) kind=storage dataformat=parquet\n(\n"
        f'h@"{ROOT}/_event_hour=2026021023/part-0.parquet"\n)\n'
        "| where ['id'] == long(7)\n| project ['ts'], ['id']\n"
    )


def test_queries_are_set_apart_by_an_empty_line(events: Path) -> None:
    done = invoke("kql", events, "--columns", "id", "--uri-prefix", ROOT, "--max-uris", 1)
    assert done.out.count("\n\n") == 3
    assert done.out.count("inline_external_table") == 4


def test_json_lines(events: Path) -> None:
    found = invoke("kql", events, "--uri-prefix", ROOT, "--max-branches", 2, "--json").objects
    assert [(query["files"], query["bytes"] == len(query["query"])) for query in found] == [(2, True), (2, True)]
    assert "empty string" in found[0]["notes"][0]


def test_sizes(events: Path) -> None:
    found = invoke("kql", events, "--uri-prefix", ROOT, "--max-query-bytes", "0.7kB", "--json").objects
    assert len(found) > 1
    assert max(query["bytes"] for query in found) <= 700
    assert_refused(
        invoke("kql", events, "--uri-prefix", ROOT, "--max-query-bytes", "x"), "--max-query-bytes", "not a size"
    )


def test_a_pinned_version(events: Path) -> None:
    (query,) = invoke("kql", events, "--columns", "id", "--uri-prefix", ROOT, "--version", 0, "--json").objects
    assert query["files"] == 1


def test_the_command_of_an_external_table(events: Path) -> None:
    arguments = ["kql", events, "--ddl", "Events", "--access", "managed-identity", "--uri-prefix", ROOT]
    done = invoke(*arguments)
    assert done.out.startswith(".create-or-alter external table ['Events'] (['ts']:datetime, ")
    assert f'h@"{ROOT};managed_identity=system"' in done.out
    assert invoke(*arguments, "--json").objects == [{"command": done.out.strip()}]


def test_a_command_has_no_filter_and_no_version(events: Path) -> None:
    for more in (["--where", "id = 1"], ["--version", 0], ["--timestamp", "2026-02-10T22:00:00Z"]):
        assert_refused(invoke("kql", events, "--ddl", "T", "--uri-prefix", ROOT, *more), "--ddl", "newest version")


def test_a_token_is_written_only_when_it_is_asked_for(
    events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["kql", events, "--where", "id = 7", "--uri-prefix", ROOT, "--access", "sas"]
    token = tmp_path / "token"
    token.write_text("?sv=1&sig=from-a-file\n")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=from-the-environment")
    assert "?<SAS>" in invoke(*arguments).out
    assert "sig=" not in invoke(*arguments).out
    assert ".parquet?sv=1&sig=from-the-environment" in invoke(*arguments, "--with-secrets").out
    assert ".parquet?sv=1&sig=from-a-file" in invoke(*arguments, "--with-secrets", "--sas-file", token).out
    given = ["--storage-option", "sas_token=sv=1&sig=from-an-option"]
    assert ".parquet?sv=1&sig=from-an-option" in invoke(*arguments, "--with-secrets", *given).out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--with-secrets"], ["--access sas"]),
        (["--access", "sas", "--sas-file", "x"], ["--with-secrets"]),
        (["--access", "sas", "--with-secrets"], ["AZURE_STORAGE_SAS_TOKEN", "--sas-file"]),
        (["--access", "sas", "--with-secrets", "--sas-file", "not-there"], ["not-there", "cannot be read"]),
        (["--access", "key"], ["impersonate"]),
        (["--where", "value IS NULL OR nope = 1"], ["nope"]),
        (["--where", "_event_hour IS NULL", "--columns", "nope"], ["nope"]),
        (["--max-uris", "0"], ["--max-uris"]),
        (["--uri-prefix", "http://x"], ["uri_prefix"]),
    ],
)
def test_what_is_wrong_is_one_line(more: list[str], words: list[str], events: Path) -> None:
    assert_refused(invoke("kql", events, "--uri-prefix", ROOT, *more), *words)


def test_a_local_table_needs_a_prefix(events: Path) -> None:
    assert_refused(invoke("kql", events), "Kusto cannot reach", "--uri-prefix")
