"""Hashes of integers equal those of Spark's own engine, so that sampling could run there."""

import numpy as np
from pyspark.sql import functions as F

from recency import SumWave
from recency.core.hashing import hash_integers


def test_integers_hash_as_in_spark(spark):
    rng = np.random.default_rng(0)
    numbers = [0, 1, -1, 2**63 - 1, -(2**63), *rng.integers(-(2**63), 2**63 - 1, 500).tolist()]
    rows = spark.createDataFrame([(n,) for n in numbers], "n long")
    for seed in (0, 1, -5, 2**40):
        native = rows.select(F.xxhash64(F.lit(seed).cast("long"), "n").alias("h")).collect()
        ours = hash_integers(np.array(numbers), seed).view(np.int64)
        assert [row["h"] for row in native] == ours.tolist()


def test_coins_of_events_with_integer_ids_are_those_of_spark(spark):
    """``xxhash64(seed, id, time, value)`` determines the sampled levels of a sum."""
    rng = np.random.default_rng(1)
    ids, times = rng.integers(-(2**63), 2**63 - 1, 300), rng.integers(-(2**40), 2**40, 300)
    values = np.append(rng.normal(0, 1, 298) ** 2, [0.0, 5e-324])
    wave = SumWave(seed=-3)
    *_, ours = wave._algorithm.check(None, value=values, at=times, id=ids)
    columns = zip(ids.tolist(), times.tolist(), values.tolist(), strict=True)
    rows = spark.createDataFrame(list(columns), "id long, at long, value double")
    hashed = F.xxhash64(F.lit(-3).cast("long"), "id", "at", "value")
    native = [row["h"] for row in rows.select(hashed.alias("h")).collect()]
    assert native == ours.view(np.int64).tolist()
