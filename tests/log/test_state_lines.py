"""Blocks of a commit that cannot hold a protocol or metadata action are passed over, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar import DeltaTable
from delta_sidecar.errors import CorruptLogError
from delta_sidecar.limits import CommitLimits
from delta_sidecar.log.snapshot import may_hold_state
from delta_sidecar.testing import LogBuilder, add

FILES = [
    b'{"commitInfo": {"operation": "WRITE"}}',
    b'{"add":{"path":"a"}}',
    b'{"remove":{"path":"metaData"}}',
    b'{"commitInfo":{}}',
    b'{"txn":{"appId":"x"}}',
]
STATE = [
    b'{"metaData":{"id":"x"}}',
    b'{"protocol":{"minReaderVersion":1}}',
    b' {"metaData":{}}',
    b'{ "protocol":{}}',
    rb'{"\u0070rotocol":{}}',
    b'{"add":null,"metaData":{"id":"x"}}',
]


@given(
    lines=st.lists(st.sampled_from(FILES), max_size=5), ends=st.booleans(), state=st.sampled_from(STATE), at=st.data()
)
def test_a_state_line_is_never_passed_over(lines: list[bytes], ends: bool, state: bytes, at: st.DataObject) -> None:
    place = at.draw(st.integers(0, len(lines)))
    block = b"\n".join([*lines[:place], state, *lines[place:]]) + (b"\n" if ends else b"")
    assert may_hold_state(block)


@given(lines=st.lists(st.sampled_from(FILES), min_size=1, max_size=5), ends=st.booleans())
def test_lines_of_files_are_passed_over(lines: list[bytes], ends: bool) -> None:
    assert not may_hold_state(b"\n".join(lines) + (b"\n" if ends else b""))


@pytest.mark.parametrize("block", [b"{}", b"x" * 7, b'{"add":{}}\n\n{"protocol":{}}\n'])
def test_what_cannot_be_told_is_looked_at(block: bytes) -> None:
    assert may_hold_state(block)


def test_a_broken_line_far_into_a_commit_is_named(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).metadata({"x": "long"})
    log.commit(*(add(f"f{n:05}" + "y" * 200) for n in range(3_000)))
    file = log.log / f"{0:020}.json"
    lines = file.read_bytes().split(b"\n")
    assert sum(map(len, lines)) > 3 * CommitLimits().block
    lines[2_500] = b'{"protocol":"x"}'
    file.write_bytes(b"\n".join(lines))
    with pytest.raises(CorruptLogError, match="line 2501: not an action of the log"):
        DeltaTable(str(tmp_path))
