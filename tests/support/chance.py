"""Where tests that draw by chance get their seed, and where a run that failed gets it again."""

from __future__ import annotations

import os
import random

from hypothesis import settings

VARIABLE = "KVWAL_SEED"
ALL_EXAMPLES = 100
"""Of a test of hypothesis that says nothing else."""


def new_seed() -> int:
    """A seed: that of the environment's KVWAL_SEED, else a new one. It is printed, as pytest shows it of a test that failed."""
    seed = int(os.environ.get(VARIABLE) or random.randrange(1 << 30))
    print(f"{VARIABLE}={seed}")
    return seed


def examples(most: int) -> int:
    """How many examples a test of hypothesis tries: all of them, or in `make test` their share that the profile says."""
    return max(1, most * settings.default.max_examples // ALL_EXAMPLES)
