"""Options: argument over table property over environment over default; what is wrong is named."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from delta_sidecar.errors import OptionError
from delta_sidecar.settings import Settings, settings_of

NAME = "delta.sidecar.batch_size"


def test_defaults_need_nothing() -> None:
    assert settings_of(None, None, {}) == Settings()


def test_argument_over_property_over_environment() -> None:
    environment = {"DELTA_SIDECAR_BATCH_SIZE": "1"}
    assert settings_of(None, None, environment).batch_size == 1
    assert settings_of(None, {NAME: "2"}, environment).batch_size == 2
    assert settings_of({NAME: 3}, {NAME: "2"}, environment).batch_size == 3


def test_names_do_not_depend_on_case_and_empty_is_unset() -> None:
    assert settings_of({"Delta.Sidecar.BATCH_SIZE": "7"}, None, {}).batch_size == 7
    assert settings_of(None, None, {"DELTA_SIDECAR_BATCH_SIZE": ""}) == Settings()


def test_the_names_of_the_notes() -> None:
    found = settings_of(
        {"delta.sidecar.enabled": False, "delta.commit.parallelism": 3, "delta.sidecar.row_groups_per_batch": "4"},
        None,
        {},
    )
    assert (found.enabled, found.commit_parallelism, found.row_groups_per_batch) == (False, 3, 4)


def test_properties_and_variables_of_others_are_passed_over() -> None:
    found = settings_of(None, {"delta.appendOnly": "true", "delta.sidecarish": "1"}, {"DELTA_OTHER": "1", "PATH": "/"})
    assert found == Settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (NAME, 0),
        (NAME, "many"),
        (NAME, None),
        ("delta.sidecar.memory_budget", -1),
        ("delta.sidecar.read_threads", -1),
        ("delta.sidecar.enabled", "yes"),
        ("delta.sidecar.strategy", "sideways"),
        ("delta.sidecar.partition_timezone", "Mars/Olympus"),
        ("delta.sidecar.partition_timezone", "../etc"),
        ("delta.sidecar.nonsense", 1),
        ("batch_size", 1),
    ],
)
def test_what_is_wrong_is_named_in_one_line(name: str, value: Any) -> None:
    with pytest.raises(OptionError) as raised:
        settings_of({name: value}, None, {})
    assert name in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_wrong_variable_says_where_it_came_from() -> None:
    with pytest.raises(OptionError, match="environment setting"):
        settings_of(None, None, {"DELTA_SIDECAR_BATCH_SIZE": "x"})
    with pytest.raises(OptionError, match="table property"):
        settings_of(None, {NAME: "x"}, {})


@pytest.mark.parametrize("field", [f.name for f in fields(Settings) if f.name != "limits"])
def test_every_setting_has_an_option_and_a_variable(field: str) -> None:
    name = "delta.commit.parallelism" if field == "commit_parallelism" else f"delta.sidecar.{field}"
    default = getattr(Settings(), field)
    assert settings_of({name: default}, None, {}) == Settings()
    assert (
        settings_of(
            None,
            None,
            {name.upper().replace(".", "_"): str(default).lower() if isinstance(default, bool) else str(default)},
        )
        == Settings()
    )
