"""Several sketches in one scan equal the same sketches built one by one."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from sessions import Visits
from tally_sketch import TallySketch

from recency import (
    DecayedSample,
    EcmSketch,
    ExponentialHistogram,
    QuantileWave,
    RandomizedWave,
    SumWave,
    loads,
)
from recency.spark import api, on, sketch_df, sketch_many
from recency.spark.build import Limits

ROWS = 5_000
SKETCHES = {
    "users": on(RandomizedWave(1500, capacity=30), at="at", item="user"),
    "amounts": on(SumWave(1500, capacity=30), at="at", value="amount", id="event"),
    "arrivals": on(ExponentialHistogram(1500, 0.1), at="arrived"),
    "quartiles": on(QuantileWave(capacity=50), at="arrived", value="amount", id="event"),
    "fading": on(DecayedSample(capacity=20), at="at", weight="amount", id="event"),
    "pages": on(EcmSketch(1500, 0.3, width=20, depth=2), at="at", item="user"),
    "tallies": on(TallySketch(scale=3), at="at", value="amount"),
}
EXACT = [name for name in SKETCHES if name not in ("arrivals", "pages")]


@pytest.fixture(scope="module")
def events():
    """Return rows with two clocks, late rows, and NULLs in every column."""
    rng = np.random.default_rng(3)
    missing = rng.random((5, ROWS)) < 0.02
    at = np.arange(ROWS) // 3 + rng.integers(-200, 1, ROWS)
    return pa.table(
        {
            "at": pa.array(at, mask=missing[0]),
            "arrived": pa.array(at + rng.integers(0, 500, ROWS), mask=missing[1]),
            "user": pa.array([f"user {i}" for i in rng.integers(0, 300, ROWS)], mask=missing[2]),
            "amount": pa.array(rng.integers(0, 50, ROWS), mask=missing[3]),
            "event": np.arange(ROWS),
            "page": pa.array(
                rng.choice(["a", "b", "c"], ROWS, p=[0.9, 0.09, 0.01]), mask=missing[4]
            ),
            "s0": rng.integers(0, 3, ROWS),
        }
    )


@pytest.fixture(scope="module")
def frame(spark, events):
    return spark.createDataFrame(events).repartition(5).cache()


def one_by_one(frame, name, **arguments):
    wanted = SKETCHES[name]
    columns = {role: column for role, column in wanted.columns.items() if column is not None}
    return sketch_df(frame, wanted.prototype, **columns, **arguments)


def assert_alike(name, together, alone, events=None):
    assert together.config == alone.config
    if name in EXACT:
        assert together == alone
    else:
        assert together.guarantee <= together.config.relative_error
        assert together.latest == alone.latest


def test_one_scan_equals_many(frame):
    together = sketch_many(frame, SKETCHES)
    assert list(together) == list(SKETCHES)
    for name, sketch in together.items():
        assert_alike(name, sketch, one_by_one(frame, name))


@pytest.mark.parametrize("shuffle", ["rows", "partials"])
@pytest.mark.parametrize("by", ["page", ["page", "s0"]])
def test_groups_have_one_column_per_sketch(frame, by, shuffle):
    table = sketch_many(frame, SKETCHES, by=by, shuffle=shuffle)
    keys = [by] if isinstance(by, str) else by
    assert table.columns == [*keys, *SKETCHES]
    rows = {tuple(row[key] for key in keys): row for row in table.collect()}
    assert len(rows) == frame.select(*keys).distinct().count()
    for name in ("users", "arrivals", "fading", "tallies"):
        alone = one_by_one(frame, name, by=by, shuffle=shuffle).collect()
        assert len(alone) == len(rows)
        for row in alone:
            mine = loads(rows[tuple(row[key] for key in keys)][name])
            assert_alike(name, mine, loads(row["sketch"]))


def test_in_order_sketches_hold_with_chunks_in_any_order(frame, events, monkeypatch):
    """Small chunks give many leaves per partition, which are not in time order."""
    monkeypatch.setattr(api, "_LIMITS", Limits(chunk=4_000, frames=4_000, sketches=20_000))
    known = events.select(["arrived"]).drop_null()["arrived"].to_numpy()
    together = sketch_many(frame, SKETCHES)
    for window in (10, 300, 1500):
        answer = together["arrivals"].query(window)
        truth = int((known > known.max() - window).sum())
        assert answer.lower <= truth <= answer.upper
        assert abs(answer.value - truth) <= 0.1 * truth
    for name in EXACT:
        assert_alike(name, together[name], one_by_one(frame, name))
    by_page = {row["page"]: row for row in sketch_many(frame, SKETCHES, by="page").collect()}
    pages = events.select(["arrived", "page"]).filter(events["arrived"].is_valid()).to_pydict()
    for page, row in by_page.items():
        times = np.array([t for t, p in zip(*pages.values(), strict=True) if p == page])
        answer = loads(row["arrivals"]).query(400, now=int(known.max()))
        assert answer.lower <= (times > known.max() - 400).sum() <= answer.upper


def test_an_empty_frame(spark, frame):
    none = frame.limit(0)
    for name, sketch in sketch_many(none, SKETCHES).items():
        assert sketch == SKETCHES[name].prototype
    assert sketch_many(none, SKETCHES, by="page").collect() == []
    only_nulls = frame.withColumn("user", F.lit(None).cast("string"))
    rows = sketch_many(only_nulls, SKETCHES, by="page").collect()
    assert rows
    for row in rows:
        assert loads(row["users"]).is_empty
        assert not loads(row["amounts"]).is_empty


@pytest.mark.parametrize(
    ("sketches", "arguments", "error", "message"),
    [
        ({}, {}, TypeError, "must be a dict"),
        ([SKETCHES["users"]], {}, TypeError, "must be a dict"),
        ({"users": RandomizedWave()}, {}, TypeError, r"users must be on\(prototype"),
        ({5: SKETCHES["users"]}, {}, TypeError, "names of sketches must be strings"),
        ({"x": on(RandomizedWave(), at="at")}, {}, TypeError, "x: RandomizedWave needs item="),
        ({"x": on(SumWave(), at="nowhere")}, {}, ValueError, "x: at='nowhere' does not name"),
        ({"x": on(SumWave, at="at")}, {}, TypeError, "x: prototype must be a sketch"),
        ({"page": SKETCHES["users"]}, {"by": "page"}, ValueError, "none be called page"),
        ({"x": on(ExponentialHistogram(by="count"), at="at")}, {}, ValueError, "count-based"),
        (SKETCHES, {"depth": 0}, ValueError, "depth"),
        (SKETCHES, {"shuffle": "all"}, ValueError, "shuffle"),
    ],
)
def test_refused_before_any_job(frame, sketches, arguments, error, message):
    with pytest.raises(error, match="sketch_many: .*" + message):
        sketch_many(frame, sketches, **arguments)


def test_a_thousand_partitions(spark):
    visits = Visits(100_000)
    wanted = {
        "users": on(RandomizedWave(50_000, capacity=200), at="at", item="user"),
        "counts": on(ExponentialHistogram(50_000, 0.1), at="at"),
    }
    frame = visits.frame(spark, 1000)
    together = sketch_many(frame, wanted, depth=3)
    users = visits.update(wanted["users"].prototype.copy(), item="user")
    assert together["users"].to_bytes() == users.to_bytes()
    assert_counts(together["counts"], 20_000)
    # Groups cost more for each partition; a hundred meet in several nodes, too.
    frame = visits.frame(spark, 100)
    by_page = sketch_many(frame, wanted, by="page", shuffle="partials", depth=3)
    row = by_page.where("page = 0").first()
    of_page = visits.update(wanted["users"].prototype.copy(), page=0, item="user")
    assert bytes(row["users"]) == of_page.to_bytes()
    assert_counts(loads(row["counts"]), 18_000)


def assert_counts(sketch, truth):
    answer = sketch.query(20_000)
    assert answer.lower <= truth <= answer.upper
    assert abs(answer.value - truth) <= 0.1 * truth


def test_columns_with_equal_texts_are_distinguished(spark):
    a = spark.range(100).selectExpr("id AS k", "id AS t", "id % 7 AS u")
    b = spark.range(100).selectExpr("id AS k", "id + 1000 AS t", "id % 50 AS u")
    wave = RandomizedWave(10_000)
    made = sketch_many(
        a.join(b, a.k == b.k),
        {"a": on(wave, at=a.t, item=a.u), "b": on(wave, at=b.t, item=b.u)},
    )
    assert (made["a"].query().value, made["a"].latest) == (7, 99)
    assert (made["b"].query().value, made["b"].latest) == (50, 1099)


@pytest.mark.parametrize("shuffle", ["rows", "partials"])
def test_one_sketch_that_needs_order_by_group(frame, shuffle):
    wanted = {"n": on(ExponentialHistogram(1500, 0.1), at="arrived")}
    made = sketch_many(frame, wanted, by="page", shuffle=shuffle)
    for row in made.collect():
        missing = frame.where(F.col("arrived").isNotNull() & F.col("page").eqNullSafe(row["page"]))
        newest = missing.agg(F.max("arrived")).first()[0]
        truth = missing.where(F.col("arrived") > newest - 500).count()
        answer = loads(row["n"]).query(500)
        assert answer.lower <= truth <= answer.upper


def test_each_sketch_keeps_its_own_stream(frame):
    wanted = {
        name: on(SumWave(1500, capacity=30, stream=stream), at="at", value="amount", id="event")
        for name, stream in (("a", 1), ("b", 2))
    }
    for row in sketch_many(frame, wanted, by="page").collect():
        assert (loads(row["a"])._stream, loads(row["b"])._stream) == (1, 2)
