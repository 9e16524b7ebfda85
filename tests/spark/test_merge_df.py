"""Stored sketches: written, read in another session, merged."""

import subprocess
import sys

import numpy as np
import pytest
from pyspark.errors import PythonException
from pyspark.sql import functions as F

from recency import ExponentialHistogram, RandomizedWave, SumWave, encode_many, loads, merge_all
from recency.spark import api, merge_df, sketch_df
from recency.spark.build import Limits

DAY = 1000


@pytest.fixture(scope="module")
def days(spark):
    return (
        spark.range(0, 9_000, numPartitions=3)
        .select(
            F.col("id").alias("at"),
            F.pmod(F.xxhash64("id"), F.lit(700)).alias("user"),
            F.floor(F.col("id") / DAY).alias("day"),
            F.when(F.col("id") % 3 > 0, F.concat(F.lit("p"), F.col("id") % 3)).alias("page"),
        )
        .cache()
    )


def test_a_table_of_daily_sketches(spark, days, tmp_path):
    path = str(tmp_path / "table")
    prototype = RandomizedWave(window=3 * DAY, capacity=50)
    for first in (0, 3, 6):  # append the latest
        new = days.where(F.col("day").between(first, first + 2))
        part = sketch_df(
            new, prototype, at="at", item="user", by=["day", "page"], shuffle="partials"
        )
        part.coalesce(1).write.mode("append").parquet(path)
    table = spark.newSession().read.parquet(path)
    assert table.count() == 27
    rolled_up = {row["page"]: row["sketch"] for row in merge_df(table, by="page").collect()}
    assert rolled_up.keys() == {None, "p1", "p2"}
    direct = sketch_df(days, prototype, at="at", item="user", by="page").collect()
    assert {row["page"]: row["sketch"] for row in direct} == rolled_up
    whole = sketch_df(days, prototype, at="at", item="user")
    assert merge_df(table) == whole
    assert merge_df(table.where("day >= 6")).query(2 * DAY) == whole.query(2 * DAY)
    code = (
        "import sys, pyarrow.parquet as pq, recency\n"
        "sketches = recency.decode_many(pq.read_table(sys.argv[1])['sketch'].to_pylist())\n"
        "print(recency.merge_all(sketches).query(2000))"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=True)
    assert done.stdout.decode().strip() == repr(whole.query(2000))


@pytest.mark.parametrize("by", [None, "page"])
def test_bounded_sketches_cost_one_level(days, by):
    prototype = ExponentialHistogram(relative_error=0.1)
    table = sketch_df(days, prototype, at="at", by=["page", "day"], shuffle="rows").cache()
    merged = merge_df(table.repartition(3), by=by)
    sketches = [merged] if by is None else [loads(row["sketch"]) for row in merged.collect()]
    for sketch in sketches:
        assert sketch.guarantee == pytest.approx(1.1 * 1.1 - 1)
        truth = 5_000 / (1 if by is None else 3)
        answer = sketch.query(5_000, now=8_999)
        assert answer.lower <= truth <= answer.upper


def test_many_sketches_of_one_group_are_merged_in_steps(monkeypatch, spark):
    monkeypatch.setattr(api, "_LIMITS", Limits(chunk=5_000, frames=5_000, sketches=1))
    sketches = []
    for i in range(40):
        sketch = RandomizedWave(capacity=50)
        sketch.update_many(np.arange(200) + 50 * i, at=i)
        sketches.append(sketch)
    rows = [(i % 3 // 2, frame) for i, frame in enumerate(encode_many(sketches))]
    table = spark.createDataFrame(rows, "g int, sketch binary").coalesce(1)
    merged = {row["g"]: row["sketch"] for row in merge_df(table, by="g").collect()}
    for g in (0, 1):
        expected = merge_all(s for i, s in enumerate(sketches) if i % 3 // 2 == g)
        assert merged[g] == expected.to_bytes()
    assert merge_df(table) == merge_all(sketches)


def test_nulls_and_empty_sketches_have_no_effect(spark):
    sketch = SumWave()
    sketch.update(5, at=1)
    rows = [("a", sketch.to_bytes()), ("a", None), ("a", SumWave().to_bytes()), ("b", None),
            (None, SumWave().to_bytes())]  # fmt: skip
    table = spark.createDataFrame(rows, "g string, s binary")
    assert merge_df(table, column="s") == sketch
    groups = {row["g"]: row["sketch"] for row in merge_df(table, "g", F.col("s")).collect()}
    assert groups == {"a": sketch.to_bytes(), None: SumWave().to_bytes()}


def test_nothing_to_merge(spark):
    table = spark.createDataFrame([], "g string, sketch binary")
    with pytest.raises(ValueError, match="merge_df: there are no sketches to merge"):
        merge_df(table)
    assert merge_df(table, by="g").collect() == []


@pytest.mark.parametrize("by", [None, "g"])
@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([b"junk" * 5], "merge_df: corrupt sketch: expected magic"),
        ([b""], "merge_df: corrupt sketch: expected at least"),
        ([SumWave().to_bytes()[:-1] + b"?"], "merge_df: corrupt sketch: checksum"),
        ([SumWave().to_bytes(), SumWave(seed=7).to_bytes()], r"seed differs \(0 vs 7\)"),
        ([SumWave().to_bytes(), ExponentialHistogram().to_bytes()], "the other is a Exp"),
    ],
)
def test_bad_columns_are_explained(spark, frames, reason, by):
    table = spark.createDataFrame([(1, frame) for frame in frames], "g int, sketch binary")

    def roll_up():
        merged = merge_df(table, by=by)
        return merged.collect()

    with pytest.raises((PythonException, ValueError), match=reason):
        roll_up()
