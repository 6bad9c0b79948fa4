"""Storage options: argument over profile over environment, under the names `deltalake` users already pass.

Names are matched without case, with or without their service's prefix (`AWS_REGION`, `aws_region`, `region`);
an empty value is an unset one. Names this store does not know are ignored, as deltalake does, because tables are
often opened with options meant for another engine; their names are logged at debug level, their values never.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from delta_sidecar.errors import OptionError
from delta_sidecar.storage.ranges import DEFAULT_GAP

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a failed request is retried."""

    max_retries: int = 7
    retry_timeout: float = 180.0
    """Seconds after the first failure in which attempts may start."""
    init_backoff: float = 0.1
    max_backoff: float = 15.0
    base: float = 2.0


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """How a store behaves, apart from where it is and who may enter."""

    retry: RetryPolicy = field(default_factory=RetryPolicy)
    gap: int = DEFAULT_GAP
    """Ranges at most this far apart are read as one."""


@dataclass(frozen=True, slots=True, repr=False)
class StoreOptions:
    """What the given names mean: obstore's configuration, its client's, and our settings."""

    config: Mapping[str, str]
    client: Mapping[str, str]
    settings: StoreSettings
    from_environment: frozenset[str] = frozenset()
    """Which names of `config` only the environment gave."""

    def __repr__(self) -> str:
        return f"StoreOptions(config={sorted(self.config)}, client={sorted(self.client)}, settings={self.settings})"


@dataclass(frozen=True, slots=True)
class Service:
    """The names one service knows."""

    prefixes: tuple[str, ...]
    """What may stand before a name, longest first; the environment counts only with one of them."""
    names: frozenset[str]
    aliases: Mapping[str, str]

    def name(self, key: str) -> str | None:
        """obstore's name for a key, which may have a prefix; None if the service does not know it."""
        lowered = key.lower()
        for prefix in (*self.prefixes, ""):
            if lowered.startswith(prefix):
                bare = lowered[len(prefix) :]
                bare = self.aliases.get(bare, bare)
                if bare in self.names or bare in _CLIENT or bare in _SETTINGS:
                    return bare
        return None


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


S3 = Service(
    ("aws_",),
    _words(
        "access_key_id secret_access_key session_token region endpoint virtual_hosted_style_request unsigned_payload"
        " checksum_algorithm metadata_endpoint container_credentials_relative_uri container_credentials_full_uri"
        " container_authorization_token_file web_identity_token_file role_arn role_session_name sts_endpoint"
        " conditional_put skip_signature disable_tagging disable_bulk_delete request_payer server_side_encryption"
        " sse_kms_key_id sse_bucket_key_enabled"
    ),
    {
        "token": "session_token",
        "default_region": "region",
        "endpoint_url": "endpoint",
        "endpoint_url_s3": "endpoint",
        "s3_allow_http": "allow_http",
    },
)
AZURE = Service(
    ("azure_storage_", "azure_"),
    _words(
        "account_name account_key client_id client_secret tenant_id authority_host sas_key token use_emulator"
        " use_fabric_endpoint endpoint msi_endpoint object_id msi_resource_id federated_token_file use_azure_cli"
        " skip_signature disable_tagging credential_type fabric_token_service_url fabric_workload_host"
        " fabric_session_token fabric_cluster_identifier"
    ),
    {
        "account": "account_name",
        "access_key": "account_key",
        "master_key": "account_key",
        "key": "account_key",
        "authority_id": "tenant_id",
        "sas_token": "sas_key",
        "bearer_token": "token",
        "identity_endpoint": "msi_endpoint",
        "endpoint_url": "endpoint",
    },
)
GOOGLE = Service(
    ("google_",),
    _words("service_account service_account_key base_url bearer_token application_credentials skip_signature"),
    {"service_account_path": "service_account", "token": "bearer_token"},
)
LOCAL = Service((), frozenset(), {})

_CLIENT = _words(
    "allow_http allow_invalid_certificates connect_timeout default_content_type http1_only"
    " http2_keep_alive_interval http2_keep_alive_timeout http2_keep_alive_while_idle http2_only pool_idle_timeout"
    " pool_max_idle_per_host proxy_url proxy_ca_certificate proxy_excludes randomize_addresses read_timeout"
    " root_certificate timeout user_agent"
)
CLIENT_DEFAULTS = {"connect_timeout": "5s", "read_timeout": "30s", "timeout": "10m"}
_SETTINGS = {
    "max_retries": ("retry", "max_retries"),
    "retry_timeout": ("retry", "retry_timeout"),
    "backoff_config.init_backoff": ("retry", "init_backoff"),
    "backoff_config.max_backoff": ("retry", "max_backoff"),
    "backoff_config.base": ("retry", "base"),
    "coalesce_gap": ("", "gap"),
}
_ENVIRONMENT = "delta_sidecar_"
_UNITS = {"ms": 0.001, "s": 1.0, "sec": 1.0, "secs": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "": 1.0}
_DURATION = re.compile(r"([0-9]*\.?[0-9]+)\s*([a-z]*)\s*")


def read_options(
    service: Service,
    argument: Mapping[str, str] | None = None,
    profile: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    settings: StoreSettings | None = None,
) -> StoreOptions:
    """The options of a service out of all their sources."""
    ours = _named(service, argument, "storage options")
    theirs = dict(_environment(service, os.environ if environment is None else environment))
    merged = theirs | _named(service, profile, "profile") | ours
    given = ours.keys() | _named(service, profile, "profile").keys()
    return StoreOptions(
        {name: value for name, value in merged.items() if name in service.names},
        CLIENT_DEFAULTS | {name: _client_value(name, v) for name, v in merged.items() if name in _CLIENT},
        _settings(merged, settings or StoreSettings()),
        frozenset(theirs.keys() - given),
    )


def _named(service: Service, source: Mapping[str, str] | None, where: str) -> dict[str, str]:
    """The options of one source by obstore's name; of two spellings of one name the last given counts."""
    if source is not None and not isinstance(source, Mapping):
        raise OptionError(f"{where} must be a mapping of names to values, not {type(source).__name__}")
    options: dict[str, str] = {}
    for key, value in (source or {}).items():
        name, text = service.name(str(key)), _text(value)
        if name is None:
            log.debug("%s: this store does not know %r, ignored", where, key)
        elif text:
            options[name] = text
    return options


def _environment(service: Service, variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Only variables with a prefix are ours: a bare `TOKEN` belongs to someone else."""
    for key, value in variables.items():
        lowered = key.lower()
        if not value:
            continue
        if lowered.startswith(_ENVIRONMENT) and lowered[len(_ENVIRONMENT) :] in _SETTINGS:
            yield lowered[len(_ENVIRONMENT) :], value
        elif lowered.startswith(service.prefixes) and (name := service.name(key)) is not None:
            yield name, value


def _text(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


def _client_value(name: str, text: str) -> str:
    """A bare number of seconds is what people write; obstore wants its unit."""
    return f"{text}s" if name.endswith("timeout") and text.isdigit() else text


def _settings(merged: Mapping[str, str], settings: StoreSettings) -> StoreSettings:
    for name, (part, attribute) in _SETTINGS.items():
        if name in merged:
            value = _number(name, merged[name], whole=attribute in ("max_retries", "gap"))
            if part:
                settings = replace(settings, retry=replace(settings.retry, **{attribute: value}))
            else:
                settings = replace(settings, **{attribute: value})
    return settings


def _number(name: str, text: str, whole: bool) -> Any:
    """A number, or a duration such as `2m 30s`, in seconds."""
    if whole and text.isdigit():
        return int(text)
    parts = _DURATION.findall(text.lower())
    if whole or "".join(f"{n}{u}" for n, u in parts) != re.sub(r"\s", "", text.lower()) or not parts:
        raise OptionError(f"storage option {name} must be {'a whole number' if whole else 'a number or a duration'}")
    if any(unit not in _UNITS for _, unit in parts):
        raise OptionError(f"storage option {name} has an unknown unit; write ms, s, m or h")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
