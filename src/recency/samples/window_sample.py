"""What samples say of windows: many keys at once."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recency.algorithm import State, View
from recency.core import by_key
from recency.core.arrays import (
    BoolArray,
    FloatArray,
    Int64Array,
    bounds_of_sums,
    stable_order,
)
from recency.core.dispersion import SHARED, dispersion, sharing, wider
from recency.core.level_sample import NO_LEVEL, LevelSample, group_of
from recency.core.sizing import sum_intervals
from recency.estimate import Estimate
from recency.keyed import only_key
from recency.questions import unanswered


@dataclass(frozen=True, eq=False)
class Counts:
    """How many elements of each key there are, with bounds, told by its sample."""

    value: Any
    lower: Any
    upper: Any


@dataclass(frozen=True, eq=False)
class Told:
    """What a sample says of a sum of weights."""

    events: Counts
    """What the elements stand for."""
    seen: Counts
    """The elements themselves."""
    small: Int64Array
    """How many stand for others too."""
    factor: FloatArray
    """By how much their number varies more than Poisson's."""


class WindowSample:
    """The elements of each key that are later than a time, and those of its sample."""

    def __init__(self, view: View, since: Int64Array) -> None:
        sample: LevelSample = view.state.body.sample
        self.size, self._seen = since.size, view.state.tally.seen
        self.sample, self.confidence = sample, view.algorithm.confidence
        self.levels = sample.query_levels(since)
        """The lowest level that answers for each key."""
        self.is_exact = self.levels == NO_LEVEL
        """Whether nothing of the window was forgotten."""
        if self.size == 1:
            self.present = np.flatnonzero(sample.times > since[0])
            self.keys = only_key(self.present.size)
        else:
            keys = sample.keys
            self.present = np.flatnonzero(sample.times > since[keys])
            self.keys = keys[self.present]
        lowest = group_of(np.arange(self.size), self.levels)
        self.is_sampled = sample.groups[self.present] >= by_key.of_rows(lowest, self.keys)
        """Which of the elements that are present are of the sample."""

    @cached_property
    def scales(self) -> FloatArray:
        """For each key, how many events a sampled element stands for."""
        return np.ldexp(1.0, np.where(self.is_exact, 0, self.levels))

    def count(self, which: BoolArray | None = None) -> Int64Array:
        """Return how many of the elements that are present each key has; or how many of some."""
        if which is None:
            return by_key.counts(self.keys, self.size)
        return by_key.counts_of(which, self.keys, self.size)

    def by_key(self) -> Iterator[Int64Array]:
        """Yield the numbers of the present elements of each key that has seen anything."""
        rows = stable_order(self.keys)
        cuts = np.cumsum(by_key.counts(self.keys, self.size))
        for seen, mine in zip(self._seen, np.split(rows, cuts[:-1]), strict=True):
            if seen:
                yield mine

    def scaled(self, counts: Int64Array, factor: Any = 1.0) -> Counts:
        """Return what sampled elements stand for, if their variance is larger by ``factor``."""
        amounts = counts / factor
        lower, upper = np.zeros(self.size), np.zeros(self.size)
        rows = np.flatnonzero(~self.is_exact)
        lower[rows], upper[rows] = sum_intervals(amounts[rows], self.confidence)
        unit = factor * self.scales
        return Counts(counts * self.scales, lower * unit, upper * unit)

    def widening(self, which: BoolArray, *columns: Int64Array) -> FloatArray:
        """Return the factor by which counts of sampled events vary more than Poisson numbers.

        ``columns`` are what events have in common, besides their times, if they share a coin.
        """
        factor = np.ones(self.size)
        asked = np.flatnonzero(~self.is_exact)
        if not asked.size:
            return factor
        chosen = np.flatnonzero(which)  # faster than by a mask
        rows, keys = self.present[chosen], self.keys[chosen]
        if asked.size < self.size:
            chosen = np.flatnonzero(~self.is_exact[keys])
            rows, keys = rows[chosen], keys[chosen]
        depths = self.sample.levels[rows] - by_key.of_rows(self.levels, keys)
        if self.size > 1:
            numbers = np.zeros(self.size, dtype=np.int64)
            numbers[asked] = np.arange(asked.size)
            keys = numbers[keys]
        classes = (self.sample.times[rows], *(column[rows] for column in columns))
        told = dispersion(keys, depths, classes, asked.size)
        factor[asked] = wider(*told, self.confidence)
        return factor

    def events(
        self, which: BoolArray, certain: Counts, *columns: Int64Array
    ) -> tuple[Counts, FloatArray]:
        """Return what sampled events stand for, plus ``certain``; and their :meth:`widening`."""
        counts, factor = self.count(which), self.widening(which, *columns)
        told = self.scaled(counts, factor)
        # From nothing sampled nothing follows: all events may have one coin.
        upper = np.where(counts > 0, certain.upper + told.upper, np.inf)
        return Counts(certain.value + told.value, certain.lower + told.lower, upper), factor

    def refused(
        self, estimate: Estimate, counts: Int64Array, factor: FloatArray, which: BoolArray
    ) -> Estimate:
        """Return no answer for those of some keys whose samples contradict independent coins."""
        capacity = self.sample.capacity
        shared = which & ~self.is_exact & sharing(counts, factor, capacity)
        reason = SHARED.format(capacity, self.levels[0] - 1, counts[0]) if shared.size else ""
        return unanswered(estimate, like(shared, estimate), reason)

    def sums(self, weights: FloatArray, among: BoolArray | None = None) -> "Told":
        """Return the sum of the weights of the elements that are present, or of some of them.

        Elements of one weight and time may share a coin.
        """
        weights, keys = weights[self.present], self.keys
        is_sampled = self.is_sampled if among is None else self.is_sampled & among
        # Weights from 2ˡ on are all there; the others stand for 2ˡ each, in Poisson number.
        is_large = weights >= by_key.of_rows(self.scales, keys)
        large = is_sampled & is_large & ~by_key.of_rows(self.is_exact, keys)
        known = by_key.float_sums(keys[large], weights[large], self.size)
        certain = Counts(known, *bounds_of_sums(known))
        small = is_sampled & ~is_large
        events, factor = self.events(small, certain, self.sample.columns[0].view(np.int64))
        # What is present is certain. It rarely says more than the sample: sum it only if it may.
        there = np.ones(keys.size, dtype=np.bool_) if among is None else among
        may_say_more = 1.001 * np.bincount(keys, weights * there, self.size) > events.lower
        asked = there & by_key.of_rows(self.is_exact | may_say_more, keys)
        seen = by_key.float_sums(keys[asked], weights[asked], self.size)
        return Told(events, Counts(seen, *bounds_of_sums(seen)), self.count(small), factor)

    def estimate(self, told: Counts, seen: Counts) -> Estimate:
        """Return what was told, at least what was seen; and that alone if nothing was forgotten."""
        value, lower, upper = (
            np.where(self.is_exact, bounds, np.maximum(sampled, least))
            for sampled, bounds, least in (
                (told.value, seen.value, seen.value),
                (told.lower, seen.lower, seen.lower),
                (told.upper, seen.upper, seen.value),
            )
        )
        return Estimate(value, lower, upper, np.where(self.is_exact, 1.0, self.confidence))


def like(of_keys: NDArray[Any], estimate: Estimate) -> NDArray[Any]:
    """Return a column that broadcasts with the answer, or the row of answers, of each key."""
    return of_keys.reshape(of_keys.shape + (1,) * (np.ndim(estimate.value) - 1))


def in_order(view: View) -> View:
    """Return the view with elements in the order of bytes, so that answers depend on no other."""
    tally, body = view.state
    return View(view.algorithm, State(tally, replace(body, sample=body.sample.in_order())))
