"""Sums over windows: what samples say of them, and within which bounds the sums by age hold them.

Let s be where the window begins. All cells but one lie on one side of s, and their sums are exact.
Of the one that s is in, let `part` be what comes after s, `rest` what does not, and C its sum. The
sample has lower bounds of both, which hold whatever the ids: an event that is not in the sample
only lowers them, and one that is in it many times shows how much such numbers vary (see
:mod:`recency.core.dispersion`). So part is at least the one and at most C less the other.
"""

import numpy as np

from recency.algorithm import View
from recency.core import by_key
from recency.core.age_cells import LEAST_WHOLE
from recency.core.arrays import (
    INT64_MIN,
    BoolArray,
    FloatArray,
    Int64Array,
    bounds_of_sums,
    cutoffs,
)
from recency.estimate import Estimate
from recency.samples.window_sample import Told, WindowSample

_LARGE = 2.0**53
_OUTWARD = 2.0**-50


class AgeSplit:
    """The cells of each key on either side of a time, and the one that it is in."""

    def __init__(self, view: View, since: Int64Array) -> None:
        tally, body = view.state
        cells, size = body.cells, since.size
        most = view.algorithm.sums.most_level
        levels = cells.levels(tally.known_latest, most)
        lasts = cells.firsts + ((np.int64(1) << levels) - 1)
        begin = since[cells.keys]
        after = (cells.firsts > begin) | (begin == INT64_MIN)
        within = ~after & (lasts > begin)
        self.inside = cells.sums(np.flatnonzero(after), size)
        self.within = cells.sums(np.flatnonzero(within), size)
        self.total = cells.sums(np.flatnonzero(after | within), size)
        fractions = np.bincount(cells.keys[cells.places < LEAST_WHOLE], minlength=size) > 0
        self.is_rounded: BoolArray = fractions | (self.total >= _LARGE)
        """Whether sums may have been rounded."""
        self.before, self.last = since.copy(), since.copy()
        keys = cells.keys[within]
        # Where the cell begins, or the last tick before it, and its last tick.
        self.before[keys] = np.maximum(cells.firsts[within], INT64_MIN + 1) - 1
        self.last[keys] = lasts[within]
        expired = cutoffs(tally.latest, view.algorithm.window)
        self.is_whole: BoolArray = self.before >= expired
        """Whether the sample may have all of the cell."""


def window_sums(view: View, since: Int64Array, weights: FloatArray) -> Estimate:
    """Return the sum of the weights of events later than ``since``, of each key."""
    rows = WindowSample(view, since)
    asked = view.state.tally.is_counted & ~rows.is_exact
    if asked.size and asked.all():
        return _bounded(view, since, weights, rows)
    told = rows.sums(weights)
    estimate = rows.estimate(told.events, told.seen)
    estimate = rows.refused(estimate, told.small, told.factor, ~asked)
    if not asked.any():
        return estimate
    bounded = _bounded(view, since, weights, rows)
    fields = zip(vars(bounded).values(), vars(estimate).values(), strict=True)
    return Estimate(*(np.where(asked, new, old) for new, old in fields))


def _bounded(view: View, since: Int64Array, weights: FloatArray, rows: WindowSample) -> Estimate:
    """Return the sums of keys that have cells, with bounds."""
    split = AgeSplit(view, since)
    times = rows.sample.times
    part = rows.sums(weights, times[rows.present] <= by_key.of_rows(split.last, rows.keys))
    outer = WindowSample(view, split.before)
    rest = outer.sums(weights, times[outer.present] <= by_key.of_rows(since, outer.keys))
    least, other = _least(rows, part), _least(outer, rest)
    # Where there would be more than there is one of them is wrong: only what is seen is certain.
    wrong = least + other > split.within
    least = np.where(wrong, np.minimum(part.seen.lower, split.within), least)
    other = np.where(wrong, np.minimum(rest.seen.lower, split.within - least), other)
    # Both tell the part, the better the less they vary.
    by, by_rest = _deviation(rows, part), _deviation(outer, rest)
    share = np.where(split.is_whole, (by / np.hypot(by, by_rest)) ** 2, 0.0)
    left = split.within - np.maximum(rest.events.value, rest.seen.value)
    middle = (1 - share) * np.maximum(part.events.value, part.seen.value) + share * left
    # Sums are rounded relative to what they are, a difference relative to what it is one of.
    outward = np.where(split.is_rounded, _OUTWARD, 0.0)
    lower = (split.inside + least) * (1 - outward)
    upper = split.total - other + split.total * outward
    value = np.clip(split.inside + middle, lower, np.maximum(lower, upper))
    is_known = split.within == 0
    return Estimate(
        np.where(is_known, split.inside, value),
        np.where(is_known, bounds_of_sums(split.inside)[0], lower),
        np.where(is_known, bounds_of_sums(split.inside)[1], np.maximum(upper, value)),
        np.where(is_known, 1.0, rows.confidence),
    )


def _least(rows: WindowSample, told: Told) -> FloatArray:
    """Return a lower bound on the sum."""
    sampled = np.where(rows.is_exact, 0.0, told.events.lower)
    least: FloatArray = np.maximum(sampled, told.seen.lower)
    return least


def _deviation(rows: WindowSample, told: Told) -> FloatArray:
    """Return about how much the sum varies; never 0."""
    deviation: FloatArray = np.sqrt(told.factor * (told.small + 1)) * rows.scales
    return deviation
