"""Errors and intervals of weight-based merging histograms, over seeded trials, against the truth.

Every kind of failure is counted for itself: stream, threshold and question. With a true failure
probability of ``DOUBT`` all of them together would raise a false alarm once in a million runs.
"""

from collections import Counter

import numpy as np
import pytest

from accuracy.statistics import assert_rare
from recency import WeightBasedMergingHistogram, merge_all
from recency.core.time_buckets import regions_of
from recency.decay import Custom, NoDecay, Polynomial

ERROR, DOUBT = 0.2, 0.1
EVENTS, TRIALS = 6000, 100
DECAY = Polynomial(1.2, scale=50)


def steady(rng):
    return rng.integers(0, 1000, EVENTS), np.arange(EVENTS), np.ones(EVENTS)


def one_tick(rng):
    """All at one time: one bucket is everything."""
    return rng.integers(0, 1000, EVENTS), np.full(EVENTS, 7), rng.integers(1, 100, EVENTS) / 1.0


def two_ends_of_a_bucket(rng):
    """Old events and one in four new ones, as unequal as a bucket may hold: the worst of mixtures.

    The new ones count three times as much, so both ends weigh about the same.
    """
    bucket = WeightBasedMergingHistogram(DECAY)
    bucket.update_many(0, at=[0, 100_000])
    first, last = bucket.buckets[0]
    times = np.where(rng.random(EVENTS) < 0.25, last, first)
    times[0] = 100_000
    return rng.integers(0, 1000, EVENTS), times, np.ones(EVENTS)


def large_values_are_old(rng):
    """What is asked for with a high threshold is long ago, and nearly forgotten."""
    times = rng.integers(0, 50_000, EVENTS)
    return (50_000 - times) // 50, times, rng.integers(1, 10, EVENTS) / 1.0


def heavy_tailed(rng):
    """Few elements weigh more than all others; many share a value."""
    weights = rng.pareto(1.1, EVENTS) + 0.01
    return rng.zipf(1.5, EVENTS) % 1000, rng.integers(0, 3000, EVENTS), weights


STREAMS = [steady, one_tick, two_ends_of_a_bucket, large_values_are_old, heavy_tailed]


def holds(answer, truth):
    return answer.lower * (1 - 1e-12) <= truth <= answer.upper * (1 + 1e-12)


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("parts", [1, 4])
def test_errors_and_intervals_keep_the_guarantee(stream, parts):
    failures = Counter()
    for trial in range(TRIALS):
        rng = np.random.default_rng(trial)
        values, times, weights = stream(rng)
        now = int(times.max()) + int(rng.integers(0, 300))
        sketches = [
            WeightBasedMergingHistogram(DECAY, ERROR, 1 - DOUBT, stream=i, seed=trial)
            for i in range(parts)
        ]
        for i, sketch in enumerate(sketches):
            mine = slice(i, None, parts)
            sketch.update_many(values[mine], at=times[mine], weight=weights[mine])
        sketch = merge_all(sketches)
        g = DECAY(now - times)
        decayed, whole = weights * g, float((weights * g).sum())
        for name, q in [("all", 0), ("median", 0.5), ("1 %", 0.99), ("0.2 %", 0.998)]:
            threshold = float(np.quantile(values, q, method="lower")) if q else 0.0
            above = values >= threshold
            truth = float(decayed[above].sum())
            answer = sketch.query(threshold, now)
            failures[name, "error"] += abs(answer.value - truth) > ERROR * truth
            failures[name, "interval"] += not holds(answer, truth)
            count = float(g[above].sum())
            failures[name, "count: interval"] += not holds(sketch.count(threshold, now), count)
        low, high = np.quantile(values, [0.6, 0.9], method="lower").tolist()
        truth = float(decayed[(values >= low) & (values <= high)].sum())
        answer = sketch.range_sum(low, high, now)
        most = ERROR * decayed[values >= low].sum()
        failures["range", "error"] += abs(answer.value - truth) > most
        failures["range", "interval"] += not holds(answer, truth)
        common = float(np.bincount(values).argmax())
        truth = float(decayed[values == common].sum()) / whole
        answer = sketch.relative_frequency(common, now)
        failures["frequency", "error"] += abs(answer.value - truth) > ERROR
        failures["frequency", "interval"] += not holds(answer, truth)
    assert_rare(failures, TRIALS, DOUBT)


@pytest.mark.parametrize("heavy", [1.0, 6.0, 50.0])
def test_frequencies_of_single_elements_are_covered(heavy):
    failures = Counter()
    weights, values = np.append(heavy, np.ones(5000)), np.append(1.0, np.zeros(5000))
    for trial in range(100):
        sketch = WeightBasedMergingHistogram(NoDecay(), 0.1, 1 - DOUBT, seed=trial)
        sketch.update_many(values, at=0, weight=weights)
        for value, truth in [(1, heavy / (5000 + heavy)), (0, 5000 / (5000 + heavy))]:
            failures[value] += not holds(sketch.relative_frequency(value), truth)
    assert_rare(failures, 100, DOUBT)


@pytest.mark.parametrize("load", [1.5, 2.0, 2.5, 6.0])
@pytest.mark.parametrize(
    ("decay", "oldest", "settings"),
    [
        (Polynomial(1), 10**9, {"capacity": 20}),
        (Polynomial(1), 10**9, {"capacity": 100, "spread": 0.2}),
        (Polynomial(3), 10**15, {"relative_error": ERROR}),
    ],
    ids=["33 buckets", "163 buckets", "153 buckets"],
)
def test_many_buckets_do_not_err_in_one_direction(decay, oldest, settings, load):
    """All buckets count alike, and have about as many elements as begin to be too many."""
    failures = Counter()
    sketch = WeightBasedMergingHistogram(decay, confidence=1 - DOUBT, **settings)
    sketch.update_many(0, at=[0, oldest])
    regions = regions_of(decay, sketch.config.spread)
    last = regions.buckets(regions.grid(0, oldest), oldest)[1]
    times = np.repeat(np.minimum(last, oldest), int(load * sketch.config.capacity))
    weights = 1 / decay(oldest - times)
    truth = times.size
    for trial in range(60):
        sketch = WeightBasedMergingHistogram(decay, confidence=1 - DOUBT, seed=trial, **settings)
        values = np.random.default_rng(trial).random(times.size)
        sketch.update_many(values, at=times, weight=weights)
        answer = sketch.query()
        failures["interval"] += not holds(answer, truth)
        failures["error"] += abs(answer.value - truth) > sketch.guarantee * truth
    assert_rare(failures, 60, DOUBT)


@pytest.mark.parametrize("stream", [steady, heavy_tailed, large_values_are_old])
def test_quantiles_are_covered_and_high_ones_are_accurate(stream):
    failures = Counter()
    for trial in range(60):
        rng = np.random.default_rng(trial)
        values, times, weights = stream(rng)
        sketch = WeightBasedMergingHistogram(DECAY, ERROR, 1 - DOUBT, seed=trial)
        sketch.update_many(values, at=times, weight=weights)
        decayed = weights * DECAY(times.max() - times)
        order = np.argsort(values, kind="stable")
        shares = np.cumsum(decayed[order]) / decayed.sum()
        for q in (0.01, 0.5, 0.99, 0.998):
            truth = values[order][np.searchsorted(shares, q * (1 - 1e-12))]
            answer = sketch.quantile(q)
            failures[q, "interval"] += not answer.lower <= truth <= answer.upper
            # Above the estimate is 1 − q, but for the errors of that sum and of the whole.
            above = decayed[values > answer.value].sum() / decayed.sum()
            least = decayed[values >= answer.value].sum() / decayed.sum()
            off = (1 + ERROR) / (1 - ERROR)
            failures[q, "rank"] += not (above <= (1 - q) * off and least >= (1 - q) / off)
    assert_rare(failures, 60, 2 * DOUBT)


def test_heavy_hitters_are_found_and_others_are_not():
    failures = Counter()
    threshold = 0.15
    for trial in range(100):
        rng = np.random.default_rng(trial)
        values, times, weights = heavy_tailed(rng)
        weights = np.minimum(weights, 20.0)
        sketch = WeightBasedMergingHistogram(DECAY, ERROR / 2, 1 - DOUBT, seed=trial)
        sketch.update_many(values, at=times, weight=weights)
        decayed = weights * DECAY(times.max() - times)
        shares = {v: decayed[values == v].sum() / decayed.sum() for v in set(values.tolist())}
        found = dict(sketch.heavy_hitters(threshold))
        must = [v for v, share in shares.items() if share >= threshold]
        failures["missed"] += any(v not in found for v in must)
        failures["too small"] += any(shares[v] < threshold - ERROR / 2 for v in found)
        heaviest = max(shares, key=shares.get)
        failures["interval"] += heaviest in found and not holds(
            found[heaviest], shares[heaviest] * decayed.sum()
        )
    assert_rare(failures, 100, DOUBT)


@pytest.mark.parametrize(
    "decay",
    [
        NoDecay(),
        Polynomial(0.5),
        Polynomial(3, scale=700),
        Custom(lambda x: 1 / (1 + np.log1p(x)), kinds={"converging"}),
    ],
    ids=["none", "slow", "fast", "logarithmic"],
)
def test_other_decays_keep_the_guarantee(decay):
    failures = Counter()
    for trial in range(TRIALS):
        rng = np.random.default_rng(trial)
        values, times, weights = steady(rng)
        sketch = WeightBasedMergingHistogram(decay, ERROR, 1 - DOUBT, seed=trial)
        sketch.update_many(values, at=times, weight=weights)
        for threshold in (0, 500, 990):
            truth = float((weights * decay(times.max() - times))[values >= threshold].sum())
            answer = sketch.query(threshold)
            failures[threshold, "error"] += abs(answer.value - truth) > ERROR * truth
            failures[threshold, "interval"] += not holds(answer, truth)
    assert_rare(failures, TRIALS, DOUBT)
