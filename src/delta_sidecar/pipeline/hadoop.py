"""One set of storage options for both: what our stores are given, in the words of Spark's file systems.

Spark reaches S3, Azure and Google by Hadoop's drivers, which have names of their own for places (`s3a://`, `abfss://`)
and for credentials (`fs.s3a.…`). Users give the options once, as `deltalake` names them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping

from delta_sidecar.errors import InputError, OptionError
from delta_sidecar.storage import options as known
from delta_sidecar.storage.options import StoreOptions, read_options
from delta_sidecar.storage.uri import Location, parse_location

_S3A = "org.apache.hadoop.fs.s3a"
_AZURE_OAUTH = "org.apache.hadoop.fs.azurebfs.oauth2"
_AZURE_SAS = "org.apache.hadoop.fs.azurebfs.sas.FixedSASTokenProvider"
_PUBLIC_AZURE = "dfs.core.windows.net"
SECRET_NAMES = "(?i)secret|password|token|access[.]?key|account[.]key|private[.]key|sas[.]|jaas"
"""For `spark.redaction.regex`: Spark's own pattern lets Azure's and Google's keys through, and logins to Kafka."""


def spark_uri(uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> str:
    """The place as Spark's file systems name it."""
    location = parse_location(uri)
    match location.scheme:
        case "file":
            return f"file://{location.path}"
        case "s3":
            return _uri("s3a", location.authority, location.path)
        case "gs":
            return _uri("gs", location.authority, location.path)
        case "az" | "abfss":
            host = _azure_host(location, read_options(known.AZURE, storage_options))
            return _uri("abfss", f"{location.bucket}@{host}", location.path)
    raise InputError(f"{location.uri} exists only in this process; Spark needs a path or an s3, az, abfss or gs URI")


def hadoop_options(uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> dict[str, str]:
    """The settings (`fs.…`) Spark's file systems need to reach a place; empty for a local one."""
    location = parse_location(uri)
    entry = _SERVICES.get(location.scheme)
    if entry is None:
        return {}
    service, settings = entry
    return settings(location, read_options(service, storage_options))


def _uri(scheme: str, authority: str, path: str) -> str:
    return f"{scheme}://{authority}/{path}".rstrip("/") if path else f"{scheme}://{authority}/"


def _s3(location: Location, options: StoreOptions) -> dict[str, str]:
    config = options.config
    given = {
        "fs.s3a.endpoint": config.get("endpoint"),
        "fs.s3a.endpoint.region": config.get("region"),
        "fs.s3a.path.style.access": _path_style(config),
        "fs.s3a.connection.ssl.enabled": "false" if config.get("endpoint", "").startswith("http://") else None,
        "fs.s3a.requester.pays.enabled": "true" if config.get("request_payer") == "true" else None,
    }
    return _present(given) | _s3_credentials(options)


def _path_style(config: Mapping[str, str]) -> str | None:
    """Our stores use path-style requests with a custom endpoint by default."""
    virtual = config.get("virtual_hosted_style_request")
    if virtual is None:
        return "true" if "endpoint" in config else None
    return "false" if virtual == "true" else "true"


def _s3_credentials(options: StoreOptions) -> dict[str, str]:
    """Without a key Hadoop looks for credentials itself. A token of the environment belongs to its key alone."""
    config, ambient = options.config, options.from_environment
    if config.get("skip_signature") == "true":
        return {"fs.s3a.aws.credentials.provider": f"{_S3A}.AnonymousAWSCredentialsProvider"}
    key, secret, token = (config.get(name) for name in ("access_key_id", "secret_access_key", "session_token"))
    if key is None or secret is None:
        return {}
    if "session_token" in ambient and "access_key_id" not in ambient:
        token = None
    provider = "TemporaryAWSCredentialsProvider" if token else "SimpleAWSCredentialsProvider"
    given = {"fs.s3a.access.key": key, "fs.s3a.secret.key": secret, "fs.s3a.session.token": token}
    return _present(given) | {"fs.s3a.aws.credentials.provider": f"{_S3A}.{provider}"}


def _azure(location: Location, options: StoreOptions) -> dict[str, str]:
    host = _azure_host(location, options)
    return {f"fs.azure.{name}.{host}": value for name, value in _azure_credentials(options.config).items()}


def _azure_host(location: Location, options: StoreOptions) -> str:
    """The account's DFS host: that of the location, of the endpoint, or Azure's public one."""
    host = location.authority.partition("@")[2]
    if host:
        return host
    endpoint, account = options.config.get("endpoint"), options.config.get("account_name")
    if endpoint is not None or options.config.get("use_emulator") == "true":
        return _dfs_host(endpoint or "")
    if account is None:
        raise OptionError(f"{location.uri}: the Azure storage account is not known; pass account_name")
    return f"{account}.{_PUBLIC_AZURE}"


def _dfs_host(endpoint: str) -> str:
    host = endpoint.partition("://")[2].strip("/")
    if "/" in host or (".blob." not in host and ".dfs." not in host):
        raise OptionError(
            "Spark's Azure driver supports only DFS endpoints, and this endpoint (or emulator) is not one; "
            "use a real account, or work on this table without Spark"
        )
    return host.replace(".blob.", ".dfs.", 1)


def _azure_credentials(config: Mapping[str, str]) -> dict[str, str]:
    if "account_key" in config:
        return {"account.auth.type": "SharedKey", "account.key": config["account_key"]}
    if "sas_key" in config:
        return {
            "account.auth.type": "SAS",
            "sas.token.provider.type": _AZURE_SAS,
            "sas.fixed.token": config["sas_key"].lstrip("?"),
        }
    return _azure_oauth(config)


def _azure_oauth(config: Mapping[str, str]) -> dict[str, str]:
    authority = config.get("authority_host", "https://login.microsoftonline.com").rstrip("/")
    tenant, client = config.get("tenant_id"), config.get("client_id")
    shared = {
        "account.oauth2.client.id": client,
        "account.oauth2.client.endpoint": f"{authority}/{tenant}/oauth2/token" if tenant else None,
    }
    if "client_secret" in config:
        own = {"account.oauth2.client.secret": config["client_secret"]}
        return _oauth("ClientCredsTokenProvider", shared | own)
    if "federated_token_file" in config:
        file = {"account.oauth2.token.file": config["federated_token_file"], "account.oauth2.msi.tenant": tenant}
        return _oauth("WorkloadIdentityTokenProvider", shared | file)
    if "msi_endpoint" in config:
        msi = {"account.oauth2.msi.endpoint": config["msi_endpoint"], "account.oauth2.msi.tenant": tenant}
        return _oauth("MsiTokenProvider", {"account.oauth2.client.id": client} | msi)
    if "token" in config:
        raise OptionError("Spark's Azure driver takes no bearer token; pass account_key, sas_token or client_secret")
    return {}


def _oauth(provider: str, given: Mapping[str, str | None]) -> dict[str, str]:
    kind = {"account.auth.type": "OAuth", "account.oauth.provider.type": f"{_AZURE_OAUTH}.{provider}"}
    return kind | _present(given)


def _google(location: Location, options: StoreOptions) -> dict[str, str]:
    config = options.config
    if config.get("skip_signature") == "true":
        return {"fs.gs.auth.type": "UNAUTHENTICATED"}
    if "service_account_key" in config:
        return _google_key(config["service_account_key"])
    file = config.get("service_account") or config.get("application_credentials")
    if file is None:
        return {}
    return {"fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE", "fs.gs.auth.service.account.json.keyfile": file}


def _google_key(text: str) -> dict[str, str]:
    try:
        key = json.loads(text)
        return {
            "fs.gs.auth.service.account.email": key["client_email"],
            "fs.gs.auth.service.account.private.key.id": key["private_key_id"],
            "fs.gs.auth.service.account.private.key": key["private_key"],
        }
    except (ValueError, KeyError, TypeError):
        raise OptionError("service_account_key is not the JSON text of a service account's key") from None


def _present(given: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in given.items() if value is not None}


_Settings = Callable[[Location, StoreOptions], dict[str, str]]
_SERVICES: dict[str, tuple[known.Service, _Settings]] = {
    "s3": (known.S3, _s3),
    "az": (known.AZURE, _azure),
    "abfss": (known.AZURE, _azure),
    "gs": (known.GOOGLE, _google),
}
