"""Both halves of Theorem 5, ranges, quantiles, names: against the exact answers."""

import numpy as np
import pytest

from accuracy.statistics import assert_rare
from recency import DyadicEcm, merge_all
from recency.frequencies.algorithm import Parts
from states import body_of, change

SIZE = 5_000
WINDOWS = (300, 2_000, SIZE)
BITS = 20


def stream(seed):
    """Some heavy items anywhere, many light ones, clustered values."""
    rng = np.random.default_rng(seed)
    light = rng.normal(2**18, 2**15, SIZE).astype(np.int64) % 2**BITS
    heavy = rng.integers(0, 2**BITS, 12)
    shares = np.array([0.14, 0.11, 0.09, 0.07, 0.06, 0.05, 0.04, 0.03, 0.02, 0.015, 0.01, 0.005])
    which = rng.choice(13, SIZE, p=[*shares, 1 - shares.sum()])
    return np.where(which < 12, heavy[np.minimum(which, 11)], light), np.arange(SIZE)


def built(sketch, items, times, parts):
    if parts == 1:
        sketch.update_many(items, at=times)
        return sketch
    leaves = [sketch.empty_like(merge_levels=1, stream=part) for part in range(parts)]
    for part, leaf in enumerate(leaves):
        leaf.update_many(items[part::parts], at=times[part::parts])
    return merge_all(leaves)


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("counter", ["eh", "dw", "rw"])
def test_heavy_hitters(counter, parts):
    error, doubt = 0.05, 0.1
    trials = 5 if counter == "rw" else 30
    extra, missed, uncovered = {}, {}, {}
    for seed in range(trials):
        items, times = stream(seed)
        sketch = DyadicEcm(
            None,
            error,
            1 - doubt,
            counter=counter,
            universe_bits=BITS,
            min_threshold=0.02,
            seed=seed,
        )
        sketch = built(sketch, items, times, parts)
        assert sketch.guarantee <= error
        for window in WINDOWS:
            values, counts = np.unique(items[-window:], return_counts=True)
            truth = dict(zip(values.tolist(), counts.tolist(), strict=True))
            for share in (0.02, 0.05, 0.1):
                found = sketch.heavy_hitters(share, window)
                assert [e.value for _, e in found] == sorted((e.value for _, e in found))[::-1]
                sure = {v for v, n in truth.items() if n >= (share + error) * window}
                key = window, share
                lost = not sure <= {item for item, _ in found}
                assert counter == "rw" or not lost
                missed[key] = missed.get(key, 0) + lost
                light = any(truth.get(item, 0) < share * window for item, _ in found)
                extra[key] = extra.get(key, 0) + light
                for item, answer in found:
                    assert counter == "rw" or truth.get(item, 0) <= answer.upper
                    outside = not answer.lower <= truth.get(item, 0) <= answer.upper
                    uncovered[item] = uncovered.get(item, 0) + outside
                as_count = sketch.heavy_hitters(int(np.ceil(share * window)), window)
                assert {item for item, _ in as_count} <= {item for item, _ in found}
    assert_rare(extra, trials, doubt)
    assert_rare(missed, trials, doubt)
    assert sum(uncovered.values()) <= doubt * trials * len(WINDOWS)


@pytest.mark.parametrize("width", [40, 300])
@pytest.mark.parametrize("counter", ["eh", "rw"])
def test_ranges_and_quantiles(counter, width):
    doubt = 0.1
    trials = 5 if counter == "rw" else 40
    uncovered = {}
    for seed in range(trials):
        items, times = stream(seed % 7)
        sketch = DyadicEcm(
            None, 0.1, 1 - doubt, counter=counter, universe_bits=BITS, width=width, seed=seed
        )
        sketch.update_many(items, at=times)
        for window in WINDOWS:
            recent = np.sort(items[-window:])
            for lo, hi in [(0, 2**BITS - 1), (5, 5), (2**17 + 3, 2**18 + 2**14), (0, 2**18)]:
                truth = int(((recent >= lo) & (recent <= hi)).sum())
                answer = sketch.range_count(lo, hi, window)
                assert answer.confidence >= 1 - doubt - 1e-12
                assert answer.lower <= answer.value <= answer.upper
                key = "range", lo, window
                outside = not answer.lower <= truth <= answer.upper
                uncovered[key] = uncovered.get(key, 0) + outside
                if answer.confidence == 1:
                    assert not outside
            for q in (0, 0.1, 0.5, 0.9, 1):
                truth = recent[max(int(np.ceil(q * window)) - 1, 0)]
                answer = sketch.quantile(q, window)
                assert answer.lower <= answer.value <= answer.upper
                key = "quantile", q, window
                if counter == "eh":
                    assert answer.lower <= truth
                outside = not answer.lower <= truth <= answer.upper
                uncovered[key] = uncovered.get(key, 0) + outside
    assert_rare(uncovered, trials, doubt)


def test_ranges_of_many_rare_items_have_narrow_intervals():
    """Where nothing dominates, not 2 · bits · ε = 4 times the total, which would say nothing."""
    rng = np.random.default_rng(3)
    items = rng.integers(0, 2**BITS, 50_000)
    sketch = DyadicEcm(universe_bits=BITS)
    sketch.update_many(items, at=np.arange(items.size))
    answer = sketch.range_count(123_456, 654_321)
    truth = int(((items >= 123_456) & (items <= 654_321)).sum())
    assert answer.lower <= truth <= answer.upper
    assert answer.upper - answer.lower < 0.6 * items.size
    middle = sketch.quantile()
    assert abs(middle.value - 2**19) < 0.03 * 2**BITS


@pytest.mark.parametrize("parts", [1, 4])
def test_names_of_heavy_items_are_sampled(parts):
    doubt, unnamed, trials = 0.1, 0, 30
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        items = np.array([f"/page/{i}" for i in rng.zipf(1.4, 4_000) % 3_000], dtype=object)
        sketch = DyadicEcm(
            None, 0.1, 1 - doubt, names=True, min_threshold=0.04, seed=seed, name_capacity=None
        )
        sketch = built(sketch, items, np.arange(items.size), parts)
        for window in (500, 4_000):
            names, counts = np.unique(items[-window:].astype(str), return_counts=True)
            found = dict(sketch.heavy_hitters(0.04, window))
            unnamed += any(isinstance(item, int) for item in found)
            if not any(isinstance(item, int) for item in found):
                assert set(names[counts >= 0.14 * window]) <= set(found)
    assert unnamed <= doubt * 2 * trials


def test_a_heavy_hitter_without_a_name_is_its_hash():
    sketch = DyadicEcm(100, names=True, name_capacity=1, universe_bits=16)
    sketch.update_many(["a"] * 50, at=range(50))
    cells, _ = body_of(sketch).each
    (names,) = sketch._algorithm.names
    change(sketch, body=Parts((cells, names.empty(1, 0))))
    ((item, answer),) = sketch.heavy_hitters(0.5)
    assert isinstance(item, int)
    assert 0 <= item < 2**16
    assert answer.value == sketch.query("a").value
