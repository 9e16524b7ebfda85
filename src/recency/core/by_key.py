"""Sums and maxima by key; the only place where having a single key is special."""

import math
from itertools import pairwise
from typing import Any, TypeVar

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

N = TypeVar("N", bound=np.generic)

_HALF, _LOW = 32, 0xFFFFFFFF


def raised(least: NDArray[N], keys: Int64Array, values: NDArray[N]) -> NDArray[N]:
    """Per key, the largest of its values and of ``least``."""
    return _extreme(np.maximum, least, keys, values)


def lowered(most: NDArray[N], keys: Int64Array, values: NDArray[N]) -> NDArray[N]:
    """Per key, the smallest of its values and of ``most``."""
    return _extreme(np.minimum, most, keys, values)


def _extreme(
    choose: np.ufunc, start: NDArray[N], keys: Int64Array, values: NDArray[N]
) -> NDArray[N]:
    if start.size == 1 and values.size:
        chosen: NDArray[N] = choose(start, choose.reduce(values))
        return chosen
    out = start.copy()
    choose.at(out, keys, values)
    return out


def of_rows(values: NDArray[Any], keys: Int64Array) -> NDArray[Any]:
    """For each row the value of its key; of a single key just one, which is broadcast."""
    return values if values.size == 1 else values[keys]


def counts(keys: Int64Array, size: int) -> Int64Array:
    """How many rows each of ``size`` keys has."""
    return np.array([keys.size]) if size == 1 else np.bincount(keys, minlength=size)


def counts_of(which: BoolArray, keys: Int64Array, size: int) -> Int64Array:
    """How many rows of each of ``size`` keys are among some."""
    if size == 1:
        return np.array([np.count_nonzero(which)])
    return np.bincount(keys[which], minlength=size)


def largest(values: Int64Array) -> int:
    """The largest value ≥ 0 of all keys; 0 if there are none."""
    return values.item() if values.size == 1 else int(values.max(initial=0))


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
    """The sum of the values ≥ 0 of each of ``size`` keys, rounded once.

    The highest bits of the values of a key, few enough to sum exactly, then the next ones
    (Rump, Ogita & Oishi 2008, *Accurate Floating-Point Summation*); it is rare that bits are left.
    """
    if size == 1:
        return np.array([rounded_once(values)])
    largest = np.zeros(size)
    np.maximum.at(largest, keys, values)
    more = np.frexp(np.bincount(keys, minlength=size) + 2.0)[1]
    unit = np.ldexp(1.0, np.frexp(largest)[1] + more)
    total, rest = np.zeros(size), values
    for _ in range(2):
        units = unit[keys]
        high = units + rest
        high -= units
        rest = rest - high
        total += np.bincount(keys, high, size)  # exact, but for the second and last sum
        unit = np.ldexp(unit, more - 53)
    left = np.flatnonzero(rest)
    if left.size:
        _sum_one_by_one(keys, values, np.bincount(keys[left], minlength=size) > 0, total)
    return total


def _sum_one_by_one(
    keys: Int64Array, values: FloatArray, asked: BoolArray, total: FloatArray
) -> None:
    """Overwrite the totals of some keys by sums that are computed one by one."""
    rows = np.flatnonzero(asked[keys])
    rows = rows[stable_order(keys[rows])]
    listed = values[rows].tolist()
    ends = np.cumsum(np.bincount(keys[rows], minlength=asked.size))[asked].tolist()
    total[asked] = [math.fsum(listed[a:b]) for a, b in pairwise([0, *ends])]


def added(a: Int64Array, b: Int64Array) -> tuple[Int64Array, BoolArray]:
    """a + b for numbers ≥ 0, and which are beyond int64: these are the largest there is."""
    if a.size == 1:
        total = int(a[0]) + int(b[0])
        return np.array([min(total, INT64_MAX)]), np.array([total > INT64_MAX])
    over = a > INT64_MAX - b
    return np.where(over, INT64_MAX, a + np.where(over, 0, b)), over


def with_sums(a: Int64Array, keys: Int64Array, values: Int64Array) -> tuple[Int64Array, BoolArray]:
    """a plus the sum of the values of each key, all ≥ 0, and which are beyond int64."""
    if a.size == 1:
        total = int(a[0]) + exact_sum(values)
        return np.array([min(total, INT64_MAX)]), np.array([total > INT64_MAX])
    more, over = sums(keys, values, a.size)
    together, too_large = added(a, more)
    return together, over | too_large


def last_not_above(
    steps: Int64Array, counts: Int64Array, keys: Int64Array, values: Int64Array
) -> Int64Array:
    """For each value, the last step of its key that is not above it; the first one never is.

    Key i has ``counts[i]`` ascending steps, after those of the keys before it.
    """
    if counts.size == 1:
        return np.searchsorted(steps, values, side="right") - 1
    high = np.cumsum(counts)[keys] - 1
    low = high - counts[keys] + 1
    while (low < high).any():
        middle = (low + high + 1) >> 1
        is_above = steps[middle] > values
        low, high = np.where(is_above, low, middle), np.where(is_above, middle - 1, high)
    return low


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
