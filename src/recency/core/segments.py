"""Sums within segments of one long column, exact for whatever bytes may say.

Segment i is ``starts[i]:starts[i + 1]``, as :func:`recency.core.arrays.offsets` gives them.
"""

import numpy as np

from recency.core.arrays import INT64_MIN, Int64Array, UInt64Array, ticks_between
from recency.core.codec import corrupt

_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)


def segment_sums(x: UInt64Array, starts: Int64Array, name: str) -> UInt64Array:
    """Sum of each segment; refuses sums of 2⁶⁴ or more."""
    low = np.diff(np.append(np.uint64(0), np.cumsum(x & _LOW_HALF))[starts])
    high = np.diff(np.append(np.uint64(0), np.cumsum(x >> _HALF))[starts]) + (low >> _HALF)
    if (high > _LOW_HALF).any():
        corrupt(name, "numbers out of range")
    sums: UInt64Array = (high << _HALF) | (low & _LOW_HALF)
    return sums


def running_sums(x: UInt64Array, starts: Int64Array) -> UInt64Array:
    """Sums within each segment up to and including each element, where they fit."""
    running = np.append(np.uint64(0), np.cumsum(x))  # may wrap; differences do not mind
    sums: UInt64Array = running[1:] - np.repeat(running[starts[:-1]], np.diff(starts))
    return sums


def ages_of(times: Int64Array, starts: Int64Array, latest: Int64Array) -> UInt64Array:
    """How long before the next time of its segment each is; the last one's before ``latest``."""
    next_time = np.append(times[1:], np.int64(0))
    has_times = np.diff(starts) > 0
    next_time[starts[1:][has_times] - 1] = latest[has_times]
    return ticks_between(times, next_time)


def times_of(ages: UInt64Array, starts: Int64Array, latest: Int64Array, name: str) -> Int64Array:
    """The inverse of :func:`ages_of`; refuses times that no event can have, ``latest`` included."""
    if (latest == INT64_MIN).any():
        corrupt(name, "the latest time is out of range")
    reach = segment_sums(ages, starts, name)
    if (reach > ticks_between(INT64_MIN + 1, latest)).any():
        corrupt(name, "times out of range")
    oldest = latest.view(np.uint64) - reach
    times: UInt64Array = running_sums(ages, starts) - ages + np.repeat(oldest, np.diff(starts))
    return times.view(np.int64)
