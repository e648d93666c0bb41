"""Decode more than one machine can: batches of columns for any engine, and folders of shards on Ray.

`Decoder` is for Ray Data, Spark and other engines that map batches. Jobs that go on wherever they were killed
are those of `beamsplit decode` with --workers or --ray: see docs/big-jobs.md.
"""

from beamsplit.batch.decoder import COLUMNS, SPARK_COLUMNS, Decoder

__all__ = ["COLUMNS", "SPARK_COLUMNS", "Decoder"]
