"""Decay functions: how much an event counts, given its age.

A decay is a function of age ≥ 0 with values in [0, 1] that never increases. Ages are in ticks, and
``scale`` is the number of ticks in one unit of age: on a sketch with ``unit="s"``,
``Polynomial(1, scale=3600)`` is 1/2 after one hour. Decays are vectorised, comparable and
picklable, and their values have the same bits on every machine.

========================  ================================  ==================================
``NoDecay()``             1                                 converging
``SlidingWindow(width)``  1 for age < width, else 0         finite
``Exponential(rate)``     2^(−rate·age)                     converging, exponential
``Polynomial(exponent)``  (age + 1)^−exponent               converging
``PolyExponential(…)``    (age + 1)ᵏ·2^(−rate·age)          super_exponential
``SuperExponential(…)``   2^(−rate·age^power), power > 1    super_exponential
``Chordal(width)``        max(0, 1 − age/width)             finite
``FiniteExponential(…)``  2^(−rate·age), 0 below the floor  finite
``Custom(fn, kinds)``     whatever ``fn`` computes          as declared
========================  ================================  ==================================

The classes are those of Cormode, Tirthapura & Xu 2009 (*Time-Decayed Correlated Aggregates*), §1.2:

* ``converging``: f(x + 1)/f(x) does not decrease, so events of different ages become more and more
  alike;
* ``exponential``: that ratio is constant;
* ``super_exponential``: from some age on it stays below a constant less than 1;
* ``finite``: zero from some age on.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import Field, dataclass, fields
from typing import Any

import numpy as np

from recency.core import validate
from recency.core.arrays import INT64_MAX, FloatArray, Int64Array, floats_above
from recency.core.elementary import exp2, log2, power

KINDS = ("converging", "exponential", "super_exponential", "finite")
_FINITE = frozenset({"finite"})
_TINY = 5e-324  # the smallest float above zero
_BLOCK = 1 << 14  # ages per pass: temporaries that stay in the cache
_NEVER = 2**62  # ages
# Ages at which a decay without a formula is looked up first: 16 to an octave.
_GRID = np.unique((2.0 ** (np.arange(16 * 62 + 1) / 16)).astype(np.int64))
_classes: dict[str, type["Decay"]] = {}


class Decay(ABC):
    """Base class of decay functions; :mod:`recency.decay` lists them.

    Parameters of all decays are finite numbers above 0; others are a ``ValueError``.
    """

    scale: float
    """Ticks per unit of age."""

    kinds: frozenset[str]
    """The classes of the function, a subset of ``KINDS``."""

    jumps: bool = False
    """Whether the value may fall steeply within one tick, as at the end of a window."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Classes are found by name when bytes are read."""
        super().__init_subclass__(**kwargs)
        _classes[cls.__name__] = cls

    def __post_init__(self) -> None:
        """Every parameter is a finite number above 0."""
        for field in _fields(self):
            object.__setattr__(self, field.name, _positive(getattr(self, field.name), field.name))

    # --- to be written by each decay; ages in units, not in ticks ---

    @abstractmethod
    def _value(self, age: FloatArray) -> FloatArray: ...

    def _last_age(self, halvings: FloatArray) -> FloatArray | None:
        """The last age at which the value is at least 2^−halvings; None without a formula."""
        return None

    def _near_last_age(self, halvings: FloatArray) -> FloatArray | None:
        """The same, nearly, where that saves time: it will be checked."""
        return None

    # --- the same for all ---

    def __call__(self, age: Any) -> Any:
        """Return the value at an age ≥ 0 in ticks, or at each age of an array."""
        ages = validate.numbers(age, "age")
        if ages.size and ages.min() < 0:
            raise ValueError(f"age must be at least 0, got {ages.min():g}")
        values = self.at(ages.reshape(-1))
        return values if ages.ndim else float(values[0])

    def at(self, ages: Any) -> FloatArray:
        """Return the values at an array of ages in ticks, without checks."""
        ticks: FloatArray = np.asarray(ages, dtype=np.float64)
        values = np.empty_like(ticks)
        with np.errstate(over="ignore", under="ignore"):
            for begin in range(0, ticks.size, _BLOCK):
                block = slice(begin, begin + _BLOCK)
                values[block] = self._value(ticks[block] / self.scale)
        return values

    @property
    def reach(self) -> int | None:
        """The first age, in whole ticks, at which the value is 0; None if there is none."""
        if "finite" not in self.kinds:
            return None
        return int(self.first_age_below(np.ones(1), np.full(1, _TINY))[0])

    def integral(self, weight: Any, age: Any) -> Any:
        """Return ⌊weight · value at ``age``⌋, an integer (Cormode et al. 2009, Definition 1.2)."""
        weights = validate.numbers(weight, "weight", 0, 2.0**62)
        whole = np.floor(weights * self(age)).astype(np.int64)
        return whole if whole.ndim else int(whole)

    def integral_inverse(self, weight: Any, value: Any) -> Any:
        """Return the first age, in whole ticks, at which ``integral(weight, age)`` < ``value``.

        It is 2⁶³ − 1 if there is no such age.
        """
        weights = validate.numbers(weight, "weight", 0, 2.0**62)
        values = validate.integers(value, "value")
        # The next float above is as good a bound: there is none between.
        weights, bounds = np.broadcast_arrays(weights, floats_above(values))
        ages = self.first_age_below(weights.ravel(), bounds.ravel()).reshape(weights.shape)
        return ages if ages.ndim else int(ages)

    def last_ages(self, halvings: FloatArray) -> FloatArray | None:
        """Return the last age, in ticks, at which the value is at least 2^−halvings.

        The result is subject to rounding. ``halvings`` must not be negative. None is returned for
        decays without a formula.
        """
        with np.errstate(over="ignore", under="ignore"):
            ages = self._last_age(halvings)
            return None if ages is None else ages * self.scale

    def first_age_below(self, weights: FloatArray, bounds: FloatArray) -> Int64Array:
        """Return the first age, in whole ticks, at which weight · value < bound.

        It is 2⁶³ − 1 if there is no such age below 2⁶². The age is computed by formula or by
        search, then checked, so it is exact.
        """

        def value_at(ages: Int64Array, rows: Any = slice(None)) -> FloatArray:
            values: FloatArray = weights[rows] * self.at(ages)
            return values

        ratios = np.ones_like(bounds)
        with np.errstate(over="ignore", under="ignore"):
            np.divide(bounds, weights, out=ratios, where=weights > 0)
        ratios = np.clip(ratios, _TINY, 1.0)
        halvings = -log2(ratios)
        lasts = self.last_ages(halvings)
        if lasts is None:
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                close = self._near_last_age(halvings)
                lasts = None if close is None else close * self.scale
        if lasts is None:
            place = np.searchsorted(-self.at(_GRID), -ratios, side="right")
            low, high = _GRID[np.maximum(place - 1, 0)], _GRID[np.minimum(place, _GRID.size - 1)]
        else:
            low = np.minimum(lasts, _NEVER).astype(np.int64)
            high = low + 1
        is_right = (value_at(low) >= bounds) & (value_at(high) < bounds) & (high - low == 1)
        rows = np.flatnonzero(~is_right)
        if rows.size:
            near = (high[rows] >> 40) + 4
            high[rows] = _first_below(
                bounds[rows],
                np.maximum(low[rows] - near, 0),
                np.minimum(high[rows] + near, _NEVER),
                lambda ages, some: value_at(ages, rows[some]),
            )
        high[(high >= _NEVER) | (bounds <= 0)] = INT64_MAX
        return high

    def encoded(self) -> tuple[str | float, ...]:
        """Return class name and parameters, as written into the bytes of a sketch."""
        return (type(self).__name__, *(getattr(self, field.name) for field in _fields(self)))

    @staticmethod
    def decoded(settings: tuple[Any, ...]) -> "Decay":
        """Return the decay that :meth:`encoded` describes; anything else is a ``ValueError``."""
        name, *parameters = settings or (None,)
        cls = _classes.get(name) if isinstance(name, str) else None
        if cls is None or cls is Custom or len(_fields(cls)) != len(parameters):
            raise ValueError(f"no such decay: {settings}")
        return cls(**dict(zip([field.name for field in _fields(cls)], parameters, strict=True)))


def _first_below(
    bounds: FloatArray,
    low: Int64Array,
    high: Int64Array,
    value_at: Callable[[Int64Array, Any], FloatArray],
) -> Int64Array:
    """The first ages at which values are below bounds, which should be in (low, high].

    Between two ages a value is taken to be on a straight line, and one a little to the right of
    where that meets the bound, then one to the left of it, are looked at: mostly they are the next
    two ends. Every third time the middle is, so that no function takes long.
    """
    everything = np.arange(low.size)
    at_low, at_high = value_at(low, everything), value_at(high, everything)
    before, after = at_low < bounds, at_high >= bounds  # not where it should be
    low, high = (
        np.where(before, -1, np.where(after, high, low)),
        np.where(before, low, np.where(after, _NEVER, high)),
    )
    at_low, at_high = (
        np.where(before, np.maximum(at_low, bounds), np.where(after, at_high, at_low)),
        np.where(before, at_low, np.where(after, -1.0, at_high)),
    )
    rows, turn = np.flatnonzero(high - low > 1), 0
    while rows.size:
        a, b = low[rows], high[rows]
        if turn % 3 == 2:
            middle = (a + b) // 2
        else:
            fall = (at_low[rows] - bounds[rows]) / (at_low[rows] - at_high[rows])
            aside = (1 - 2 * (turn % 3)) * ((b - a) / 256 + 1)
            middle = a + np.clip((b - a) * fall + aside, 1, b - a - 1).astype(np.int64)
        value = value_at(middle, rows)
        below = value < bounds[rows]
        high[rows[below]], at_high[rows[below]] = middle[below], value[below]
        low[rows[~below]], at_low[rows[~below]] = middle[~below], value[~below]
        rows, turn = rows[high[rows] - low[rows] > 1], turn + 1
    return high


def checked_decay(decay: object) -> Decay:
    """A decay that was given as an argument, if it is one."""
    if not isinstance(decay, Decay):
        raise TypeError(f"decay must be a Decay, got {type(decay).__name__}; see recency.decay")
    return decay


def _positive(value: object, name: str) -> float:
    number = validate.number(value, name)
    if number <= 0:
        raise ValueError(f"{name} must be above 0, got {number:g}")
    return number


def _fields(decay: Any) -> tuple[Field[Any], ...]:
    return fields(decay)


@dataclass(frozen=True)
class NoDecay(Decay):
    """1 at every age."""

    scale: float = 1.0
    kinds = frozenset({"converging"})

    def _value(self, age: FloatArray) -> FloatArray:
        return np.ones_like(age)

    def _last_age(self, halvings: FloatArray) -> FloatArray:
        return np.full_like(halvings, np.inf)


@dataclass(frozen=True)
class SlidingWindow(Decay):
    """1 for age < ``width``, else 0: the window (now − width, now]."""

    width: float
    scale: float = 1.0
    kinds = _FINITE
    jumps = True

    def _value(self, age: FloatArray) -> FloatArray:
        return (age < self.width).astype(np.float64)

    def _last_age(self, halvings: FloatArray) -> FloatArray:
        return np.full_like(halvings, np.nextafter(self.width, 0))


@dataclass(frozen=True, init=False)
class Exponential(Decay):
    """2^(−rate·age); give either ``rate`` or ``half_life`` = 1/rate."""

    rate: float
    scale: float = 1.0
    kinds = frozenset({"converging", "exponential"})

    def __init__(
        self, rate: float | None = None, scale: float = 1.0, *, half_life: float | None = None
    ) -> None:
        if (rate is None) == (half_life is None):
            raise TypeError("Exponential needs either rate or half_life")
        if half_life is not None:
            rate = 1 / _positive(half_life, "half_life")
        object.__setattr__(self, "rate", rate)
        object.__setattr__(self, "scale", scale)
        self.__post_init__()

    def _value(self, age: FloatArray) -> FloatArray:
        return exp2(-self.rate * age)

    def _last_age(self, halvings: FloatArray) -> FloatArray:
        return halvings / self.rate


@dataclass(frozen=True)
class Polynomial(Decay):
    """(age + 1)^−exponent."""

    exponent: float
    scale: float = 1.0
    kinds = frozenset({"converging"})

    def _value(self, age: FloatArray) -> FloatArray:
        return power(age + 1, -self.exponent)

    def _last_age(self, halvings: FloatArray) -> FloatArray:
        return exp2(np.minimum(halvings / self.exponent, 1000.0)) - 1


@dataclass(frozen=True)
class PolyExponential(Decay):
    """(age + 1)ᵏ·2^(−rate·age), which is 1 at age 0.

    ``rate`` must be at least k·log₂(1 + 1/scale)·scale, which is k at scale 1 and at most 1.443 k.
    With a smaller rate the function would rise at first; that is a ``ValueError``.
    """

    k: float
    rate: float
    scale: float = 1.0
    kinds = frozenset({"super_exponential"})

    def __post_init__(self) -> None:
        """It must not increase from one tick to the next."""
        super().__post_init__()
        # After the first tick it is at most 1; it has one peak, so it falls from there on.
        least = self.k * (self.scale * math.log1p(min(1 / self.scale, 1e300)) / math.log(2))
        if self.rate < least * (1 - 1e-12):
            raise ValueError(
                f"rate must be at least {least:g} for k = {self.k:g} at scale {self.scale:g}: "
                f"a decay never increases, got {self.rate:g}"
            )

    def _value(self, age: FloatArray) -> FloatArray:
        return np.minimum(exp2(self.k * log2(age + 1) - self.rate * age), 1.0)

    def _near_last_age(self, halvings: FloatArray) -> FloatArray:
        """Newton's method on rate·(y − 1) − k·log₂ y − halvings, y = age + 1, from the right.

        That is convex, so it never steps beyond the root. The start is where a tangent of log₂ is.
        """
        touching = 2 * self.k / (self.rate * math.log(2))
        offset = self.rate + self.k * (math.log2(touching) - 1 / math.log(2))
        y = np.maximum(2 * (halvings + offset) / self.rate, 1.0 + 1e-9)
        slope = self.k / math.log(2)
        for _ in range(6):
            step = self.rate * (y - 1) - self.k * log2(y) - halvings
            step /= np.maximum(self.rate - slope / y, 1e-9 * self.rate)
            y = np.maximum(np.nan_to_num(y - step), 1.0)
        return y - 1


@dataclass(frozen=True)
class SuperExponential(Decay):
    """2^(−rate·age^power), where power > 1."""

    rate: float
    power: float
    scale: float = 1.0
    kinds = frozenset({"super_exponential"})

    def __post_init__(self) -> None:
        """The power must be above 1: with 1 it would be exponential."""
        super().__post_init__()
        if self.power <= 1:
            raise ValueError(f"power must be above 1, got {self.power:g}; there is Exponential")

    def _value(self, age: FloatArray) -> FloatArray:
        positive = np.maximum(age, 1e-300)
        return exp2(-self.rate * exp2(np.minimum(self.power * log2(positive), 1000.0)))

    def _last_age(self, halvings: FloatArray) -> FloatArray:
        return power(np.maximum(halvings / self.rate, 1e-300), 1 / self.power)


@dataclass(frozen=True)
class Chordal(Decay):
    """max(0, 1 − age/width): a straight line from 1 to 0."""

    width: float
    scale: float = 1.0
    kinds = _FINITE

    def _value(self, age: FloatArray) -> FloatArray:
        return np.maximum(self.width - age, 0.0) / self.width

    def _last_age(self, halvings: FloatArray) -> FloatArray:
        return (1 - exp2(-halvings)) * self.width


@dataclass(frozen=True)
class FiniteExponential(Decay):
    """2^(−rate·age) where that is at least ``floor``, else 0; ``floor`` is in (0, 1]."""

    rate: float
    floor: float
    scale: float = 1.0
    kinds = _FINITE
    jumps = True

    def __post_init__(self) -> None:
        """The floor must be a value of the function."""
        super().__post_init__()
        if self.floor > 1:
            raise ValueError(f"floor must be in (0, 1], got {self.floor:g}")

    def _value(self, age: FloatArray) -> FloatArray:
        value = exp2(-self.rate * age)
        return np.where(value >= self.floor, value, 0.0)

    def _last_age(self, halvings: FloatArray) -> FloatArray:
        return np.minimum(halvings, -log2(np.array([self.floor]))) / self.rate


@dataclass(frozen=True)
class Custom(Decay):
    """A function of your own, checked at many ages.

    Any question can use it. A sketch built with one cannot be written to bytes, since bytes do not
    contain code.

    Parameters
    ----------
    fn
        Function of an array of ages, in units of ``scale`` ticks, that returns an array of values
        in [0, 1]. It must not increase, and must be hashable.
    kinds
        The classes of the function, such as ``{"converging"}``. They are checked, as far as many
        sampled ages show.

    Raises
    ------
    ValueError
        If ``fn`` increases, leaves [0, 1], or contradicts ``kinds``.
    """

    fn: Callable[[FloatArray], Any]
    kinds: frozenset[str] = frozenset()
    scale: float = 1.0

    def __post_init__(self) -> None:
        """Values in [0, 1] that do not increase, and classes as declared."""
        if not callable(self.fn):
            raise TypeError(f"fn must be a function of ages, got {type(self.fn).__name__}")
        if not isinstance(self.fn, Hashable):
            raise TypeError(f"fn must be hashable, got {type(self.fn).__name__}")
        if isinstance(self.kinds, str):
            raise TypeError(f"kinds must be a collection of names, got {self.kinds!r}")
        kinds = frozenset(self.kinds)
        for kind in kinds:
            validate.one_of(kind, "kinds", KINDS)
        object.__setattr__(self, "kinds", kinds)
        object.__setattr__(self, "scale", _positive(self.scale, "scale"))
        ages = np.concatenate([np.arange(1025), np.geomspace(1026, 2.0**62, 4096)])
        values = self.at(ages)
        if (values[1:] > values[:-1]).any():
            i = int(np.argmax(values[1:] > values[:-1]))
            raise ValueError(f"fn must not increase with age, but does after {ages[i]:g} ticks")
        if "finite" in kinds and values[-1] > 0:
            raise ValueError("kinds must not include finite: fn is above 0 after 2⁶² ticks")
        above = np.flatnonzero(values[:1025] > 1e-290)  # where ratios are not those of rounding
        ratios = values[above][1:] / values[above][:-1]
        if "converging" in kinds and (np.diff(ratios) < -1e-6).any():
            raise ValueError("kinds must not include converging: f(x + 1)/f(x) decreases somewhere")

    def _value(self, age: FloatArray) -> FloatArray:
        values = np.asarray(self.fn(age))
        if values.dtype.kind not in "iufb":
            raise TypeError(f"fn must return numbers, got {values.dtype}")
        if values.shape != age.shape:
            raise ValueError(f"fn must return one value per age ({age.shape}), got {values.shape}")
        values = values.astype(np.float64)
        if not ((values >= 0) & (values <= 1)).all():
            raise ValueError("fn must return values in [0, 1]")
        return values

    def encoded(self) -> tuple[str | float, ...]:
        """A custom decay cannot be written: raises a ``ValueError``."""
        raise ValueError(
            "cannot encode a Custom decay: code is not data; use it in questions, "
            "or build the sketch with one of the other decays"
        )
