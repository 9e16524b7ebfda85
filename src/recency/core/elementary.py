"""2ˣ and log₂ that give the same bits on every machine.

Which elements a sketch keeps may depend on them, and its bytes must not depend on the machine. The
functions of NumPy and of the C library are accurate, but not alike, in their last bits. Here there
is nothing but additions, multiplications and tables, all of which are exactly defined: the tables
come from decimal arithmetic. Errors are below 2⁻⁵⁰, relative for 2ˣ, absolute for log₂.
"""

from decimal import Decimal, localcontext

import numpy as np

from recency.core.arrays import FloatArray

_PART_BITS = 6
_PARTS = 1 << _PART_BITS  # of an octave
_TERMS = 7
_LARGEST = np.finfo(np.float64).max


def _tables() -> tuple[FloatArray, FloatArray, FloatArray, list[float], list[float]]:
    with localcontext() as context:
        context.prec = 40
        ln2 = Decimal(2).ln()
        powers = [Decimal(2) ** (Decimal(k) / _PARTS) for k in range(_PARTS)]
        # For mantissas in [1, 2): short factors that bring them near 1, and their logarithms.
        middles = [1 + Decimal(2 * k + 1) / (2 * _PARTS) for k in range(_PARTS)]
        factors = [Decimal(round(256 / middle)) / 256 for middle in middles]
        logs = [-factor.ln() / ln2 for factor in factors]
        exponential, factorial = [], Decimal(1)
        for n in range(_TERMS):
            factorial *= max(n, 1)
            exponential.append(float(ln2**n / factorial))
        logarithm = [float(Decimal((-1) ** (n + 1)) / (n * ln2)) for n in range(1, _TERMS + 3)]
    as_floats = [np.array([float(x) for x in table]) for table in (powers, factors, logs)]
    return as_floats[0], as_floats[1], as_floats[2], exponential, logarithm


_POWERS, _FACTORS, _LOGS, _EXPONENTIAL, _LOGARITHM = _tables()


def exp2(x: FloatArray) -> FloatArray:
    """2ˣ for x < 1023; 0 for x < −1022."""
    inside = np.maximum(x, -1022.0)
    steps = np.rint(inside * _PARTS)
    rest = inside - steps / _PARTS  # exact, at most 1/128
    whole = steps.astype(np.int64)
    result = _horner(rest, _EXPONENTIAL)
    result *= _POWERS[whole & (_PARTS - 1)]
    result.view(np.int64)[...] += (whole >> _PART_BITS) << 52  # to the exponent of the float
    result *= x >= -1022.0
    return result


def log2(x: FloatArray) -> FloatArray:
    """log₂ of positive numbers; 1024 of what is beyond floats."""
    mantissa, exponent = np.frexp(np.minimum(x, _LARGEST))
    mantissa = 2 * mantissa  # in [1, 2)
    part = ((mantissa - 1) * _PARTS).astype(np.int64)
    near = mantissa * _FACTORS[part] - 1
    result = _horner(near, _LOGARITHM)
    result *= near
    result += _LOGS[part]
    result += exponent - 1
    return result


def power(x: FloatArray, exponent: float) -> FloatArray:
    """x to an exponent, for positive x."""
    return exp2(exponent * log2(x))


def _horner(x: FloatArray, coefficients: list[float]) -> FloatArray:
    result = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result *= x
        result += coefficient
    return result
