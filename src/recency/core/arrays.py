"""Small array operations that NumPy lacks and every kernel needs."""

import math
from itertools import chain
from sys import getsizeof
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
UInt64Array = NDArray[np.uint64]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

_EXPONENT_BIAS = 1023


def highest_bit(x: Int64Array | UInt64Array) -> Int64Array:
    """Position of the highest set bit of each element; 0 has none and gives a negative number."""
    bits = x.astype(np.uint64)
    # A float64 holds the position in its exponent. Clearing the bit below the highest one keeps
    # the conversion from rounding up to the next power of two.
    isolated = (bits & ~(bits >> np.uint64(1))).astype(np.float64)
    return (isolated.view(np.int64) >> 52) - _EXPONENT_BIAS


def run_starts(*columns: NDArray[Any]) -> Int64Array:
    """Index of the first row of each run of equal rows; the columns have one length."""
    size = columns[0].size
    is_start = np.empty(size, dtype=np.bool_)
    if size:
        is_start[0] = True
        np.not_equal(columns[0][1:], columns[0][:-1], out=is_start[1:])
        for column in columns[1:]:
            is_start[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(is_start)


def run_lengths(starts: Int64Array, size: int) -> Int64Array:
    """Length of each run that :func:`run_starts` found among ``size`` rows."""
    lengths = np.empty_like(starts)
    lengths[:-1] = starts[1:] - starts[:-1]  # as np.diff, which takes several times as long
    lengths[-1:] = size - starts[-1:]
    return lengths


def offsets(counts: Int64Array | NDArray[np.int8]) -> Int64Array:
    """Where each segment begins, and where the last one ends: 0, c₀, c₀ + c₁, …"""
    out = np.zeros(counts.size + 1, dtype=np.int64)
    np.cumsum(counts, out=out[1:])
    return out


def ranges(starts: Int64Array, counts: Int64Array) -> Int64Array:
    """The numbers from starts[i] on, counts[i] of them, for all i one after the other."""
    shift = starts - offsets(counts)[:-1]
    return np.repeat(shift, counts) + np.arange(int(counts.sum()))


def memory_of(*columns: NDArray[Any]) -> int:
    """Bytes that columns take, objects in them included."""
    objects = [column for column in columns if column.dtype == object]
    held = sum(column.nbytes for column in columns)
    return held + sum(map(getsizeof, chain.from_iterable(objects)))


def is_sorted(x: Int64Array) -> bool:
    """Whether no element is smaller than the one before it."""
    if x.strides == (0,):
        return True
    return bool((x[1:] >= x[:-1]).all())


def stable_order(keys: Int64Array) -> NDArray[np.intp]:
    """``argsort(kind="stable")`` of non-negative keys.

    NumPy sorts 16-bit keys by radix, several times faster than wider ones by merging; wider keys
    are sorted sixteen bits at a time, lowest first.
    """
    top = int(keys.max(initial=0))
    if top <= 0xFF:
        return np.argsort(keys.astype(np.uint8), kind="stable")
    order = np.argsort((keys & 0xFFFF).astype(np.uint16), kind="stable")
    shift = 16
    while top >> shift:
        digits = ((keys[order] >> shift) & 0xFFFF).astype(np.uint16)
        order = order[np.argsort(digits, kind="stable")]
        shift += 16
    return order


def nth_of_its_kind(keys: Int64Array) -> Int64Array:
    """How many equal keys came before each."""
    order = stable_order(keys)
    starts = run_starts(keys[order])
    nth = np.empty(keys.size, dtype=np.int64)
    nth[order] = np.arange(keys.size) - np.repeat(starts, run_lengths(starts, keys.size))
    return nth


def broadcast(values: NDArray[Any], size: int) -> NDArray[Any]:
    """A column of ``size`` rows as it is, or one value for all of them; to be read only.

    As ``np.broadcast_to``, which takes several times as long.
    """
    return values if values.ndim else np.ndarray((size,), values.dtype, values, 0, (0,))


def exact_sum(x: Int64Array) -> int:
    """The sum of non-negative integers as a Python integer, whatever its size."""
    if x.size and x.strides == (0,):
        return int(x[0]) * x.size
    if x.size and int(x.max()) <= INT64_MAX // x.size:
        return int(x.sum())
    return (int((x >> 32).sum()) << 32) + int((x & 0xFFFFFFFF).sum())


def rounded_once(x: FloatArray) -> float:
    """The sum of floats, rounded once, so the same in any order."""
    return math.fsum(x.tolist())


_LARGE = 2.0**53  # integers from there on may have been rounded, and so may their sum
_OUTWARD = 2.0**-51  # four times the error of one rounding: of an integer, of a sum, of this


def sum_with_bounds(x: FloatArray) -> tuple[float, float, float]:
    """The sum of floats ≥ 0, with certain bounds of what it is of the integers they came from."""
    total = rounded_once(x)
    if total < _LARGE:
        return total, total, total
    return total, total * (1 - _OUTWARD), total * (1 + _OUTWARD)


def bounds_of_sums(totals: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The bounds of :func:`sum_with_bounds` for many sums."""
    outward = np.where(totals < _LARGE, 0.0, _OUTWARD)
    return totals * (1 - outward), totals * (1 + outward)


def floats_below(x: Int64Array | UInt64Array) -> FloatArray:
    """The largest floats not above x: beyond 2⁵³ rounding to nearest could break a bound."""
    return _rounded(x, -np.inf)


def floats_above(x: Int64Array | UInt64Array) -> FloatArray:
    """The smallest floats not below x; of 0 it is 0.0, never -0.0."""
    return _rounded(x, np.inf)


def _rounded(x: Int64Array | UInt64Array, outward: float) -> FloatArray:
    nearest = x.astype(np.float64)
    if not (np.abs(nearest) >= _LARGE).any():
        return nearest
    # Floats that are 2⁶³ or 2⁶⁴, beyond all integers of this kind, have been rounded up.
    fits = nearest < float(np.iinfo(x.dtype).max)
    back = np.where(fits, nearest, 0).astype(x.dtype)
    is_inward = ~fits | (back > x) if outward < 0 else fits & (back < x)
    return np.where(is_inward, np.nextafter(nearest, outward), nearest)


def midpoints(a: UInt64Array, b: UInt64Array) -> FloatArray:
    """(a + b) / 2, rounded once."""
    differ = a ^ b
    middle = (a & b) + (differ >> np.uint64(1))  # rounded down
    high = (middle >> np.uint64(32)).astype(np.float64) * 2.0**32
    low = (middle & np.uint64(0xFFFFFFFF)).astype(np.float64)
    return high + (low + (differ & np.uint64(1)) * 0.5)  # only the last sum rounds


def counts_reaching(shares: FloatArray | float, total: float | Int64Array) -> FloatArray:
    """The least counts k with k/total ≥ share, where rounding of share · total says otherwise.

    0.07 · 100 is above 7 in floats, but 7/100 is not less than 0.07.
    """
    counts = np.asarray(shares * total)
    whole = np.round(counts)
    reached: FloatArray = np.where((whole < counts) & (whole / total >= shares), whole, counts)
    return reached


def ticks_between(earlier: Int64Array | int, later: Int64Array | int) -> UInt64Array:
    """later − earlier of times, which may be too far apart for int64: as unsigned numbers."""
    ticks: UInt64Array = np.asarray(later).view(np.uint64) - np.asarray(earlier).view(np.uint64)
    return ticks


def cutoffs(latest: Int64Array, window: int | None) -> Int64Array:
    """The last time outside every window of at most ``window`` ticks; all time is inside None."""
    if window is None:
        return np.full(latest.size, INT64_MIN)
    return np.maximum(latest, INT64_MIN + window) - window
