"""Fetch the jars by which Spark reads and writes `s3a://` into `.cache/jars/s3a`, and check each against a pinned SHA-256.

deploy/s3a-jars.txt lists the jars, 13 MB. The Ivy in pyspark fetches those that are missing, and resolves no dependencies:
hadoop-aws depends on one jar with all of the AWS SDK, which has more than 500 MB.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pinned_jars

TABLE = Path(__file__).resolve().parent / "s3a-jars.txt"
FOLDER = pinned_jars.FOLDER / "s3a"


def main() -> int:
    """Fetch or check the jars. 0 if all are there; 1, with a sentence, if one could not be fetched or is another one."""
    return pinned_jars.bring(
        FOLDER,
        TABLE,
        "Only s3a:// in Spark needs them: with a network, `python deploy/fetch_s3a.py` fetches them.",
    )


if __name__ == "__main__":
    sys.exit(main())
