"""Within which bounds the ranks of sampled values are those of all values of a window."""

from abc import ABC, abstractmethod

import numpy as np

from recency.algorithm import View
from recency.core.arrays import BoolArray, FloatArray, Int64Array, counts_reaching
from recency.core.sizing import least_means, rank_margins
from recency.samples.window_sample import WindowSample
from recency.samples.window_sums import AgeSplit

_HALVINGS = 50
_OUTWARD = 1 + 2.0**-50


class RankBounds(ABC):
    """Bounds for each key, of which ``counts`` values are sampled."""

    @abstractmethod
    def of_rank(self, not_above: Int64Array) -> tuple[FloatArray, FloatArray]:
        """Return bounds on the rank of a value; ``not_above`` sampled values do not exceed it."""

    @abstractmethod
    def of_quantiles(self, shares: FloatArray) -> tuple[Int64Array, Int64Array]:
        """Return the places, in ascending order, of the sampled values that quantiles lie between.

        A row for each key; the place before the first and the one behind the last are infinity.
        """


class Margins(RankBounds):
    """Bounds for coins that are independent, or as far from that as the sample shows."""

    def __init__(self, rows: WindowSample, counts: Int64Array, factor: FloatArray) -> None:
        self._sizes = np.maximum(counts, 1)
        margins = rank_margins(self._sizes / factor, rows.confidence)
        self._margins: FloatArray = np.where(rows.is_exact, 0.0, margins)

    def of_rank(self, not_above: Int64Array) -> tuple[FloatArray, FloatArray]:
        """Return shares ± one margin for all ranks at once (Dvoretzky, Kiefer & Wolfowitz)."""
        shares = not_above / self._sizes
        return shares - self._margins, shares + self._margins

    def of_quantiles(self, shares: FloatArray) -> tuple[Int64Array, Int64Array]:
        """Return the places of the ranks that are lower, or higher, by that margin."""
        margins, sizes = self._margins[:, None], self._sizes[:, None]
        below, above = (
            np.ceil(counts_reaching(each, sizes)).astype(np.int64) - 1
            for each in (shares - margins, shares + margins)
        )
        # A sample says nothing of what lies beyond its own smallest and largest value.
        is_exact = margins == 0
        return (
            np.where(is_exact | (shares - margins > 0), np.maximum(below, 0), -1),
            np.where(is_exact | (shares + margins <= 1), np.minimum(above, sizes - 1), sizes),
        )


class AgeBounds(RankBounds):
    """Bounds for whatever ids, where the number of events is known by age.

    Let A be how many values of a window do not exceed x, and N how many there are. The cells say
    how many there are in the window and in the rest of the cell that it begins in, together: T.
    So A/N ≥ q if A + q · rest ≥ q · T, and of sums of events samples have lower bounds that hold
    whatever the ids (see :mod:`recency.samples.window_sums`). For the values above x as well.

    The variance of a sampled number is at most itself and what twins anywhere in the sample add.
    """

    def __init__(
        self,
        view: View,
        since: Int64Array,
        rows: WindowSample,
        counts: Int64Array,
        factor: FloatArray,
    ) -> None:
        split = AgeSplit(view, since)
        outer = WindowSample(view, split.before)
        sample = outer.sample
        times = sample.times[outer.present]
        of_rest = outer.is_sampled & (times <= since[outer.keys])
        rest = outer.count(of_rest)
        square = outer.widening(of_rest, sample.columns[0].view(np.int64)) * rest
        self._confidence = rows.confidence
        # One row for each key.
        self._counts, self._rest, self._total = (x[:, None] for x in (counts, rest, split.total))
        self._scale, self._rest_scale = rows.scales[:, None], outer.scales[:, None]
        self._twins, self._rest_square = ((factor - 1) * counts)[:, None], square[:, None]

    def _reach(
        self, sampled: Int64Array, shares: FloatArray, bounds: int, strictly: bool = False
    ) -> BoolArray:
        """Return whether what ``sampled`` values stand for surely reaches a share."""
        sums = self._scale * sampled + shares * self._rest_scale * self._rest
        squares = self._scale**2 * (sampled + self._twins)
        squares = squares + (shares * self._rest_scale) ** 2 * self._rest_square
        least = least_means(sums, squares, self._confidence, bounds)
        least = np.maximum(least, sampled + shares * self._rest)  # these are events themselves
        # More is more by more than 1 − q was rounded.
        asked = shares * self._total * (_OUTWARD if strictly else 1.0)
        reached: BoolArray = least > asked if strictly else least >= asked
        return reached

    def of_rank(self, not_above: Int64Array) -> tuple[FloatArray, FloatArray]:
        """Return the largest shares that are surely reached, from below and from above."""
        lower = self._most_shares(not_above[:, None])[:, 0]
        upper = 1 - self._most_shares(self._counts - not_above[:, None])[:, 0]
        wrong = lower > upper  # then one of them is wrong
        return np.where(wrong, 0.0, lower), np.where(wrong, 1.0, upper)

    def _most_shares(self, sampled: Int64Array) -> FloatArray:
        low, high = np.zeros(sampled.shape), np.ones(sampled.shape)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            reached = self._reach(sampled, middle, 1)
            low, high = np.where(reached, middle, low), np.where(reached, high, middle)
        return low

    def of_quantiles(self, shares: FloatArray) -> tuple[Int64Array, Int64Array]:
        """Return the places of the fewest sampled values, from either end, that reach a share.

        The bounds of each quantile hold for its own rank; so the failure probability is divided.
        """
        bounds = np.unique(shares).size
        counts = np.broadcast_to(self._counts, (self._counts.size, shares.size))
        above = self._fewest(counts, shares, bounds, False) - 1
        below = counts - self._fewest(counts, 1 - shares, bounds, True)
        wrong = below > above
        return np.where(wrong, -1, below), np.where(wrong, counts, above)

    def _fewest(
        self, counts: Int64Array, shares: FloatArray, bounds: int, strictly: bool
    ) -> Int64Array:
        """Return how many sampled values surely reach a share; one more than all if none do."""
        low, high = np.ones_like(counts), counts + 1
        while (low < high).any():
            middle = (low + high) >> 1
            reached = self._reach(middle, shares, bounds, strictly) & (middle <= counts)
            low, high = np.where(reached, low, middle + 1), np.where(reached, middle, high)
            low = np.minimum(low, high)
        return low


class EachItsOwn(RankBounds):
    """Bounds of one kind for some keys, and of another kind for the others."""

    def __init__(self, which: BoolArray, some: RankBounds, others: RankBounds) -> None:
        self._which, self._some, self._others = which, some, others

    def of_rank(self, not_above: Int64Array) -> tuple[FloatArray, FloatArray]:
        """Return the bounds of either kind."""
        of_kinds = self._some.of_rank(not_above), self._others.of_rank(not_above)
        lower, upper = (np.where(self._which, *each) for each in zip(*of_kinds, strict=True))
        return lower, upper

    def of_quantiles(self, shares: FloatArray) -> tuple[Int64Array, Int64Array]:
        """Return the places of either kind."""
        some, others = self._some.of_quantiles(shares), self._others.of_quantiles(shares)
        which = self._which[:, None]
        lower, upper = (np.where(which, *each) for each in zip(some, others, strict=True))
        return lower, upper


def rank_bounds(
    view: View, since: Int64Array, rows: WindowSample, counts: Int64Array, factor: FloatArray
) -> RankBounds:
    """Return the bounds of each key: by age, if its events are counted by age."""
    margins = Margins(rows, counts, factor)
    is_counted = view.state.tally.is_counted & ~rows.is_exact
    if not is_counted.any():
        return margins
    return EachItsOwn(is_counted, AgeBounds(view, since, rows, counts, factor), margins)
