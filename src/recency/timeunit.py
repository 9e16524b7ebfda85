"""Time: integers inside, datetimes and durations at the door.

A sketch counts time in int64 ticks. Without a unit the ticks mean whatever the caller wants.
With one, ticks are seconds, milliseconds or microseconds since 1970-01-01 UTC, and datetimes and
durations are understood as well. Points in time are then in the years 1–9999, so that ticks of
another unit are found out.
"""

import math
import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recency.core import validate
from recency.core.arrays import INT64_MAX, INT64_MIN, Int64Array

Time = int | datetime | np.datetime64
Duration = int | str | timedelta | np.timedelta64

UNITS = (None, "s", "ms", "us")

# A window (now − w, now] starts after a tick, so the very first tick of int64 cannot be in one.
_FIRST_TICK = INT64_MIN + 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
YEARS = {unit: (_FIRST // size, _LAST // size) for unit, size in _MICROSECONDS.items()}
"""The first and the last tick of the years 1–9999 in each unit."""
_FINER = [
    ("milliseconds", Fraction(1_000), "use unit='ms'"),
    ("microseconds", Fraction(1), "use unit='us'"),
    ("nanoseconds", Fraction(1, 1_000), "divide by 1000 and use unit='us'"),
]
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
# In microseconds. Months and years have no fixed length, and are not here.
NUMPY_UNITS = {
    word: Fraction(_DURATION_WORDS[word.lower()]) for word in ["us", "ms", "s", "m", "h", "D", "W"]
}
NUMPY_UNITS |= {word: Fraction(1, 1000**n) for n, word in enumerate(["ns", "ps", "fs", "as"], 1)}
NUMPY_MONTHS = {"M": 1, "Y": 12}
_DURATION_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Zµ]+)\s*")


def to_tick(at: object, unit: str | None, name: str = "at") -> int:
    """One point in time as ticks: an integer, or a datetime if there is a unit."""
    if isinstance(at, np.ndarray) and at.ndim == 0:
        at = at[()]
    if isinstance(at, datetime | np.datetime64):
        return int(to_ticks(at, unit, name))
    tick = validate.integer(at, name, _FIRST_TICK)
    if unit is not None:
        _check_years(tick, tick, unit, name)
    return tick


def to_ticks(at: Any, unit: str | None, name: str = "at") -> Int64Array:
    """Points in time as ticks: of one (a 0-d array), or of an array or column of them.

    They are integers, or datetimes if there is a unit.
    """
    array = _moments_or_integers(at, name)
    if array.dtype == object and any(isinstance(x, datetime | np.datetime64) for x in array.flat):
        moments = [_moment(x, name) for x in array.flat]
        if len({each.dtype for each in moments}) > 1:  # one resolution might not hold them all
            return np.array([to_tick(each, unit, name) for each in moments])
        array = np.asarray(moments).reshape(array.shape)
    if array.dtype.kind != "M":
        ticks = validate.integers(array, name, _FIRST_TICK)
        if unit is not None and ticks.size:
            _check_years(int(ticks.min()), int(ticks.max()), unit, name)
        return ticks
    if unit is None:
        raise TypeError(f"{name} must be integers, got datetimes; give the sketch a unit for those")
    if np.isnat(array).any():
        raise ValueError(f"{name} must be points in time, got NaT")
    return _floored(array, unit, name)


def _moments_or_integers(at: Any, name: str) -> NDArray[Any]:
    """What was given, as an array in which no value has changed."""
    if isinstance(at, datetime):
        return np.asarray(_moment(at, name))
    if isinstance(at, np.datetime64):
        return np.asarray(at)
    kind: Any = getattr(at, "dtype", None)
    if validate.is_scalar(at) and kind is None:
        return validate.integers(at, name, _FIRST_TICK)
    if getattr(kind, "tz", None) is not None:  # a pandas column with a zone, else an object per row
        return np.asarray(at.to_numpy(dtype=f"datetime64[{kind.unit}]"))
    return validate.column(at, name)


def _check_years(earliest: int, last: int, unit: str, name: str) -> None:
    """Refuse ticks that lie outside the years 1–9999, which are those of another unit."""
    first, final = YEARS[unit]
    if first <= earliest and last <= final:
        return
    tick = earliest if earliest < first else last
    guess = ""
    for word, size, advice in _FINER:
        microseconds = math.floor(tick * size)
        if size < _MICROSECONDS[unit] and _FIRST <= microseconds <= _LAST:
            year = (_EPOCH + timedelta(microseconds=microseconds)).year
            guess = f": that would be the year {year} in {word}; {advice}"
            break
    raise ValueError(f"{name} must be in the years 1–9999 in unit {unit!r}, got {tick}{guess}")


def _floored(array: NDArray[np.datetime64], unit: str, name: str) -> Int64Array:
    """Ticks of datetimes of any resolution: in integers, as NumPy's own conversion may wrap."""
    word, count = np.datetime_data(array.dtype)
    if word in NUMPY_MONTHS:
        months = NUMPY_MONTHS[word] * count
        _check_moments(array, Fraction(-1969 * 12, months), Fraction(8030 * 12, months), name)
        array, word, count = array.astype("datetime64[D]"), "D", 1
    if word not in NUMPY_UNITS:
        raise TypeError(f"{name} must be datetimes of some resolution, got {array.dtype}")
    step = NUMPY_UNITS[word] * count
    _check_moments(array, _FIRST / step, (_LAST + 1) / step, name)
    steps = array.astype(np.int64)
    ratio = step / _MICROSECONDS[unit]
    if ratio.numerator > 1 and ratio.denominator > 1:  # such as 25 ns; the product may be too large
        steps = steps.astype(object)
    return np.asarray(steps * ratio.numerator // ratio.denominator, dtype=np.int64)


def _check_moments(
    array: NDArray[np.datetime64], first: Fraction, end: Fraction, name: str
) -> None:
    """Refuse datetimes outside [first, end), which are the years 1–9999 in steps of the array."""
    steps = array.astype(np.int64)
    outside = (steps < max(math.ceil(first), INT64_MIN)) | (
        steps > min(math.ceil(end) - 1, INT64_MAX)
    )
    if outside.any():
        word, count = np.datetime_data(array.dtype)
        since = int(steps[outside].flat[0]) * count
        raise ValueError(f"{name} must be in the years 1–9999, got {since} {word} since 1970")


def _moment(value: object, name: str) -> np.datetime64:
    """One point in time as NumPy has them, in UTC."""
    if isinstance(value, np.datetime64):
        return value
    if not isinstance(value, datetime):
        raise TypeError(f"{name} must be points in time, got {type(value).__name__}")
    if value != value:  # pandas' NaT
        return np.datetime64("NaT", "us")
    if value.tzinfo is None:
        raise ValueError(f"{name} must be an aware datetime (with a time zone), got naive {value}")
    if hasattr(value, "to_datetime64"):  # pandas' own kind, whose years may be too many for Python
        moment: np.datetime64 = value.to_datetime64()
        return moment
    return np.datetime64((value - _EPOCH) // _MICROSECOND, "us")


def to_duration(window: object, unit: str | None, name: str = "window") -> int:
    """A width in ticks, at least one: an integer, or a text or timedelta if there is a unit."""
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


def largest_window(window: object, unit: str | None) -> int | None:
    """The settings ``window`` and ``unit`` of a sketch: the window in ticks, None for no bound."""
    validate.one_of(unit, "unit", UNITS)
    return None if window is None else to_duration(window, unit)


def _microseconds(window: str | timedelta | np.timedelta64, name: str) -> Fraction:
    if isinstance(window, timedelta):
        if not hasattr(window, "to_timedelta64"):
            return Fraction(window // _MICROSECOND)
        window = window.to_timedelta64()  # pandas' own kind, with nanoseconds and more years
    if isinstance(window, np.timedelta64):
        word, count = np.datetime_data(window.dtype)
        if np.isnat(window) or word not in NUMPY_UNITS:
            raise ValueError(f"{name} must be a duration of fixed length, got {window!r}")
        unit = NUMPY_UNITS[word]
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
