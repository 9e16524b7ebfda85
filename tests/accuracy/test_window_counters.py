"""Certain bounds and relative errors against the truth: they must always hold."""

import numpy as np
import pytest

from accuracy.streams import STREAMS
from recency import DeterministicWave, ExponentialHistogram, merge_all

SIZE = 20_000
cases = [
    pytest.mark.parametrize("cls", [ExponentialHistogram, DeterministicWave]),
    pytest.mark.parametrize("name", STREAMS),
    pytest.mark.parametrize("relative_error", [0.5, 0.1, 0.03]),
]


def on_all_streams(test):
    for mark in cases:
        test = mark(test)
    return test


class Truth:
    def __init__(self, times, values):
        order = np.argsort(times, kind="stable")
        self.times = times[order]
        self.sums = np.append(0, np.cumsum(values[order]))

    def after(self, since):
        return int(self.sums[-1] - self.sums[np.searchsorted(self.times, since, side="right")])


def windows(times, rng):
    """Return windows of every scale: powers of two, and one tick around events old and new."""
    latest = int(times[-1])
    events = rng.choice(times, 60)
    starts = {int(t) + shift for t in events for shift in (-1, 0, 1)}
    starts |= {latest - 2**j + shift for j in range(40) for shift in (-1, 0, 1)}
    return sorted(latest - s for s in starts if s < latest)


def check(sketch, truth, times, rng, largest=None):
    for width in windows(times, rng):
        if largest is not None and width > largest:
            continue
        answer, exact = sketch.query(width, now=int(times[-1])), truth.after(int(times[-1]) - width)
        assert answer.lower <= exact <= answer.upper, (width, answer, exact)
        assert abs(answer.value - exact) <= sketch.guarantee * exact * (1 + 1e-12)


@on_all_streams
@pytest.mark.parametrize("window", [None, 1000])
def test_every_window_is_within_the_error(cls, name, relative_error, window):
    rng = np.random.default_rng(0)
    times, values = STREAMS[name](SIZE, rng)
    sketch = cls(window=window, relative_error=relative_error)
    half = SIZE // 2
    sketch.update_many(values[:half], at=times[:half])
    check(sketch, Truth(times[:half], values[:half]), times[:half], rng, window)
    sketch.update_many(values[half:], at=times[half:])
    check(sketch, Truth(times, values), times, rng, window)
    assert sketch.guarantee <= relative_error


@on_all_streams
@pytest.mark.parametrize("parts", [2, 9])
def test_merged_in_one_step_or_in_a_chain(cls, name, relative_error, parts):
    """Split by blocks of time and at random; a chain is the worst merge tree."""
    rng = np.random.default_rng(1)
    times, values = STREAMS[name](SIZE, rng)
    truth = Truth(times, values)
    for owner in (rng.integers(0, parts, SIZE), np.arange(SIZE) * parts // SIZE):
        leaves = []
        for part in range(parts):
            leaf = cls(window=5000, relative_error=relative_error)
            leaf.update_many(values[owner == part], at=times[owner == part])
            leaves.append(leaf)
        at_once = merge_all(leaves)
        chain = leaves[0]
        for leaf in leaves[1:]:
            chain.merge(leaf)
        check(at_once, truth, times, rng, 5000)
        check(chain, truth, times, rng, 5000)
