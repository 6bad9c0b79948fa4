"""A store of obstore whose credentials come from a provider."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import S3Store

from delta_sidecar import DeltaTable, StorageError
from tests.events_table import write_events
from tests.integration.servers import ObjectServer


def test_credentials_of_a_provider(s3: ObjectServer, tmp_path: Path) -> None:
    asked: list[str] = []

    def credentials() -> Any:
        asked.append("once")
        given = s3.storage_options
        return {
            "access_key_id": given["aws_access_key_id"],
            "secret_access_key": given["aws_secret_access_key"],
            "token": None,
            "expires_at": None,
        }

    write_events(tmp_path)
    uri = s3.uri("given-store")
    bucket, _, path = uri.removeprefix("s3://").partition("/")
    store = S3Store(
        bucket,
        endpoint=s3.storage_options["aws_endpoint"],
        region="us-east-1",
        client_options={"allow_http": True},
        credential_provider=credentials,
    )
    for file in tmp_path.rglob("*"):
        if file.is_file():
            obstore.put(store, f"{path}/{file.relative_to(tmp_path)}", file.read_bytes())
    assert DeltaTable(uri, store=store).count() == 8
    assert asked

    def none() -> Any:
        raise RuntimeError("signed out")

    out = S3Store(bucket, endpoint=s3.storage_options["aws_endpoint"], region="us-east-1", credential_provider=none)
    with pytest.raises(StorageError, match=r"signed out|credential|Generic"):
        DeltaTable(uri, store=out)
