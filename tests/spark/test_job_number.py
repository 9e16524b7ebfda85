"""Separate jobs draw separate coins; the same job draws the same coins again."""

import subprocess
import sys
import warnings
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from file_jobs import numbers
from pyspark.sql import functions as F

from recency import (
    DyadicEcm,
    EcmSketch,
    QuantileWave,
    RandomizedWave,
    SumWave,
    WeightBasedMergingHistogram,
    loads,
    merge_all,
)
from recency.decay import Polynomial
from recency.samples import coins
from recency.spark import checks, frame_text, on, register, sketch_df, sketch_many, sketch_rdd
from recency.spark import functions as R
from recency.spark.job_number import draws_coins, first_stream, number_of_frame

REGIONS, CLICKS = 30, 2_000
TRUTH = REGIONS * CLICKS
# Six standard deviations: frames without files draw other coins in every session. If all regions
# drew those of partitions 0 and 1, the answer would be 44 160.
SUM = SumWave(relative_error=0.2, confidence=1 - 1e-9)


@pytest.fixture(scope="module")
def clicks(spark):
    """Return clicks of regions with equal times and values."""
    return spark.range(0, TRUTH, 1, 2).selectExpr(f"id % {REGIONS} AS region", "id div 60 AS at")


@pytest.fixture(scope="module")
def path(tmp_path_factory, clicks):
    path = str(tmp_path_factory.mktemp("clicks") / "clicks")
    clicks.repartition(2, "at").write.partitionBy("region").parquet(path)
    return path


def frames_of(kind, spark, clicks, path):
    if kind == "filters of one frame":
        return [clicks.where(f"region = {i}") for i in range(REGIONS)]
    if kind == "frames of equal rows":
        rows = pa.table({"at": np.arange(CLICKS) // 2})
        return [spark.createDataFrame(rows) for _ in range(REGIONS)]
    if kind == "paths":
        return [spark.read.parquet(f"{path}/region={i}") for i in range(REGIONS)]
    views = []
    for i in range(REGIONS):
        clicks.where(f"region = {i}").createOrReplaceTempView("region")
        views.append(spark.sql("SELECT at FROM region"))
    return views


@pytest.mark.parametrize(
    "kind", ["filters of one frame", "frames of equal rows", "paths", "one name of a view"]
)
def test_sketches_of_separate_jobs_can_be_merged(spark, clicks, path, kind):
    sketches = [
        sketch_df(frame, SUM, at="at", depth=1) for frame in frames_of(kind, spark, clicks, path)
    ]
    answer = merge_all(sketches).query()
    assert answer.lower <= TRUTH <= answer.upper
    assert abs(float(answer) - TRUTH) <= 0.2 * TRUTH
    assert len({sketch._stream for sketch in sketches}) == REGIONS


def test_plans_that_differ_in_a_word_are_different_jobs(spark, clicks, path):
    files = spark.read.parquet(path)

    def plus(amount):
        return F.udf(lambda at: at + amount, "long")

    jobs = [
        files,
        files.where("cast(at AS string) = '#12'"),
        files.where("cast(at AS string) = '#13'"),  # looks like the id of a column
        files.where("cast(at AS string) = '@12'"),
        files.where("cast(at AS string) = '@13'"),  # or an address
        files.where("cast(at AS string) LIKE ANY ('a%', 'b%')"),
        files.where("cast(at AS string) LIKE ANY ('a%', 'c%')"),
        files.where(F.col("at").isin(list(range(100)))),
        files.where(F.col("at").isin([*range(99), 100])),
        files.select(plus(1)("at")),
        files.select(plus(2)("at")),
        files.join(clicks, "at", "left_anti"),
        clicks.join(files, "at", "left_anti"),
        files.where("at IN (SELECT 1)"),
        files.where("at IN (SELECT 2)"),
        spark.range(10),
        spark.range(11),
        spark.createDataFrame([(1,)], "at long"),
        spark.createDataFrame([(1,)], "at long"),
    ]
    assert len({number_of_frame(job, SUM) for job in jobs}) == len(jobs)
    assert number_of_frame(files, SUM) != number_of_frame(files, SumWave(stream=1))


def test_columns_make_another_job(spark):
    rows = spark.range(100).selectExpr("id AS a", "id AS b", "id % 2 AS g")
    by_a, by_b = (sketch_df(rows, SUM, at=at) for at in ("a", "b"))
    assert by_a._stream != by_b._stream
    together = sketch_many(rows, {"a": on(SUM, at="a"), "b": on(SUM, at="b")})
    assert together == {"a": by_a, "b": by_b}


def test_a_job_has_the_same_number_again_and_in_another_session(spark, path):
    once = numbers(spark, path)
    assert len(set(once)) == len(once)
    assert numbers(spark, path) == once
    arguments = [sys.executable, "-c", "import sys, file_jobs; file_jobs.main(*sys.argv[1:])", path]
    finished = subprocess.run(arguments, capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stderr[-3000:]
    assert finished.stdout.splitlines()[-1] == str(once)


def test_files_that_were_added_make_another_job(spark, clicks, path, tmp_path):
    copy = str(tmp_path / "copy")
    clicks.limit(10).write.parquet(copy)
    before = number_of_frame(spark.read.parquet(copy), SUM)
    clicks.limit(10).write.mode("append").parquet(copy)
    assert number_of_frame(spark.read.parquet(copy), SUM) != before


def test_frames_without_files_are_identified_by_their_session(spark):
    for rows in (
        spark.createDataFrame([(1,), (2,)], "at long"),
        spark.createDataFrame(pa.table({"at": [1, 2]})),
        spark.sparkContext.parallelize([(1,), (2,)]).toDF("at long"),
        spark.range(9).selectExpr("id AS at").localCheckpoint(),
    ):
        made = [rows, rows.where("at > 1"), rows.union(rows.where("at > 1"))]
        again = [rows, rows.where("at > 1"), rows.union(rows.where("at > 1"))]
        of_made, of_again = (
            [number_of_frame(each, SUM) for each in some] for some in (made, again)
        )
        assert of_made == of_again
        rows.cache()
        assert number_of_frame(rows, SUM) == of_made[0]
        rows.unpersist()


def test_a_frame_that_cannot_be_identified_has_a_unique_number(monkeypatch, spark):
    def fails(df):
        raise RuntimeError("an unknown relation")

    monkeypatch.setattr(frame_text, "_classic_texts", fails)
    rows = spark.range(10)
    with pytest.warns(RuntimeWarning, match="stream=… of its own"):
        numbers = [number_of_frame(rows, SUM) for _ in range(2)]
    assert numbers[0] != numbers[1]
    with pytest.warns(RuntimeWarning, match="stream=… of its own"):
        sums = sketch_df(rows, SUM, at="id")
    assert float(sums.query()) == 10


COINS = {
    "sum": (SumWave(capacity=30), {"value": "v"}),
    "quantiles": (QuantileWave(capacity=30), {"value": "v"}),
    "correlated": (
        WeightBasedMergingHistogram(Polynomial(1.5, scale=50), capacity=30),
        {"value": "v"},
    ),
    "frequencies": (
        EcmSketch(1_000, width=5, depth=2, cell_error=0.3, counter="rw", cell_capacity=30),
        {"item": "v"},
    ),
    "ranges": (
        DyadicEcm(1_000, 0.3, universe_bits=4, counter="rw"),
        {"item": "v"},
    ),
    "names": (DyadicEcm(1_000, 0.3, universe_bits=8, names=True), {"item": "v"}),
}


@pytest.mark.parametrize("name", COINS)
def test_every_sketch_with_coins_draws_them_by_the_job(spark, name):
    prototype, columns = COINS[name]
    rows = spark.range(0, 900, 1, 2).selectExpr("id AS at", "id % 10 AS v", "id % 2 AS g")
    assert draws_coins(prototype)
    made = [sketch_df(rows, prototype, at="at", **columns, stream=s) for s in ("a", "a", "b")]
    once, again, other = (sketch.to_bytes() for sketch in made)
    assert once == again != other
    auto = [sketch_df(frame, prototype, at="at", **columns) for frame in (rows, rows)]
    assert auto[0] == auto[1]
    for shuffle in ("rows", "partials"):
        groups = [
            sorted(
                (row["g"], bytes(row["sketch"]))
                for row in sketch_df(
                    rows, prototype, at="at", **columns, by="g", shuffle=shuffle, stream=stream
                ).collect()
            )
            for stream in (7, 7, 8)
        ]
        assert groups[0] == groups[1]
        for (_, mine), (_, others) in zip(groups[0], groups[2], strict=True):
            assert mine != others
        streams = [loads(frame)._stream for each in (groups[0], groups[2]) for _, frame in each]
        assert len(set(streams)) == len(streams)  # no two groups, nor jobs, have one


def test_without_coins_no_number_is_computed(monkeypatch, spark):
    def refuse(*_):
        raise AssertionError("it costs time")

    monkeypatch.setattr(checks, "number_of_frame", refuse)
    rows = spark.range(100).selectExpr("id AS at", "id % 5 AS item")
    sketch_df(rows, RandomizedWave(), at="at", item="item")
    sketch_df(rows, EcmSketch(100, width=5, depth=2), at="at", item="item")
    assert sketch_df(rows, SumWave(stream=4), at="at", id="at")._stream == 4
    assert sketch_df(rows, SumWave(), at="at", stream="given")._stream >= 0


def test_events_with_ids_have_the_bytes_of_one_pass(spark):
    rows = spark.range(0, 900, 1, 3).selectExpr("id AS at", "id * 7 AS event")
    prototype = SumWave(capacity=30, stream=3)
    expected = prototype.copy()
    expected.update_many(at=np.arange(900), id=np.arange(900) * 7)
    for stream in (None, "other"):
        made = sketch_df(rows, prototype, at="at", id="event", stream=stream)
        assert made.to_bytes() == expected.to_bytes()
    rdd = spark.sparkContext.parallelize(range(900), 3)
    made = sketch_rdd(rdd, prototype, lambda n: {"at": n, "id": [7 * i for i in n]}, stream=5)
    assert made.to_bytes() == expected.to_bytes()


def test_an_empty_frame_does_not_change_the_prototype(spark):
    rows = spark.range(9).selectExpr("id AS at", "id AS v", "nullif(id, id) AS none", "id % 2 AS g")
    prototype = SumWave(stream=6)
    assert sketch_df(rows, prototype, at="at", value="none").to_bytes() == prototype.to_bytes()
    wanted = {"some": on(prototype, at="at"), "none": on(prototype, at="at", value="none")}
    for shuffle in ("rows", "partials"):
        for row in sketch_many(rows, wanted, by="g", shuffle=shuffle).collect():
            assert bytes(row["none"]) == prototype.to_bytes()
            assert loads(row["some"])._stream != 6
    empty = rows.groupBy("g").agg(R.sketch_agg(prototype, at="at", value="none")).first()
    assert bytes(empty["sketch"]) == prototype.to_bytes()


# --- RDDs and aggregates ------------------------------------------------------------------------


def times(rows):
    return {"at": rows}


def test_rdds_of_equal_elements_draw_different_coins(spark):
    rdds = [spark.sparkContext.parallelize([n // 2 for n in range(CLICKS)], 2) for _ in range(30)]
    sketches = [sketch_rdd(rdd, SUM, times, depth=1) for rdd in rdds]
    answer = merge_all(sketches).query()
    assert answer.lower <= TRUTH <= answer.upper
    assert len({sketch._stream for sketch in sketches}) == 30
    assert sketch_rdd(rdds[0], SUM, times) == sketches[0]
    named = [sketch_rdd(rdd, SUM, times, stream="named") for rdd in rdds[:2]]
    assert named[0] == named[1] != sketches[0]


def aggregated(frame, column):
    return loads(frame.agg(column.alias("sketch")).first()["sketch"])


def test_calls_of_an_aggregate_draw_different_coins(spark, clicks):
    frames = [clicks.where(f"region = {i}").coalesce(1) for i in range(REGIONS)]
    sketches = [aggregated(frame, R.sketch_agg(SUM, at="at")) for frame in frames]
    answer = merge_all(sketches).query()
    assert answer.lower <= TRUTH <= answer.upper
    assert len({sketch._stream for sketch in sketches}) == REGIONS
    column = R.sketch_agg(SUM, at="at")
    assert aggregated(frames[0], column) == aggregated(frames[0], column)
    named = [aggregated(frames[0], R.sketch_agg(SUM, at="at", stream=s)) for s in ("a", "a", 5)]
    assert named[0] == named[1] != named[2]


def test_one_aggregate_draws_different_coins_for_different_rows(spark, clicks):
    """Regions have all clicks in common, except one."""
    register(spark, {"total": SUM})
    sketches = []
    for region in range(REGIONS):
        rows = clicks.where("region = 0").coalesce(1).union(spark.sql(f"SELECT 0, {region}"))
        rows.coalesce(1).createOrReplaceTempView("rows")
        sketches.append(loads(spark.sql("SELECT total_agg(at) AS s FROM rows").first()["s"]))
    answer = merge_all(sketches).query()
    assert answer.lower <= TRUTH + REGIONS <= answer.upper


# --- what a caller may give ---------------------------------------------------------------------


def test_streams_of_neighbouring_numbers_do_not_overlap():
    firsts = sorted(first_stream(number) for number in range(1_000))
    assert firsts[0] >= 0
    assert firsts[-1] < 2**62
    assert min(b - a for a, b in pairwise(firsts)) > 2**40  # 256 partitions of 2³² groups
    assert first_stream(2**63 - 1) < 2**62


@pytest.mark.parametrize(
    ("stream", "error", "message"),
    [
        (-1, ValueError, "stream must be at least 0, within int64, got -1"),
        (2**63, ValueError, "stream must be at least 0, within int64, got 9223372036854775808"),
        (True, TypeError, "stream must be an integer or a string, got bool True"),
        (1.0, TypeError, "stream must be an integer or a string, got float 1.0"),
        (b"a", TypeError, "stream must be an integer or a string, got bytes b'a'"),
    ],
)
def test_other_streams_are_refused(spark, stream, error, message):
    rows, rdd = spark.range(5), spark.sparkContext.parallelize(range(5))
    for function, call in {
        "sketch_df": lambda: sketch_df(rows, SUM, at="id", stream=stream),
        "sketch_many": lambda: sketch_many(rows, {"x": on(SUM, at="id")}, stream=stream),
        "sketch_rdd": lambda: sketch_rdd(rdd, SUM, times, stream=stream),
        "functions.sketch_agg": lambda: R.sketch_agg(SUM, at="id", stream=stream),
    }.items():
        with pytest.raises(error, match=f"^{function}: {message}"):
            call()


def test_the_largest_number_can_be_given(spark):
    for number in (0, np.int64(5), 2**63 - 1):
        sketch = sketch_df(spark.range(5), SUM, at="id", stream=number)
        assert sketch._stream >= first_stream(int(number))
        assert loads(sketch.to_bytes()) == sketch


def test_groups_of_one_job_merge_without_a_warning(spark, monkeypatch):
    rows = spark.range(3000).selectExpr("id DIV 3 AS at", "id % 3 AS g")
    groups = sketch_df(rows, SUM, at="at", by="g").collect()
    monkeypatch.setattr(coins, "_warned", False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        merged = merge_all(loads(row["sketch"]) for row in groups)
    answer = merged.query()
    assert answer.lower <= 3000 <= answer.upper


def test_long_lists_and_table_functions_distinguish_jobs(spark):
    def last_pattern(word):
        patterns = ",".join(f"'{i}%'" for i in range(40))
        rows = spark.range(9).selectExpr("id AS at", "cast(id AS string) AS s")
        return rows.where(f"s LIKE ANY ({patterns}, '{word}')").select("at")

    def shop(number):
        @F.udtf(returnType="at: long")
        class Load:
            def eval(self):
                yield (number,)

        return Load()

    for make, other in ((last_pattern, ("a", "b")), (shop, (1, 2))):
        frames = [make(each) for each in other]
        first, second, again = (number_of_frame(each, SUM) for each in (*frames, frames[0]))
        assert first == again != second


def test_nested_conditions_have_a_number_without_a_text_that_doubles(spark):
    column = F.col("id")
    for k in range(40):
        column = F.when(F.col("id") < k, F.lit(k)).otherwise(column)
    rows = spark.range(9).select(column.alias("at"))
    assert number_of_frame(rows, SUM) == number_of_frame(rows, SUM)
    assert max(map(len, frame_text.frame_text(rows))) < 100_000


def test_literals_that_look_like_counters_distinguish_jobs(spark):
    rows = spark.range(9).selectExpr("id AS at", "cast(id AS string) AS tag")
    nested = "(" * 9 + "at >= 0" + "".join(f" AND at >= {-i})" for i in range(1, 10))
    for one, other in [("#12", "#13"), ("@abcd12", "@abcd13"), ("Ref 12", "Ref 13")]:
        first, second = (rows.where(f"{nested} AND tag = '{each}'") for each in (one, other))
        assert number_of_frame(first, SUM) != number_of_frame(second, SUM)
    first, second = (rows.where(f"tag = 'job_pyspark_{each}'") for each in (1, 2))
    assert number_of_frame(first, SUM) != number_of_frame(second, SUM)
    pair = rows.alias("l").join(rows.alias("r"), "tag").where(nested.replace("at", "l.at"))
    sides = [pair.where(f"{side}.at = 3").select("l.at") for side in "lr"]
    assert number_of_frame(sides[0], SUM) != number_of_frame(sides[1], SUM)


def test_the_text_of_a_frame_of_another_session_has_all_columns(spark):
    rows = (
        spark.newSession()
        .range(9)
        .selectExpr("id AS at", *[f"id % {i + 2} c{i}" for i in range(60)])
    )
    nested = "(" * 9 + "at >= 0" + "".join(f" AND at >= {-i})" for i in range(1, 10))
    chosen = [rows.where(nested).where(F.col("c59").isin([*range(59), v])) for v in (100, 101)]
    assert number_of_frame(chosen[0], SUM) != number_of_frame(chosen[1], SUM)


def test_files_are_identified_by_their_own_sizes(spark, tmp_path):
    def number(sizes):
        for name, size in sizes.items():
            (tmp_path / name).write_text("1\n" * size)
        return number_of_frame(spark.read.schema("at LONG").csv(str(tmp_path)), SUM)

    assert number({"a": 50, "b": 100}) != number({"a": 100, "b": 50})
