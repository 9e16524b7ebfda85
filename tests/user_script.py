"""A user's script: ``mypy --strict`` accepts it without a cast (``make test``), and it runs."""

from collections.abc import Hashable
from datetime import UTC, datetime, timedelta
from typing import assert_type

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from recency import (
    Bank,
    DecayedSample,
    EcmSketch,
    Estimate,
    ExponentialHistogram,
    NoAnswerError,
    QuantileWave,
    RandomizedWave,
    Sketch,
    SumWave,
    decode_many,
    encode_many,
    loads,
    merge_all,
)
from recency.decay import Decay, Exponential, Polynomial
from recency.spark import functions as R
from recency.spark import merge_df, on, register, sketch_df, sketch_many

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)


def alone() -> float:
    """Sketches in a notebook."""
    requests = ExponentialHistogram("7 days", 0.01, unit="s")
    requests.update(at=NOON)
    requests.update_many(np.ones(100, dtype=np.int64), at=[NOON] * 100)
    hour = requests.query("1 hour", now=NOON + timedelta(minutes=5))
    assert_type(hour, Estimate)
    ratio = hour / (requests.query(timedelta(days=1)) + 1)
    assert_type(ratio, Estimate)

    other = requests.empty_like()
    assert_type(other, ExponentialHistogram)
    assert_type(merge_all([requests, other]), ExponentialHistogram)
    assert_type(requests.merge(other).copy(), ExponentialHistogram)
    assert_type(ExponentialHistogram.from_bytes(requests.to_bytes()), ExponentialHistogram)
    assert_type(loads(requests.to_bytes()), Sketch)
    assert_type(decode_many(encode_many([requests, other])), list[Sketch])

    latency = QuantileWave(1000)
    latency.update_many(range(100), at=range(100))
    p50, p99 = latency.quantiles([0.5, 0.99]).value
    try:
        latency.rank(50.0, window=10)
    except NoAnswerError as error:
        print(error)

    decays: list[Decay] = [Exponential(half_life=60), Polynomial(2)]
    sample = DecayedSample(decay=None)
    sample.update_many([1.0, 2.0], at=[1, 2], weight=3, id=["a", b"b"])
    total = sum(float(sample.query(decay)) for decay in decays)

    words = EcmSketch(None, 0.1, counter="dw")
    words.update("spark", at=5)
    total += float(words.query("spark")) + float(words.self_join())

    bank = Bank(SumWave(window=3600))
    bank.update_many(["web", "api", "web"], [1.0, 2.0, 3.0], at=[10, 20, 30])
    assert_type(bank["web"], SumWave)
    assert_type(bank.query(60, now="latest"), Estimate)
    stored: dict[Hashable, bytes] = bank.to_bytes()
    assert_type(Bank.from_bytes(stored, SumWave(window=3600)), Bank[SumWave])
    return float(p50) + float(p99) + total + float(ratio) + float(bank.query(60).value.sum())


def on_spark(spark: SparkSession) -> float:
    """Sketches of a DataFrame."""
    clicks = spark.range(1000).select(
        F.timestamp_seconds(F.col("id")).alias("time"),
        (F.col("id") % 10).alias("user"),
        F.concat(F.lit("page-"), F.col("id") % 3).alias("page"),
    )
    visitors = RandomizedWave("7 days", unit="s")
    one = sketch_df(clicks, visitors, at="time", item="user")
    assert_type(one, RandomizedWave)
    by_page = sketch_df(clicks, visitors, at="time", item=F.col("user"), by=["page"], depth=1)
    assert_type(by_page, DataFrame)
    merged = merge_df(by_page)
    assert_type(merged, Sketch)
    assert_type(merge_df(by_page, "page"), DataFrame)

    both = sketch_many(
        clicks,
        {
            "users": on(visitors, at="time", item="user"),
            "clicks": on(ExponentialHistogram("7 days", unit="s"), at="time"),
        },
    )
    assert_type(both, dict[str, Sketch])
    alike = sketch_many(clicks, {"users": on(visitors, at="time", item="user")}, stream="mine")
    assert_type(alike["users"].query("1 minute"), Estimate)

    users = R.sketch_agg(visitors, at="time", item="user")
    table = clicks.groupBy("page").agg(users.alias("sketch"))
    rows = table.select("page", R.estimate("sketch", window="1 minute").alias("users")).collect()
    register(spark, {"typed_visitors": visitors})
    if isinstance(merged, RandomizedWave):
        return float(one.query("1 minute")) - float(merged.query("1 minute")) + len(rows)
    return -1.0
