"""Named adversarial streams of (times, values), in time order. Seeded, so always the same."""

import numpy as np


def _steady(size, rng):
    return np.arange(size), np.ones(size, dtype=np.int64)


def _bursts(size, rng):
    gaps = np.where(rng.random(size) < 0.002, rng.integers(100, 20_000, size), 0)
    return np.cumsum(gaps), np.ones(size, dtype=np.int64)


def _ties(size, rng):
    return np.sort(rng.integers(0, size // 50 + 1, size)), np.ones(size, dtype=np.int64)


def _all_equal_times(size, rng):
    return np.full(size, 42), rng.integers(0, 5, size)


def _accelerating(size, rng):
    """Ever more events per tick: old ones are few and far away."""
    return np.sqrt(np.arange(size) * 1000.0).astype(np.int64), np.ones(size, dtype=np.int64)


def _decelerating(size, rng):
    """Ever fewer: a window of any width holds few, mostly old ones."""
    return (np.arange(size) ** 2) // 50, np.ones(size, dtype=np.int64)


def _one_giant(size, rng):
    """A value larger than all others together, in the middle."""
    values = rng.integers(0, 10, size)
    values[size // 2] = 10**12
    return np.arange(size), values


def _heavy_tail(size, rng):
    return np.arange(size), np.minimum(rng.pareto(0.6, size), 1e12).astype(np.int64)


def _mostly_zero(size, rng):
    return np.arange(size), (rng.random(size) < 0.01).astype(np.int64)


def _powers_of_two(size, rng):
    """Totals that sit on, just below and just above the boundaries between levels."""
    return np.arange(size), 2 ** rng.integers(0, 20, size) + rng.integers(-1, 2, size)


STREAMS = {
    stream.__name__.strip("_"): stream
    for stream in (
        _steady,
        _bursts,
        _ties,
        _all_equal_times,
        _accelerating,
        _decelerating,
        _one_giant,
        _heavy_tail,
        _mostly_zero,
        _powers_of_two,
    )
}
