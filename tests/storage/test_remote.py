"""What the object store code makes of services that do not keep their promises."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import obstore
import pytest
from obstore.store import MemoryStore

from delta_sidecar.errors import StorageError
from delta_sidecar.storage import open_store
from delta_sidecar.storage.remote import ObstoreStore
from delta_sidecar.storage.uri import parse_location
from tests.storage.contract import listed


def listing(monkeypatch: pytest.MonkeyPatch, *pages: list[str]) -> ObstoreStore:
    """A store whose service lists these pages."""
    now = datetime.now(UTC)
    metas: list[list[dict[str, Any]]] = [
        [{"path": p, "size": 1, "last_modified": now, "e_tag": None, "version": None} for p in page] for page in pages
    ]
    monkeypatch.setattr(obstore, "list", lambda *_, **__: iter(metas))
    return ObstoreStore(MemoryStore(), parse_location("s3://b"))


def test_a_page_out_of_order_is_put_right(monkeypatch: pytest.MonkeyPatch) -> None:
    store = listing(monkeypatch, ["a/1"], ["b/x", "b.json"], ["c"])
    assert listed(store) == ["a/1", "b.json", "b/x", "c"]


def test_pages_out_of_order_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageError, match="does not list in path order"):
        listed(listing(monkeypatch, ["b"], ["a"]))


def test_the_listing_ends_with_its_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    store = listing(monkeypatch, ["d/1", "d/2"], ["d/3", "e"], ["never asked for", "a: out of order"])
    assert listed(store, "d/") == ["d/1", "d/2", "d/3"]


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        ("s3://b/t", {"skip_signature": "true"}),
        ("s3a://b/t", {"aws_access_key_id": "k", "aws_secret_access_key": "s", "AWS_S3_LOCKING_PROVIDER": "dynamodb"}),
        ("gs://b/t", {"skip_signature": "true"}),
        ("abfss://c@acc.dfs.core.windows.net/t", {"sas_token": "sv=2021&sig=x"}),
        ("https://acc.blob.core.windows.net/c/t", {"azure_storage_account_key": "Zm9v"}),
        ("abfss://ws@onelake.dfs.fabric.microsoft.com/item/Tables/t", {"bearer_token": "x"}),
        ("abfss://c@acc.dfs.core.chinacloudapi.cn/t", {"account_key": "Zm9v"}),
        ("az://c/t", {"azure_storage_use_emulator": "true"}),
    ],
)
def test_opening_makes_no_request(uri: str, options: dict[str, str]) -> None:
    store = open_store(uri, options)
    assert store.root_uri == parse_location(uri).uri
    assert store.local_path("a") is None


def test_a_token_of_the_environment_is_not_sent_with_a_key_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    from delta_sidecar.storage.cloud import _static_credentials
    from delta_sidecar.storage.options import S3, read_options

    environment = {"AWS_ACCESS_KEY_ID": "env", "AWS_SECRET_ACCESS_KEY": "env", "AWS_SESSION_TOKEN": "env"}
    given = read_options(S3, {"access_key_id": "k", "secret_access_key": "s"}, environment=environment)
    assert _static_credentials(given)()["token"] is None
    assert _static_credentials(read_options(S3, environment=environment)) is None
