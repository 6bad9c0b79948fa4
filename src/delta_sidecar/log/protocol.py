"""May this reader read the table? What the protocol and the properties say together."""

from __future__ import annotations

from delta_sidecar.errors import UnsupportedFeatureError
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.dialect import DELTA, Dialect


def check_protocol(protocol: Protocol, dialect: Dialect = DELTA) -> None:
    """Refuse, by name, what this reader does not understand. Writer features do not matter to it."""
    version = protocol.minReaderVersion
    if not 1 <= version <= dialect.max_reader_version:
        raise UnsupportedFeatureError(
            f"the table needs reader version {version}, this reader knows 1 to {dialect.max_reader_version}; "
            "use a newer release or another reader"
        )
    if version < dialect.feature_version:
        return
    if protocol.readerFeatures is None and version in dialect.numbered:
        return
    if protocol.readerFeatures is None:
        raise UnsupportedFeatureError(
            f"the table has reader version {version} without a list of reader features, which is not legal; "
            "repair its protocol"
        )
    refused = sorted(set(protocol.readerFeatures) - dialect.reader_features)
    if refused:
        reasons = "; ".join(f"{name}: {dialect.refusals.get(name, 'unknown to this reader')}" for name in refused)
        raise UnsupportedFeatureError(f"the table needs reader features that are not supported ({reasons})")


def has_feature(protocol: Protocol, feature: str) -> bool:
    """Is a table feature listed, for readers or writers?"""
    return feature in (protocol.readerFeatures or ()) or feature in (protocol.writerFeatures or ())


def mapping_mode(protocol: Protocol, metadata: Metadata) -> str:
    """`none`, `name` or `id`: the property counts only where the protocol has the feature.

    Some writers list it for writers alone, which is not legal; the data files are mapped all the same.
    """
    supported = protocol.minReaderVersion == 2 or (
        protocol.minReaderVersion >= 3 and has_feature(protocol, "columnMapping")
    )
    if not supported:
        return "none"
    mode = metadata.properties.get("delta.columnMapping.mode", "none").lower()
    if mode not in ("none", "name", "id"):
        raise UnsupportedFeatureError(
            f"the table's column mapping mode is {mode!r}; this reader knows none, name and id"
        )
    return mode


def supports_generated_columns(protocol: Protocol) -> bool:
    """Does the protocol vouch that generation expressions hold?"""
    return 4 <= protocol.minWriterVersion <= 6 or "generatedColumns" in (protocol.writerFeatures or ())
