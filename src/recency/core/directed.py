"""Sums, products and quotients of floats, and to which side of the exact result they were rounded.

Outwards rounded bounds stay bounds, and results that are exact stay as they are. No rounding modes:
what rounding took away is computed exactly (Dekker 1971, Knuth's TwoSum).
"""

from collections.abc import Callable

import numpy as np

from recency.core.arrays import FloatArray

_SPLITTER = 2.0**27 + 1


def added(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """a + b, and a number of the sign of what is lacking."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def multiplied(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """a · b, and a number of the sign of what is lacking."""
    (x, i), (y, j) = np.frexp(a), np.frexp(b)
    product, lost = _product(x, y)
    return _scaled(product, lost, i + j)


def divided(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """a / b, and a number of the sign of what is lacking."""
    (x, i), (y, j) = np.frexp(a), np.frexp(b)
    quotient = x / y
    product, lost = _product(quotient, y)
    return _scaled(quotient, ((x - product) - lost) * np.sign(y), i - j)


def bound(
    operation: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]],
    a: FloatArray,
    b: FloatArray,
    outward: float,
) -> FloatArray:
    """The result, or the next float towards ``outward`` (±∞) where rounding moved it inwards.

    Of finite numbers it is never infinite on the inner side, only because floats end.
    """
    with np.errstate(all="ignore"):
        result, lacking = operation(a, b)
        too_large = np.isinf(result) & np.isfinite(a) & np.isfinite(b) & (result == -outward)
        inward = np.isfinite(result) & (lacking > 0 if outward > 0 else lacking < 0)
        moved: FloatArray = np.where(too_large | inward, np.nextafter(result, outward), result)
        return moved


def _product(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """x · y and what is lacking, exactly; for numbers around 1."""
    product = x * y
    high_x, high_y = (each * _SPLITTER - (each * _SPLITTER - each) for each in (x, y))
    low_x, low_y = x - high_x, y - high_y
    lost = low_x * low_y - (((product - high_x * high_y) - low_x * high_y) - high_x * low_y)
    return product, lost


def _scaled(
    number: FloatArray, lost: FloatArray, exponent: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """number · 2^exponent, which may be rounded again: near 0, where floats have fewer digits."""
    result = np.ldexp(number, exponent)
    again = np.where(np.isfinite(result), np.ldexp(result, -exponent), number)
    return result, np.where(again == number, lost, number - again)
