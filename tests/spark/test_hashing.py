"""Hashes of integers are those of Spark's own engine, so that sampling could be pushed down."""

import numpy as np
from pyspark.sql import functions as F

from recency.core.hashing import hash_integers


def test_integers_hash_as_in_spark(spark):
    rng = np.random.default_rng(0)
    numbers = [0, 1, -1, 2**63 - 1, -(2**63), *rng.integers(-(2**63), 2**63 - 1, 500).tolist()]
    rows = spark.createDataFrame([(n,) for n in numbers], "n long")
    for seed in (0, 1, -5, 2**40):
        native = rows.select(F.xxhash64(F.lit(seed).cast("long"), "n").alias("h")).collect()
        ours = hash_integers(np.array(numbers), seed).view(np.int64)
        assert [row["h"] for row in native] == ours.tolist()
