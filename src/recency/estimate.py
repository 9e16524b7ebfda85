"""Answers with an interval, and the arithmetic that combines them."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from recency.core import directed, validate
from recency.core.arrays import BoolArray

_DIRECTED: dict[Callable[[Any, Any], Any], Any] = {
    operator.add: directed.added,
    operator.mul: directed.multiplied,
    operator.truediv: directed.divided,
}


@dataclass(frozen=True, eq=False)
class Estimate:
    """An answer with an interval: ``value``, ``lower``, ``upper``, ``confidence``.

    With probability at least ``confidence`` the truth is between ``lower`` and ``upper``, both
    included. If ``confidence`` is 1 the interval is certain. The fields are floats, or arrays if
    one call gave several answers.

    Estimates can be added, divided by each other, and multiplied by numbers ≥ 0. The interval of a
    result is computed from those of its operands, and is rounded outwards where floats cannot hold
    it. Failure probabilities (1 − ``confidence``) add up, and the confidence of a result is never
    below 0. In the answers of a :class:`~recency.Bank`, a key that has no answer has the value NaN
    and the interval (−∞, ∞).

    An infinite end means that there is no bound on that side. In a sum it stays infinite, times 0
    it is 0, and the ends of a ratio are the limits. A ``value`` that would be ∞ − ∞ or ∞ / ∞ is 0;
    it is NaN only if it was computed from NaN.

    Examples
    --------
    >>> clicks = Estimate(20.0, 19.0, 21.0)
    >>> views = Estimate(100.0, 95.0, 105.0)
    >>> rate = clicks / views
    >>> round(float(rate), 3), round(rate.lower, 3), round(rate.upper, 3)
    (0.2, 0.181, 0.221)
    >>> sum([clicks, clicks])
    Estimate(value=40.0, lower=38.0, upper=42.0, confidence=1.0)
    """

    value: Any
    lower: Any
    upper: Any
    confidence: Any = 1.0

    @property
    def exact(self) -> bool | BoolArray:
        """Whether the interval is certain and a single point."""
        exact = (self.lower == self.upper) & (self.confidence == 1)
        return exact if isinstance(exact, np.ndarray) else bool(exact)

    def __float__(self) -> float:
        """Return ``value``."""
        return float(self.value)

    def __eq__(self, other: object) -> bool:
        """Compare all fields; arrays are equal if all their elements are."""
        if not isinstance(other, Estimate):
            return NotImplemented
        return all(map(np.array_equal, vars(self).values(), vars(other).values()))

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: object) -> "Estimate":
        """Return the sum, as for counts of disjoint streams."""
        other = _as_estimate(other)
        if other is None:
            return NotImplemented
        return Estimate(
            _combined(operator.add, self.value, other.value),
            _bound(operator.add, self.lower, other.lower, -np.inf),
            _bound(operator.add, self.upper, other.upper, np.inf),
            _joint_confidence(self, other),
        )

    __radd__ = __add__

    def __mul__(self, factor: object) -> "Estimate":
        """Return the estimate times a number ≥ 0; other numbers are a ``ValueError``."""
        if isinstance(factor, Estimate) or not _is_number(factor):
            return NotImplemented
        if not factor >= 0:  # type: ignore[operator]
            raise ValueError(f"factor must be at least 0, got {factor}")
        number = _as_estimate(factor)
        assert number is not None
        factors = (number.lower, number.upper)  # which differ if no float is the factor
        lower = [_bound(operator.mul, self.lower, each, -np.inf, unknown=0.0) for each in factors]
        upper = [_bound(operator.mul, self.upper, each, np.inf, unknown=0.0) for each in factors]
        return Estimate(
            _combined(operator.mul, self.value, number.value),
            _plain(np.minimum(*lower)),
            _plain(np.maximum(*upper)),
            self.confidence,
        )

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> "Estimate":
        """Return the ratio, such as sum / count for an average.

        An interval of the divisor that contains 0 is a ``ZeroDivisionError``.
        """
        other = _as_estimate(other)
        if other is None:
            return NotImplemented
        if np.any((other.lower <= 0) & (other.upper >= 0)):
            raise ZeroDivisionError("cannot divide by an Estimate whose interval contains 0")
        lower, upper = [], []
        for a in (self.lower, self.upper):
            for b in (other.lower, other.upper):
                # Where both grow without limit, the ratio is anything from 0 to as far as a goes.
                farthest = np.copysign(np.inf, a) * np.copysign(1.0, b)
                for unknown in (0.0, farthest):
                    lower.append(_bound(operator.truediv, a, b, -np.inf, unknown))
                    upper.append(_bound(operator.truediv, a, b, np.inf, unknown))
        return Estimate(
            _combined(operator.truediv, self.value, other.value),
            _plain(np.minimum.reduce(lower)),
            _plain(np.maximum.reduce(upper)),
            _joint_confidence(self, other),
        )


def _as_estimate(other: object) -> Estimate | None:
    """Of numbers that no float is, the nearest one, between its neighbours; None of other kinds."""
    if isinstance(other, Estimate):
        return other
    if not _is_number(other):
        return None
    number: Any = int(other) if validate.is_integer(other) else other  # type: ignore[call-overload]
    try:
        nearest = float(number)
    except OverflowError:
        raise ValueError(
            "an Estimate can be combined with numbers within float64, got a larger integer"
        ) from None
    if nearest != nearest:
        raise ValueError("an Estimate cannot be combined with NaN")
    below = nearest if nearest <= number else np.nextafter(nearest, -np.inf)
    above = nearest if nearest >= number else np.nextafter(nearest, np.inf)
    return Estimate(nearest, float(below), float(above))


def _is_number(value: object) -> bool:
    return validate.is_integer(value) or isinstance(value, float | np.floating)


def _combined(operation: Callable[[Any, Any], Any], a: Any, b: Any, unknown: Any = 0.0) -> Any:
    """The result for floats or arrays; ``unknown`` where numbers have none, such as ∞ − ∞."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        result = operation(a, b)
    has_none = np.isnan(result) & ~np.isnan(a) & ~np.isnan(b)
    return _plain(np.where(has_none, unknown, result))


def _bound(
    operation: Callable[[Any, Any], Any], a: Any, b: Any, outward: float, unknown: Any = None
) -> Any:
    """A bound from two bounds, one float further out where rounding moved it inward."""
    result = np.asarray(_combined(operation, a, b, outward if unknown is None else unknown))
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    bounds = directed.bound(_DIRECTED[operation], a, b, outward)
    is_whole = np.isfinite(a) & np.isfinite(b)
    return _plain(np.where(is_whole, bounds, result))


def _plain(numbers: Any) -> Any:
    """A float or an array, in which zero has one sign."""
    numbers = numbers + 0.0
    return float(numbers) if np.ndim(numbers) == 0 else numbers


def _joint_confidence(a: Estimate, b: Estimate) -> Any:
    joint = 1 - ((1 - a.confidence) + (1 - b.confidence))
    return np.maximum(joint, 0.0) if isinstance(joint, np.ndarray) else max(0.0, joint)
