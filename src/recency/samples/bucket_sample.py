"""Sums over elements with values from a threshold on, from buckets that are sampled by value.

Each bucket answers from its own level (Cormode, Tirthapura & Xu 2009, *Correlated Aggregates*,
Fig. 4), the lowest one with at most a given number of elements. Errors of many buckets must not add
up, so each bucket is unbiased. Elements that are not in the sample of this level are left out.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from recency.algorithm import View
from recency.core import by_key
from recency.core.arrays import (
    BoolArray,
    FloatArray,
    Int64Array,
    bounds_of_sums,
)
from recency.core.decaying_levels import ages_of
from recency.core.dispersion import SHARED, dispersion, sharing, wider
from recency.core.level_sample import NO_LEVEL, LevelSample, group_of
from recency.core.samplers import SAMPLERS
from recency.core.sizing import sum_interval
from recency.core.time_buckets import Regions
from recency.decay import Decay
from recency.errors import NoAnswerError
from recency.estimate import Estimate
from recency.keyed import only_key
from recency.questions import unanswered
from recency.samples.weighted import MOST_ELEMENTS, Weighed
from recency.samples.weighted_events import order_of


@dataclass(frozen=True, eq=False)
class Buckets:
    """Settings with which elements in buckets are read."""

    decay: Decay
    regions: Regions
    most_sampled: int
    """How many elements of a bucket answer, at most."""
    most_value: float


@dataclass(frozen=True, eq=False)
class ManyWeighed:
    """Elements of many keys with decayed weights above 0; see :class:`Weighed`."""

    keys: Int64Array
    elements: Weighed
    most: FloatArray
    """For each key, the largest unit of an element that is not present."""
    missing: BoolArray
    """Keys whose samples contradict themselves."""
    reason: str

    def of(self, matches: BoolArray) -> "ManyWeighed":
        """Return some of the elements."""
        return replace(self, keys=self.keys[matches], elements=self.elements.of(matches))

    def of_only_key(self) -> Weighed:
        """Return the elements of the only key."""
        return replace(self.elements, most=float(self.most[0]))

    def counted(self, least_weights: FloatArray) -> "ManyWeighed":
        """Return the same elements, each counting 1 · decay instead of its weight · decay."""
        most = np.zeros(self.most.size)
        with np.errstate(over="ignore"):
            np.divide(self.most, least_weights, out=most, where=self.most > 0)
        most = np.minimum(most, MOST_ELEMENTS)
        return replace(self, elements=self.elements.counted(1.0), most=most)

    def total(self, confidence: float) -> Estimate:
        """Return the decayed sum that the elements represent, with an interval, by key."""
        elements, size = self.elements, self.most.size
        is_random = elements.units > 0
        value = self._sums(elements.shares, ~is_random)
        lower, upper = bounds_of_sums(value)
        asked = np.flatnonzero(self.most > 0)
        if asked.size:
            rows = np.flatnonzero(is_random)
            keys = self.keys[rows]
            unit = by_key.of_rows(self.most, keys)
            parts = elements.shares[rows] / unit
            squared = parts * (elements.units[rows] / unit)
            totals, squares = (
                by_key.float_sums(keys, each, size)[asked] for each in (parts, squared)
            )
            bounds = [
                sum_interval(total, square, confidence)
                for total, square in zip(totals.tolist(), squares.tolist(), strict=True)
            ]
            certain = np.array([value, lower, upper])[:, asked]
            told = certain + self.most[asked] * np.array([totals, *np.transpose(bounds)])
            value[asked], lower[asked], upper[asked] = told
            # The elements that are present are a lower bound. It is rarely better: sum only then.
            says_more = (self.most > 0) & (
                1.001 * np.bincount(self.keys, elements.decayed, size) > lower
            )
            if says_more.any():
                which = np.broadcast_to(by_key.of_rows(says_more, self.keys), self.keys.size)
                seen = self._sums(elements.decayed, which)
                least, _ = bounds_of_sums(seen)
                value, lower = np.maximum(value, seen), np.maximum(lower, least)
                upper = np.maximum(upper, seen)
        estimate = Estimate(value, lower, upper, np.where(self.most > 0, confidence, 1.0))
        return unanswered(estimate, self.missing, self.reason)

    def _sums(self, column: FloatArray, which: BoolArray) -> FloatArray:
        keys = self.keys
        if not which.all():
            rows = np.flatnonzero(which)
            keys, column = keys[rows], column[rows]
        return by_key.float_sums(keys, column, self.most.size)


class AgedBuckets:
    """Elements of all buckets of each key, at one time."""

    def __init__(self, view: View, now: Any) -> None:
        algorithm, (tally, self._body) = view.algorithm, view.state
        self._reading: Buckets = algorithm.reading
        self._confidence, self._retention = algorithm.confidence, algorithm.retention
        self._latest: Int64Array = tally.known_latest
        self._now = view.now(now)
        self._size = tally.size
        self._sketches = self._body.sketches()

    def at_least(self, threshold: float) -> ManyWeighed:
        """Return sampled elements with values from a threshold on."""
        return self._later_than(order_of(threshold) - 1)

    def above(self, value: float) -> ManyWeighed:
        """Return sampled elements with values above a threshold."""
        return self._later_than(order_of(value))

    def between(self, low: float, high: float) -> ManyWeighed:
        """Return sampled elements with low ≤ value ≤ high."""
        elements = self.at_least(low)
        return elements.of(elements.elements.values <= high)

    def _later_than(self, order: int) -> ManyWeighed:
        sample: LevelSample = self._body.sample
        buckets, levels = sample.keys, self._levels(order)
        scales = SAMPLERS["uniform"].scales(levels)
        lowest = group_of(np.arange(levels.size), levels)
        is_asked = (sample.times > order) & (sample.groups >= lowest[buckets])
        if not is_asked.all():
            sample = sample.only(np.flatnonzero(is_asked))
            buckets = sample.keys
        weights, times = sample.columns
        owners = only_key(buckets.size) if self._size == 1 else self._sketches[buckets]
        g = self._reading.decay.at(ages_of(times, by_key.of_rows(self._now, owners)))
        decayed = g * weights
        shares, random = decayed.copy(), np.flatnonzero(weights < scales[buckets])
        asked = np.flatnonzero(levels > NO_LEVEL)
        wide, shared, reason = self._widening(order, levels, asked, sample.only(random))
        units, of_elements = wide * scales, np.zeros(buckets.size)
        shares[random] = g[random] * scales[buckets[random]]
        of_elements[random] = g[random] * units[buckets[random]]
        most = np.zeros(self._size)
        np.maximum.at(most, self._sketches[asked], self._decays(asked) * units[asked])
        missing = np.zeros(self._size, dtype=np.bool_)
        missing[self._sketches[shared]] = True
        if shared.size and self._size == 1:
            raise NoAnswerError(reason)
        values = sample.times.view(np.float64)
        elements = Weighed(values, weights, decayed, shares, of_elements, 1.0)
        weighed = ManyWeighed(owners, elements, most, missing, reason)
        return weighed if g.all() else weighed.of(g > 0)

    def _levels(self, order: int) -> Int64Array:
        """Return the level from which each bucket answers."""
        sample, size = self._body.sample, self._sketches.size
        levels = np.full(size, NO_LEVEL)
        forgotten = sample.edges > order
        if not forgotten.any():
            return levels
        is_sampled = np.zeros(self._size, dtype=np.bool_)
        is_sampled[self._sketches[sample.edge_keys[forgotten]]] = True
        lowest = self._body.places.levels_of_at_most(self._reading.most_sampled, order, size)
        return np.where(is_sampled[self._sketches], lowest, levels)

    def _decays(self, buckets: Int64Array) -> FloatArray:
        """Return the decay of the newest elements that some buckets may have."""
        sketches = self._sketches[buckets]
        firsts, latest = self._retention.firsts(self._body)[buckets], self._latest[sketches]
        _, last = self._reading.regions.buckets(firsts, latest)
        decays = self._reading.decay.at(ages_of(np.minimum(last, latest), self._now[sketches]))
        return np.asarray(decays)

    def _widening(
        self, order: int, levels: Int64Array, asked: Int64Array, sampled: LevelSample
    ) -> tuple[FloatArray, Int64Array, str]:
        """Return how much sampled sums vary more than with independent coins, for each bucket.

        Also return the buckets whose samples contradict independent coins, with the reason.
        """
        sample: LevelSample = self._body.sample
        wide = np.ones(levels.size)
        numbers = np.zeros(levels.size, dtype=np.int64)
        numbers[asked] = np.arange(asked.size)
        buckets, (weights, times) = sampled.keys, sampled.columns
        classes = sampled.times, weights.view(np.int64), times
        depths = sampled.levels - levels[buckets]
        told = dispersion(numbers[buckets], depths, classes, asked.size)
        wide[asked] = wider(*told, self._confidence)
        counts = np.bincount(buckets, minlength=levels.size)
        overflowed = np.zeros(levels.size, dtype=np.bool_)
        below = sample.edge_levels == levels[sample.edge_keys] - 1
        overflowed[sample.edge_keys[below & (sample.edges > order)]] = True
        shared = np.flatnonzero(overflowed & sharing(counts, wide, sample.capacity))
        if not shared.size:
            return wide, shared, ""
        first = shared[0]
        return wide, shared, SHARED.format(sample.capacity, levels[first] - 1, counts[first])
