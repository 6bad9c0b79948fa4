"""`sidecar policy check`: what a policy file does to Spark and Delta, and whether it fits a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from delta_sidecar.cli.output import write_facts, write_json
from delta_sidecar.lake.policies import LakePolicy, load_policy
from delta_sidecar.lake.policy_effects import (
    LOG_STORES,
    PolicyEffects,
    check_drivers,
    check_order,
    check_table,
    missing_properties,
)
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.pipeline.bucketed_table import load_table
from delta_sidecar.storage import open_store


def check_policy(file: str, table: str | None, storage_options: Mapping[str, str], json: bool) -> None:
    """Print the effects of a policy; an `InputError` says why it is wrong, or does not fit the table."""
    policy = load_policy(file)
    snapshot = None
    if table is not None:
        check_drivers(policy, table, {LOG_STORES[0]: policy.mutation.log_store}.get)
        snapshot = load_table(open_store(table, storage_options))
    effects = PolicyEffects.of(policy, None if snapshot is None else snapshot.schema)
    missing = {} if snapshot is None else _fitted(policy, snapshot)
    if json:
        write_json(_facts(file, table, snapshot, effects, missing))
    else:
        write_facts(_lines(table, snapshot, effects, missing))


def _fitted(policy: LakePolicy, snapshot: Snapshot) -> dict[str, str]:
    check_table(policy, snapshot)
    check_order(policy, snapshot)
    return missing_properties(policy, snapshot)


def _facts(
    file: str, table: str | None, snapshot: Snapshot | None, effects: PolicyEffects, missing: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "policy": file,
        "table": table,
        "version": None if snapshot is None else snapshot.version,
        "writer_options": effects.writer_options,
        "session_settings": effects.session_settings,
        "table_properties": effects.table_properties,
        "start_settings": effects.start_settings,
        "partition_by": effects.partition_by,
        "zorder_by": effects.zorder_by,
        "missing_properties": missing,
        "notes": effects.notes,
    }


def _lines(
    table: str | None, snapshot: Snapshot | None, effects: PolicyEffects, missing: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    yield "writer options", _pairs(effects.writer_options)
    yield "session settings", _pairs(effects.session_settings)
    yield "table properties", _pairs(effects.table_properties)
    if effects.start_settings:
        yield "start Spark with", _pairs(effects.start_settings)
    yield "partitioned by", ", ".join(effects.partition_by) or "not set: as the table is"
    if effects.zorder_by:
        yield "optimize orders by", ", ".join(effects.zorder_by)
    if table is not None:
        yield "table", f"{table}, {'to be created' if snapshot is None else f'version {snapshot.version}: it fits'}"
    if missing:
        yield "the table lacks", _pairs(missing)
    for note in effects.notes:
        yield "note", note


def _pairs(values: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items()) or "none"
