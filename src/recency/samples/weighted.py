"""Decayed sums, shares and ranks from sampled elements, each with an interval.

An element that was sampled with probability p represents 1/p elements like it (Horvitz & Thompson
1952). Elements with p = 1 are certain. The others are treated as Poisson variables, weighted by
what they represent. All sums are rounded once, so they do not depend on the order of elements.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recency.core.arrays import (
    INT64_MAX,
    BoolArray,
    FloatArray,
    rounded_once,
    sum_with_bounds,
)
from recency.core.decaying_levels import DecayFunction, ages_of, before_the_end
from recency.core.level_sample import NO_LEVEL, LevelSample
from recency.core.samplers import Sampler
from recency.core.sizing import sum_interval
from recency.errors import NoAnswerError
from recency.estimate import Estimate

MOST_ELEMENTS = 2.0**63  # an element represents at most this many
_ROUNDING = 2.0**-51  # relative error of a sum, a quotient and a product, doubled

TOO_SMALL = "none of the elements was sampled: it needs a larger capacity"
FADED = (
    "every element has decayed below 2⁻³² of the largest weight ever seen: a sketch with a decay "
    "in its constructor does not keep such elements"
)

Triple = tuple[float, float, float]
"""Estimate, lower end, upper end."""


@dataclass(frozen=True, eq=False)
class Weighed:
    """The elements that are present and have a decayed weight above 0, under one decay."""

    values: FloatArray
    weights: FloatArray
    decayed: FloatArray  # weight · decay
    shares: FloatArray  # the sum that each represents; 0 for those not in the sample
    units: FloatArray  # share = unit · Poisson number; 0 where the share is certain
    most: float  # the largest unit of an element that may be missing; 0 if none is
    why: str = TOO_SMALL  # why no element is in the sample

    def of(self, matches: BoolArray | NDArray[np.intp] | slice) -> "Weighed":
        """Return some of the elements."""
        return replace(
            self,
            values=self.values[matches],
            weights=self.weights[matches],
            decayed=self.decayed[matches],
            shares=self.shares[matches],
            units=self.units[matches],
        )

    def times(self, factor: float) -> "Weighed":
        """Return the same elements with weights multiplied by a factor."""
        return replace(
            self,
            decayed=factor * self.decayed,
            shares=factor * self.shares,
            units=factor * self.units,
            most=factor * self.most,
        )

    def counted(self, least_weight: float) -> "Weighed":
        """Return the same elements, each counting 1 · decay instead of weight · decay."""
        with np.errstate(over="ignore"):
            return replace(
                self,
                decayed=self.decayed / self.weights,
                shares=np.minimum(self.shares / self.weights, MOST_ELEMENTS),
                units=np.minimum(self.units / self.weights, MOST_ELEMENTS),
                most=min(float(np.divide(self.most, least_weight)), MOST_ELEMENTS)
                if self.most
                else 0.0,
            )

    def sampled_total(self, confidence: float) -> Triple:
        """Return the decayed sum with bounds, from the sampled elements alone."""
        random = self.units > 0
        certain = sum_with_bounds(self.shares[~random])
        if not self.most:
            return certain
        parts, units = (each[random] / self.most for each in (self.shares, self.units))
        total, squares = rounded_once(parts), rounded_once(parts * units)
        return _with_bounds(certain, total, squares, self.most, confidence)

    def total(self, confidence: float) -> Triple:
        """Return the decayed sum; all elements that are present are a lower bound as well."""
        value, lower, upper = self.sampled_total(confidence)
        # The elements that are present are a lower bound. It is rarely better: sum only then.
        if 1.001 * self.decayed.sum() > lower:
            seen, least, _ = sum_with_bounds(self.decayed)
            return max(value, seen), max(lower, least), max(upper, seen)
        return value, lower, upper

    def bounds_by_value(self, values: FloatArray, confidence: float) -> FloatArray:
        """Return a quick upper bound of the sum of each value (ascending).

        The bound is not below the upper end of the interval in :meth:`total`, which is a quantile
        of a Gamma variable. Such a variable exceeds its mean by more than √(2·variance·L) + scale·L
        with probability at most e⁻ᴸ.
        """
        place = np.searchsorted(values, self.values)
        unit = self.most or 1.0
        with np.errstate(over="ignore"):
            sums, decayed = (
                np.bincount(place, column / unit, values.size)
                for column in (self.shares, self.decayed)
            )
            exponent = math.log(4 / (1 - confidence))
            above = (np.sqrt(2 * exponent * (sums + 1)) + 1 + exponent) if self.most else 0.0
            bounds: FloatArray = np.maximum(sums + above, decayed) * unit
            return bounds * (1 + 1e-9)  # since sums were rounded

    def totals_by_value(self, values: FloatArray, confidence: float) -> list[Triple]:
        """Return :meth:`total` of the elements with each of some values (ascending)."""
        order = np.argsort(self.values, kind="stable")
        in_order = self.of(order)
        ends = (np.searchsorted(in_order.values, values, side) for side in ("left", "right"))
        slices = (slice(begin, end) for begin, end in zip(*ends, strict=True))
        return [in_order.of(rows).total(confidence) for rows in slices]

    def quantile(self, rank: float, confidence: float) -> Triple:
        """Return the smallest value such that elements up to it have a share of at least ``rank``.

        Each value has an interval of the share up to it. The lower end of the quantile is the first
        value with an upper end ≥ ``rank``, and the upper end the first with a lower end ≥ ``rank``.
        """
        self.check_sampled()
        of_sample = np.flatnonzero(self.shares)
        of_sample = of_sample[np.lexsort((self.shares[of_sample], self.values[of_sample]))]
        values, shares = self.values[of_sample], self.shares[of_sample]
        ends = np.append(np.flatnonzero(values[1:] > values[:-1]), values.size - 1) + 1
        running = np.cumsum(shares)
        is_enough = running[ends - 1] >= rank * running[-1] * (1 - 1e-12)
        value = float(values[ends[np.argmax(is_enough)] - 1])
        if not self.most:
            return value, value, value
        units = self.units[of_sample] / self.most
        parts = np.zeros_like(shares)  # 0 for certain ones, which may be far larger
        np.divide(shares, self.most, out=parts, where=units > 0)
        known, total, squares = (
            np.append(0.0, np.cumsum(column))
            for column in (np.where(units > 0, 0.0, shares), parts, parts * units)
        )
        sums = _Running(known, total, squares, self.most)

        def bound(i: int, end: int) -> float:
            """Return an end of the interval of the share of the first i distinct values."""
            row = int(ends[i - 1]) if i else 0
            return share(
                sums.between(0, row, confidence), sums.between(row, values.size, confidence)
            )[end]

        def first(end: int, least: int) -> int:
            """Return the least i with ``bound(i, end)`` ≥ ``rank``, else ends.size + 1."""
            low, high = least, ends.size + 1
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if bound(middle, end) >= rank else (middle + 1, high)
            return low

        def value_of(i: int) -> float:
            if i == 0:
                return -math.inf
            return float(values[ends[i - 1] - 1]) if i <= ends.size else math.inf

        return value, value_of(first(2, 0)), value_of(first(1, 1))

    def check_sampled(self) -> None:
        """Raise a ``NoAnswerError`` if no element was sampled."""
        if self.shares.any():
            return
        if self.most:
            raise NoAnswerError(self.why)
        raise NoAnswerError("this question needs elements with a decayed weight above 0")

    def share_of(self, matches: BoolArray, confidence: float) -> Triple:
        """Return the share, in [0, 1], of the elements that match."""
        self.check_sampled()
        part, rest = (self.of(each).sampled_total(confidence) for each in (matches, ~matches))
        return share(part, rest, is_certain=not self.most)


@dataclass(frozen=True, eq=False)
class _Running:
    """Running sums of elements in order of value."""

    known: FloatArray
    parts: FloatArray
    squares: FloatArray
    most: float

    def between(self, begin: int, end: int, confidence: float) -> Triple:
        """Return the sum that a range of elements represents, with bounds."""
        known, parts, squares = (
            float(each[end] - each[begin]) for each in (self.known, self.parts, self.squares)
        )
        return _with_bounds((known,) * 3, max(parts, 0.0), max(squares, 0.0), self.most, confidence)


def _with_bounds(
    known: Triple, total: float, squares: float, most: float, confidence: float
) -> Triple:
    """Add a certain sum and a sampled one, whose terms are in units of ``most``; with bounds."""
    lower, upper = sum_interval(total, squares, confidence)
    parts = zip(known, (total, lower, upper), strict=True)
    value, lower, upper = (certain + most * x for certain, x in parts)
    return value, lower, upper


def share(part: Triple, rest: Triple, is_certain: bool = False) -> Triple:
    """Return part / (part + rest), given independent sampled sums with bounds.

    The share q is the solution of (1 − q)·part = q·rest. The difference of both sides has an
    interval whose width combines both widths by squares (Zou & Donner 2008), and the ends of the
    result are the q at which this interval stops to contain 0. With ``is_certain`` both bounds must
    be certain, and the ends are computed from them: a certain bound may be the truth itself, so its
    distance to the estimate is not a deviation.
    """
    whole = part[0] + rest[0]
    value = part[0] / whole
    if (part[1] == part[2] and rest[1] == rest[2]) or part[2] == 0 or rest[2] == 0:
        return value, value, value  # exact, or certainly 0 or 1
    if is_certain:
        lower = part[1] / (part[1] + rest[2]) * (1 - _ROUNDING)
        upper = part[2] / (part[2] + rest[1]) * (1 + _ROUNDING)
        return value, min(lower, value), min(max(upper, value), 1.0)

    def least(part: Triple, rest: Triple) -> float:
        below, above = part[0] - part[1], rest[2] - rest[0]
        low, high = 0.0, part[0] / whole
        for _ in range(60):
            q = (low + high) / 2
            spread = math.hypot((1 - q) * below, q * above)
            low, high = (q, high) if (1 - q) * part[0] - q * rest[0] > spread else (low, q)
        return low

    lower, upper = least(part, rest), 1 - least(rest, part)
    return value, min(lower, value), max(upper, value)


def by_time(sample: LevelSample, sampler: Sampler, decay: DecayFunction, now: int) -> Weighed:
    """Return elements that are kept by time, under any decay g.

    An element of time t is taken from the sample of the window that begins with t. It counts if its
    level is at least that window's ℓ(t), and represents g times what it represents there. This is
    the decayed sum as a sum over windows (Cormode, Tirthapura & Xu 2009, *Time-Decaying Sketches*,
    Lemma 4.4), after summation by parts.
    """
    coins, values, weights = sample.columns
    order = np.argsort(sample.edges)
    edges = sample.edges[order]
    # A window that begins at or before an edge cannot use its level, nor any below. So ℓ(t) follows
    # from the number of edges before t.
    overflowed = np.append(sample.edge_levels[order], NO_LEVEL - 1)
    levels = np.maximum.accumulate(overflowed[::-1])[::-1] + 1
    at = np.array([now], dtype=np.int64)
    g = decay.at(ages_of(sample.times, at))
    of_window = levels[np.searchsorted(edges, sample.times)]
    rows = np.flatnonzero(sample.levels >= of_window)
    shares, units = np.zeros_like(g), np.zeros_like(g)
    stands = sampler.standing(weights[rows], coins[rows], of_window[rows])
    shares[rows], units[rows] = (g[rows] * each for each in stands)
    scales = sampler.scales(levels[:-1])
    most = float(np.max(decay.at(ages_of(edges, at)) * scales, initial=0.0))
    return Weighed(values, weights, g * weights, shares, units, most).of(g > 0)


def by_expiry(
    sample: LevelSample,
    sampler: Sampler,
    decay: DecayFunction,
    now: int,
    latest: int,
    bottom: int,
) -> Weighed:
    """Return elements that are kept by expiry, under the decay of their sketch."""
    clock = before_the_end(now)
    overflowed = sample.edge_levels[sample.edges > clock]
    level = int(overflowed.max(initial=bottom - 1)) + 1
    rows = np.flatnonzero((sample.levels == level) & (sample.times > clock))
    coins, values, weights, times = (column[rows] for column in sample.columns)
    at = np.array([now, latest], dtype=np.int64)
    decayed = sampler.decayed(weights, decay.at(ages_of(times, at[:1])))
    # If the newest possible element has decayed to 0, all have.
    is_over = decay.at(ages_of(at[1:], at[:1]))[0] == 0
    levels = np.full(rows.size, level)
    shares, units = sampler.standing(decayed, coins, levels)
    # Expiries beyond int64 are not known: test such elements at ``now``.
    unknown = np.flatnonzero((sample.times[rows] == INT64_MAX) & (decayed > 0))
    gone = unknown[sampler.levels(decayed[unknown], coins[unknown]) < level]
    shares[gone], units[gone] = 0.0, 0.0
    most = 0.0 if is_over else float(sampler.scales(np.array([level]))[0])
    why = TOO_SMALL if overflowed.size else FADED
    return Weighed(values, weights, decayed, shares, units, most, why).of(decayed > 0)


def reaching(
    least: float, middle: float, values: FloatArray, estimates: Iterable[Estimate]
) -> list[tuple[float, Estimate]]:
    """Return values with upper bounds ≥ ``least`` and estimates ≥ ``middle``, largest sums first.

    ``middle`` is the threshold φ minus half the error ε of the whole. The estimate of a share s has
    a deviation of at most √(s(1 − s)) ≤ 1/2 of that of the whole. So the failure probability of ε
    bounds that of missing a value of share φ, and that of returning one below φ − ε. (A small
    tolerance allows for rounded sums of floats.)
    """
    found = [
        pair
        for pair in zip(values.tolist(), estimates, strict=True)
        if pair[1].upper >= least and pair[1].value >= middle * (1 - 1e-12)
    ]
    return sorted(found, key=lambda pair: (-pair[1].value, pair[0]))
