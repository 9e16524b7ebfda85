"""Sums and maxima by key; the only place where having a single key is special."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recency.core.arrays import (
    INT64_MAX,
    BoolArray,
    FloatArray,
    Int64Array,
    exact_sum,
    is_sorted,
    rounded_once,
    stable_order,
)

_HALF, _LOW = 32, 0xFFFFFFFF
_EXACT_PARTS = 2.0**10  # sums of whole numbers of such parts are exact
_EXACT_SUM = 2.0**43  # up to here


def raised(least: Int64Array, keys: Int64Array, values: Int64Array) -> Int64Array:
    """Per key, the largest of its values and of ``least``."""
    if least.size == 1 and values.size:
        return np.array([max(int(least[0]), int(values.max()))])
    out = least.copy()
    np.maximum.at(out, keys, values)
    return out


def of_rows(values: NDArray[Any], keys: Int64Array) -> NDArray[Any]:
    """For each row the value of its key; of a single key just one, which is broadcast."""
    return values if values.size == 1 else values[keys]


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


def float_sums(keys: Int64Array, values: FloatArray, size: int) -> FloatArray:
    """The sum of the values ≥ 0 of each of ``size`` keys, rounded once."""
    if size == 1:
        return np.array([rounded_once(values)])
    sums = np.bincount(keys, values, size).astype(np.float64, copy=False)  # integers if empty
    with np.errstate(over="ignore", invalid="ignore"):
        is_odd = (values * _EXACT_PARTS) % 1 != 0
    rounded = (np.bincount(keys, is_odd, size) > 0) | (sums >= _EXACT_SUM)
    if rounded.any():
        rows = np.flatnonzero(rounded[keys])
        rows = rows[stable_order(keys[rows])]
        listed = values[rows].tolist()
        ends = np.cumsum(np.bincount(keys[rows], minlength=size))[rounded].tolist()
        sums[rounded] = [math.fsum(listed[a:b]) for a, b in pairwise([0, *ends])]
    return sums


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


def in_time_order(keys: Int64Array, times: Int64Array, size: int) -> tuple[Int64Array, Int64Array]:
    """Keys and times of rows, which have nothing else, in order of time."""
    if is_sorted(times):
        return keys, times
    if size == 1:
        return keys, np.sort(times)
    order = np.argsort(times, kind="stable")
    return keys[order], times[order]
