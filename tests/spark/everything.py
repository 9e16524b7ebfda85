"""Everything that works on any session, with digests of the results to compare.

As a program, on Spark Connect, whose sessions need a process of their own.
"""

import hashlib
import json
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from sessions import session

from recency import DecayedSample, EcmSketch, ExponentialHistogram, RandomizedWave, SumWave
from recency.decay import Exponential
from recency.spark import functions as R
from recency.spark import merge_df, on, register, sketch_df, sketch_many
from recency.spark.job_number import number_of_frame

SKETCHES = {
    "users": on(RandomizedWave("1 day", unit="s", capacity=50), at="t", item="user"),
    "amounts": on(SumWave(unit="s", capacity=50), at="t", value="amount"),
    "clicks": on(ExponentialHistogram("1 day", 0.1, unit="s"), at="t"),
    "pages": on(EcmSketch("1 day", 0.3, unit="s", width=20, depth=2), at="t", item="page"),
    "fading": on(DecayedSample(capacity=50, unit="s"), at="t", weight="amount", id="click"),
}


def digest(frame):
    return hashlib.sha256(bytes(frame)).hexdigest()


def by_group(table):
    return sorted([row["page"], *(digest(frame) for frame in row[1:])] for row in table.collect())


def coins(spark, clicks):
    """Whether each job has its own number, and the same again; sessions differ in this."""
    path = tempfile.mkdtemp() + "/clicks"
    clicks.limit(10).write.parquet(path)
    rows = [(i,) for i in range(3)]
    created, equal = (spark.createDataFrame(rows, "amount int") for _ in range(2))
    jobs = [
        lambda: clicks.where("amount = 1"),
        lambda: clicks.where("amount = 2"),
        lambda: clicks.where(F.exists(F.array("amount"), lambda each: each > 5)),
        lambda: clicks.select(clicks["t"]).union(clicks.select("t")),
        lambda: clicks.select(F.udf(lambda amount: amount + 1, "int")("amount")),
        lambda: created.where("amount > 1"),
        lambda: equal.where("amount > 1"),
        lambda: created.union(created.where("amount > 1")),
        lambda: spark.read.parquet(path),
        lambda: spark.read.parquet(path).where("amount > 3"),
    ]
    numbers = [[number_of_frame(job(), SumWave()) for job in jobs] for _ in range(2)]
    views = [lambda: spark.table("view"), lambda: spark.sql("select amount + 1 from view")]
    for frame in (clicks, clicks.where("amount = 1"), spark.read.parquet(path), created, equal):
        frame.createOrReplaceTempView("view")
        for made in numbers:
            made += [number_of_frame(view(), SumWave()) for view in views]
    separate = [sketch_df(clicks.where(f"amount = {i}"), SumWave(unit="s"), at="t") for i in (1, 2)]
    return {
        "own": len(set(numbers[0])) == len(jobs) + 10,
        "again": numbers[0] == numbers[1],
        "streams": separate[0]._stream != separate[1]._stream,
    }


def made_by(spark):
    clicks = spark.range(0, 30_000, 1, 3).select(
        F.timestamp_seconds(F.lit(1_762_056_000) + F.col("id") * 3 % 80_000).alias("t"),
        (F.col("id") * 7919 % 1000).cast("string").alias("user"),
        (F.col("id") % 50).alias("amount"),
        F.concat(F.lit("page "), F.col("id") % 3).alias("page"),
        F.col("id").alias("click"),  # tells events apart
    )
    made = {"session": type(spark).__module__.split(".")[2], "coins": coins(spark, clicks)}
    for name, wanted in SKETCHES.items():
        columns = {role: column for role, column in wanted.columns.items() if column}
        sketch = sketch_df(clicks, wanted.prototype, **columns, stream="clicks")
        made[name] = digest(sketch.to_bytes())
        grouped = sketch_df(clicks, wanted.prototype, **columns, by="page", stream="clicks")
        made[name + " by page"] = by_group(grouped)
        made[name + " merged"] = digest(merge_df(grouped).to_bytes())
    together = sketch_many(clicks, SKETCHES, stream="clicks")
    made["many"] = {name: digest(sketch.to_bytes()) for name, sketch in together.items()}
    table = sketch_many(clicks, SKETCHES, by="page", stream="clicks").sort("page")
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
    return made


if __name__ == "__main__":
    remote = session(SparkSession.builder.remote("local[2]"))
    print(json.dumps(made_by(remote)))
    remote.stop()
