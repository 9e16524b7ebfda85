"""Keys: the same whichever container they come in, and however they are written.

A key is what Python takes it for as a key of a dict, so 1, 1.0 and True are one. Besides:

- A NumPy or Arrow scalar is the Python value that it stands for; integers are exact.
- What is missing (None, pandas' NA and NaT, NumPy's NaT, a null of Arrow) is None. NaN in a column
  of floats is a number, and all NaN are one key.
- A point in time without a zone (``datetime``, ``numpy.datetime64`` of any resolution, pandas'
  ``Timestamp``, a timestamp of Arrow) is a naive ``datetime``, and a date is its midnight. One with
  a zone is the instant, whatever the zone: a ``datetime`` in UTC. These two kinds never meet.
- A duration is a ``timedelta``.
- Where Python's classes are too coarse or too narrow, the key is a :class:`Moment` or a
  :class:`Span`, and is found by the value it came as.
- A tuple is one key, and this holds for its elements.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from itertools import count
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recency.timeunit import NUMPY_MONTHS, NUMPY_UNITS

_PLAIN = {str, bytes, int, bool, type(None)}  # keys as they are
_AS_IN_A_DICT = {*_PLAIN, float}  # the same, but for NaN
_MISSING = {"NAType", "NaTType"}  # pandas is not imported here
_EPOCHS = {False: datetime(1970, 1, 1), True: datetime(1970, 1, 1, tzinfo=UTC)}
_ARROW_TIMES = ("timestamp", "date", "duration")
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Moment:
    """A point in time finer than microseconds or outside the years 1–9999, from 1970 on."""

    seconds: Fraction
    has_zone: bool


@dataclass(frozen=True)
class Span:
    """A duration finer than microseconds or longer than a ``timedelta``."""

    seconds: Fraction


def distinct(keys: Any) -> tuple[list[Hashable], NDArray[np.intp]]:
    """Different keys of a list or column as they first come, and which of them each row has.

    Two of them may still be equal.
    """
    if hasattr(keys, "dictionary_encode"):
        return _of_arrow(keys)
    kind = getattr(keys, "dtype", None)
    if hasattr(keys, "factorize") and not isinstance(kind, np.dtype):
        return _of_pandas(keys, kind)
    if isinstance(keys, np.ma.MaskedArray):
        hidden = np.ma.getmaskarray(keys)
        return _of_list([None if no else key for key, no in zip(keys.data, hidden, strict=True)])
    if isinstance(keys, Sequence):
        return _of_list(keys)
    return _of_array(np.asarray(keys))


def canonical(key: Any) -> Hashable:
    """The key that a value stands for; see the module."""
    if isinstance(key, np.ndarray) and key.ndim == 0:
        key = key[()]
    if type(key) in _PLAIN:
        return key  # type: ignore[no-any-return]
    if type(key).__name__ in _MISSING:
        return None
    if isinstance(key, tuple):
        elements = tuple(map(canonical, key))
        is_same = all(a is b for a, b in zip(elements, key, strict=True))
        return key if is_same else elements
    if hasattr(key, "as_py"):
        return _of_arrow_scalar(key)
    if isinstance(key, datetime):
        return _of_datetime(key)
    if isinstance(key, np.datetime64):
        return _of_datetime64(key)
    if isinstance(key, date):
        return datetime(key.year, key.month, key.day)
    if isinstance(key, timedelta):  # pandas' own kind is finer and wider than Python's
        return _of_timedelta64(key.to_timedelta64()) if hasattr(key, "to_timedelta64") else key
    if isinstance(key, np.timedelta64):
        return _of_timedelta64(key)
    if isinstance(key, np.void) and key.dtype.names:
        return tuple(canonical(key[name]) for name in key.dtype.names)
    if isinstance(key, np.generic):
        key = key.item()
    if isinstance(key, Number) and key != key:
        return math.nan  # always this object, which dicts find although it does not equal itself
    return key  # type: ignore[no-any-return]


# --- containers -----------------------------------------------------------------------------------


def _of_list(keys: Sequence[Any]) -> tuple[list[Hashable], NDArray[np.intp]]:
    kinds = set(map(type, keys))
    if not kinds <= _AS_IN_A_DICT:
        keys = list(map(canonical, keys))
    number: defaultdict[Hashable, int] = defaultdict(count().__next__)
    which = np.fromiter(map(number.__getitem__, keys), np.intp, len(keys))
    return list(map(canonical, number)) if float in kinds else list(number), which


def _of_array(keys: NDArray[Any]) -> tuple[list[Hashable], NDArray[np.intp]]:
    if keys.ndim != 1:
        raise ValueError(f"keys must be one-dimensional, got {keys.ndim} dimensions")
    if keys.dtype.kind not in "biufUSMm":
        return _of_list(list(keys) if keys.dtype.names else keys.tolist())
    if keys.dtype.kind in "iu" and keys.size:
        least, most = int(keys.min()), int(keys.max())
        if most - least < keys.size:  # dense integers are numbers already
            which = keys.astype(np.int64) - keys.min().astype(np.int64)
            order, which = _as_they_come(which, keys.size)
            return [least + key for key in order.tolist()], which
    values, which = np.unique(keys, return_inverse=True)
    order, which = _as_they_come(which, values.size)
    # NumPy's own list of datetimes has integers, dates or datetimes, as the resolution is.
    plain = list(values[order]) if keys.dtype.kind in "Mm" else values[order].tolist()
    return plain if keys.dtype.kind in "biuUS" else list(map(canonical, plain)), which


def _of_pandas(keys: Any, kind: Any) -> tuple[list[Hashable], NDArray[np.intp]]:
    """A column of a kind that NumPy does not have: where something is missing, it is None."""
    # NaN is not missing, and strings do not end at NUL: the column's own way does not tell apart.
    if kind.kind == "f" or getattr(kind, "storage", None) == "python":
        return _of_list(list(keys))
    which, values = keys.factorize()
    return _with_missing(values, which)


def _of_arrow(keys: Any) -> tuple[list[Hashable], NDArray[np.intp]]:
    if hasattr(keys.type, "value_type") and hasattr(keys.type, "index_type"):
        keys = keys.cast(keys.type.value_type)  # a dictionary may have values twice
    if hasattr(keys, "combine_chunks"):
        keys = keys.combine_chunks()
    try:
        encoded = keys.dictionary_encode()
    except NotImplementedError:
        return _of_list(keys.to_pylist())
    values = encoded.dictionary
    if not str(values.type).startswith(_ARROW_TIMES):  # of which Python could not hold all
        values = values.to_pylist()
    return _with_missing(values, encoded.indices.fill_null(-1).to_numpy())


def _with_missing(
    values: Iterable[Any], which: NDArray[Any]
) -> tuple[list[Hashable], NDArray[np.intp]]:
    """From values and which of them each row has, -1 where it is missing."""
    keys = [*map(canonical, values), None]
    order, which = _as_they_come(which % len(keys), len(keys))
    return [keys[i] for i in order.tolist()], which


def _as_they_come(which: NDArray[Any], size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Which of ``size`` values are used, as they first come, and which of those each row has."""
    first = np.full(size, which.size)
    first[which[::-1]] = np.arange(which.size)[::-1]  # of the rows of a value the last one stays
    order = np.flatnonzero(first < which.size)
    order = order[np.argsort(first[order])]
    place = np.empty(size, dtype=np.intp)
    place[order] = np.arange(order.size)
    return order, place[which]


# --- scalars --------------------------------------------------------------------------------------


def _of_arrow_scalar(scalar: Any) -> Hashable:
    kind = str(scalar.type)
    if not scalar.is_valid or not kind.startswith(_ARROW_TIMES):
        return canonical(scalar.as_py())
    # Python's values would not hold all of these.
    if kind.startswith("duration"):
        return _of_timedelta64(np.timedelta64(scalar.value, scalar.type.unit))
    if kind.startswith("date"):
        return _of_datetime64(np.datetime64(scalar.value, "D" if kind == "date32[day]" else "ms"))
    has_zone = scalar.type.tz is not None
    return _of_datetime64(np.datetime64(scalar.value, scalar.type.unit), has_zone)


def _of_datetime(key: datetime) -> Hashable:
    has_zone = key.tzinfo is not None
    if hasattr(key, "to_datetime64"):  # pandas' own kind, finer and wider than Python's
        return _of_datetime64(key.to_datetime64(), has_zone)
    if not has_zone:
        return key
    return _moment(Fraction((key - _EPOCHS[True]) // _MICROSECOND), has_zone)


def _of_datetime64(key: np.datetime64, has_zone: bool = False) -> Hashable:
    if np.isnat(key):
        return None
    word, size = np.datetime_data(key.dtype)
    steps = int(key.astype(np.int64)) * size
    if word in NUMPY_MONTHS:
        # As days: the calendar repeats every 400 years, and NumPy itself may wrap.
        cycles, months = divmod(steps * NUMPY_MONTHS[word], 4800)
        days = np.datetime64(months, "M").astype("datetime64[D]").astype(np.int64)
        word, steps = "D", 146_097 * cycles + int(days)
    return _moment(steps * NUMPY_UNITS[word], has_zone) if word in NUMPY_UNITS else steps


def _moment(microseconds: Fraction, has_zone: bool) -> Hashable:
    return _added(_EPOCHS[has_zone], microseconds, Moment(microseconds / 10**6, has_zone))


def _added(start: Any, microseconds: Fraction, otherwise: Hashable) -> Hashable:
    """Start and microseconds together, if Python's own classes have room for that."""
    if microseconds.denominator == 1:
        try:
            return start + microseconds.numerator * _MICROSECOND  # type: ignore[no-any-return]
        except OverflowError:
            pass
    return otherwise


def _of_timedelta64(key: np.timedelta64) -> Hashable:
    if np.isnat(key):
        return None
    word, size = np.datetime_data(key.dtype)
    steps = int(key.astype(np.int64)) * size
    if word in NUMPY_MONTHS:  # which have no fixed length
        return np.timedelta64(steps * NUMPY_MONTHS[word], "M")
    if word not in NUMPY_UNITS:  # NumPy has them without a unit
        return steps
    microseconds = steps * NUMPY_UNITS[word]
    return _added(timedelta(), microseconds, Span(microseconds / 10**6))
