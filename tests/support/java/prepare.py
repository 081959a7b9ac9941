"""Makes the class-data archives of the tests' JVMs ahead of the tests, side by side. A run that finds none makes its own.

python -m tests.support.java.prepare
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor

from tests.support.cluster.nodes import prepare_nodes
from tests.support.java.drivers import prepare_drivers


def main() -> int:
    """Make both. 0 always: where an archive cannot be made, JVMs start without it, and the tests say what is wrong."""
    with ProcessPoolExecutor(2) as pool:
        for made in (pool.submit(prepare_drivers), pool.submit(prepare_nodes)):
            made.exception()
    return 0


if __name__ == "__main__":
    sys.exit(main())
