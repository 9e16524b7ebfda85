"""For all ids, intervals cover at their confidence, or the question raises an error.

Ids are drawn from k values, k = 1 … n: events with equal id, time and value share a coin. Each
trial has its own seed; misses may not exceed what a true probability of δ allows (false alarms:
1e-6 per test).
"""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from accuracy.statistics import assert_rare
from recency import (
    DyadicEcm,
    EcmSketch,
    Estimate,
    NoAnswerError,
    QuantileWave,
    SumWave,
    WeightBasedMergingHistogram,
    merge_all,
)
from recency.decay import Polynomial

SIZE, TRIALS, DOUBT = 6000, 100, 0.05
KINDS = ["uniform", "skewed"]
IDS = [1, 3, 30, 200, 1000, SIZE]
TIMES = {
    "a hundred a tick": np.arange(SIZE) // 100,
    "one tick": np.zeros(SIZE, dtype=np.int64),
    "all different": np.arange(SIZE),
}
VALUES = {
    "ones": np.ones(SIZE, dtype=np.int64),
    "few": np.random.default_rng(3).integers(1, 20, SIZE),
}


def drawn_ids(k):
    """Return uniform ids, and ids of which nine in ten are equal."""
    rng = np.random.default_rng(k)
    uniform = rng.integers(0, k, SIZE)
    return {"uniform": uniform, "skewed": np.where(rng.random(SIZE) < 0.9, 0, uniform)}


def is_missed(ask, truth):
    """Whether an answer misses; None if the question raises an error."""
    try:
        answer = ask()
    except NoAnswerError as error:
        return None if "share a coin" in str(error) else True
    return not np.all((answer.lower <= truth) & (truth <= answer.upper))


@pytest.mark.parametrize("k", IDS)
@pytest.mark.parametrize("times", TIMES)
def test_intervals_cover_for_all_ids(times, k):
    refused = check_coverage(times, k, ["uniform"] if times == "one tick" else KINDS)
    if k == SIZE or times == "all different":
        assert not any(n for (kind, *_), n in refused.items() if kind == "uniform")


def test_intervals_cover_if_one_event_is_most_of_the_window():
    check_coverage("one tick", SIZE, ["skewed"])


def check_coverage(times, k, kinds):
    """Assert that few answers miss; return how many are refused, by ids, values and question."""
    missed, refused = {}, {}
    for kind in kinds:
        ids = drawn_ids(k)[kind]
        for name, values in VALUES.items():
            median = np.sort(values)[SIZE // 2 - 1]
            for seed in range(TRIALS):
                settings = {"capacity": 150, "seed": seed}
                sums, ranks = SumWave(10**6, **settings), QuantileWave(10**6, **settings)
                for sketch in (sums, ranks):
                    sketch.update_many(values, at=TIMES[times], id=ids)
                for question, ask, truth in [
                    ("sum", sums.query, values.sum()),
                    ("count", ranks.count, SIZE),
                    ("median", ranks.query, median),
                ]:
                    key = kind, name, question
                    outcome = is_missed(ask, truth)
                    missed[key] = missed.get(key, 0) + bool(outcome)
                    refused[key] = refused.get(key, 0) + (outcome is None)
    assert_rare(missed, TRIALS, DOUBT)
    return refused


@pytest.mark.parametrize("k", [1, 30, SIZE])
@pytest.mark.parametrize("times", ["a hundred a tick", "one tick"])
def test_cells_and_buckets_cover_for_all_ids(times, k):
    ids, at, values = drawn_ids(k)["uniform"], TIMES[times], VALUES["few"]
    decay = Polynomial(1, scale=50)
    decayed = float(decay(at.max() - at).sum())
    of_item = int((values == 7).sum())
    missed = dict.fromkeys(["decayed", "item", "total", "dyadic"], 0)
    trials = 40
    for seed in range(trials):
        histogram = WeightBasedMergingHistogram(decay, capacity=100, seed=seed)
        histogram.update_many(values, at=at, id=ids)
        cells = EcmSketch(10**6, 0.1, counter="rw", cell_capacity=100, seed=seed)
        cells.update_many(values, at=at, id=ids)
        small = {"width": 20, "depth": 3, "range_depth": 2, "cell_error": 0.1}
        dyadic = DyadicEcm(
            10**6, 0.3, universe_bits=6, counter="rw", cell_capacity=100, seed=seed, **small
        )
        dyadic.update_many(values, at=at, id=ids)
        missed["decayed"] += bool(is_missed(histogram.query, decayed))
        missed["item"] += bool(is_missed(lambda cells=cells: cells.query(7), of_item))
        missed["total"] += bool(is_missed(cells.total, SIZE))
        missed["dyadic"] += bool(is_missed(lambda dyadic=dyadic: dyadic.query(7), of_item))
    assert_rare(missed, trials, DOUBT)


@pytest.mark.parametrize("cls", [SumWave, QuantileWave])
def test_intervals_cover_for_merged_sketches_of_one_stream_number(cls):
    """Thirty parts with equal times and values, built without different streams: shared coins."""
    parts, trials = 30, 40
    missed = {"count": 0}
    for seed in range(trials):
        merged = merge_all(
            part
            for part in [cls(10**6, capacity=150, seed=seed) for _ in range(parts)]
            if part.update_many(1, at=np.arange(4000) // 10) is None
        )
        count = merged.query if cls is SumWave else merged.count
        missed["count"] += bool(is_missed(count, 4000 * parts))
    assert_rare(missed, trials, DOUBT)


def test_many_repetitions_of_one_event_are_counted_though_none_is_sampled():
    at = np.zeros(400_000, dtype=int)
    sums, ranks = SumWave(10**6), QuantileWave(10**6)
    for sketch in (sums, ranks):
        sketch.update_many(1, at=at, id=7)
    assert sums.query() == ranks.count() == Estimate(400_000.0, 400_000.0, 400_000.0, 1.0)
    for ask in (ranks.query, lambda: ranks.rank(1)):
        with pytest.raises(NoAnswerError, match="id, time and value share a coin"):
            ask()


def mixtures():
    """Streams (ids, times, values), from one event that is repeated to Zipf's law."""
    rng = np.random.default_rng(7)
    few, floats = rng.integers(1, 20, SIZE).astype(float), rng.lognormal(0, 1.5, SIZE)
    unique, times = np.arange(SIZE), rng.integers(0, 4000, SIZE)
    streams = {
        "unique": (unique, times, few),
        "unique floats": (unique, np.sort(times), floats),
        "unique, one tick": (unique, np.zeros(SIZE, dtype=np.int64), few),
        "unique, a burst": (
            unique,
            np.where(unique < 5500, rng.integers(90, 110, SIZE), times),
            few,
        ),
    }
    for share in (0.01, 0.05, 0.2, 0.6):
        for at in (100, 3600, 3900, 3901, 3999):  # two are on either side of where a window begins
            repeated = rng.permutation(SIZE)[: int(share * SIZE)]
            for name, values in (("few", few), ("floats", floats)):
                ids, ticks, numbers = unique.copy(), times.copy(), values.copy()
                ids[repeated], ticks[repeated] = -1, at
                numbers[repeated] = values[repeated[0]]
                streams[f"{share} of {name} at {at}"] = ids, ticks, numbers
    of_users = np.minimum(rng.zipf(1.3, SIZE), 10**6)
    days = rng.integers(0, 20, SIZE) * 200
    streams["users and days"] = of_users, days, np.ones(SIZE)
    streams["users and days, values"] = of_users, days, of_users % 7 + 0.1
    again = np.repeat(np.arange(33), 20)
    ids = np.concatenate([again, np.arange(33, SIZE - 660 + 33)])
    at = np.concatenate([times[again], times[660:]])
    streams["33 of 20"] = ids, at, np.concatenate([few[again], few[660:]])
    return streams


MIXTURES = mixtures()
SHARES = [0.1, 0.25, 0.5, 0.75, 0.99]


@pytest.mark.parametrize("name", MIXTURES)
def test_all_questions_of_mixtures_are_covered(name):
    """Of windows of all widths, also later than the latest time."""
    ids, at, values = MIXTURES[name]
    latest = int(at.max())
    windows = [(10**6, latest), (2000, latest), (100, latest), (99, latest), (1, latest)]
    windows.append((700, latest + 300))
    missed, refused = {}, 0
    for seed in range(40):
        settings = {"capacity": 150, "seed": seed}
        sums, ranks = SumWave(10**6, **settings), QuantileWave(10**6, **settings)
        for sketch in (sums, ranks):
            sketch.update_many(values, at=at, id=ids)
        for width, now in windows:
            inside = np.sort(values[at > now - width])
            if not inside.size:
                assert sums.query(width, now) == Estimate(0.0, 0.0, 0.0, 1.0)
                continue
            asked = {"window": width, "now": now}
            for question, ask, truth in questions(sums, ranks, asked, inside):
                outcome = is_missed(ask, truth)
                key = question, width
                missed[key] = missed.get(key, 0) + bool(outcome)
                assert outcome is not None or question not in ("sum", "count")
                refused += outcome is None
    assert_rare(missed, 40, DOUBT)
    assert not refused or not name.startswith("unique")


def questions(sums, ranks, asked, inside):
    """Each with its answer and the truth."""
    yield "sum", lambda: sums.query(**asked), math.fsum(inside)
    yield "count", lambda: ranks.count(**asked), inside.size
    yield "rank", lambda: ranks.rank(5.0, **asked), np.mean(inside <= 5.0)
    yield "several", lambda: ranks.quantiles(SHARES, **asked), quantiles(inside, SHARES)
    for q in (0.02, 0.5, 0.9):
        yield f"quantile {q}", partial(ranks.query, q, **asked), quantiles(inside, [q])[0]


def quantiles(in_order, shares):
    """The least values that so many do not exceed."""
    return np.array(
        [in_order[max(math.ceil(Fraction(str(q)) * in_order.size) - 1, 0)] for q in shares]
    )


def test_events_that_are_repeated_hundreds_of_times_beside_single_ones():
    """33 events, each 0.3 % of the window."""
    again = np.repeat(np.arange(33), 300)
    ids = np.concatenate([again, np.arange(33, 90_133)])
    at = ids * 7919 % 4000
    missed, trials = dict.fromkeys(["sum", "count", "part"], 0), 60
    for seed in range(trials):
        sums, ranks = SumWave(10**6, seed=seed), QuantileWave(10**6, capacity=1000, seed=seed)
        for sketch in (sums, ranks):
            sketch.update_many(1, at=at, id=ids)
        missed["sum"] += is_missed(sums.query, ids.size)
        missed["count"] += is_missed(ranks.count, ids.size)
        missed["part"] += is_missed(lambda s=sums: s.query(1300), np.sum(at > 3999 - 1300))
    assert_rare(missed, trials, DOUBT)


def test_sums_by_age_make_sums_of_single_events_more_accurate():
    """Of all widths; with ids intervals are a third as wide as without, or narrower."""
    size, widths = 100_000, range(1000, 100_000, 997)
    drawn, by_id = SumWave(10**6, capacity=500), SumWave(10**6, capacity=500)
    drawn.update_many(1, at=np.arange(size))
    by_id.update_many(1, at=np.arange(size), id=np.arange(size))
    wide, narrow = (
        sum(float(a.upper - a.lower) for a in map(sketch.query, widths))
        for sketch in (drawn, by_id)
    )
    assert narrow < wide / 3


def test_ids_of_users_do_not_shrink_a_sum():
    """Equal ids at different times have different coins."""
    size = 400_000
    sums, ranks = SumWave(10**6), QuantileWave(10**6)
    rows = np.arange(size)
    sums.update_many(1, at=rows // 100, id=rows % 50)
    ranks.update_many(rows % 50, at=rows // 100, id=rows % 50)
    answer = sums.query()
    assert answer.lower <= size <= answer.upper
    assert answer.upper - answer.lower <= 4 * sums.guarantee * size
    median = ranks.query()
    assert median.lower <= 24 <= median.upper
