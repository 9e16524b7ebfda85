"""Time: integers inside, datetimes and durations at the door.

A sketch counts time in int64 ticks. Without a unit the ticks mean whatever the caller wants.
With one, ticks are seconds, milliseconds or microseconds since 1970-01-01 UTC, and datetimes and
durations are understood as well.
"""

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recency.core import validate
from recency.core.arrays import INT64_MAX, INT64_MIN, Int64Array

UNITS = (None, "s", "ms", "us")

# A window (now − w, now] starts after a tick, so the very first tick of int64 cannot be in one.
_FIRST_TICK = INT64_MIN + 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_DURATION_WORDS = {
    word: microseconds
    for words, microseconds in [
        ("us µs microsecond microseconds", 1),
        ("ms millisecond milliseconds", 1_000),
        ("s sec secs second seconds", 1_000_000),
        ("m min mins minute minutes", 60_000_000),
        ("h hr hrs hour hours", 3_600_000_000),
        ("d day days", 86_400_000_000),
        ("w week weeks", 604_800_000_000),
    ]
    for word in words.split()
}
# Months and years have no fixed length, and are not here.
_NUMPY_UNITS = {
    word: Fraction(_DURATION_WORDS[word.lower()]) for word in ["us", "ms", "s", "m", "h", "D", "W"]
}
_NUMPY_UNITS["ns"] = Fraction(1, 1000)
_DURATION_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Zµ]+)\s*")


def to_tick(at: object, unit: str | None, name: str = "at") -> int:
    """One point in time."""
    if isinstance(at, datetime | np.datetime64):
        return int(to_ticks(at, unit, name))
    return validate.integer(at, name, _FIRST_TICK)


def to_ticks(at: Any, unit: str | None, name: str = "at") -> Int64Array:
    """Points in time: one (a 0-d array), or an array or column of them."""
    if isinstance(at, datetime):
        array = np.asarray(_aware(at, name))
    elif isinstance(at, np.datetime64):
        array = np.asarray(at)
    elif validate.is_scalar(at) and getattr(at, "dtype", None) is None:
        return validate.integers(at, name, _FIRST_TICK)
    elif getattr(getattr(at, "dtype", None), "tz", None) is not None:  # a pandas column with zone
        array = at.to_numpy(dtype="datetime64[us]")
    else:
        array = validate.column(at, name)
        if array.dtype == object and any(isinstance(x, datetime | np.datetime64) for x in array):
            array = np.asarray([_aware(x, name) for x in array])
    if array.dtype.kind != "M":
        return validate.integers(array, name, _FIRST_TICK)
    if unit is None:
        raise TypeError(f"{name} must be integers, got datetimes; give the sketch a unit for those")
    if np.isnat(array).any():
        raise ValueError(f"{name} must be points in time, got NaT")
    return _floored(array, unit, name)


def _floored(array: NDArray[np.datetime64], unit: str, name: str) -> Int64Array:
    target = np.dtype(f"datetime64[{unit}]")
    try:
        ticks = array.astype(target)
        # Going to a finer unit can overflow, which NumPy does not always report.
        overflow = np.can_cast(array.dtype, target) and (ticks.astype(array.dtype) != array).any()
    except OverflowError:
        overflow = True
    if overflow:
        raise ValueError(f"{name} must be in the range of int64 in unit {unit!r}")
    return ticks.astype(np.int64)


def _aware(value: object, name: str) -> np.datetime64:
    if isinstance(value, np.datetime64):
        return value
    if not isinstance(value, datetime):
        raise TypeError(f"{name} must be points in time, got {type(value).__name__}")
    if value.tzinfo is None:
        raise ValueError(f"{name} must be an aware datetime (with a time zone), got naive {value}")
    return np.datetime64((value - _EPOCH) // _MICROSECOND, "us")


def to_duration(window: object, unit: str | None, name: str = "window") -> int:
    """A width in ticks, at least one."""
    if isinstance(window, str | timedelta | np.timedelta64):
        if unit is None:
            raise TypeError(f"{name} must be an integer, got {window!r}; give the sketch a unit")
        ticks = _microseconds(window, name) / _MICROSECONDS[unit]
        if ticks.denominator != 1:
            raise ValueError(f"{name} must be a whole number of {unit}, got {window!r}")
        if not 1 <= ticks.numerator <= INT64_MAX:
            raise ValueError(f"{name} must be at least 1 {unit}, within int64, got {window!r}")
        return ticks.numerator
    return validate.integer(window, name, 1)


def _microseconds(window: str | timedelta | np.timedelta64, name: str) -> Fraction:
    if isinstance(window, timedelta):
        # Pandas' subclass has nanoseconds, which the division would drop.
        return Fraction(window // _MICROSECOND) + Fraction(getattr(window, "nanoseconds", 0), 1000)
    if isinstance(window, np.timedelta64):
        word, count = np.datetime_data(window.dtype)
        if np.isnat(window) or word not in _NUMPY_UNITS:
            raise ValueError(f"{name} must be a duration of fixed length, got {window!r}")
        unit = _NUMPY_UNITS[word]
        return int(window.astype(np.int64)) * count * unit
    return _parsed(window, name)


@lru_cache(maxsize=256)
def _parsed(window: str, name: str) -> Fraction:
    total, position = Fraction(0), 0
    while part := _DURATION_PART.match(window, position):
        number, word = part.groups()
        if word not in _DURATION_WORDS:
            break
        total += Fraction(number) * _DURATION_WORDS[word]
        position = part.end()
    if position < len(window) or not window:
        raise ValueError(f"{name} must be a duration such as '90 minutes' or '24h', got {window!r}")
    return total
