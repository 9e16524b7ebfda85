"""``sketch_df`` gives the sketch of the same rows on the driver."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tally_sketch import TallySketch

from recency import (
    DecayedSample,
    DeterministicWave,
    EcmSketch,
    ExponentialHistogram,
    NthRecentWave,
    QuantileWave,
    RandomizedWave,
    SumWave,
    WeightBasedMergingHistogram,
    loads,
    merge_all,
    serialization,
)
from recency.decay import Exponential, Polynomial
from recency.spark import api, merge_df, sketch_df
from recency.spark.build import Limits
from recency.spark.job_number import first_stream

ROWS = 6_000


@pytest.fixture(scope="module")
def events():
    """Return rows that are late, tied, repeated, with NULLs in every column."""
    rng = np.random.default_rng(5)
    missing = rng.random((4, ROWS)) < 0.02
    at = np.arange(ROWS) // 3 + rng.integers(-200, 1, ROWS)
    return pa.table(
        {
            "at": pa.array(at, mask=missing[0]),
            "user": pa.array(rng.integers(0, 900, ROWS), mask=missing[1]),
            "amount": pa.array(rng.integers(0, 50, ROWS), mask=missing[2]),
            "event": pa.array([f"e{i}" for i in range(ROWS)]),
            "shop": pa.array(rng.choice(["a", "b", "c", "d"], ROWS), mask=missing[3]),
            "till": pa.array(rng.integers(0, 3, ROWS).astype(np.int16)),
        }
    )


@pytest.fixture(scope="module")
def frame(spark, events):
    return spark.createDataFrame(events).cache()


EXACT = {
    "distinct": (RandomizedWave(window=1500, capacity=40), {"at": "at", "item": "user"}),
    "distinct kept": (
        RandomizedWave(window=1500, capacity=40, keep_items=True),
        {"at": "at", "item": "event"},
    ),
    "sum": (SumWave(window=1500, capacity=40), {"at": "at", "value": "amount", "id": "event"}),
    "quantiles": (
        QuantileWave(capacity=40),
        {"at": "at", "value": "amount", "id": "event"},
    ),
    "frequencies, sampled": (
        EcmSketch(1500, width=5, depth=2, cell_error=0.3, counter="rw", cell_capacity=20),
        {"at": "at", "item": "user", "weight": "amount", "id": "event"},
    ),
    "fading, decay chosen later": (
        DecayedSample(capacity=20, window=1500),
        {"at": "at", "value": "amount", "weight": "amount", "id": "event"},
    ),
    "fading": (
        DecayedSample(capacity=20, decay=Exponential(half_life=300), copies=3),
        {"at": "at", "weight": "amount", "id": "user"},
    ),
    "correlated": (
        WeightBasedMergingHistogram(Polynomial(1.5, scale=50), capacity=20),
        {"at": "at", "value": "amount", "weight": "amount", "id": "event"},
    ),
    "nth": (NthRecentWave(window=1500), {"at": "at"}),
    "defined in a test": (TallySketch(scale=3), {"at": "at", "value": "amount"}),
}
BOUNDED = {
    "histogram": (ExponentialHistogram(window=1500), {"at": "at", "value": "amount"}),
    "wave": (DeterministicWave(window=1500), {"at": "at"}),
    "frequencies": (
        EcmSketch(1500, 0.3, width=30, depth=3),
        {"at": "at", "item": "user", "weight": "amount"},
    ),
}
PARTITIONS = [1, 2, 7]


def on_driver(events, prototype, columns):
    """Return the sketch of the same rows in one pass."""
    used = events.select(sorted(set(columns.values()))).drop_null()
    sketch = prototype.empty_like()
    if used.num_rows:
        sketch.update_many(**{role: used[name].to_pylist() for role, name in columns.items()})
    return sketch


def with_partitions(frame, partitions):
    """Return the frame in that number of partitions, and an empty one."""
    return frame.repartition(partitions).union(frame.limit(0).coalesce(1))


@pytest.mark.parametrize("partitions", PARTITIONS)
@pytest.mark.parametrize("name", EXACT)
def test_exact_sketches_have_the_bytes_of_one_pass(frame, events, name, partitions):
    prototype, columns = EXACT[name]
    sketch = sketch_df(with_partitions(frame, partitions), prototype, **columns)
    assert sketch.to_bytes() == on_driver(events, prototype, columns).to_bytes()


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("partitions", PARTITIONS)
@pytest.mark.parametrize("name", BOUNDED)
def test_bounded_sketches_keep_the_configured_error(frame, events, name, partitions, depth):
    prototype, columns = BOUNDED[name]
    sketch = sketch_df(with_partitions(frame, partitions), prototype, **columns, depth=depth)
    assert sketch.guarantee <= prototype.config.relative_error
    assert_sums_hold(sketch, events, columns)
    if partitions == 1:
        assert sketch.to_bytes() == on_driver(events, prototype, columns).to_bytes()


def assert_sums_hold(sketch, events, columns):
    used = events.select(sorted(set(columns.values()))).drop_null()
    at = used["at"].to_numpy()
    amounts = columns.get("value", columns.get("weight"))
    values = used[amounts].to_numpy() if amounts else np.ones(at.size)
    for window in (1, 20, 300, 1500):
        answer = sketch.total(window) if "item" in columns else sketch.query(window)
        truth = values[at > at.max() - window].sum()
        assert answer.lower <= truth <= answer.upper
        assert abs(float(answer) - truth) <= sketch.guarantee * truth


def test_many_partitions_are_merged_in_several_nodes(spark, events):
    frame = spark.createDataFrame(events).repartition(34)
    prototype, columns = EXACT["sum"]
    assert sketch_df(frame, prototype, **columns) == on_driver(events, prototype, columns)
    prototype, columns = BOUNDED["histogram"]
    sketch = sketch_df(frame, prototype, **columns)
    assert sketch.guarantee <= prototype.config.relative_error
    assert_sums_hold(sketch, events, columns)


def test_streams_of_leaves_are_counted_from_the_number_of_the_job(spark, frame):
    prototype = SumWave(capacity=40)
    rows = frame.select("at", "amount").dropna().repartition(3).cache()
    parts = rows.withColumn("part", F.spark_partition_id()).toArrow()
    automatic = sketch_df(rows, prototype, at="at", value="amount")
    given = sketch_df(rows, prototype, at="at", value="amount", stream=5)
    assert given._stream == first_stream(5)
    for sketch in (automatic, given):
        leaves = []
        for i in range(3):
            part = parts.filter(pa.compute.equal(parts["part"], i))
            leaf = prototype.empty_like(stream=sketch._stream + (i << 32))
            leaf.update_many(part["amount"].to_numpy(), at=part["at"].to_numpy())
            leaves.append(leaf)
        assert sketch == merge_all(leaves)


@pytest.mark.parametrize("shuffle", ["rows", "partials"])
@pytest.mark.parametrize("name", EXACT)
def test_groups_have_the_bytes_of_one_pass(frame, events, name, shuffle):
    prototype, columns = EXACT[name]
    groups = sketch_df(frame.repartition(3), prototype, **columns, by="shop", shuffle=shuffle)
    assert groups.columns == ["shop", "sketch"]
    rows = groups.collect()
    assert sorted(str(row["shop"]) for row in rows) == ["None", "a", "b", "c", "d"]
    for row in rows:
        part = events.filter(pa.array([shop == row["shop"] for shop in events["shop"].to_pylist()]))
        assert row["sketch"] == on_driver(part, prototype, columns).to_bytes()


@pytest.mark.parametrize("shuffle", ["rows", "partials"])
@pytest.mark.parametrize("name", BOUNDED)
def test_groups_keep_the_configured_error(frame, events, name, shuffle):
    prototype, columns = BOUNDED[name]
    groups = sketch_df(
        frame.repartition(3), prototype, **columns, by=["shop", F.col("till")], shuffle=shuffle
    )
    assert groups.columns == ["shop", "till", "sketch"]
    assert groups.schema["till"].dataType == frame.schema["till"].dataType
    rows = groups.collect()
    assert len({(row["shop"], row["till"]) for row in rows}) == len(rows) == 15
    pairs = list(zip(events["shop"].to_pylist(), events["till"].to_pylist(), strict=True))
    for row in rows:
        part = events.filter(pa.array([pair == (row["shop"], row["till"]) for pair in pairs]))
        sketch = loads(row["sketch"])
        assert sketch.guarantee <= prototype.config.relative_error
        assert_sums_hold(sketch, part, columns)
        if shuffle == "rows":
            assert sketch == on_driver(part, prototype, columns)


@pytest.mark.parametrize("shuffle", ["rows", "partials"])
@pytest.mark.parametrize("name", ["distinct", "sum", "histogram", "defined in a test"])
def test_groups_that_exceed_the_memory_are_emitted_early(monkeypatch, frame, events, name, shuffle):
    monkeypatch.setattr(api, "_LIMITS", Limits(chunk=10_000, frames=10_000, sketches=1))
    prototype, columns = (EXACT | BOUNDED)[name]
    by = F.substring("event", 2, 1).alias("digit")
    groups = sketch_df(frame.repartition(2), prototype, **columns, by=by, shuffle=shuffle)
    rows = groups.collect()
    assert sorted(row["digit"] for row in rows) == list("0123456789")
    digits = [event[1] for event in events["event"].to_pylist()]
    for row in rows:
        part = events.filter(pa.array([digit == row["digit"] for digit in digits]))
        if name in EXACT:
            assert row["sketch"] == on_driver(part, prototype, columns).to_bytes()
        else:
            assert loads(row["sketch"]).guarantee <= prototype.config.relative_error
            assert_sums_hold(loads(row["sketch"]), part, columns)


def test_groups_of_different_sketches_do_not_share_coins(spark):
    """When merged, groups with equal values and times must not have equal errors."""
    rows = spark.range(40_000).select(
        (F.col("id") % 200).alias("group"), F.floor(F.col("id") / 20_000).alias("at")
    )
    for shuffle in ("rows", "partials"):
        groups = sketch_df(
            rows.coalesce(1), SumWave(capacity=50), at="at", by="group", shuffle=shuffle
        )
        sketches = [loads(row["sketch"]) for row in groups.collect()]
        whole = merge_all(sketches).query()
        # 50 to 100 are sampled: four standard deviations are at most 4/√50. With coins in common,
        # 200 groups would err like one that has 200 events.
        assert abs(float(whole) - 40_000) <= 40_000 * 4 / 50**0.5


def test_the_shuffle_is_chosen_by_the_number_of_groups(monkeypatch, spark):
    chosen = []
    build = api.group_leaves
    monkeypatch.setattr(api, "group_leaves", lambda *all: chosen.append(all[2]) or build(*all))
    rows = spark.range(20_000).withColumn("few", F.col("id") % 1000)
    sketch_df(rows, SumWave(), at="id", by="few")
    sketch_df(rows, SumWave(), at="id", by="id")
    sketch_df(rows.limit(0), SumWave(), at="id", by="id")
    assert chosen == [False, True, False]


def test_the_same_rows_give_the_same_bytes(frame):
    for prototype in (SumWave(capacity=40), ExponentialHistogram()):
        once, again = (sketch_df(frame, prototype, at="at", value="amount") for _ in range(2))
        assert once.to_bytes() == again.to_bytes()


def test_an_empty_frame_gives_an_empty_sketch(spark, frame):
    nothing = spark.createDataFrame([], frame.schema)
    for name, rows in {
        "distinct": frame.where("user is null").repartition(3),
        "sum": frame.limit(0),
        "histogram": nothing,
        "defined in a test": nothing,
    }.items():
        prototype, columns = (EXACT | BOUNDED)[name]
        assert sketch_df(rows, prototype, **columns) == prototype
    groups = sketch_df(nothing, SumWave(), at="at", by=["shop", "till"])
    assert groups.columns == ["shop", "till", "sketch"]
    assert groups.collect() == []


def test_columns_may_be_expressions_and_have_odd_names(frame, events):
    odd = frame.withColumnRenamed("user", "a.b`c")
    prototype, columns = EXACT["distinct"]
    sketch = sketch_df(odd, prototype, at=F.col("at") + 0, item="a.b`c")
    assert sketch == on_driver(events, prototype, columns)
    rows = sketch_df(odd, prototype, at="at", item="a.b`c", by="a.b`c").collect()
    used = events.select(["at", "user"]).drop_null()
    assert sorted(row["a.b`c"] for row in rows) == sorted(set(used["user"].to_pylist()))
    nested = frame.select("at", F.struct("user").alias("who"))
    assert sketch_df(nested, prototype, at=frame["at"], item="who.user") == sketch


def test_floats_group_as_in_spark(spark):
    rows = spark.createDataFrame(
        [(1, 0.0), (2, -0.0), (3, float("nan")), (4, -float("nan")), (5, None), (6, 1.5)],
        "at long, x double",
    )
    for shuffle in ("rows", "partials"):
        groups = sketch_df(rows.repartition(2), SumWave(), at="at", by="x", shuffle=shuffle)
        counts = sorted(float(loads(row["sketch"]).query()) for row in groups.collect())
        assert counts == [1, 1, 2, 2]


def test_a_foreign_class_that_workers_do_not_have_has_no_effect(spark):
    """The user's process may have imported any class."""
    unknown = type("Unknown", (TallySketch,), {"family": 201, "__module__": "not_on_workers"})
    try:
        assert float(sketch_df(spark.range(9), SumWave(), at="id").query()) == 9
        groups = sketch_df(spark.range(9), SumWave(), at="id", by="id", shuffle="partials")
        assert float(merge_df(groups).query()) == 9
        assert unknown.family == 201
    finally:
        serialization._classes.pop(201)


def test_strings_of_any_length_and_large_arrow_types(monkeypatch, spark):
    monkeypatch.setattr(api, "_LIMITS", Limits(chunk=1, frames=1, sketches=1))
    rows = spark.range(200).select(
        "id", F.repeat(F.lit("x"), (F.col("id") * 40).cast("int")).alias("s"), F.lit(1).alias("g")
    )
    expected = RandomizedWave()
    expected.update_many(["x" * (40 * i) for i in range(200)], at=range(200))
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        for shuffle in ("rows", "partials"):
            groups = sketch_df(rows, RandomizedWave(), at="id", item="s", by="g", shuffle=shuffle)
            assert [row["sketch"] for row in groups.collect()] == [expected.to_bytes()]
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
