"""Storage options in the words of Spark's file systems."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from delta_sidecar.errors import InputError, OptionError
from delta_sidecar.pipeline.hadoop import SECRET_NAMES, hadoop_options, spark_uri


@pytest.fixture(autouse=True)
def no_ambient_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.lower().startswith(("aws_", "azure_", "google_")):
            monkeypatch.delenv(name)


ACCOUNT = {"account_name": "acct"}
HOST = "acct.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("uri", "options", "expected"),
    [
        ("/a b/%20c", {}, "file:///a b/%20c"),
        ("file:///x/y", {}, "file:///x/y"),
        ("s3://lake/events/", {}, "s3a://lake/events"),
        ("s3a://lake/events", {}, "s3a://lake/events"),
        ("s3://lake", {}, "s3a://lake/"),
        ("gs://lake/e", {}, "gs://lake/e"),
        ("az://lake/e", ACCOUNT, f"abfss://lake@{HOST}/e"),
        ("az://lake/e", {"AZURE_STORAGE_ACCOUNT_NAME": "acct"}, f"abfss://lake@{HOST}/e"),
        ("abfss://lake@other.dfs.core.windows.net/e", ACCOUNT, "abfss://lake@other.dfs.core.windows.net/e"),
        ("https://acct.blob.core.windows.net/lake/e", {}, f"abfss://lake@{HOST}/e"),
        ("az://lake/e", {"endpoint": "https://acct.blob.core.chinacloudapi.cn"}, "abfss://lake@acct.dfs.core.chinacloudapi.cn/e"),
    ],
)  # fmt: skip
def test_places(uri: str, options: dict[str, str], expected: str) -> None:
    assert spark_uri(uri, options) == expected


@pytest.mark.parametrize(
    ("uri", "options", "error", "word"),
    [
        ("memory://x/y", {}, InputError, "process"),
        ("az://lake/e", {}, OptionError, "account_name"),
        ("az://lake/e", {"endpoint": "http://127.0.0.1:10000/devstoreaccount1"}, OptionError, "DFS"),
        ("az://lake/e", {"use_emulator": "true"}, OptionError, "DFS"),
    ],
)
def test_places_spark_cannot_reach(uri: str, options: dict[str, str], error: type[Exception], word: str) -> None:
    with pytest.raises(error, match=word):
        spark_uri(uri, options)


def test_a_local_place_needs_nothing() -> None:
    assert hadoop_options("/x", {"aws_access_key_id": "k"}) == {}


def test_s3_with_a_key_and_an_endpoint() -> None:
    options = {
        "AWS_ACCESS_KEY_ID": "key",
        "aws_secret_access_key": "hush",
        "region": "eu-central-1",
        "aws_endpoint_url": "http://127.0.0.1:9000",
    }
    assert hadoop_options("s3://lake/e", options) == {
        "fs.s3a.access.key": "key",
        "fs.s3a.secret.key": "hush",
        "fs.s3a.endpoint": "http://127.0.0.1:9000",
        "fs.s3a.endpoint.region": "eu-central-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }


def test_s3_with_a_token() -> None:
    found = hadoop_options("s3://b", {"access_key_id": "k", "secret_access_key": "s", "session_token": "t"})
    assert found["fs.s3a.session.token"] == "t"
    assert found["fs.s3a.aws.credentials.provider"].endswith(".TemporaryAWSCredentialsProvider")


def test_a_token_of_the_environment_does_not_join_a_given_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "stray")
    found = hadoop_options("s3://b", {"access_key_id": "k", "secret_access_key": "s"})
    assert "fs.s3a.session.token" not in found


def test_s3_without_a_key_is_left_to_hadoop_and_unsigned_is_said() -> None:
    assert hadoop_options("s3://b") == {}
    found = hadoop_options("s3://b", {"skip_signature": "true", "virtual_hosted_style_request": "true"})
    assert found["fs.s3a.aws.credentials.provider"].endswith("AnonymousAWSCredentialsProvider")
    assert found["fs.s3a.path.style.access"] == "false"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"account_key": "k"}, {"account.auth.type": "SharedKey", "account.key": "k"}),
        ({"sas_token": "?sv=1&sig=x"}, {"account.auth.type": "SAS", "sas.fixed.token": "sv=1&sig=x"}),
        (
            {"client_id": "c", "client_secret": "s", "tenant_id": "t"},
            {
                "account.auth.type": "OAuth",
                "account.oauth2.client.id": "c",
                "account.oauth2.client.secret": "s",
                "account.oauth2.client.endpoint": "https://login.microsoftonline.com/t/oauth2/token",
            },
        ),
        ({"msi_endpoint": "http://169.254.169.254/x", "client_id": "c"}, {"account.oauth2.client.id": "c"}),
        ({"federated_token_file": "/t", "client_id": "c", "tenant_id": "t"}, {"account.oauth2.token.file": "/t"}),
    ],
)
def test_azure(options: dict[str, str], expected: dict[str, str]) -> None:
    found = hadoop_options("az://lake/e", ACCOUNT | options)
    assert found | {f"fs.azure.{name}.{HOST}": value for name, value in expected.items()} == found
    assert all(name.endswith(f".{HOST}") for name in found)


def test_azure_without_credentials_and_with_a_bearer_token() -> None:
    assert hadoop_options("az://lake/e", ACCOUNT) == {}
    with pytest.raises(OptionError, match="bearer") as caught:
        hadoop_options("az://lake/e", ACCOUNT | {"bearer_token": "hush-hush"})
    assert "hush-hush" not in str(caught.value)


def test_google() -> None:
    assert hadoop_options("gs://b/e") == {}
    assert hadoop_options("gs://b/e", {"service_account": "/k.json"}) == {
        "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
        "fs.gs.auth.service.account.json.keyfile": "/k.json",
    }
    key = {"client_email": "a@b", "private_key_id": "i", "private_key": "p"}
    found = hadoop_options("gs://b/e", {"google_service_account_key": json.dumps(key)})
    assert found["fs.gs.auth.service.account.private.key"] == "p"
    with pytest.raises(OptionError, match="JSON"):
        hadoop_options("gs://b/e", {"service_account_key": "{}"})


SECRETS: list[tuple[str, dict[str, Any]]] = [
    ("s3://b", {"access_key_id": "hush", "secret_access_key": "hush", "session_token": "hush"}),
    ("az://lake/e", ACCOUNT | {"account_key": "hush"}),
    ("az://lake/e", ACCOUNT | {"sas_token": "hush"}),
    ("az://lake/e", ACCOUNT | {"client_secret": "hush", "client_id": "c", "tenant_id": "t"}),
    ("gs://b", {"service_account_key": '{"client_email": "e", "private_key_id": "hush", "private_key": "hush"}'}),
]


@pytest.mark.parametrize(("uri", "options"), SECRETS)
def test_spark_is_told_to_hide_every_secret(uri: str, options: dict[str, str]) -> None:
    hidden = [name for name, value in hadoop_options(uri, options).items() if value == "hush"]
    assert hidden
    assert all(re.search(SECRET_NAMES, name) for name in hidden)
