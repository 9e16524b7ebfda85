"""Frequent values: none of share φ is missed, none below φ − ε returned, for φ from 0.01 to 0.9."""

import numpy as np
import pytest

from accuracy.statistics import assert_rare
from recency import DecayedSample, WeightBasedMergingHistogram
from recency.decay import Exponential, FiniteExponential, Polynomial

SIZE, TRIALS, DOUBT, ERROR = 3000, 60, 0.05, 0.1
KINDS = {
    "chosen": lambda seed: DecayedSample(ERROR, seed=seed),
    "copies": lambda seed: DecayedSample(ERROR, seed=seed, copies=3),
    "ranges": lambda seed: DecayedSample(ERROR, seed=seed, sampler="range"),
    "fixed": lambda seed: DecayedSample(ERROR, seed=seed, decay=Exponential(half_life=SIZE)),
    "buckets": lambda seed: WeightBasedMergingHistogram(
        Polynomial(1, scale=SIZE), ERROR, seed=seed
    ),
}


def returned(sketch, values, threshold, seed):
    """Whether 0.0 is among the frequent values; times in random order, all as heavy."""
    order = np.random.default_rng(seed).permutation(SIZE)
    sketch.update_many(values[order], at=np.zeros(SIZE, dtype=int), id=np.arange(SIZE))
    ask = getattr(sketch, "frequent_items", None) or sketch.heavy_hitters
    return 0.0 in [value for value, _ in ask(threshold)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.8, 0.9])
def test_thresholds_separate_shares(kind, share):
    def stream(part):
        hits = round(part * SIZE)
        return np.concatenate([np.zeros(hits), 1.0 + np.arange(SIZE - hits) % 997])

    reaches, below = stream(share), stream(max(share - ERROR - 1 / SIZE, 0))
    failures = {"missed": 0, "returned": 0}
    for seed in range(TRIALS):
        # Below ε, values that were never sampled are not known.
        if share >= ERROR:
            failures["missed"] += not returned(KINDS[kind](seed), reaches, share, seed)
        failures["returned"] += returned(KINDS[kind](seed), below, share, seed)
    assert_rare(failures, TRIALS, DOUBT)


def test_thresholds_as_sums_are_alike():
    sketch = DecayedSample(ERROR)
    values = np.repeat([1.0, 2.0, 3.0], [1200, 1500, 300])
    sketch.update_many(values, at=0, id=np.arange(SIZE))
    by_share = [value for value, _ in sketch.frequent_items(0.5)]
    assert by_share == [value for value, _ in sketch.frequent_items(1500)]


def test_where_all_is_kept_a_threshold_is_exact():
    sketch = WeightBasedMergingHistogram(FiniteExponential(0.01, 0.1))
    sketch.update_many([1.0] * 3 + [2.0] * 7, at=5)
    assert [value for value, _ in sketch.heavy_hitters(0.3)] == [2.0, 1.0]
    assert [value for value, _ in sketch.heavy_hitters(0.31)] == [2.0]
