"""Where tests that draw by chance get their seed, and where a run that failed gets it again."""

from __future__ import annotations

import os
import random

VARIABLE = "KVWAL_SEED"


def new_seed() -> int:
    """A seed: that of the environment's KVWAL_SEED, else a new one. It is printed, as pytest shows it of a test that failed."""
    seed = int(os.environ.get(VARIABLE) or random.randrange(1 << 30))
    print(f"{VARIABLE}={seed}")
    return seed
