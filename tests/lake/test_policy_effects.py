"""What a policy does to Spark and Delta, and what is refused before either is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from delta_sidecar.errors import InputError, OptionError, UnknownColumnError
from delta_sidecar.lake import (
    DeltaMutationPolicy,
    DeltaSchemaPolicy,
    DeltaWritePolicy,
    LakePolicy,
    PolicyEffects,
)
from delta_sidecar.lake.conditional_put import check_conditional_put
from delta_sidecar.lake.policy_effects import (
    check_drivers,
    check_order,
    check_plain_names,
    check_table,
    missing_properties,
    write_options,
)
from delta_sidecar.log.snapshot import load_snapshot
from delta_sidecar.storage import open_store
from delta_sidecar.testing.stores import CountingStore
from delta_sidecar.values.types import PrimitiveType, StructField, StructType
from tests.events_table import write_events


def schema(**columns: str) -> StructType:
    return StructType(tuple(StructField(name, PrimitiveType(kind)) for name, kind in columns.items()))


def written(**given: Any) -> LakePolicy:
    return LakePolicy(write=DeltaWritePolicy(**given))


def test_sizes_are_settings_and_never_a_property_of_delta() -> None:
    effects = PolicyEffects.of(written(target_file_size=1000))
    assert effects.writer_options == {"optimizeWrite": "true"}
    assert effects.session_settings == {
        "spark.databricks.delta.optimizeWrite.binSize": "1000b",
        "spark.databricks.delta.optimize.maxFileSize": "1000",
        "spark.databricks.delta.optimize.minFileSize": "500",
    }
    assert effects.table_properties == {"sidecar.targetFileSize": "1000"}
    assert effects.delta_properties == {}
    assert PolicyEffects.of(written(target_file_size=None)) == PolicyEffects()


def test_features_and_modes_are_properties_and_options() -> None:
    policy = LakePolicy(
        write=DeltaWritePolicy(target_file_size=None, enable_features=("deletion_vectors", "v2_checkpoints")),
        mutation=DeltaMutationPolicy(append_only=True, drivers="many", log_store="a.B"),
        schema=DeltaSchemaPolicy(schema_mode="merge", column_mapping_mode="name"),
    )
    effects = PolicyEffects.of(policy)
    assert effects.table_properties == {
        "delta.enableDeletionVectors": "true",
        "delta.checkpointPolicy": "v2",
        "delta.appendOnly": "true",
        "delta.columnMapping.mode": "name",
    }
    assert effects.writer_options == {"mergeSchema": "true"}
    assert effects.start_settings == {"spark.delta.logStore.s3a.impl": "a.B"}
    assert any("deletion_vectors raises the table's protocol to reader 3" in note for note in effects.notes)


def test_statistics_are_left_to_delta_unless_there_are_too_many_columns() -> None:
    few = schema(a="long", ts="timestamp")
    assert "delta.dataSkippingStatsColumns" not in PolicyEffects.of(written(), few).table_properties
    off = PolicyEffects.of(written(stats_policy="off"), few).table_properties
    assert off["delta.dataSkippingNumIndexedCols"] == "0"
    named = PolicyEffects.of(written(stats_policy="explicit", stats_columns=("odd name", "a")))
    assert named.table_properties["delta.dataSkippingStatsColumns"] == "`odd name`,a"


def test_automatic_statistics_take_ordered_columns_then_times_then_the_others() -> None:
    many = schema(p="string", flag="boolean", **{f"c{n}": "long" for n in range(40)}, ts="timestamp", user="string")
    policy = written(partition_by=("p",), zorder_by=("user",), stats_max_columns=4)
    found = PolicyEffects.of(policy, many).table_properties["delta.dataSkippingStatsColumns"]
    assert found == "user,ts,c0,c1"


def test_columns_of_a_policy_must_be_in_the_table_and_of_a_fitting_type() -> None:
    from delta_sidecar.values.types import ArrayType

    base = StructType((*schema(a="long", flag="boolean").fields, StructField("l", ArrayType(PrimitiveType("long")))))
    with pytest.raises(UnknownColumnError, match=r"partition_by names day, which the table does not have"):
        PolicyEffects.of(written(partition_by=("day",)), base)
    with pytest.raises(InputError, match=r"partition_by names l of type array<long>"):
        PolicyEffects.of(written(partition_by=("l",)), base)
    with pytest.raises(InputError, match=r"zorder_by names l of type array<long>, which cannot be used there"):
        PolicyEffects.of(written(zorder_by=("l",)), base)
    with pytest.raises(InputError, match=r"stats_columns names flag of type boolean, which cannot be used there"):
        PolicyEffects.of(written(stats_policy="explicit", stats_columns=("flag",)), base)
    with pytest.raises(InputError, match=r"zorder_by names flag, which has no statistics"):
        PolicyEffects.of(written(zorder_by=("flag",), stats_max_columns=1), base)
    with pytest.raises(InputError, match=r"every column"):
        PolicyEffects.of(written(partition_by=("a",)), schema(a="long"))
    with pytest.raises(InputError, match=r"column 'a b' needs column mapping"):
        check_plain_names(written(), schema(**{"a b": "long"}))
    check_plain_names(LakePolicy(schema=DeltaSchemaPolicy(column_mapping_mode="name")), schema(**{"a b": "long"}))


@pytest.mark.parametrize(
    ("policy", "mode", "where", "said"),
    [
        (LakePolicy(), "apend", None, r"mode 'apend' is not append or overwrite \(did you mean append\?\)"),
        (LakePolicy(), "append", "a = 1", "replace_where needs mode overwrite"),
        (LakePolicy(mutation=DeltaMutationPolicy(append_only=True)), "overwrite", None, "overwrite is refused"),
        (LakePolicy(mutation=DeltaMutationPolicy(append_only=True)), "overwrite", "a", "replace_where is refused"),
        (
            LakePolicy(schema=DeltaSchemaPolicy(schema_mode="overwrite")),
            "append",
            None,
            "Delta ignores it in an append",
        ),
        (LakePolicy(schema=DeltaSchemaPolicy(schema_mode="overwrite")), "overwrite", "a", "cannot be used with"),
    ],
)
def test_what_delta_would_ignore_in_a_write_is_refused(
    policy: LakePolicy, mode: str, where: str | None, said: str
) -> None:
    with pytest.raises(OptionError, match=said):
        write_options(policy, mode, where)


def test_a_table_that_is_not_as_the_policy_has_it_is_refused(tmp_path: Path) -> None:
    write_events(tmp_path / "events")
    snapshot = load_snapshot(open_store(tmp_path / "events"))
    (there,) = snapshot.partition_columns
    check_table(written(partition_by=(there.upper(),)), snapshot)
    with pytest.raises(InputError, match=f"is partitioned by {there}, the policy by id"):
        check_table(written(partition_by=("id",)), snapshot)
    with pytest.raises(InputError, match='not to "id"'):
        check_table(LakePolicy(schema=DeltaSchemaPolicy(column_mapping_mode="id")), snapshot)
    with pytest.raises(InputError, match="a partition column"):
        check_order(written(zorder_by=(there,)), snapshot)
    policy = LakePolicy(mutation=DeltaMutationPolicy(append_only=True))
    assert missing_properties(policy, snapshot) == {"delta.appendOnly": "true"}


def test_several_drivers_on_s3_need_a_log_store() -> None:
    many = LakePolicy(mutation=DeltaMutationPolicy(drivers="many"))
    check_drivers(LakePolicy(), "s3://b/t", lambda name: None)
    check_drivers(many, "/local/t", lambda name: None)
    check_drivers(many, "az://b/t", lambda name: None)
    check_drivers(many, "s3://b/t", {"spark.delta.logStore.s3a.impl": "io.delta.storage.S3DynamoDBLogStore"}.get)
    for settings in ({}, {"spark.delta.logStore.class": "io.delta.storage.S3SingleDriverLogStore"}):
        with pytest.raises(OptionError, match="needs a LogStore that coordinates drivers"):
            check_drivers(many, "s3a://b/t", settings.get)


class Forgetful(CountingStore):
    """A store that overwrites whatever it is told to keep."""

    def put_if_absent(self, path: str, data: Any) -> Any:
        return self.replace(path, data, None)


def test_a_store_without_conditional_put_is_found_out_once() -> None:
    policy = LakePolicy(mutation=DeltaMutationPolicy(require_conditional_put=True))
    good, bad = open_store("memory://good-store"), Forgetful(open_store("memory://bad-store"))
    check_conditional_put(policy, good, "s3://good/t")
    check_conditional_put(policy, bad, "s3://good/other")
    assert not list(good.list_after(""))
    with pytest.raises(OptionError, match="s3://bad has no conditional put"):
        check_conditional_put(policy, bad, "s3://bad/t")
    declared = LakePolicy(mutation=DeltaMutationPolicy(require_conditional_put="declared"))
    check_conditional_put(declared, bad, "s3://bad/t")
