"""Checks of arguments. Each names the parameter, what is accepted, and what it got."""

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from recency.core.arrays import INT64_MAX, INT64_MIN, Int64Array, broadcast, highest_bit


def fraction(value: object, name: str) -> float:
    """A number in the open interval (0, 1)."""
    if not _is_number(value):
        raise TypeError(f"{name} must be a number, got {_kind(value)}")
    if not 0 < value < 1:  # type: ignore[operator]
        raise ValueError(f"{name} must be in (0, 1), got {value}")
    return float(value)  # type: ignore[arg-type]


def confidence(value: object) -> float:
    """A probability that an interval can be made for."""
    result = fraction(value, "confidence")
    if 1 - result < 1e-12:
        raise ValueError(f"confidence must be at most 1 - 1e-12, got {result!r}")
    return result


def number(
    value: object,
    name: str,
    least: float = -np.inf,
    most: float = np.inf,
    *,
    exact: bool = False,
) -> float:
    """One finite number in [least, most]; with ``exact``, no integer that float64 would round.

    Longer floats, which nothing of the result would tell of, are refused where they would be.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if not _is_number(value):
        raise TypeError(f"{name} must be a number, got {_kind(value)}")
    try:
        result = float(value)  # type: ignore[arg-type]
    except OverflowError:
        result = np.inf
    if not np.isfinite(result):
        raise ValueError(f"{name} must be finite and within float64, got {value}")
    if not least <= result <= most:
        raise ValueError(f"{name} must be in [{least:g}, {most:g}], got {value}")
    if exact and is_integer(value) and int(result) != value:
        _refuse_rounding(name, value)
    if isinstance(value, np.longdouble) and result != value:
        _refuse_rounding(name, repr(value))
    return result


def _refuse_rounding(name: str, value: object) -> NoReturn:
    raise ValueError(
        f"{name} must be exact as float64, which integers beyond 2**53 and longer floats need not "
        f"be, got {value}"
    )


def one_of(value: object, name: str, choices: Sequence[str | None]) -> Any:
    """Refuse a value that is not among a few."""
    if not (value is None or isinstance(value, str)) or value not in choices:
        raise ValueError(f"{name} must be one of {list(choices)}, got {value!r}")
    return value


def integer(value: object, name: str, least: int = INT64_MIN, most: int = INT64_MAX) -> int:
    """One integer in [least, most]."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if not _is_integer_kind(type(value)):
        raise TypeError(f"{name} must be an integer, got {_kind(value)}")
    number = int(value)  # type: ignore[call-overload]
    if not least <= number <= most:
        raise ValueError(f"{name} must be {_interval(least, most)}, got {number}")
    return int(number)


def capacity(value: object, name: str = "capacity") -> int | None:
    """How many elements a level may have; None if that is left to the sketch."""
    return None if value is None else integer(value, name, 1, 2**31)


def integers(
    values: object, name: str, least: int = INT64_MIN, most: int = INT64_MAX
) -> Int64Array:
    """One integer (a 0-d array), or a one-dimensional array or column of them."""
    if is_scalar(values):
        return np.asarray(integer(values, name, least, most))
    array = column(values, name)
    if array.dtype == object:
        bad = [kind for kind in {type(value) for value in array} if not _is_integer_kind(kind)]
        if bad:
            raise TypeError(f"{name} must be integers, got {bad[0].__name__}")
        smallest, largest = (min(array), max(array)) if array.size else (least, least)
    elif array.dtype.kind in "iu":
        smallest, largest = (int(array.min()), int(array.max())) if array.size else (least, least)
    else:
        raise TypeError(f"{name} must be integers, got {array.dtype}")
    for value in (smallest, largest):
        if not least <= value <= most:
            raise ValueError(f"{name} must be {_interval(least, most)}, got {value}")
    return array.astype(np.int64, copy=False)


def numbers(
    values: object,
    name: str,
    least: float = -np.inf,
    most: float = np.inf,
    *,
    exact: bool = False,
) -> NDArray[np.float64]:
    """One finite number in [least, most] (a 0-d array), or a column of them, as float64.

    With ``exact``, no integers that float64 would round; see :func:`number`.
    """
    if is_scalar(values):
        return np.asarray(number(values, name, least, most, exact=exact))
    array = column(values, name)
    if array.dtype == object:
        array = np.array([number(value, name, exact=exact) for value in array], dtype=np.float64)
    elif array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be numbers, got {array.dtype}")
    elif exact and array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        # A float of 53 bits: of a larger integer, the lowest bits must be 0.
        bits = np.where(array < 0, ~array.astype(np.uint64) + np.uint64(1), array.astype(np.uint64))
        spare = np.maximum(highest_bit(bits) - 52, 0).view(np.uint64)
        rounded = np.flatnonzero(bits & ((np.uint64(1) << spare) - np.uint64(1)))
        if rounded.size:
            _refuse_rounding(name, int(array[rounded[0]]))
    given, array = array, array.astype(np.float64)
    if given.dtype.kind == "f" and given.dtype.itemsize > 8:
        rounded = np.flatnonzero((array != given) & np.isfinite(given))
        if rounded.size:
            _refuse_rounding(name, repr(given[rounded[0]]))
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)].flat[0]}")
    outside = (array < least) | (array > most)
    if outside.any():
        raise ValueError(f"{name} must be in [{least:g}, {most:g}], got {array[outside].flat[0]:g}")
    return array


def share_or_count(value: object, name: str) -> tuple[float, bool]:
    """A share of the whole in (0, 1), or a count (an integer ≥ 1), and which of them it is."""
    if is_integer(value):
        return integer(value, name, 1), False
    return fraction(value, name), True


def is_scalar(values: object) -> bool:
    """Whether this is one value and not a column of them."""
    if isinstance(values, np.ndarray):
        return values.ndim == 0
    return not (hasattr(values, "__len__") or hasattr(values, "__array__")) or isinstance(
        values, str | bytes | np.generic
    )


def _is_integer_kind(kind: type) -> bool:
    is_integer = issubclass(kind, int | np.integer)
    return is_integer and not issubclass(kind, bool | np.timedelta64)  # which counts as integer


def is_integer(value: object) -> bool:
    """Whether this is an integer, and not a bool."""
    return _is_integer_kind(type(value))


def _is_number(value: object) -> bool:
    return _is_integer_kind(type(value)) or isinstance(value, float | np.floating)


def column(values: object, name: str) -> NDArray[Any]:
    """Anything like a one-dimensional array, without silent conversions between kinds."""
    if isinstance(values, str | bytes | bytearray | memoryview | dict | set) or not (
        hasattr(values, "__array__") or isinstance(values, Sequence)
    ):
        raise TypeError(f"{name} must be an array, got {_kind(values)}")
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} must be an array without a mask, got a masked one")
    if not isinstance(values, Sequence):
        array = np.asarray(values)
    else:
        # np.asarray would turn [True, 2] and [1, 2.5] into one kind, and [1, 2**63] into floats.
        kinds = {type(value) for value in values}
        if kinds & {list, tuple, np.ndarray}:
            raise ValueError(f"{name} must be one-dimensional, got a sequence of sequences")
        fits = kinds == {int} and min(values) >= INT64_MIN and max(values) <= INT64_MAX
        alike = len(kinds) == 1 and (fits or int not in kinds)
        if kinds == {np.datetime64}:  # years and nanoseconds would have to share one resolution
            alike = len({value.dtype for value in values}) == 1
        array = np.asarray(values, dtype=None if alike else object)
    if array.ndim > 1:
        raise ValueError(f"{name} must be one-dimensional, got {array.ndim} dimensions")
    return array if array.size or array.dtype.kind in "iuM" else array.astype(np.int64)


def common_length(columns: dict[str, NDArray[Any]]) -> int:
    """The length of all columns; 0-d ones are broadcast to any length, and alone have length 1."""
    lengths = {name: array.size for name, array in columns.items() if array.ndim}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"{' and '.join(lengths)} must have the same length, "
            f"got {' and '.join(map(str, lengths.values()))}"
        )
    return next(iter(lengths.values()), 1)


def as_columns(size: int | None, **columns: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Columns of ``size`` rows (None: of the length they have in common); 0-d ones are broadcast.

    Their names are for the message if lengths differ.
    """
    if size is None:
        size = common_length(columns)
    return tuple(broadcast(column, size) for column in columns.values())


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__


def _interval(least: int, most: int) -> str:
    if most < INT64_MAX:
        return f"in [{least}, {most}]"
    return "in the range of int64" if least <= INT64_MIN + 1 else f"at least {least}, within int64"
