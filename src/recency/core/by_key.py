"""Sums and maxima by key; the only place where having a single key is special."""

import numpy as np

from recency.core.arrays import INT64_MAX, BoolArray, Int64Array, exact_sum

_HALF, _LOW = 32, 0xFFFFFFFF


def raised(least: Int64Array, keys: Int64Array, values: Int64Array) -> Int64Array:
    """Per key, the largest of its values and of ``least``."""
    if least.size == 1 and values.size:
        return np.array([max(int(least[0]), int(values.max()))])
    out = least.copy()
    np.maximum.at(out, keys, values)
    return out


def counts(keys: Int64Array, size: int) -> Int64Array:
    """How many rows each of ``size`` keys has."""
    return np.array([keys.size]) if size == 1 else np.bincount(keys, minlength=size)


def sums(keys: Int64Array, values: Int64Array, size: int) -> tuple[Int64Array, BoolArray]:
    """The sum of the values ≥ 0 of each of ``size`` keys, and which are beyond int64.

    A sum beyond int64 is given as the largest there is.
    """
    total = exact_sum(values)
    if size == 1:
        return np.array([min(total, INT64_MAX)]), np.array([total > INT64_MAX])
    over = np.zeros(size, dtype=np.bool_)
    out = np.zeros(size, dtype=np.int64)
    np.add.at(out, keys, values)  # may wrap around
    if total > INT64_MAX:
        high, low = np.zeros((2, size), dtype=np.int64)
        np.add.at(high, keys, values >> _HALF)
        np.add.at(low, keys, values & _LOW)
        over = high + (low >> _HALF) > INT64_MAX >> _HALF
        out[over] = INT64_MAX
    return out, over


def added(a: Int64Array, b: Int64Array) -> tuple[Int64Array, BoolArray]:
    """a + b for numbers ≥ 0, and which are beyond int64: these are the largest there is."""
    if a.size == 1:
        total = int(a[0]) + int(b[0])
        return np.array([min(total, INT64_MAX)]), np.array([total > INT64_MAX])
    over = a > INT64_MAX - b
    return np.where(over, INT64_MAX, a + np.where(over, 0, b)), over


def firsts(keys: Int64Array, size: int) -> Int64Array:
    """The first row of each of ``size`` keys; rows.size for a key that has none."""
    out = np.full(size, keys.size)
    out[keys[::-1]] = np.arange(keys.size - 1, -1, -1)
    return out
