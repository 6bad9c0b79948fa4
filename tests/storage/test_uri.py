"""Locations, however they are written, and the paths of a log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from delta_sidecar.errors import InputError
from delta_sidecar.storage.uri import Location, canonical_uri, parse_location, resolve_log_path

ABFSS = "abfss://c@acc.dfs.core.windows.net/t/x"


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("/a/b", "file:///a/b"),
        ("/a/b/", "file:///a/b"),
        ("/a//./b/../c", "file:///a/c"),
        ("/", "file:///"),
        ("/a b#c%é?", "file:///a b#c%é?"),
        ("file:/a/b", "file:///a/b"),
        ("file:///a/b/", "file:///a/b"),
        ("file://localhost/a/b", "file:///a/b"),
        ("FILE:///a%20b", "file:///a b"),
        ("s3://b/t/x/", "s3://b/t/x"),
        ("s3a://b/t", "s3://b/t"),
        ("s3n://b/t", "s3://b/t"),
        ("s3://b", "s3://b"),
        ("s3://b/a%20b c", "s3://b/a%20b c"),
        ("gs://b/t", "gs://b/t"),
        ("memory://", "memory://"),
        ("memory://n/t", "memory://n/t"),
        ("az://c/t/x", "az://c/t/x"),
        ("azure://c/t/x", "az://c/t/x"),
        ("abfs://c/t", "az://c/t"),
        ("abfs://c@acc.dfs.core.windows.net/t/x/", ABFSS),
        ("abfss://c@acc.dfs.core.windows.net/t/x", ABFSS),
        ("wasbs://c@acc.blob.core.windows.net/t/x", ABFSS),
        ("https://acc.blob.core.windows.net/c/t/x", ABFSS),
        ("https://acc.dfs.core.windows.net/c/t%2Fx?sv=1&sig=secret", ABFSS),
    ],
)
def test_canonical_uris(text: str, uri: str) -> None:
    assert canonical_uri(text) == uri
    assert parse_location(uri) == parse_location(text)


def test_a_relative_path_is_below_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_location("a/b").path == f"{os.getcwd()}/a/b"
    assert parse_location("ts=12:00").path == f"{os.getcwd()}/ts=12:00"
    assert parse_location(tmp_path / "x").path == f"{tmp_path}/x"


def test_of_two_readings_of_a_file_url_the_one_that_exists_counts(tmp_path: Path) -> None:
    (tmp_path / "a%20b").mkdir()
    assert parse_location(f"file://{tmp_path}/a%20b").path == f"{tmp_path}/a%20b"
    assert parse_location(f"file://{tmp_path}/c%20d").path == f"{tmp_path}/c d"


@pytest.mark.parametrize(
    "text", ["", "  ", "s3://", "s3:///t", "ftp://h/t", "hdfs://n/t", "s3:b/t", "https://example.com/t"]
)
def test_what_is_no_location(text: str) -> None:
    with pytest.raises(InputError, match="location") as caught:
        parse_location(text)
    assert "\n" not in str(caught.value)


def test_a_host_is_no_local_path() -> None:
    with pytest.raises(InputError, match="names the host 'server'"):
        parse_location("file://server/share")


@pytest.mark.parametrize(
    "text",
    [
        "https://user:hunter2@example.com/t?sig=hunter2",
        "ftp://u:hunter2@h/t",
        "s3://key:hunter2@lake/t",
        "abfss://c:hunter2@account/t",
    ],
)
def test_a_refusal_tells_no_secret(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_location(text)
    assert "hunter2" not in str(caught.value)


def test_parts_of_a_location() -> None:
    location = parse_location(ABFSS)
    assert (location.bucket, location.account, location.path) == ("c", "acc", "t/x")
    assert location.container_root.uri == "abfss://c@acc.dfs.core.windows.net"
    assert parse_location("az://c/t").account is None
    assert parse_location("/a b").text == "/a b"
    assert parse_location("s3a://b/a b").text == "s3://b/a b"
    assert parse_location("/a").container_root.join("b c").path == "/b c"
    assert parse_location("s3://b").join("b c").uri == "s3://b/b c"
    assert parse_location("s3://b/t").join("b/c").uri == "s3://b/t/b/c"


@pytest.mark.parametrize(
    ("table", "log_path", "uri", "relative"),
    [
        ("/t a", "p=1/f.parquet", "file:///t a/p=1/f.parquet", "p=1/f.parquet"),
        ("/t a", "p=a%20b%2520%23/f", "file:///t a/p=a b%20#/f", "p=a b%20#/f"),
        ("/t", "a:b/f", "file:///t/a:b/f", "a:b/f"),
        ("/t", "/t/f%20g", "file:///t/f g", "f g"),
        ("/t", "/other/f", "file:///other/f", None),
        ("/t", "/tt/f", "file:///tt/f", None),
        ("/t", "../u/f", "file:///u/f", None),
        ("/t", "file:/t/f", "file:///t/f", "f"),
        ("/t", "file:///u/f%20g", "file:///u/f g", None),
        ("/", "f", "file:///f", "f"),
        ("s3://b/t", "p=%C3%A9/f", "s3://b/t/p=é/f", "p=é/f"),
        ("s3://b/t", "s3a://b/t/x%20y", "s3://b/t/x y", "x y"),
        ("s3://b/t", "s3://other/t/x", "s3://other/t/x", None),
        ("s3://b/t", "/t/x", "s3://b/t/x", "x"),
        ("s3://b", "t/x", "s3://b/t/x", "t/x"),
        ("s3://b/t", "gs://b/t/x", "gs://b/t/x", None),
        (ABFSS, "abfss://c@acc.dfs.core.windows.net/t/x/f", f"{ABFSS}/f", "f"),
        (ABFSS, "https://acc.blob.core.windows.net/c/t/x/f%20g", f"{ABFSS}/f g", "f g"),
        (ABFSS, "abfss://c@other.dfs.core.windows.net/t/x/f", "abfss://c@other.dfs.core.windows.net/t/x/f", None),
        ("az://c/t/x", f"{ABFSS}/f", f"{ABFSS}/f", "f"),
        ("memory://m/t", "a%25b", "memory://m/t/a%b", "a%b"),
    ],
)
def test_paths_of_a_log(table: str, log_path: str, uri: str, relative: str | None) -> None:
    location = parse_location(table)
    resolved = resolve_log_path(location, log_path)
    assert resolved.uri == uri
    assert location.relative(resolved) == relative


def test_a_table_is_not_inside_itself() -> None:
    assert Location("s3", "b", "t").relative(Location("s3", "b", "t")) is None
