"""Errors and intervals of decayed samples, over seeded trials, against the exact answers.

Every kind of failure is counted for itself: mode, stream, decay and question. With a true failure
probability of ``DOUBT`` all of them together would raise a false alarm once in a million runs.
"""

from collections import Counter

import numpy as np
import pytest

from accuracy.statistics import assert_rare
from recency import DecayedSample
from recency.decay import (
    Chordal,
    Custom,
    Exponential,
    FiniteExponential,
    NoDecay,
    PolyExponential,
    Polynomial,
    SlidingWindow,
    SuperExponential,
)

ERROR, DOUBT = 0.2, 0.1
EVENTS, SPAN, TRIALS = 1500, 3000, 50
DECAYS = [
    NoDecay(),
    SlidingWindow(1200),
    Exponential(half_life=400),
    Polynomial(1.2, scale=60),
    PolyExponential(2, 3, scale=400),
    SuperExponential(1e-5, 1.7),
    Chordal(2000),
    FiniteExponential(1 / 500, 0.05),
    Custom(lambda x: np.exp(-x / 500) / (1 + x / 500)),
]


def alike(rng):
    """All weights are equal, and values tell the time."""
    times = rng.integers(0, SPAN, EVENTS)
    return times // 100.0, times, np.ones(EVENTS)


def uneven(rng):
    """Weights over three orders of magnitude, values independent of them."""
    weights = rng.integers(1, 1000, EVENTS).astype(float)
    return rng.integers(0, 50, EVENTS).astype(float), rng.integers(0, SPAN, EVENTS), weights


def heavy_tailed(rng):
    """A few elements weigh more than all others, and values tell the weight."""
    weights = rng.pareto(1.1, EVENTS) + 0.01
    return np.floor(3 * np.log2(weights)), rng.integers(0, SPAN, EVENTS), weights


def holds(answer, truth):
    return answer.lower * (1 - 1e-12) <= truth <= answer.upper * (1 + 1e-12)


def exact_quantile(values, decayed, q):
    order = np.argsort(values, kind="stable")
    running = np.cumsum(decayed[order])
    return values[order][np.searchsorted(running, q * running[-1] * (1 - 1e-12))]


def few_heavy(rng):
    """Some elements have as many integers as can be, most have few."""
    weights = np.where(rng.random(EVENTS) < 0.01, 2**20, rng.integers(1, 50, EVENTS))
    return rng.integers(0, 50, EVENTS).astype(float), rng.integers(0, SPAN, EVENTS), weights


@pytest.mark.parametrize(
    ("sampler", "stream"),
    [("uniform", each) for each in (alike, uneven, heavy_tailed)]
    + [("range", each) for each in (alike, uneven, few_heavy)],
)
@pytest.mark.parametrize("fixed", [False, True])
def test_errors_and_intervals_keep_the_guarantee(sampler, stream, fixed):
    """The paper's sampler rounds weights down under a decay that is fixed: so does the truth."""
    failures = Counter()
    has_ranges = sampler == "range"
    for trial in range(TRIALS):
        rng = np.random.default_rng(trial)
        values, times, weights = stream(rng)
        if has_ranges:
            weights = weights.astype(np.int64)
        now, middle = SPAN + int(rng.integers(0, 200)), np.median(values)
        columns = {"value": values, "at": times, "weight": weights, "id": np.arange(EVENTS)}
        for decay in DECAYS[:6] if has_ranges else DECAYS:
            if fixed or decay is DECAYS[0]:
                chosen = {"decay": decay} if fixed else {}
                sketch = DecayedSample(ERROR, 1 - DOUBT, sampler=sampler, seed=trial, **chosen)
                sketch.update_many(**columns)
            g = decay(now - times)
            decayed = weights * g
            if has_ranges and fixed:
                decayed = np.floor(decayed)
            whole, part = decayed.sum(), decayed[values >= middle].sum()
            asked = {"decay": decay, "now": now}

            def check(question, is_right, decay=decay):
                failures[type(decay).__name__, question] += not is_right

            answer = sketch.query(**asked)
            check("sum: error", abs(answer.value - whole) <= ERROR * whole)
            check("sum: interval", holds(answer, whole))
            if not whole:  # all were rounded down to nothing
                continue
            answer = sketch.correlated_sum(middle, **asked)
            check("correlated sum: error", abs(answer.value - part) <= ERROR * whole)
            check("correlated sum: interval", holds(answer, part))
            answer = sketch.selectivity(lambda v, w, least=middle: v >= least, **asked)
            check("share: error", abs(answer.value - part / whole) <= ERROR)
            check("share: interval", holds(answer, part / whole))
            if not (has_ranges and fixed):  # parts of integers do not count
                check("count: interval", holds(sketch.count(**asked), g.sum()))
                check("mean: interval", holds(sketch.mean(**asked), whole / g.sum()))
            for q in (0.1, 0.5, 0.99):
                answer = sketch.quantile(q, **asked)
                truth = exact_quantile(values, decayed, q)
                check(f"quantile {q}: interval", answer.lower <= truth <= answer.upper)
    assert_rare(failures, TRIALS, DOUBT)


@pytest.mark.parametrize("sampler", ["uniform", "range"])
@pytest.mark.parametrize("heavy", [1, 4, 6, 50])
def test_shares_of_single_elements_are_covered(sampler, heavy):
    """What is present is known for certain of them: that must not narrow the interval."""
    failures = Counter()
    size = 5000
    weights = np.append(heavy, np.ones(size, dtype=np.int64))
    values = np.append(1.0, np.zeros(size))
    for trial in range(100):
        sketch = DecayedSample(0.1, 1 - DOUBT, sampler=sampler, seed=trial)
        sketch.update_many(values, at=0, weight=weights, id=np.arange(size + 1))
        answer = sketch.selectivity(lambda v, w: v == 1)
        failures["share"] += not holds(answer, heavy / (size + heavy))
        answer = sketch.rank(0)
        failures["rank"] += not holds(answer, size / (size + heavy))
    assert_rare(failures, 100, DOUBT)


def test_the_median_of_copies_keeps_the_guarantee():
    failures = Counter()
    for trial in range(100):
        rng = np.random.default_rng(trial)
        values, times, weights = uneven(rng)
        for decay in (None, DECAYS[2]):
            sketch = DecayedSample(ERROR, 1 - DOUBT, decay, copies=5, seed=trial)
            assert sketch.config.capacity < DecayedSample(ERROR, 1 - DOUBT, decay).config.capacity
            sketch.update_many(values, at=times, weight=weights, id=np.arange(EVENTS))
            answer = sketch.query(DECAYS[2])
            truth = (weights * DECAYS[2](times.max() - times)).sum()
            failures[decay, "error"] += abs(answer.value - truth) > ERROR * truth
            failures[decay, "interval"] += not holds(answer, truth)
    assert_rare(failures, 100, DOUBT)


def test_quantiles_of_few_distinct_values_are_covered():
    """Half of the values and a little more are 0, so the median is, and samples often say 1."""
    failures = Counter()
    values = (np.arange(20_000) * 7919 % 1000 >= 501).astype(float)
    for trial in range(100):
        for chosen in (None, NoDecay()):
            sketch = DecayedSample(ERROR, 1 - DOUBT, chosen, seed=trial)
            sketch.update_many(values, at=np.arange(20_000))
            median = sketch.median()
            failures[chosen, "median"] += not median.lower <= 0 <= median.upper
    assert_rare(failures, 100, DOUBT)


def test_frequent_values_are_found_and_others_are_not():
    failures = Counter()
    decay, threshold = Exponential(half_life=800), 0.1
    for trial in range(100):
        rng = np.random.default_rng(trial)
        values = rng.zipf(1.5, EVENTS) % 100.0
        _, times, weights = uneven(rng)
        for chosen in (None, decay):
            sketch = DecayedSample(ERROR / 2, 1 - DOUBT, chosen, seed=trial)
            sketch.update_many(values, at=times, weight=weights, id=np.arange(EVENTS))
            decayed = weights * decay(times.max() - times)
            shares = {v: decayed[values == v].sum() / decayed.sum() for v in set(values.tolist())}
            found = dict(sketch.frequent_items(threshold, decay))
            must = [v for v, share in shares.items() if share >= threshold]
            failures[chosen, "missed"] += any(v not in found for v in must)
            failures[chosen, "too small"] += any(shares[v] < threshold - ERROR / 2 for v in found)
            heaviest = max(found, key=lambda v: shares[v])
            failures[chosen, "interval"] += not holds(
                found[heaviest], shares[heaviest] * decayed.sum()
            )
    assert_rare(failures, 100, DOUBT)
