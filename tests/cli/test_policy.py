"""`sidecar policy check`: the effects of a policy, or one line that says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import assert_refused, invoke
from tests.events_table import write_events


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "events.toml"
    file.write_text('[write]\ntarget_file_size = "1MB"\nzorder_by = ["id"]\n[mutation]\nappend_only = true\n')
    return file


def test_the_effects_are_printed(policy: Path) -> None:
    done = invoke("policy", "check", policy)
    assert (done.code, done.err) == (0, "")
    assert "writer options      optimizeWrite=true\n" in done.out
    assert "table properties    delta.appendOnly=true sidecar.targetFileSize=1000000\n" in done.out
    assert "optimize orders by  id\n" in done.out


def test_the_effects_on_a_table_as_json(policy: Path, tmp_path: Path) -> None:
    write_events(tmp_path / "events")
    (said,) = invoke("policy", "check", policy, "--table", tmp_path / "events", "--json").objects
    assert said["missing_properties"] == {"delta.appendOnly": "true"}
    assert said["zorder_by"] == ["id"]
    assert said["version"] >= 0
    (said,) = invoke("policy", "check", policy, "--table", tmp_path / "nowhere", "--json").objects
    assert said["version"] is None


def test_what_is_wrong_is_one_line(policy: Path, tmp_path: Path) -> None:
    write_events(tmp_path / "events")
    policy.write_text('[write]\npartition_by = ["day"]\n')
    assert_refused(invoke("policy", "check", policy, "--table", tmp_path / "events"), "partition_by names day")
    policy.write_text('[write]\npartition = ["day"]\n')
    assert_refused(invoke("policy", "check", policy), "there is no field partition of write", "partition_by")
    policy.write_text('[mutation]\ndrivers = "many"\n')
    assert_refused(invoke("policy", "check", policy, "--table", "s3://lake/events"), "LogStore")
    assert_refused(invoke("policy", "check", tmp_path / "absent.toml"), "cannot be read")
    assert_refused(invoke("policy", "show", policy), "show")
