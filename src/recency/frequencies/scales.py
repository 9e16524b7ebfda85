"""Counts of ranges, and quantiles, from rows of cells for each scale of a single key."""

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
    """What ranges count in one window."""

    def __init__(self, grid: DyadicGrid, counts: Counts, confidence: float) -> None:
        self.grid, self.counts = grid, counts
        self._failure, self._confidence = 1 - confidence, confidence
        # So that all counters are right but for a third of the failures of an answer.
        self._cell_failure = 0.0 if counts.is_certain else self._failure / 3 / (grid.size + 1)
        value, least, most = (float(each[0]) for each in counts.total(self._cell_failure))
        self.total = value, least, most

    def _found(self, cells: Int64Array) -> Found:
        """What cells count: estimates, the least and the most."""
        places = self.counts.places(cells)[0]
        return self.counts.middle[places], *self.counts.bounds(places, self._cell_failure)

    def found(self, scale: int, nodes: UInt64Array) -> Found:
        """What ranges of a scale count in each row."""
        return self._found(self.grid.cells_of_nodes(scale, nodes))

    def range_count(self, low: int, end: int) -> Estimate:
        """What the items from ``low`` up to ``end``, without it, count."""
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
        """Ranges that make up [low, end), and their scales; what is left, at the exact scale."""
        scales, nodes = [], []
        for scale in range(self.grid.exact_scale):
            # Those that are left over when both ends become even.
            ends = [low] * (low & 1) + [end - 1] * (end & 1) if low < end else []
            nodes += ends
            scales += [scale] * len(ends)
            low, end = (low + 1) >> 1, end >> 1
        return np.array(scales, dtype=np.int64), np.array(nodes, dtype=np.uint64), low, end

    def _squares(self) -> FloatArray:
        """For each noisy scale, at least the sum of the squares of what its ranges count."""
        grid = self.grid
        _, _, upper = self._found(np.arange(grid.size).reshape(grid.rows, -1))
        of_rows = (upper**2).sum(axis=1)
        starts = [grid.rows_of(scale).start for scale in range(grid.exact_scale)]
        return np.asarray(np.minimum.reduceat(of_rows[:-1], starts))

    def quantile(self, share: float) -> Estimate:
        """The least item such that this share of all is up to it."""
        total, _, most_of_all = self.total
        if not most_of_all:
            raise NoAnswerError("a quantile needs events, and the window has none")
        # Before the quantile there is less than the target, and with it no less.
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
        """The last item before which there is less than ``target``, by some count of ranges.

        If counts are never less than the truth, no item whose rank reaches the target is before it.
        If they are never more than the truth and ``noise``, no item before which there is less than
        the target is after it; and none is in a later range of the scale without noise.
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
    """Without what others add on average: (total − x) / width."""
    middle = np.median(found[0], axis=0)
    return (
        np.clip((middle * width - total) / (width - 1), 0.0, None) if noisy else np.asarray(middle)
    )
