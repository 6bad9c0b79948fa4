"""Blocks of a commit that cannot hold a protocol or metadata action are passed over, and no other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar.log import snapshot
from delta_sidecar.log.snapshot import _may_hold_state


@pytest.fixture(params=[0, 200_000], ids=["large", "small"], autouse=True, scope="module")
def blocks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways of looking at a block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "_LARGE_BLOCK", request.param)
        yield


FILES = [b'{"add":{"path":"a"}}', b'{"remove":{"path":"metaData"}}', b'{"commitInfo":{}}', b'{"txn":{"appId":"x"}}']
STATE = [b'{"metaData":{"id":"x"}}', b'{"protocol":{"minReaderVersion":1}}', b' {"metaData":{}}', b'{ "protocol":{}}']


@given(
    lines=st.lists(st.sampled_from(FILES), max_size=5), ends=st.booleans(), state=st.sampled_from(STATE), at=st.data()
)
def test_a_state_line_is_never_passed_over(lines: list[bytes], ends: bool, state: bytes, at: st.DataObject) -> None:
    place = at.draw(st.integers(0, len(lines)))
    block = b"\n".join([*lines[:place], state, *lines[place:]]) + (b"\n" if ends else b"")
    assert _may_hold_state(block)


@given(lines=st.lists(st.sampled_from(FILES), min_size=1, max_size=5), ends=st.booleans())
def test_lines_of_files_are_passed_over(lines: list[bytes], ends: bool) -> None:
    assert not _may_hold_state(b"\n".join(lines) + (b"\n" if ends else b""))


@pytest.mark.parametrize("block", [b"{}", b"x" * 7, b'{"add":{}}\n\n{"protocol":{}}\n'])
def test_what_cannot_be_told_is_looked_at(block: bytes) -> None:
    assert _may_hold_state(block)
