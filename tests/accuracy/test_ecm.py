"""Counts and inner products: upper bounds always hold, the rest at the stated confidence."""

import math

import numpy as np
import pytest

from accuracy.statistics import assert_rare
from recency import EcmSketch, merge_all

SIZE = 6_000
WINDOWS = (50, 700, 3_000, SIZE)
ITEMS = (1, 2, 3, 10, 200, 10**6)  # the last is never seen


def zipf_stream(seed):
    rng = np.random.default_rng(seed)
    return rng.zipf(1.3, SIZE) % 5_000, np.arange(SIZE), rng.choice([1, 1, 1, 7], SIZE)


def built(sketch, stream, parts):
    """Return one sketch, or one merged from several parts."""
    items, times, weights = stream
    if parts == 1:
        sketch.update_many(items, at=times, weight=weights)
        return sketch
    leaves = [sketch.empty_like(merge_levels=1, stream=part) for part in range(parts)]
    for part, leaf in enumerate(leaves):
        rows = slice(part, None, parts)
        leaf.update_many(items[rows], at=times[rows], weight=weights[rows])
    return merge_all(leaves)


def counts(stream, window):
    items, _, weights = (column[-window:] for column in stream)
    return np.bincount(items, weights, 5_000)


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("counter", ["eh", "dw", "rw"])
def test_point_queries(counter, parts):
    error, doubt = 0.2, 0.1
    trials = 60 if counter == "rw" else 150
    wrong, uncovered = {}, {}
    for seed in range(trials):
        stream = zipf_stream(seed % 5)
        sketch = EcmSketch(None, error, 1 - doubt, counter=counter, seed=seed)
        sketch = built(sketch, stream, parts)
        assert sketch.guarantee <= error
        for window in WINDOWS:
            truth = np.append(counts(stream, window), 0.0)[[*ITEMS[:-1], -1]]
            total = truth_total = counts(stream, window).sum()
            answer = sketch.query_many(ITEMS, window)
            whole = sketch.total(window)
            assert answer.confidence >= 1 - doubt - 1e-12
            assert (answer.lower >= 0).all()
            assert (answer.upper <= whole.upper).all()
            if counter != "rw":
                assert (truth <= answer.upper).all()
                assert whole.lower <= truth_total <= whole.upper
            for i, item in enumerate(ITEMS):
                key = item, window
                off = abs(answer.value[i] - truth[i]) > error * total
                missed = not answer.lower[i] <= truth[i] <= answer.upper[i]
                wrong[key] = wrong.get(key, 0) + off
                uncovered[key] = uncovered.get(key, 0) + missed
    assert_rare(wrong, trials, doubt)
    assert_rare(uncovered, trials, doubt)


@pytest.mark.parametrize("counter", ["eh", "dw", "rw"])
def test_inner_products(counter):
    error, doubt = 0.3, 0.2
    trials = 30 if counter == "rw" else 150
    wrong, uncovered = {}, {}
    for seed in range(trials):
        streams = zipf_stream(seed % 5), zipf_stream(50 + seed % 3)
        a, b = (
            built(
                EcmSketch(
                    None, error, 1 - doubt, counter=counter, optimize_for="inner_product", seed=seed
                ),
                each,
                1,
            )
            for each in streams
        )
        assert a.guarantee <= error
        for window in WINDOWS:
            x, y = (counts(stream, window) for stream in streams)
            for name, answer, truth, most in [
                ("product", a.inner_product(b, window), x @ y, x.sum() * y.sum()),
                ("self-join", a.self_join(window), x @ x, x.sum() ** 2),
            ]:
                if counter != "rw":
                    assert truth <= answer.upper
                key = name, window
                off = abs(answer.value - truth) > error * most
                wrong[key] = wrong.get(key, 0) + off
                missed = not answer.lower <= truth <= answer.upper
                uncovered[key] = uncovered.get(key, 0) + missed
    assert_rare(wrong, trials, doubt)
    assert_rare(uncovered, trials, doubt)


def test_trees_of_merges_keep_their_guarantee():
    stream = zipf_stream(1)
    items, times, weights = stream
    prototype = EcmSketch(relative_error=0.1, seed=4)
    for levels in (1, 2, 3):
        sketches = []
        for part in range(2**levels):
            leaf = prototype.empty_like(merge_levels=levels)
            rows = slice(part, None, 2**levels)
            leaf.update_many(items[rows], at=times[rows], weight=weights[rows])
            sketches.append(leaf)
        while len(sketches) > 1:
            pairs = zip(sketches[::2], sketches[1::2], strict=True)
            sketches = [merge_all(pair) for pair in pairs]
        assert sketches[0].guarantee <= 0.1
        for window in WINDOWS:
            truth, total = counts(stream, window), counts(stream, window).sum()
            answer = sketches[0].query_many(np.arange(5_000), window)
            assert (truth <= answer.upper).all()
            share = (np.abs(answer.value - truth) > 0.1 * total).mean()
            assert share <= math.exp(-prototype.config.depth)


def test_windows_by_count():
    items, _, weights = stream = zipf_stream(2)
    sketch = EcmSketch(window=3_000, by="count")
    for begin in range(0, SIZE, 999):
        part = slice(begin, begin + 999)
        sketch.update_many(items[part], weight=weights[part])
    for window in (1, 50, 700, 3_000):
        truth = counts(stream, window)
        answer = sketch.query_many(np.arange(5_000), window)
        assert (truth <= answer.upper).all()
        assert sketch.total(window).lower <= truth.sum() <= sketch.total(window).upper
