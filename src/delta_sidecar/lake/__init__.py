"""Lake operations on Spark: write policies, safe mutations, change feeds, registration.

pyspark is imported only when a function needs Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_sidecar.lazy_names import lazy_names

if TYPE_CHECKING:
    from delta_sidecar.lake.commit_marks import LineageContext
    from delta_sidecar.lake.operations import (
        CommitOptions,
        EnsuredTable,
        MergeClause,
        WriteOutcome,
        delete,
        ensure_table,
        merge,
        optimize,
        update,
        write,
    )
    from delta_sidecar.lake.policies import (
        DeltaMutationPolicy,
        DeltaRetryPolicy,
        DeltaSchemaPolicy,
        DeltaWritePolicy,
        LakePolicy,
        load_policy,
    )
    from delta_sidecar.lake.policy_effects import PolicyEffects

_MODULES: dict[str, str] = {
    "CommitOptions": "operations",
    "DeltaMutationPolicy": "policies",
    "DeltaRetryPolicy": "policies",
    "DeltaSchemaPolicy": "policies",
    "DeltaWritePolicy": "policies",
    "EnsuredTable": "operations",
    "LakePolicy": "policies",
    "LineageContext": "commit_marks",
    "MergeClause": "operations",
    "PolicyEffects": "policy_effects",
    "WriteOutcome": "operations",
    "delete": "operations",
    "ensure_table": "operations",
    "load_policy": "policies",
    "merge": "operations",
    "optimize": "operations",
    "update": "operations",
    "write": "operations",
}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "CommitOptions",
    "DeltaMutationPolicy",
    "DeltaRetryPolicy",
    "DeltaSchemaPolicy",
    "DeltaWritePolicy",
    "EnsuredTable",
    "LakePolicy",
    "LineageContext",
    "MergeClause",
    "PolicyEffects",
    "WriteOutcome",
    "delete",
    "ensure_table",
    "load_policy",
    "merge",
    "optimize",
    "update",
    "write",
]
