"""The command on object stores, with its options on the command line or in the environment."""

from __future__ import annotations

import deltalake
import pyarrow as pa

from tests.cli.running import invoke, sidecar
from tests.integration.servers import ObjectServer

ROWS = pa.table({"x": pa.array([1, 2, 3], pa.int64())})


def check_remote(server: ObjectServer) -> None:
    uri = server.uri("command")
    deltalake.write_deltalake(uri, ROWS, storage_options=server.storage_options, mode="overwrite")
    options = [
        part for name, value in server.storage_options.items() for part in ("--storage-option", f"{name}={value}")
    ]
    (file,) = invoke("files", uri, "--json", *options).objects
    assert file["uri"] == f"{uri}/{file['path']}"
    assert file["num_records"] == 3
    environment = {name.upper(): value for name, value in server.storage_options.items()}
    assert sidecar("read", uri, "--json", environment=environment).objects == [{"x": 1}, {"x": 2}, {"x": 3}]
    (report,) = invoke("explain", uri, "--json", *options).objects
    assert report["opening"]["requests"] > 0


def test_on_azure(azurite: ObjectServer) -> None:
    check_remote(azurite)


def test_on_s3(s3: ObjectServer) -> None:
    check_remote(s3)
