"""How many random cases a property tries: few and always the same ones in `make test`, many and new ones on demand.

`make check` tries fewer of them, by the Hypothesis profile `check`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings

VARIABLE = "DELTA_SIDECAR_EXAMPLES"
LEAST = 10
"""Cases of a property that `make check` does not go below."""
SHARD = 1000
"""Cases of one test function: more of them are split, so that workers share them."""


def share(cases: int) -> int:
    """The cases of `make test`; under the profile `check` its share of them, but not so few that they tell nothing."""
    return min(cases, max(LEAST, cases * settings.default.max_examples // 100))


def examples(default: int = 150) -> int:
    return int(os.environ.get(VARIABLE, share(default)))


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
