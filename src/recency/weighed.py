"""What sampled elements say about decayed sums, shares and ranks, each with an interval.

An element that was sampled with probability p stands for 1/p of its kind (Horvitz & Thompson 1952).
Those with p = 1 are certain; the others are, in number, Poisson variables, weighted by what they
stand for. All sums are rounded once, so that they do not depend on the order of the elements.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from recency.core.arrays import BoolArray, FloatArray
from recency.core.fading import DecayFunction, ages_of
from recency.core.level_sample import NO_LEVEL, LevelSample
from recency.core.sizing import sum_interval

Triple = tuple[float, float, float]
"""Estimate, lower end, upper end."""


@dataclass(frozen=True, eq=False)
class Weighed:
    """The elements that are present and weigh something, under one decay at one time."""

    values: FloatArray
    weights: FloatArray
    decayed: FloatArray  # what each weighs now
    shares: FloatArray  # what each stands for; 0 for those that are not of the sample
    most: float  # the largest share of an element that is not present; 0 if there is none

    def of(self, matches: BoolArray) -> "Weighed":
        """Some of the elements."""
        return replace(
            self,
            values=self.values[matches],
            weights=self.weights[matches],
            decayed=self.decayed[matches],
            shares=self.shares[matches],
        )

    def counted(self, least_weight: float) -> "Weighed":
        """The same elements, each counting as one instead of its weight."""
        return replace(
            self,
            decayed=self.decayed / self.weights,
            shares=self.shares / self.weights,
            most=self.most / least_weight,
        )

    def total(self, confidence: float) -> Triple:
        """The sum of all elements of their kind, with bounds."""
        certain = self.shares <= self.decayed
        known = _exact_sum(self.shares[certain])
        if not self.most:
            return known, known, known
        parts = self.shares[~certain] / self.most
        total, squares = _exact_sum(parts), _exact_sum(parts * parts)
        bounds = sum_interval(total, squares, confidence)
        value, lower, upper = (known + self.most * x for x in (total, *bounds))
        # What is present is certain. It rarely says more than the sample: sum it only if it may.
        if 1.001 * self.decayed.sum() > lower:
            seen = _exact_sum(self.decayed)
            return max(value, seen), max(lower, seen), max(upper, seen)
        return value, lower, upper

    def bounds_by_value(self, values: FloatArray, confidence: float) -> FloatArray:
        """For each value (ascending), a quick bound that is not below the upper end of its sum.

        A Gamma variable exceeds its mean by more than √(2·variance·L) + scale·L with probability
        e⁻ᴸ at most, and the interval above is made of one.
        """
        place = np.searchsorted(values, self.values)
        sums, decayed, squares = (
            np.bincount(place, column, values.size)
            for column in (self.shares, self.decayed, self.shares * self.most)
        )
        doubt = math.log(4 / (1 - confidence))
        above = np.sqrt(2 * doubt * (squares + self.most**2)) + self.most * (1 + doubt)
        bounds: FloatArray = np.maximum(sums + above, decayed)
        return bounds

    def share_of(self, matches: BoolArray, confidence: float) -> Triple:
        """Which part of the whole some elements make up, in [0, 1]."""
        return share(self.of(matches).total(confidence), self.of(~matches).total(confidence))


def share(part: Triple, rest: Triple) -> Triple:
    """part / (part + rest), from bounds on both, which are independent.

    The share q is where (1 − q)·part = q·rest. The difference of both sides has an interval that
    combines theirs by squares (Zou & Donner 2008); the ends are where it stops containing 0.
    """
    whole = part[0] + rest[0]
    if not whole > 0:
        raise ValueError("a share, rank or quantile needs elements that weigh something")
    value = part[0] / whole
    if part[1] == part[2] and rest[1] == rest[2]:
        return value, value, value

    def least(part: Triple, rest: Triple) -> float:
        below, above = part[0] - part[1], rest[2] - rest[0]
        low, high = 0.0, part[0] / whole
        for _ in range(60):
            q = (low + high) / 2
            spread = math.hypot((1 - q) * below, q * above)
            low, high = (q, high) if (1 - q) * part[0] - q * rest[0] > spread else (low, q)
        return low

    return value, least(part, rest), 1 - least(rest, part)


def by_time(sample: LevelSample, decay: DecayFunction, now: int) -> Weighed:
    """Elements that are kept by time: any decay g may be chosen now.

    An element of time t is taken from the sample of the window that begins with it: it counts if
    its level is at least that window's ℓ(t), and stands for g·max(w, 2^ℓ(t)). This is the decayed
    sum as a sum over windows (Cormode, Tirthapura & Xu 2009, *Time-Decaying Sketches*, Lemma 4.4),
    summed by parts.
    """
    _, values, weights = sample.columns
    order = np.argsort(sample.edges)
    edges = sample.edges[order]
    # Windows that begin up to an edge cannot use its level, nor any below: ℓ by how many edges are
    # earlier than t, and 2^ℓ.
    blind = np.append(sample.edge_levels[order], NO_LEVEL - 1)
    levels = np.maximum.accumulate(blind[::-1])[::-1] + 1
    scales = np.where(levels == NO_LEVEL, 0.0, np.ldexp(1.0, np.maximum(levels, -1100)))
    earlier = np.searchsorted(edges, sample.times)
    at = np.array([now], dtype=np.int64)
    g = decay.at(ages_of(sample.times, at))
    decayed = g * weights
    is_sampled = sample.levels >= levels[earlier]
    shares = np.where(is_sampled, np.maximum(decayed, g * scales[earlier]), 0.0)
    most = float(np.max(decay.at(ages_of(edges, at)) * scales[:-1], initial=0.0))
    return Weighed(values, weights, decayed, shares, most).of(g > 0)


def by_expiry(
    sample: LevelSample, decay: DecayFunction, now: int, latest: int, bottom: int
) -> Weighed:
    """Elements that are kept by expiry under the decay they were sampled for."""
    blind = sample.edge_levels[sample.edges > now]
    level = int(blind.max(initial=bottom - 1)) + 1
    rows = np.flatnonzero((sample.levels == level) & (sample.times > now))
    _, values, weights, times = (column[rows] for column in sample.columns)
    at = np.array([now, latest], dtype=np.int64)
    decayed = weights * decay.at(ages_of(times, at[:1]))
    scale = math.ldexp(1.0, level)
    # The newest element there may be decides whether anything can be left.
    is_over = decay.at(ages_of(at[1:], at[:1]))[0] == 0
    shares = np.maximum(decayed, scale)
    most = 0.0 if is_over else scale
    return Weighed(values, weights, decayed, shares, most).of(decayed > 0)


def _exact_sum(numbers: FloatArray) -> float:
    return math.fsum(numbers.tolist())
