"""Everything that works on any session, as a program: prints what it made, to be compared.

``python everything.py classic`` or ``connect``.
"""

import hashlib
import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from sessions import session

from recency import DecayedSample, EcmSketch, ExponentialHistogram, RandomizedWave, SumWave
from recency.decay import Exponential
from recency.spark import functions as R
from recency.spark import merge_df, on, register, sketch_df, sketch_many

SKETCHES = {
    "users": on(RandomizedWave("1 day", unit="s", capacity=50), at="t", item="user"),
    "amounts": on(SumWave(unit="s", capacity=50), at="t", value="amount"),
    "clicks": on(ExponentialHistogram("1 day", 0.1, unit="s"), at="t"),
    "pages": on(EcmSketch("1 day", 0.3, unit="s", width=20, depth=2), at="t", item="page"),
    "fading": on(DecayedSample(capacity=50, unit="s"), at="t", weight="amount", id="user"),
}


def digest(frame):
    return hashlib.sha256(bytes(frame)).hexdigest()


def by_group(table):
    return sorted([row["page"], *(digest(frame) for frame in row[1:])] for row in table.collect())


def main(kind):
    builder = SparkSession.builder
    spark = session(builder.remote("local[2]") if kind == "connect" else builder.master("local[2]"))
    clicks = spark.range(0, 30_000, 1, 3).select(
        F.timestamp_seconds(F.lit(1_762_056_000) + F.col("id") * 3 % 80_000).alias("t"),
        (F.col("id") * 7919 % 1000).cast("string").alias("user"),
        (F.col("id") % 50).alias("amount"),
        F.concat(F.lit("page "), F.col("id") % 3).alias("page"),
    )
    made = {"session": type(spark).__module__.split(".")[2]}
    for name, wanted in SKETCHES.items():
        columns = {role: column for role, column in wanted.columns.items() if column}
        sketch = sketch_df(clicks, wanted.prototype, **columns)
        made[name] = digest(sketch.to_bytes())
        grouped = sketch_df(clicks, wanted.prototype, **columns, by="page")
        made[name + " by page"] = by_group(grouped)
        made[name + " merged"] = digest(merge_df(grouped).to_bytes())
    together = sketch_many(clicks, SKETCHES)
    made["many"] = {name: digest(sketch.to_bytes()) for name, sketch in together.items()}
    table = sketch_many(clicks, SKETCHES, by="page").sort("page")
    made["many by page"] = by_group(table)
    answers = table.select(
        R.estimate("users", window="1 hour"),
        R.estimate("pages", item="page 1"),
        R.estimate("fading", decay=Exponential(half_life=3600)),
        R.frequent("fading", threshold=0.5),
        R.describe("clicks"),
    )
    made["answers"] = [str(row) for row in answers.collect()]
    users = SKETCHES["users"].prototype
    aggregated = clicks.groupBy("page").agg(R.sketch_agg(users, at="t", item="user"))
    made["aggregated"] = by_group(aggregated)
    merged = aggregated.agg(R.merge_agg("sketch")).first()["sketch"]
    made["aggregates merged"] = digest(merged)
    register(spark, {"users": users})
    if not hasattr(F, "arrow_udf"):  # then SQL aggregates get times as clocks show them
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    clicks.createOrReplaceTempView("clicks")
    made["sql"] = [
        str(row)
        for row in spark.sql(
            """select page, recency_estimate(users_agg(t, user), 'query', '{"window": "1 hour"}') a
               from clicks group by page order by page"""
        ).collect()
    ]
    spark.stop()
    print(json.dumps(made))


if __name__ == "__main__":
    main(sys.argv[1])
