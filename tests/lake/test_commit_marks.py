"""The one text that a commit carries for us."""

from __future__ import annotations

import json

import pytest

from delta_sidecar.errors import OptionError
from delta_sidecar.lake import LineageContext
from delta_sidecar.lake.commit_marks import CommitMark, read_mark


def test_user_keys_stand_beside_ours() -> None:
    lineage = LineageContext({"spec": b"\x00\xff", "plan": "ABCD"}, {"job": "nightly"})
    mark = CommitMark("write", {"team": "growth", "run": 7}, lineage)
    assert json.loads(mark.text) == {
        "team": "growth",
        "run": 7,
        "sidecar.operation": "write",
        "sidecar.token": mark.token,
        "sidecar.lineage": {"hashes": {"spec": "00ff", "plan": "abcd"}, "tags": {"job": "nightly"}},
    }


def test_a_mark_is_known_by_its_token_alone() -> None:
    mark, other = CommitMark("write"), CommitMark("write")
    assert mark.is_in(mark.text)
    assert not mark.is_in(other.text)
    assert not mark.is_in(f"quoted {mark.token}")
    assert not mark.is_in(json.dumps({"note": mark.token}))
    assert [read_mark(text) for text in (None, "no json", "[1]")] == [{}, {}, {}]


def test_what_is_not_for_users_is_refused() -> None:
    with pytest.raises(OptionError, match=r"'sidecar.token' is reserved"):
        CommitMark("write", {"sidecar.token": "x"})
    with pytest.raises(OptionError, match="the commit metadata a is a list"):
        CommitMark("write", {"a": []})  # type: ignore[dict-item]
    with pytest.raises(OptionError, match="the lineage hash h is neither"):
        LineageContext({"h": "xyz"})
