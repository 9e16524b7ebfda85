"""Cost of a sketch on Spark, compared with a pass that only reads the data.

Times are ratios to a pass that only counts rows (with ``mapInArrow``, so that rows are moved into
Python). All jobs run alternately in one run, and the best of several times counts. ``ROWS`` in the
environment sets the number of rows. Arguments select jobs, and then no results are written.
"""

import os
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from harness import Report
from recency import (
    DecayedSample,
    EcmSketch,
    ExponentialHistogram,
    QuantileWave,
    RandomizedWave,
    SumWave,
)
from recency.spark import functions as R
from recency.spark import on, sketch_df, sketch_many

ROWS = int(os.environ.get("ROWS", 20_000_000))
ROUNDS = 3
FILES = 4
GROUPS = 100_000
DAYS = 2
DAY = 86_400_000
FIRST = 1_760_000_000_000
FOLDER = Path(__file__).parent.parent / "build" / "bench" / str(ROWS)


def write_events():
    """Write (ts, user, g) and (ts, url): two days in milliseconds, slightly out of order."""
    if (FOLDER / "done").exists():
        return
    rng = np.random.default_rng(0)
    paths = pa.array(
        [f"https://www.example.com/{'abcdefgh'[i % 8] * (i % 12)}/item/{i}" for i in range(10**6)]
    )
    for name in ("events", "urls"):
        (FOLDER / name).mkdir(parents=True, exist_ok=True)
    size = ROWS // FILES
    for i in range(FILES):
        ts = FIRST + np.sort(rng.integers(0, DAYS * DAY, size))
        ts = ts[np.argsort(np.arange(size) + rng.integers(0, 1000, size))]
        user, g = rng.integers(0, 5_000_000, size), rng.integers(0, GROUPS, size)
        events = pa.table({"ts": ts, "user": user, "g": g})
        pq.write_table(events, FOLDER / "events" / f"{i}.parquet", row_group_size=10**6)
        visited = np.minimum((rng.pareto(0.7, size) * 20).astype(np.int64), 10**6 - 1)
        urls = pa.table({"ts": ts, "url": paths.take(pa.array(visited))})
        pq.write_table(urls, FOLDER / "urls" / f"{i}.parquet", row_group_size=10**6)
    (FOLDER / "done").touch()


def stored(spark, name, prototype, least, **columns):
    """Return a table of stored sketches, one per group from ``least`` on."""
    path = FOLDER / "stored" / name
    if not (path / "_SUCCESS").exists():
        events = spark.read.parquet(str(FOLDER / "events")).where(F.col("g") >= least)
        sketch_df(events, prototype, at="ts", **columns, by="g").write.parquet(str(path))
    return spark.read.parquet(str(path))


def count_rows(batches):
    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_arrays([pa.array([rows])], ["rows"])


def no_op(df):
    df.mapInArrow(count_rows, "rows long").collect()


def write_nowhere(df):
    df.write.format("noop").mode("overwrite").save()


def jobs(spark):
    events = spark.read.parquet(str(FOLDER / "events"))
    urls = spark.read.parquet(str(FOLDER / "urls"))
    users, groups = events.select("ts", "user"), events.select("g", "ts", "user")
    last_hour = users.where(F.col("ts") > FIRST + DAYS * DAY - 3_600_000)
    minutes = users.groupBy(F.expr("ts div 60000").alias("minute"))
    visitors = RandomizedWave("1 day", unit="ms")
    five = {
        "users": on(visitors, at="ts", item="user"),
        "sums": on(SumWave("1 day", unit="ms"), at="ts", value="user"),
        "counts": on(ExponentialHistogram("1 day", unit="ms"), at="ts"),
        "quantiles": on(QuantileWave("1 day", 0.02, unit="ms"), at="ts", value="user"),
        "fading": on(DecayedSample(unit="ms"), at="ts", weight="user", id="user"),
    }
    histograms = stored(spark, "histograms", ExponentialHistogram("1 day", unit="ms"), 0)
    waves = stored(spark, "waves", RandomizedWave("1 day", 0.1, unit="ms"), 90_000, item="user")
    return {
        "five by sketch_many": lambda: sketch_many(users, five),
        "estimate of 100 000 ExponentialHistograms": lambda: write_nowhere(
            histograms.select("g", R.estimate("sketch", window="1 hour"))
        ),
        "estimate of 10 000 RandomizedWaves": lambda: write_nowhere(
            waves.select("g", R.estimate("sketch", window="1 hour"))
        ),
        "merge_agg of 100 000 into 1 000": lambda: write_nowhere(
            histograms.groupBy(F.col("g") % 1000).agg(R.merge_agg("sketch"))
        ),
        "no-op": lambda: no_op(users),
        "RandomizedWave": lambda: sketch_df(users, visitors, at="ts", item="user"),
        "SumWave": lambda: sketch_df(users, SumWave("1 day", unit="ms"), at="ts", value="user"),
        "sort, no-op": lambda: no_op(users.sortWithinPartitions("ts")),
        "ExponentialHistogram": lambda: sketch_df(
            users, ExponentialHistogram("1 day", unit="ms"), at="ts", value="user"
        ),
        "EcmSketch": lambda: sketch_df(users, EcmSketch("1 day", unit="ms"), at="ts", item="user"),
        "repartition, no-op": lambda: no_op(groups.repartition("g")),
        "groups, RandomizedWave": lambda: write_nowhere(
            sketch_df(groups, RandomizedWave("1 day", 0.1, unit="ms"), at="ts", item="user", by="g")
        ),
        "groups, ExponentialHistogram": lambda: write_nowhere(
            sketch_df(groups, ExponentialHistogram("1 day", unit="ms"), at="ts", by="g")
        ),
        "urls, no-op": lambda: no_op(urls),
        "urls, RandomizedWave": lambda: sketch_df(urls, visitors, at="ts", item="url"),
        "hll_sketch_agg, no window": lambda: users.agg(F.hll_sketch_agg("user")).collect(),
        "exact count(distinct), last hour": lambda: last_hour.agg(
            F.count_distinct("user")
        ).collect(),
        "hll_sketch_agg per minute, union of the last hour": lambda: (
            minutes.agg(F.hll_sketch_agg("user").alias("hll"))
            .orderBy(F.desc("minute"))
            .limit(60)
            .agg(F.hll_sketch_estimate(F.hll_union_agg("hll")))
            .collect()
        ),
    }


BUDGETS = [
    ("five by sketch_many", "RandomizedWave", 2),
    ("RandomizedWave", "no-op", 1.4),
    ("SumWave", "no-op", 1.4),
    ("ExponentialHistogram", "sort, no-op", 1.3),
    ("EcmSketch", "sort, no-op", 1.8),
    ("groups, RandomizedWave", "repartition, no-op", 2),
    ("groups, ExponentialHistogram", "repartition, no-op", 2),
    ("urls, RandomizedWave", "urls, no-op", 1.3),
]

SECONDS = {
    "estimate of 100 000 ExponentialHistograms": 5,
    "estimate of 10 000 RandomizedWaves": 5,
    "merge_agg of 100 000 into 1 000": 10,
}


def main():
    write_events()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    report = Report("spark")
    best = {}
    grown = 0
    for _ in range(ROUNDS):
        for name, job in jobs(spark).items():
            if len(sys.argv) > 1 and name not in sys.argv[1:]:
                continue
            before = driver_bytes()
            start = time.perf_counter()
            job()
            took = time.perf_counter() - start
            best[name] = min(best.get(name, took), took)
            if name.startswith("groups"):
                grown = max(grown, driver_bytes() - before)
    for name, took in best.items():
        report.add(f"{name}, {ROWS / 1e6:g} M rows", took, "s")
    for name, base, most in BUDGETS:
        if name in best and base in best:
            report.add(f"{name} / {base}", best[name] / best[base], "×", at_most=most)
    for name, most in SECONDS.items():
        if name in best:
            report.add(name, best[name], "s", at_most=most)
    report.add("driver memory that grouped jobs added, at most", grown / 1e6, "MB", at_most=10)
    if len(sys.argv) == 1:
        report.write()
    spark.stop()


def driver_bytes():
    """Return the largest memory of this process, the driver, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
