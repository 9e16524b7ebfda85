"""Counts of ranges, and quantiles, of a single key, from the rows of cells of all scales."""

from collections.abc import Callable
from functools import partial

import numpy as np

from recency.core.arrays import (
    FloatArray,
    Int64Array,
    UInt64Array,
    counts_reaching,
    floats_above,
    floats_below,
)
from recency.core.row_sums import RowSums, markov
from recency.errors import NoAnswerError
from recency.estimate import Estimate
from recency.frequencies.cell_counts import Counts
from recency.frequencies.grid import DyadicGrid

Found = tuple[FloatArray, FloatArray, FloatArray]


class Scales:
    """Counts of ranges in one window."""

    def __init__(self, grid: DyadicGrid, counts: Counts, confidence: float) -> None:
        self.grid, self.counts = grid, counts
        self._failure, self._confidence = 1 - confidence, confidence
        # All counters are within their bounds, except with a third of the failure probability.
        self._cell_failure = 0.0 if counts.is_certain else self._failure / 3 / (grid.size + 1)
        value, least, most = (float(each[0]) for each in counts.total(self._cell_failure))
        self.total = value, least, most

    def _found(self, cells: Int64Array) -> Found:
        """Return estimates, lower and upper bounds of the counts of cells."""
        places = self.counts.places(cells)[0]
        return self.counts.middle[places], *self.counts.bounds(places, self._cell_failure)

    def found(self, scale: int, nodes: UInt64Array) -> Found:
        """Return estimates and bounds of the counts of ranges of a scale, in each of its rows."""
        return self._found(self.grid.cells_of_nodes(scale, nodes))

    def range_count(self, low: int, end: int) -> Estimate:
        """Return the count of the items in [low, end)."""
        grid = self.grid
        sums = RowSums(grid.width, grid.range_depth, self.total)
        scales, ends, low, end = self._taken_apart(low, end)
        if ends.size:
            found = self._found(grid.cells_of_ranges(scales, ends))
            sums.add(scales, *found, self._squares())
        if low < end:
            nodes = np.arange(low, end, dtype=np.uint64)
            sums.add_exact(*self.found(grid.exact_scale, nodes))
        parts = 2 if self.counts.is_certain else 3
        value, lower, upper = sums.answer(self._failure / parts)
        is_certain = self.counts.is_certain and (not sums.nodes or not upper)
        return Estimate(value, lower, upper, 1.0 if is_certain else self._confidence)

    def _taken_apart(self, low: int, end: int) -> tuple[Int64Array, UInt64Array, int, int]:
        """Split [low, end) into ranges with their scales, and a rest at the exact scale."""
        scales, nodes = [], []
        for scale in range(self.grid.exact_scale):
            # The ranges that do not belong to a range of the next scale.
            ends = [low] * (low & 1) + [end - 1] * (end & 1) if low < end else []
            nodes += ends
            scales += [scale] * len(ends)
            low, end = (low + 1) >> 1, end >> 1
        return np.array(scales, dtype=np.int64), np.array(nodes, dtype=np.uint64), low, end

    def _squares(self) -> FloatArray:
        """Return, for each hashed scale, an upper bound of Σ count² over its ranges."""
        grid = self.grid
        _, _, upper = self._found(np.arange(grid.size).reshape(grid.rows, -1))
        of_rows = (upper**2).sum(axis=1)
        starts = [grid.rows_of(scale).start for scale in range(grid.exact_scale)]
        return np.asarray(np.minimum.reduceat(of_rows[:-1], starts))

    def quantile(self, share: float) -> Estimate:
        """Return the smallest item x such that at least this share of the events has item ≤ x."""
        total, _, most_of_all = self.total
        if not most_of_all:
            raise NoAnswerError("a quantile needs events, and the window has none")
        # Items before the quantile count less than the target; including it, at least the target.
        value, least, most = (max(float(counts_reaching(share, x)), 1.0) for x in self.total)
        certain, grid = self.counts.is_certain, self.grid
        noise = markov(self._failure / (1 if certain else 2), grid.range_depth)
        noise *= grid.exact_scale * most_of_all / grid.width
        lower = self._descend(_most, least)
        upper = max(lower, self._descend(_least, most, noise))
        debiased = partial(_debiased, total=total, width=grid.width)
        middle = min(max(self._descend(debiased, value), lower), upper)
        confidence = 1.0 if lower == upper and certain else self._confidence
        low, high = floats_below(np.array(lower)), floats_above(np.array(upper))
        return Estimate(float(middle), float(low), float(high), confidence)

    def _descend(
        self, count: Callable[[Found, bool], FloatArray], target: float, noise: float = 0.0
    ) -> int:
        """Return the last item such that the items before it count less than ``target``.

        The result depends on the counts of ranges. If they are upper bounds, no item whose rank
        reaches the target is before it. If they exceed the truth by at most ``noise``, all items
        such that the items before them count less than the target are at most the result; and none
        is in a later range of the exact scale.
        """
        scale = self.grid.exact_scale
        found = self.found(scale, np.arange(self.grid.ranges(scale), dtype=np.uint64))
        upto = np.cumsum(count(found, False))
        node = min(int(np.searchsorted(upto, target)), upto.size - 1)
        before = float(upto[node - 1]) if node else 0.0
        while scale:
            scale -= 1
            node *= 2
            found = self.found(scale, np.array([node], dtype=np.uint64))
            left = float(count(found, True)[0])
            if before + left < target + noise:
                before += left
                node += 1
        return node


def _least(found: Found, noisy: bool) -> FloatArray:
    return np.asarray(found[1].min(axis=0))


def _most(found: Found, noisy: bool) -> FloatArray:
    return np.asarray(found[2].min(axis=0))


def _debiased(found: Found, noisy: bool, total: float, width: int) -> FloatArray:
    """Subtract from counts what other items add on average, (total − x) / width."""
    middle = np.median(found[0], axis=0)
    return (
        np.clip((middle * width - total) / (width - 1), 0.0, None) if noisy else np.asarray(middle)
    )
