"""Pauses grow up to their limit, and stay there."""

from __future__ import annotations

import pytest

from delta_sidecar.flow.backoff import backoff


@pytest.mark.parametrize(("failures", "pause"), [(0, 0.5), (1, 1.0), (3, 4.0), (4, 5.0), (1_023, 5.0), (100_000, 5.0)])
def test_each_pause_is_twice_the_one_before_up_to_the_longest(failures: int, pause: float) -> None:
    assert backoff(0.5, failures, 5.0) == pause
