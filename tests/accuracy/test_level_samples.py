"""Seeded trials: failures stay below δ for every window size, the worst one included.

Each trial has its own seed, and each window size is judged by itself: the number of failures may
exceed what a true probability of δ allows with a false-alarm rate of 1e-6 for the whole test.
"""

import math

import numpy as np
import pytest

from accuracy.statistics import assert_rare
from recency import NoAnswerError, QuantileWave, RandomizedWave, SumWave, merge_all
from states import body_of


def window_sizes(capacity, largest):
    """From exact to far beyond, dense around the sizes at which levels begin to overflow."""
    just_above = [capacity - 1, capacity, capacity + 1, capacity * 9 // 8, capacity * 5 // 4]
    doubling = [int(capacity * 2 ** (step / 4)) for step in range(2, 60)]
    return sorted({w for w in [1, *just_above, *doubling] if 1 <= w <= largest})


@pytest.mark.parametrize("doubt", [0.05, 0.01])
@pytest.mark.parametrize("kind", ["distinct", "count", "heavy tail"])
def test_error_and_interval_of_counts_and_sums(kind, doubt):
    size, trials, error = 6000, 500, 0.3
    times = np.arange(size)
    values = {
        "count": np.ones(size),
        "heavy tail": np.random.default_rng(0).pareto(1.1, size) + 0.01,
    }.get(kind, np.ones(size))
    sums = np.append(0, np.cumsum(values[::-1]))
    wrong, uncovered = {}, {}
    for seed in range(trials):
        if kind == "distinct":
            sketch = RandomizedWave(None, error, 1 - doubt, seed=seed)
            sketch.update_many(times, at=times)
        else:
            sketch = SumWave(None, error, 1 - doubt, seed=seed)
            sketch.update_many(values, at=times)
        for window in window_sizes(sketch.config.capacity, size):
            answer, truth = sketch.query(window), sums[window]
            slack = 1e-9 * truth
            wrong.setdefault(window, 0)
            uncovered.setdefault(window, 0)
            wrong[window] += abs(answer.value - truth) > error * truth + slack
            uncovered[window] += not answer.lower - slack <= truth <= answer.upper + slack
            if window <= sketch.config.capacity:
                assert answer.exact
    assert_rare(wrong, trials, doubt)
    assert_rare(uncovered, trials, doubt)


@pytest.mark.parametrize("doubt", [0.05, 0.01])
def test_all_quantiles_at_once(doubt):
    size, trials, error = 4000, 400, 0.15
    rng = np.random.default_rng(1)
    values = rng.permutation(size).astype(float)
    times = np.arange(size)
    ranks = np.linspace(0, 1, 41)
    wrong, uncovered = {}, {}
    for seed in range(trials):
        sketch = QuantileWave(None, error, 1 - doubt, seed=seed)
        sketch.update_many(values, at=times)
        for window in window_sizes(sketch.config.capacity, size)[::2]:
            inside = np.sort(values[-window:])
            answer = sketch.quantiles(ranks, window)
            # A rank within ε of q: some value of rank between them lies at or beside the answer.
            low = np.searchsorted(inside, answer.value, side="left") / window
            high = np.searchsorted(inside, answer.value, side="right") / window
            off = np.maximum(low - ranks, ranks - high).max()
            wrong[window] = wrong.get(window, 0) + (off > error)
            truth = inside[np.clip(np.ceil(ranks * window).astype(int) - 1, 0, window - 1)]
            misses = ((truth < answer.lower) | (truth > answer.upper)).any()
            uncovered[window] = uncovered.get(window, 0) + misses
    assert_rare(wrong, trials, doubt)
    assert_rare(uncovered, trials, doubt)


def test_counts_and_ranks_of_a_quantile_wave():
    size, trials, doubt = 4000, 300, 0.05
    values, times = np.arange(size) * 7919 % size, np.arange(size)
    uncovered = {"count": 0, "rank": 0}
    for seed in range(trials):
        sketch = QuantileWave(None, 0.15, seed=seed)
        sketch.update_many(values, at=times)
        count, rank = sketch.count(3000), sketch.rank(1000, 3000)
        share = (values[-3000:] <= 1000).mean()
        uncovered["count"] += not count.lower <= 3000 <= count.upper
        uncovered["rank"] += not rank.lower <= share <= rank.upper
    assert_rare(uncovered, trials, doubt)


def test_intervals_of_predicates_depend_on_their_selectivity():
    size, trials, doubt = 5000, 300, 0.05
    times = np.arange(size)
    uncovered = {}
    for seed in range(trials):
        sketch = RandomizedWave(None, 0.3, keep_items=True, seed=seed)
        sketch.update_many(times, at=times)
        for every in (1, 2, 10, 500):
            answer = sketch.query(4000, where=lambda items, every=every: items % every == 0)
            truth = sum(1 for item in range(1000, 5000) if item % every == 0)
            uncovered[every] = uncovered.get(every, 0)
            uncovered[every] += not answer.lower <= truth <= answer.upper
    assert_rare(uncovered, trials, doubt)


def test_union_counting_equals_the_positionwise_or():
    """Gibbons & Tirthapura 2004, scenario 3: 1s in the OR of streams, from the union sketch."""
    rng = np.random.default_rng(5)
    streams = rng.random((4, 50_000)) < 0.2
    union = streams.any(axis=0)
    parties = []
    for bits in streams:
        party = RandomizedWave(window=40_000, relative_error=0.1)
        positions = np.flatnonzero(bits)
        party.update_many(positions, at=positions)
        parties.append(party)
    merged = merge_all(parties)
    whole = RandomizedWave(window=40_000, relative_error=0.1)
    whole.update_many(np.flatnonzero(union), at=np.flatnonzero(union))
    assert merged == whole
    for window in (100, 1000, 10_000, 40_000):
        answer = merged.query(window, now=49_999)
        truth = union[-window:].sum()
        assert abs(float(answer) - truth) <= 0.1 * truth  # seeded: fixed, not luck
        assert answer.lower <= truth <= answer.upper


def merged_errors(streams, repeats):
    """Relative errors of 1000 merged partial counts of 20 events each, over many seeds."""
    errors = []
    for seed in range(repeats):
        answer = merged_part_counts(streams, seed).query()
        errors.append(float(answer) / 20_000 - 1)
    return np.array(errors)


def merged_part_counts(streams, seed):
    """One part for each stream, with equal values, times and indices."""
    parts = []
    for stream in streams:
        part = SumWave(relative_error=0.3, seed=seed, stream=stream)
        part.update_many(np.ones(20), at=np.arange(20))
        parts.append(part)
    return merge_all(parts)


def test_merged_sketches_of_different_streams_have_independent_coins():
    """The variance of 1000 merged parts is that of one sketch of all events.

    A sample of n out of many has relative variance 1/n; n is at least ``capacity`` but for luck.
    With 40 repeats the sum of squares exceeds 2.4 times its expectation with probability < 1e-6.
    """
    repeats = 40
    capacity = SumWave(relative_error=0.3).config.capacity
    apart = merged_errors(range(1000), repeats)
    assert (apart**2).mean() <= 2.4 / capacity
    # Without, a thousand events have one coin: no level has room for them, and none is left.
    for seed in range(8):
        with pytest.raises(NoAnswerError, match="had one stream number"):
            merged_part_counts([0] * 1000, seed).query()


def test_equal_events_are_sampled_independently():
    """10 000 events of equal value and time: their levels are those of independent coins."""
    sketch = SumWave(capacity=10_000)
    sketch.update_many(np.ones(10_000), at=np.zeros(10_000, dtype=int))
    counts = np.bincount(body_of(sketch).sample.levels, minlength=20)[:8]
    expected = 10_000 * 2.0 ** -np.arange(1, 9)
    # chi-square with 8 degrees of freedom: above 47 with probability below 2e-7
    assert ((counts - expected) ** 2 / expected).sum() < 47


def test_capacities_are_close_to_those_of_the_normal_distribution():
    from recency.core.sizing import capacity_for_count, capacity_for_ranks

    for error, doubt, z in [(0.05, 0.05, 1.96), (0.05, 0.01, 2.576), (0.1, 0.05, 1.96)]:
        capacity = capacity_for_count(error, doubt)
        assert z**2 / error**2 <= capacity <= 1.2 * z**2 / error**2
        paper = 12 * math.log(8 / doubt) / error**2
        assert paper / capacity > 9
    assert capacity_for_ranks(0.01, 0.05) <= math.log(2 / 0.05) / (2 * 0.01**2)
