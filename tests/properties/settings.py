"""How many random cases a property tries: few and always the same ones in `make test`, many and new ones on demand."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings

VARIABLE = "DELTA_SIDECAR_EXAMPLES"
SHARD = 1000
"""Cases of one test function: more of them are split, so that workers share them."""


def examples(default: int = 150) -> int:
    return int(os.environ.get(VARIABLE, default))


def shards(default: int = 150) -> range:
    """One number a test function that shares the cases."""
    return range(-(-examples(default) // SHARD))


def random_cases(default: int = 150) -> Callable[[Any], Any]:
    """The hypothesis settings of one shard."""
    return settings(
        max_examples=min(SHARD, examples(default)),
        derandomize=VARIABLE not in os.environ,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
