"""Sketches in expressions and in SQL give the same answers as sketches on the driver."""

import datetime
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest
from pyspark.sql import functions as F
from tally_sketch import TallySketch

from recency import (
    DecayedSample,
    DyadicEcm,
    EcmSketch,
    ExponentialHistogram,
    NthRecentWave,
    QuantileWave,
    RandomizedWave,
    SumWave,
    WeightBasedMergingHistogram,
    loads,
    merge_all,
)
from recency.decay import Custom, Exponential, Polynomial
from recency.spark import functions as R
from recency.spark import register, sketch_df

ROWS = 3_000
FIRST = 1_762_056_000  # 2025-11-02 00:00 in New York, where that day has 25 hours


@pytest.fixture(scope="module")
def events():
    rng = np.random.default_rng(8)
    missing = rng.random((3, ROWS)) < 0.03
    seconds = FIRST + rng.integers(0, 90_000, ROWS)
    return pa.table(
        {
            "t": pa.array(
                seconds.astype("datetime64[s]"), pa.timestamp("us", "UTC"), mask=missing[0]
            ),
            "ticks": seconds,
            "user": pa.array([f"user {i}" for i in rng.integers(0, 200, ROWS)], mask=missing[1]),
            "amount": pa.array(rng.integers(1, 50, ROWS), mask=missing[2]),
            "page": rng.choice(["a", "b", "c"], ROWS),
        }
    )


@pytest.fixture(scope="module")
def frame(spark, events):
    return spark.createDataFrame(events).repartition(3).cache()


AGGREGATES = {
    "users": (RandomizedWave("1 day", unit="s", capacity=40), {"at": "t", "item": "user"}),
    "clicks": (ExponentialHistogram("1 day", unit="s"), {"at": "t"}),
    "amounts": (SumWave(capacity=30), {"at": "ticks", "value": "amount", "id": "ticks"}),
    "fading": (DecayedSample(capacity=30, unit="us"), {"at": "t", "weight": "amount"}),
    "tallies": (TallySketch(), {"at": "ticks", "value": "amount"}),
}


def assert_counts(events, sketch, page):
    """Compare the counts of clicks of a page in some windows with the exact ones."""
    mine = events.filter(pa.compute.equal(events["page"], page)).select(["t"]).drop_null()
    seconds = mine["t"].to_numpy().astype("datetime64[s]").astype(np.int64)
    assert sketch.latest == seconds.max()
    for window in (600, 3600, 40_000):
        answer, truth = sketch.query(window), int((seconds > seconds.max() - window).sum())
        assert answer.lower <= truth <= answer.upper
        assert abs(answer.value - truth) <= sketch.guarantee * truth


@pytest.mark.parametrize("name", AGGREGATES)
def test_an_aggregate_is_the_sketch_of_each_group(events, frame, name):
    prototype, columns = AGGREGATES[name]
    built = frame.groupBy("page").agg(R.sketch_agg(prototype, **columns).alias("sketch")).collect()
    expected = sketch_df(frame, prototype, **columns, by="page", shuffle="rows").collect()
    expected = {row["page"]: loads(row["sketch"]) for row in expected}
    assert {row["page"] for row in built} == set(expected)
    for row in built:
        sketch = loads(row["sketch"])
        if prototype.merge_law == "exact":
            assert sketch == expected[row["page"]]
        else:
            assert_counts(events, sketch, row["page"])


def test_aggregates_of_no_rows(frame):
    users = R.sketch_agg(AGGREGATES["users"][0], at="t", item="user")
    rows = frame.limit(0).agg(users.alias("sketch")).collect()
    assert all(row["sketch"] is None or loads(row["sketch"]).is_empty for row in rows)
    assert frame.limit(0).groupBy("page").agg(users).collect() == []
    nulls = frame.withColumn("user", F.lit(None).cast("string"))
    assert loads(nulls.agg(users.alias("sketch")).first()["sketch"]).is_empty


@pytest.fixture(scope="module")
def stored(spark, frame):
    """Return sketches of several classes by page and hour, and NULLs."""
    hours = frame.withColumn("hour", F.hour("t"))
    parts = []
    for name, (prototype, columns) in AGGREGATES.items():
        by_hour = sketch_df(hours, prototype, **columns, by=["page", "hour"], shuffle="rows")
        parts.append(by_hour.withColumn("kind", F.lit(name)))
    table = parts[0]
    for part in parts[1:]:
        table = table.union(part)
    null = table.limit(1).withColumn("sketch", F.lit(None).cast("binary"))
    return table.union(null).cache()


def test_merge_agg_equals_merge_all(events, stored):
    merged = stored.groupBy("kind", "page").agg(R.merge_agg("sketch").alias("sketch")).collect()
    frames = {}
    for row in stored.collect():
        if row["sketch"] is not None:
            frames.setdefault((row["kind"], row["page"]), []).append(loads(row["sketch"]))
    assert len(merged) == len(frames)
    for row in merged:
        sketches = frames[row["kind"], row["page"]]
        mine = loads(row["sketch"])
        if sketches[0].merge_law == "exact":
            assert mine == merge_all(sketches)
        else:
            assert_counts(events, mine, row["page"])
    none = stored.where("sketch is null").agg(R.merge_agg("sketch").alias("s")).first()
    assert none["s"] is None


def by_hand(answer):
    return (answer.value, answer.lower, answer.upper, answer.confidence)


QUESTIONS = [
    ("users", None, {}),
    ("users", "query", {"window": "1 hour"}),
    ("users", None, {"window": datetime.timedelta(minutes=90)}),
    ("clicks", None, {"window": 7200, "now": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)}),
    ("fading", None, {"decay": Exponential(half_life=3600, scale=10**6)}),
    ("fading", "quantile", {"q": 0.25}),
    ("fading", "correlated_sum", {"threshold": 0}),
    ("fading", "mean", {}),
    ("amounts", "query", {"window": 10_000}),
]


@pytest.mark.parametrize(("kind", "question", "literals"), QUESTIONS)
def test_estimates_are_those_of_the_sketches(stored, kind, question, literals):
    some = stored.where(F.col("kind") == kind)
    rows = some.select(
        "sketch", R.estimate("sketch", question, **literals).alias("answer")
    ).collect()
    assert rows
    for row in rows:
        if row["sketch"] is None:
            assert row["answer"] is None
        else:
            expected = getattr(loads(row["sketch"]), question or "query")(**literals)
            assert tuple(row["answer"]) == by_hand(expected)


def test_other_questions(spark):
    quantiles, nth, ecm = QuantileWave(capacity=100), NthRecentWave(), EcmSketch()
    quantiles.update_many(range(50), at=range(50))
    nth.update_many(at=range(50))
    ecm.update_many(["a", "b", "a"], at=[1, 2, 3])
    rows = [(quantiles.to_bytes(), nth.to_bytes(), ecm.to_bytes())]
    frame = spark.createDataFrame(rows, "q binary, n binary, e binary")
    answers = frame.select(
        R.estimate("q", q=0.5).alias("median"),
        R.estimate("q", "rank", value=10).alias("rank"),
        R.estimate("n", n=3).alias("third"),
        R.estimate(F.col("e"), item="a").alias("a"),
        R.estimate("e", "self_join").alias("join"),
        R.describe("e").alias("text"),
    ).first()
    assert answers["median"]["estimate"] == 24
    assert answers["rank"]["estimate"] == pytest.approx(0.22)
    assert answers["third"]["estimate"] == 2
    assert answers["a"]["upper"] == 2
    assert answers["join"]["upper"] == 5
    assert answers["text"] == repr(ecm)


def test_frequent_items(spark):
    sketch = DecayedSample()
    sketch.update_many([1, 1, 2.5, 3], at=range(4), weight=[5, 5, 4, 1])
    frame = spark.createDataFrame([(sketch.to_bytes(),), (None,)], "sketch binary")
    listed = [
        row["f"] for row in frame.select(R.frequent("sketch", threshold=0.2).alias("f")).collect()
    ]
    assert [(each["item"], each["estimate"]) for each in listed[0]] == [("1", 10), ("2.5", 4)]
    assert listed[1] is None


@pytest.fixture
def zone_without_repeated_hours(spark):
    """On Spark 4.0, SQL aggregates get local times."""
    before = spark.conf.get("spark.sql.session.timeZone")
    if not hasattr(F, "arrow_udf"):
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.skipif(hasattr(F, "arrow_udf"), reason="times are exact")
def test_local_times_that_occur_twice_are_refused(spark, frame):
    register(spark, {"users": AGGREGATES["users"][0]})
    frame.createOrReplaceTempView("events")
    with pytest.raises(Exception, match=r"ambiguous .*set spark.sql.session.timeZone to UTC"):
        spark.sql("select users_agg(t, user) from events").collect()


@pytest.mark.usefixtures("zone_without_repeated_hours")
def test_sql(spark, frame, stored):
    register(spark, {name: prototype for name, (prototype, _) in AGGREGATES.items()})
    frame.createOrReplaceTempView("events")
    stored.createOrReplaceTempView("stored")
    built = spark.sql(
        "select page, users_agg(t, user) as sketch from events group by page"
    ).collect()
    expected = sketch_df(frame, AGGREGATES["users"][0], at="t", item="user", by="page").collect()
    expected = {row["page"]: bytes(row["sketch"]) for row in expected}
    assert {row["page"]: bytes(row["sketch"]) for row in built} == expected
    assert spark.sql("select clicks_agg(t) as s from events").first()["s"] is not None

    text = json.dumps({"decay": {"kind": "Exponential", "half_life": 3600, "scale": 10**6}})
    answers = spark.sql(
        f"""select sketch, recency_estimate(sketch, null, '{text}') as fading,
                   recency_estimate(sketch, 'quantile', '{{"q": 0.25}}').lower as low,
                   recency_frequent(sketch, 'frequent_items', '{{"threshold": 0.5}}') as many,
                   recency_describe(sketch) as text
            from stored where kind = 'fading' and sketch is not null"""
    ).collect()
    for row in answers:
        sketch = loads(row["sketch"])
        assert tuple(row["fading"]) == by_hand(
            sketch.query(Exponential(half_life=3600, scale=10**6))
        )
        assert row["low"] == sketch.quantile(0.25).lower
        assert len(row["many"]) == len(sketch.frequent_items(0.5))
        assert row["text"] == repr(sketch)
    merged = spark.sql(
        """select recency_estimate(recency_merge_agg(sketch), 'query', null).estimate as n
           from stored where kind = 'users' and page = 'a'"""
    ).first()["n"]
    assert merged == loads(expected["a"]).query().value
    nothing = spark.sql("select recency_describe(cast(null as binary)) as t").first()["t"]
    assert nothing is None


CORRUPT = b"RC\x01\x03\x00\x00junk"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: R.estimate("s"), "functions.estimate: corrupt sketch"),
        (lambda: R.describe("s"), "functions.describe: corrupt sketch"),
        (lambda: R.frequent("s", threshold=0.5), "functions.frequent: corrupt sketch"),
        (lambda: R.merge_agg("s"), "functions.merge_agg: corrupt sketch"),
        (lambda: F.expr("recency_estimate(s, null, null)"), "recency_estimate: corrupt sketch"),
        (lambda: F.expr("recency_merge_agg(s)"), "recency_merge_agg: corrupt sketch"),
    ],
)
def test_corrupt_bytes_are_named(spark, ask, message):
    register(spark)
    frame = spark.createDataFrame([(CORRUPT,)], "s binary")
    with pytest.raises(Exception, match=message):
        frame.select(ask()).collect()


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("recency_estimate(sketch, 'nonsense', null)", "no sketch has a question 'nonsense'"),
        ("recency_estimate(sketch, null, 'window')", "must be JSON"),
        ("recency_estimate(sketch, null, '[1]')", "must be a JSON object"),
        ("recency_estimate(sketch, null, '{\"size\": 1}')", "query takes .* not size"),
        ('recency_estimate(sketch, null, \'{"decay": {"kind": "None"}}\')', "a decay is"),
        ("recency_estimate(sketch, 'query', '{\"window\": \"long\"}')", "must be a duration"),
        ("recency_estimate(sketch, 'selectivity')", "needs where=, a Python function"),
        ("recency_estimate(sketch, 'median')", "RandomizedWave has no question 'median'"),
        ("recency_estimate(sketch, 'query', null, 1)", "takes a sketch, a question and JSON"),
    ],
)
def test_bad_questions_in_sql_are_explained(spark, stored, question, message):
    register(spark)
    with pytest.raises(Exception, match="recency_estimate: .*" + message):
        stored.where("kind = 'users' and sketch is not null").selectExpr(question).collect()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: R.sketch_agg(SumWave, at="t"),
            TypeError,
            "sketch_agg: prototype must be a sketch",
        ),
        (lambda: R.sketch_agg(SumWave()), TypeError, "sketch_agg: SumWave needs at="),
        (lambda: R.sketch_agg(SumWave(), at="t", item="u"), TypeError, "takes no item"),
        (lambda: R.sketch_agg(SumWave(), at=5), TypeError, "at must be a column or its name"),
        (lambda: R.merge_agg(None), TypeError, "merge_agg: column must be a column"),
        (lambda: R.estimate(5), TypeError, "estimate: column must be a column"),
        (lambda: R.estimate("s", "nonsense"), ValueError, "no sketch has a question 'nonsense'"),
        (lambda: R.estimate("s", "update"), ValueError, "no sketch has a question 'update'"),
        (lambda: R.estimate("s", "_stream"), ValueError, "no sketch has a question"),
        (lambda: R.estimate("s", 5), TypeError, "question must be a name"),
        (lambda: R.estimate("s", size=5), TypeError, "query takes .* not size"),
        (lambda: R.estimate("s", "quantile", n=5), TypeError, "quantile takes .* not n"),
        (lambda: R.estimate("s", where=len), TypeError, "not where"),
        (
            lambda: R.estimate("s", "selectivity"),
            TypeError,
            "functions.estimate: selectivity needs where=, a Python function",
        ),
        (
            lambda: R.estimate("s", "selectivity", now=5),
            TypeError,
            "functions.estimate: selectivity needs where=, a Python function",
        ),
        (lambda: R.estimate("s", window=[1]), TypeError, "window must be an integer, got list"),
        (lambda: R.estimate("s", now=[1]), TypeError, "now must be a plain value"),
        (lambda: R.estimate("s", decay=Custom(lambda x: 1 / (1 + x))), ValueError, "cannot encode"),
        (lambda: R.estimate("s", "config_class"), ValueError, "no sketch has a question"),
        (lambda: R.estimate("s", window="ten minuts"), ValueError, "window must be a duration"),
        (lambda: R.estimate("s", window=-5), ValueError, "estimate: window must be"),
        (lambda: R.estimate("s", "quantile", q=2.0), ValueError, "estimate: q must be"),
        (lambda: R.estimate("s", "quantile", q="high"), TypeError, "estimate: q must be a number"),
        (lambda: R.estimate("s", "rank"), TypeError, "rank takes .* got none that it needs"),
        (lambda: R.estimate("s", "frequent_items", threshold=0.1), TypeError, "another kind"),
        (lambda: R.frequent("s", "self_join"), TypeError, "frequent: self_join has another kind"),
        (lambda: R.frequent("s"), TypeError, "heavy_hitters takes .* got none that it needs"),
        (lambda: R.frequent("s", "nonsense"), ValueError, "frequent: no sketch has a question"),
        (lambda: register("spark"), TypeError, "register: spark must be a SparkSession"),
    ],
)
def test_refused_before_any_job(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_names_in_sql_are_checked(spark):
    with pytest.raises(TypeError, match="register: prototypes must be a dict"):
        register(spark, [SumWave()])
    for name in ("", "a b", "1st", 5, "recency_merge"):
        with pytest.raises(ValueError, match="register: a name must be one in SQL"):
            register(spark, {name: SumWave()})
    filled = SumWave()
    filled.update(at=1)
    with pytest.raises(ValueError, match="register: x: prototype must be empty"):
        register(spark, {"x": filled})


def test_groups_draw_coins_of_their_own(spark):
    """All groups have the same times and values: with equal coins errors would add up."""
    events = spark.range(60_000).selectExpr("id div 600 AS g", "id % 600 AS t", "1 AS v")
    for seed in range(4):
        prototype = SumWave(5_000, relative_error=0.1, confidence=0.999, seed=seed)
        by_group = events.groupBy("g").agg(R.sketch_agg(prototype, at="t", value="v"))
        answer = loads(by_group.agg(R.merge_agg("sketch")).first()["sketch"]).query()
        assert answer.lower <= 60_000 <= answer.upper
        again = by_group.agg(R.merge_agg("sketch")).first()["sketch"]
        assert loads(again).query() == answer


def test_sketches_without_an_answer_give_null(spark):
    filled, empty = QuantileWave(), QuantileWave()
    filled.update_many([1, 2, 3], at=[1, 2, 3])
    rows = [(1, filled.to_bytes()), (2, empty.to_bytes())]
    frame = spark.createDataFrame(rows, "k long, s binary").sort("k")
    answers = [row["a"] for row in frame.select(R.estimate("s", q=0.5).alias("a")).collect()]
    assert answers[0]["estimate"] == 2
    assert answers[1] is None or answers[1]["estimate"] is None


@pytest.mark.skipif(not hasattr(F, "arrow_udf"), reason="pandas does not say what types were")
@pytest.mark.parametrize(
    ("column", "prototype", "roles", "message"),
    [
        ("current_timestamp()", SumWave(), {"at": "x"}, "the prototype has no unit"),
        ("1.50", SumWave(), {"at": "k", "value": "x"}, "value=value is of type decimal"),
        ("current_timestamp()", RandomizedWave(), {"at": "k", "item": "x"}, "item=item is of type"),
    ],
)
def test_types_are_checked_on_workers(spark, column, prototype, roles, message):
    frame = spark.range(3).selectExpr("id AS k", f"{column} AS x")
    with pytest.raises(Exception, match="sketch_agg: .*" + message):
        frame.agg(R.sketch_agg(prototype, **roles)).collect()


def test_heavy_hitters_are_given_by_name(spark):
    visits = spark.range(20_000).selectExpr(
        "id AS t", "id % 2 AS site", "concat('/', if(id % 10 < 4, 1, id % 997)) AS page"
    )
    wanted = DyadicEcm(5_000, names=True, universe_bits=20)
    by_site = sketch_df(visits, wanted, at="t", item="page", by="site")
    frequent = by_site.select("site", R.frequent("sketch", threshold=0.2).alias("f"))
    for row in frequent.collect():
        recent = visits.where(F.col("site") == row["site"]).where("t >= 15000")
        truth = recent.where("page = '/1'").count()
        ((item, estimate, lower, upper, _),) = row["f"]
        assert item == "/1"
        assert lower <= truth <= upper
        assert abs(estimate - truth) <= 0.1 * recent.count()
    whole = sketch_df(visits, wanted, at="t", item="page")
    assert [item for item, _ in whole.heavy_hitters(0.2)] == ["/1"]
    register(spark)
    by_site.createOrReplaceTempView("sites")
    text = '{"threshold": 0.2, "window": 1000}'
    rows = spark.sql(f"select recency_frequent(sketch, null, '{text}') as f from sites").collect()
    assert [row["f"][0]["item"] for row in rows] == ["/1", "/1"]


def test_correlated_questions_in_a_column(frame, events):
    """Sums above a threshold, quantiles and heavy hitters of amounts, against the truth."""
    decay = Polynomial(1, scale=3600)
    prototype = WeightBasedMergingHistogram(decay, unit="s")
    named = {"at": "ticks", "value": "amount", "weight": "amount"}
    table = sketch_df(frame, prototype, **named, by="page").select(
        "page",
        R.estimate("sketch", threshold=40).alias("large"),
        R.estimate("sketch", "quantile", q=0.9).alias("high"),
        R.frequent("sketch", threshold=0.02).alias("frequent"),
    )
    found = {row["page"]: row for row in table.collect()}
    assert set(found) == {"a", "b", "c"}
    rows = events.select(["ticks", "amount", "page"]).drop_null()
    ticks, amounts, pages = (
        rows[name].to_numpy(zero_copy_only=False) for name in rows.column_names
    )
    for page, row in found.items():
        mine = pages == page
        weights = amounts[mine] * decay(ticks[mine].max() - ticks[mine])
        values, truth = amounts[mine], weights[amounts[mine] >= 40].sum()
        assert row["large"]["estimate"] == pytest.approx(truth, rel=1e-9)  # few: all are kept
        order = np.argsort(values, kind="stable")
        shares = np.cumsum(weights[order]) / weights.sum()
        assert row["high"]["estimate"] == values[order][np.searchsorted(shares, 0.9)]
        sums = np.bincount(values, weights)
        assert row["frequent"][0]["estimate"] == pytest.approx(sums.max(), rel=1e-9)
        assert len(row["frequent"]) == (sums >= 0.02 * sums.sum()).sum()
