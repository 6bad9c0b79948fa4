"""Storage options: names, order of the sources, values."""

from __future__ import annotations

import pytest

from delta_sidecar.errors import OptionError
from delta_sidecar.storage import open_store
from delta_sidecar.storage.options import AZURE, GOOGLE, S3, RetryPolicy, Service, StoreSettings, read_options

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"


@pytest.mark.parametrize("key", ["AWS_ACCESS_KEY_ID", "aws_access_key_id", "access_key_id", "Access_Key_Id"])
def test_spellings_of_one_name(key: str) -> None:
    assert read_options(S3, {key: "k"}, environment={}).config == {"access_key_id": "k"}


@pytest.mark.parametrize(
    ("service", "key", "name"),
    [
        (S3, "AWS_ENDPOINT_URL", "endpoint"),
        (S3, "endpoint_url", "endpoint"),
        (S3, "AWS_REGION", "region"),
        (S3, "AWS_DEFAULT_REGION", "region"),
        (S3, "AWS_SESSION_TOKEN", "session_token"),
        (S3, "AWS_SKIP_SIGNATURE", "skip_signature"),
        (AZURE, "AZURE_STORAGE_ACCOUNT_NAME", "account_name"),
        (AZURE, "account_name", "account_name"),
        (AZURE, "azure_storage_account_key", "account_key"),
        (AZURE, "AZURE_STORAGE_ACCESS_KEY", "account_key"),
        (AZURE, "account_key", "account_key"),
        (AZURE, "sas_token", "sas_key"),
        (AZURE, "AZURE_STORAGE_SAS_TOKEN", "sas_key"),
        (AZURE, "azure_storage_use_emulator", "use_emulator"),
        (AZURE, "azure_client_secret", "client_secret"),
        (AZURE, "AZURE_TENANT_ID", "tenant_id"),
        (GOOGLE, "GOOGLE_SERVICE_ACCOUNT", "service_account"),
        (GOOGLE, "service_account_path", "service_account"),
        (GOOGLE, "google_application_credentials", "application_credentials"),
    ],
)
def test_names_deltalake_users_pass(service: Service, key: str, name: str) -> None:
    assert read_options(service, {key: "v"}, environment={}).config == {name: "v"}


def test_argument_over_profile_over_environment() -> None:
    environment = {"AWS_REGION": "env", "AWS_ENDPOINT_URL": "env", "AWS_ACCESS_KEY_ID": "env", "REGION": "not ours"}
    found = read_options(S3, {"region": "arg"}, {"aws_region": "profile", "endpoint": "profile"}, environment)
    assert found.config == {"region": "arg", "endpoint": "profile", "access_key_id": "env"}
    assert found.from_environment == {"access_key_id"}


def test_an_empty_value_is_unset() -> None:
    environment = {"AWS_REGION": "env", "AWS_ENDPOINT_URL": ""}
    assert read_options(S3, {"region": "", "endpoint": " "}, {"AWS_REGION": ""}, environment).config == {
        "region": "env"
    }


def test_a_bare_variable_of_the_environment_is_not_ours() -> None:
    assert read_options(AZURE, environment={"TOKEN": "x", "TIMEOUT": "1", "ENDPOINT": "y"}).config == {}


def test_options_for_others_are_ignored() -> None:
    options = {"AWS_S3_LOCKING_PROVIDER": "dynamodb", "AWS_S3_ALLOW_UNSAFE_RENAME": "true", "fs.s3a.path": "x"}
    assert read_options(S3, options, environment={}).config == {}


def test_the_clients_options() -> None:
    given = {"AWS_ALLOW_HTTP": True, "timeout": 90, "connect_timeout": "2 seconds"}
    client = read_options(S3, given, environment={}).client  # type: ignore[arg-type]
    assert client == {"allow_http": "true", "timeout": "90s", "connect_timeout": "2 seconds", "read_timeout": "30s"}


def test_retries_and_gap() -> None:
    given = {
        "max_retries": "3",
        "retry_timeout": "1m 30s",
        "backoff_config.init_backoff": "50ms",
        "backoff_config.max_backoff": "2.5",
        "coalesce_gap": "1000",
    }
    found = read_options(S3, given, environment={"DELTA_SIDECAR_MAX_RETRIES": "9"}).settings
    assert found == StoreSettings(RetryPolicy(3, 90.0, 0.05, 2.5, 2.0), 1000)
    assert read_options(S3, environment={"DELTA_SIDECAR_MAX_RETRIES": "9"}).settings.retry.max_retries == 9


@pytest.mark.parametrize(
    ("key", "value"),
    [("max_retries", "many"), ("max_retries", "-1"), ("retry_timeout", "3 moons"), ("coalesce_gap", "1.5")],
)
def test_values_that_make_no_sense(key: str, value: str) -> None:
    with pytest.raises(OptionError, match=key):
        read_options(S3, {key: value}, environment={})


def test_options_must_be_a_mapping() -> None:
    with pytest.raises(OptionError, match="must be a mapping"):
        read_options(S3, [("region", "x")])  # type: ignore[arg-type]


def test_no_repr_shows_a_secret() -> None:
    options = {"aws_access_key_id": "AKIAEXAMPLE", "aws_secret_access_key": SECRET}
    store = open_store("s3://b/t", options)
    shown = repr(read_options(S3, options)) + repr(store) + repr(vars(store))
    assert SECRET not in shown
    assert "AKIAEXAMPLE" not in shown


def test_an_azure_account_must_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(OptionError, match="pass account_name"):
        open_store("az://c/t", {"account_key": "Zm9v"})
    assert open_store("abfss://c@acc.dfs.core.windows.net/t", {"account_key": "Zm9v"}).root_uri.startswith(
        "abfss://c@acc"
    )


def test_a_malformed_key_is_an_option_error_without_the_key() -> None:
    with pytest.raises(OptionError, match="are not valid") as caught:
        open_store("az://c/t", {"account_name": "a", "account_key": f"not base64! {SECRET}"})
    assert SECRET not in str(caught.value)
