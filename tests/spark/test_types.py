"""Which types of columns are accepted, how times are converted, and what raises an error."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import functions as F

from recency import (
    Bank,
    DecayedSample,
    ExponentialHistogram,
    QuantileWave,
    RandomizedWave,
    SumWave,
    loads,
)
from recency.decay import Custom
from recency.spark import merge_df, sketch_df
from recency.spark.columns import to_column

FIRST = 1_762_056_000  # 2025-11-02 00:00 in New York, where that day has 25 hours


@pytest.fixture(scope="module")
def instants(spark):
    """Return a row every 600 s around the end of daylight saving time, in all types of times."""
    seconds = (F.col("id") * 600 + FIRST).alias("seconds")
    frame = spark.range(0, 200, numPartitions=2).select(seconds)
    return frame.select(
        "seconds",
        F.col("seconds").cast("timestamp").alias("ts"),
        (F.col("seconds") * 1000 + 999).alias("ms"),
        F.timestamp_micros(F.col("seconds") * 1_000_000 + 999_999).alias("late_in_second"),
    )


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_timestamps_do_not_depend_on_the_zone(spark, instants, zone):
    prototype = ExponentialHistogram(unit="s")
    expected = sketch_df(instants, prototype, at="seconds")
    kept = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        assert sketch_df(instants, prototype, at="ts") == expected
        assert sketch_df(instants, prototype, at="late_in_second") == expected  # floored
        in_ms = ExponentialHistogram(unit="ms")
        assert sketch_df(instants, in_ms, at="late_in_second") == sketch_df(
            instants, in_ms, at="ms"
        )
        by_time = sketch_df(instants, prototype, at="ts", by="ts", shuffle="partials")
        for row in by_time.limit(3).collect():
            assert loads(row["sketch"]).latest == int(row["ts"].timestamp())
    finally:
        spark.conf.set("spark.sql.session.timeZone", kept)
    answer = expected.query("25 hours")
    assert answer.lower <= 25 * 6 <= answer.upper


def test_times_without_zone_and_dates_are_utc(spark):
    rows = spark.createDataFrame(
        [(datetime(1969, 12, 31, 23, 59, 59, 500_000), date(2026, 11, 16))],
        "plain timestamp_ntz, day date",
    )
    assert sketch_df(rows, SumWave(unit="s"), at="plain").latest == -1
    assert sketch_df(rows, SumWave(unit="ms"), at="plain").latest == -500
    midnight = datetime(2026, 11, 16, tzinfo=UTC)
    assert sketch_df(rows, SumWave(unit="s"), at="day").latest == midnight.timestamp()
    assert sketch_df(rows, SumWave(unit="us"), at="day").latest == midnight.timestamp() * 10**6


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_times_outside_the_years_1_to_9999_are_refused_and_not_wrapped(unit):
    for kind, far in [
        *((pa.timestamp(word), 2**62) for word in ("s", "ms", "us")),
        *((pa.timestamp("us", "UTC"), edge) for edge in (2**63 - 1, -(2**63) + 1)),
        (pa.date64(), 2**62),
        *((pa.date32(), edge) for edge in (2**31 - 1, -(2**31))),
    ]:
        storage = pa.int32() if kind == pa.date32() else pa.int64()
        with pytest.raises(ValueError, match="at must be in the years 1–9999"):
            to_column(pa.array([0, far], storage).cast(kind, safe=False), unit, "at")
    ends = pa.array([date(1, 1, 1), date(9999, 12, 31)])
    per_day = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}[unit]
    assert to_column(ends, unit, "at").tolist() == [-719_162 * per_day, 2_932_896 * per_day]
    instants = pa.array([-(2**63) + 1, 2**63 - 1]).cast(pa.timestamp("ns"))
    size = {"s": 10**9, "ms": 10**6, "us": 10**3}[unit]
    expected = [(-(2**63) + 1) // size, (2**63 - 1) // size]
    assert to_column(instants, unit, "at").tolist() == expected


def test_times_without_a_unit_are_refused():
    with pytest.raises(TypeError, match="at must be integers, got datetimes; give the sketch"):
        to_column(pa.array([date(2026, 1, 1)]), None, "at")


@pytest.mark.parametrize("kind", ["tinyint", "smallint", "int", "bigint", "decimal(20,0)"])
def test_integers_of_all_widths_are_the_same(spark, kind):
    rows = spark.range(100).select(
        (F.col("id") if "decimal" in kind else F.col("id").cast(kind)).alias("at"),
        F.col("id").cast(kind).alias("x"),
    )
    for prototype, role in ((ExponentialHistogram(), "value"), (RandomizedWave(), "item")):
        if role == "item" and "decimal" in kind:
            continue
        expected = prototype.empty_like()
        expected.update_many(**{role: range(100), "at": range(100)})
        assert sketch_df(rows.coalesce(1), prototype, at="at", **{role: "x"}) == expected


def test_strings_bytes_and_floats(spark):
    rows = spark.createDataFrame(
        [(1, "ü€", b"\x00\xff", 1.5), (2, "", b"", 2.5), (3, "a" * 99, b"a" * 99, 3.5)],
        "at long, s string, b binary, x double",
    )
    for name, values in (("s", ["ü€", "", "a" * 99]), ("b", [b"\x00\xff", b"", b"a" * 99])):
        expected = RandomizedWave(keep_items=True)
        expected.update_many(values, at=[1, 2, 3])
        assert sketch_df(rows, expected.empty_like(), at="at", item=name) == expected
    assert sketch_df(rows, SumWave(), at="at", value="x").query().value == 7.5
    half = rows.withColumn("x", F.col("x").cast("float"))
    assert sketch_df(half, QuantileWave(), at="at", value="x").query().value == 2.5


@pytest.fixture(scope="module")
def broken(spark):
    """Return a frame on which every job fails."""
    return spark.range(10).select(
        F.raise_error(F.lit("a job was started")).cast("long").alias("n"),
        F.lit("x").alias("s"),
        F.lit(True).alias("flag"),
        F.lit(1.5).alias("x"),
        F.lit(Decimal("1.50")).alias("price"),
        F.current_timestamp().alias("ts"),
        F.array(F.lit(1)).alias("list"),
        F.lit(b"x").alias("raw"),
        F.col("id").alias("sketch"),
    )


FILLED = SumWave()
FILLED.update(at=1)
REFUSED = [
    (SumWave(), {"at": "m"}, ValueError, r"at='m' does not name a column.*which has n, s, flag"),
    (SumWave(), {"at": 5}, TypeError, r"at must be a column or its name, got int"),
    (SumWave(), {"at": "s"}, TypeError, r"at='s' is of type string, it must be an integer, time"),
    (SumWave(), {"at": "x"}, TypeError, r"at='x' is of type double"),
    (SumWave(), {"at": "ts"}, TypeError, r"at='ts' is of type timestamp.*no unit"),
    (SumWave(), {}, TypeError, r"SumWave needs at="),
    (SumWave(), {"at": "n", "item": "n"}, TypeError, r"SumWave takes no item.*value, at, id"),
    (SumWave(), {"at": "n", "value": "s"}, TypeError, r"value='s' is of type string, it must be"),
    (SumWave(), {"at": "n", "value": "flag"}, TypeError, r"value='flag' is of type boolean"),
    (SumWave(), {"at": "n", "value": "price"}, TypeError, r"value='price' is of type decimal\(3,2"),
    (SumWave(), {"at": "n", "id": "x"}, TypeError, r"id='x' is of type double, it must be an in"),
    (ExponentialHistogram(), {"at": "n", "value": "x"}, TypeError,
     r"value='x' is of type double: ExponentialHistogram: value must be integers"),
    (RandomizedWave(), {"at": "n"}, TypeError, r"RandomizedWave needs item="),
    (RandomizedWave(), {"at": "n", "item": "x"}, TypeError, r"item='x' is of type double"),
    (RandomizedWave(), {"at": "n", "item": "flag"}, TypeError, r"item='flag' is of type boolean"),
    (SumWave(), {"at": "n", "by": "list"}, TypeError, r"by='list' is of type array<int>, it must"),
    (SumWave(), {"at": "n", "by": "m"}, ValueError, r"by='m' does not name a column"),
    (SumWave(), {"at": "n", "by": []}, TypeError, r"by must be a column, or a list"),
    (SumWave(), {"at": "n", "by": ["s", "s"]}, ValueError, r"different names"),
    (SumWave(), {"at": "n", "by": "Sketch"}, ValueError, r"none be called sketch"),
    (SumWave(), {"at": "*"}, ValueError, r"at='\*' does not name a column.*it names 9"),
    (SumWave, {"at": "n"}, TypeError, r"got the class SumWave: make one, SumWave"),
    (SumWave(), {"at": "n", "by": "sketch"}, ValueError, r"none be called sketch"),
    (SumWave(), {"at": "n", "depth": 0}, ValueError, r"depth must be in \[1, 6\], got 0"),
    (SumWave(), {"at": "n", "shuffle": "all"}, ValueError, r"shuffle must be one of"),
    (ExponentialHistogram(by="count"), {"at": "n"}, ValueError, r"count-based windows"),
    (FILLED, {"at": "n"}, ValueError, r"prototype must be empty"),
    (
        DecayedSample(decay=Custom(lambda x: 1 / (1 + x))),
        {"at": "n"},
        ValueError,
        r"cannot encode a Custom decay",
    ),
    (DecayedSample(), {"at": "n", "item": "s"}, TypeError, r"takes no item, it takes value, at"),
    ("SumWave", {"at": "n"}, TypeError, r"prototype must be a sketch, got str"),
    (Bank(SumWave()), {"at": "n"}, TypeError, r"prototype must be a sketch, got Bank"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("prototype", "arguments", "error", "message"), REFUSED, ids=[case[3] for case in REFUSED]
)
def test_refused_before_any_job(broken, prototype, arguments, error, message):
    with pytest.raises(error, match="sketch_df: .*" + message):
        sketch_df(broken, prototype, **arguments)


def test_expressions_are_checked_too(broken):
    with pytest.raises(ValueError, match=r"sketch_df: at=.*m.* does not name a column"):
        sketch_df(broken, SumWave(), at=F.col("m") + 1)
    with pytest.raises(TypeError, match=r"sketch_df: at=.* is of type string"):
        sketch_df(broken, SumWave(), at=F.upper("s"))


def test_not_a_frame():
    with pytest.raises(TypeError, match="df must be a Spark DataFrame, got list"):
        sketch_df([], SumWave(), at="n")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"column": "x"}, TypeError, "column='x' is of type double, it must be binary"),
        ({"column": "m"}, ValueError, "column='m' does not name a column"),
        ({}, TypeError, "column='sketch' is of type bigint"),
        ({"column": "raw", "by": "list"}, TypeError, "by='list' is of type array"),
    ],
)
def test_refused_rollups(broken, arguments, error, message):
    with pytest.raises(error, match="merge_df: " + message):
        merge_df(broken, **arguments)


@pytest.mark.parametrize("by", [None, "id"])
def test_bad_values_are_explained(spark, by):
    rows = spark.range(5).withColumn("x", -F.col("id"))
    with pytest.raises(PythonException, match="ValueError: sketch_df: value must be in"):
        _force(sketch_df(rows, SumWave(), at="id", value="x", by=by))
    large = rows.withColumn("x", F.lit(Decimal(10) ** 19).cast("decimal(20,0)"))
    with pytest.raises(PythonException, match=r"sketch_df: value must be in the range of int64"):
        _force(sketch_df(large, SumWave(), at="id", value="x", by=by))


def _force(result):
    return result.collect() if hasattr(result, "collect") else result


def test_streams_are_refused(spark):
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ValueError, match="must not be a stream"):
        sketch_df(stream, SumWave(unit="s"), at="timestamp")


def test_collated_strings_are_refused(spark):
    rows = spark.range(1).select("id", F.lit("a").alias("s"))
    rows = rows.withColumn("s", F.collate("s", "UTF8_LCASE"))
    with pytest.raises(TypeError, match="item='s' is of type string collate UTF8_LCASE"):
        sketch_df(rows, RandomizedWave(), at="id", item="s")
    with pytest.raises(TypeError, match="by='s' is of type string collate UTF8_LCASE"):
        sketch_df(rows, SumWave(), at="id", by="s")
