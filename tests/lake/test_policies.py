"""Policies are frozen and strict, in Python and as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from delta_sidecar.errors import OptionError
from delta_sidecar.lake import (
    DeltaMutationPolicy,
    DeltaRetryPolicy,
    DeltaSchemaPolicy,
    DeltaWritePolicy,
    LakePolicy,
    load_policy,
)

TOML = """
[write]
target_file_size = "128MB"
partition_by = ["day"]
zorder_by = ["user"]
enable_features = ["change_data_feed"]

[mutation]
append_only = true
require_conditional_put = "declared"
[mutation.retry]
attempts = 3

[schema]
schema_mode = "merge"
"""
JSON = """{"write": {"target_file_size": 128000000, "partition_by": ["day"], "zorder_by": ["user"],
"enable_features": ["change_data_feed"]}, "mutation": {"append_only": true, "require_conditional_put": "declared",
"retry": {"attempts": 3}}, "schema": {"schema_mode": "merge"}}"""


def test_toml_and_json_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(TOML)
    (tmp_path / "p.json").write_text(JSON)
    toml, json = load_policy(tmp_path / "p.toml"), load_policy(str(tmp_path / "p.json"))
    assert toml.write.target_bytes == json.write.target_bytes == 128_000_000
    assert toml.mutation == json.mutation
    assert toml.schema == json.schema == DeltaSchemaPolicy(schema_mode="merge")
    assert toml.mutation.retry == DeltaRetryPolicy(attempts=3)


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text("")
    assert load_policy(tmp_path / "p.toml") == LakePolicy()
    assert LakePolicy().write.target_bytes == 96 * 1024 * 1024


def test_policies_are_frozen() -> None:
    with pytest.raises(AttributeError):
        DeltaWritePolicy().stats_policy = "off"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[write]\nfile_size = 1", r"there is no field file_size of write .*did you mean target_file_size"),
        ("[wirte]\n", r"there is no field wirte \(did you mean write\?\)"),
        ("[mutation]\nretry_policy = 1", "there is no field retry_policy of mutation; write retry"),
        ("[mutation]\nrequire_locking_provider = true", "S3 has conditional put; write require_conditional_put"),
        ("[mutation]\nlocking_option_keys = []", "write log_store"),
        ("[write]\nstats_policy = 'some'", "write.stats_policy: .*'some'; write one of off, explicit, auto"),
        ("[write]\nenable_features = ['cdf']", r"enable_features\[0\]: .*'cdf'; write one of change_data_feed, "),
        ("[write]\npartition_by = 'day'", "write.partition_by: expected `array`, got `str`"),
        ("[write]\npartition_by = ['day', 'Day']", "partition_by names day twice"),
        ("[write]\ntarget_file_size = 'big'", "target_file_size 'big' is not a size"),
        ("[write]\ntarget_file_size = 0", "target_file_size 0 is not a size"),
        ("[mutation.retry]\nattempts = 0", "at least one attempt"),
        ("[mutation]\nappend_only = 'yes'", "mutation.append_only: expected `bool`, got `str`"),
        ("[schema]\ncolumn_mapping_mode = 'none'", "write one of id, name"),
        ("x =", "not valid TOML"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text(text)
    with pytest.raises(OptionError, match=said) as caught:
        load_policy(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)


def test_files_that_are_no_policy_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="cannot be read: No such file"):
        load_policy(tmp_path / "p.toml")
    (tmp_path / "p.yaml").write_text("write: {}")
    with pytest.raises(OptionError, match=r"a \.toml or a \.json file"):
        load_policy(tmp_path / "p.yaml")
    (tmp_path / "p.json").write_text("{")
    with pytest.raises(OptionError, match="not valid JSON"):
        load_policy(tmp_path / "p.json")
    (tmp_path / "p.json").write_text("[]")
    with pytest.raises(OptionError, match="expected `object`, got `array`"):
        load_policy(tmp_path / "p.json")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"partition_by": "day"}, "partition_by takes a list of names"),
        ({"partition_by": ("day",), "zorder_by": ("DAY",)}, "zorder_by names DAY, a column of partition_by"),
        ({"stats_policy": "explicit"}, "needs stats_columns"),
        ({"stats_columns": ("a",)}, "only with stats_policy = \"explicit\", not 'auto'"),
        (
            {"stats_policy": "explicit", "stats_columns": ("p",), "partition_by": ("p",)},
            "stats_columns names p, a column of partition_by: a partition column has no statistics",
        ),
        ({"stats_policy": "explicit", "stats_columns": ("a", "b"), "stats_max_columns": 1}, "2 stats_columns are more"),
        ({"stats_policy": "off", "zorder_by": ("a",)}, "zorder_by needs statistics"),
        ({"stats_policy": "explicit", "stats_columns": ("a",), "zorder_by": ("b",)}, "add it to stats_columns"),
        ({"stats_max_columns": 0}, "at least 1"),
        ({"zorder_by": ("a", "b"), "stats_max_columns": 1}, "more columns than stats_max_columns = 1"),
        ({"stats_policy": "of"}, r"stats_policy 'of' is not one of off, explicit, auto \(did you mean off\?\)"),
        ({"enable_features": ("deletion_vector",)}, r"did you mean deletion_vectors\?"),
    ],
)
def test_a_write_policy_that_makes_no_sense_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        DeltaWritePolicy(**given)


def test_other_policies_that_make_no_sense_are_refused() -> None:
    with pytest.raises(OptionError, match="drivers 'two' is not one of one, many"):
        DeltaMutationPolicy(drivers="two")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="log_store applies only"):
        DeltaMutationPolicy(log_store="x.Y")
    with pytest.raises(OptionError, match="'perhaps'"):
        DeltaMutationPolicy(require_conditional_put="perhaps")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="schema_mode 'add'"):
        DeltaSchemaPolicy(schema_mode="add")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="append_only excludes schema_mode"):
        LakePolicy(mutation=DeltaMutationPolicy(append_only=True), schema=DeltaSchemaPolicy(schema_mode="overwrite"))
