"""The cells of an ECM-sketch: all its window counters, in one keyed kernel.

Two kinds: rank logs (exponential histograms, deterministic waves) and level samples of events. Both
are values: putting something in gives new cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from recency.core.arrays import (
    FloatArray,
    Int64Array,
    UInt64Array,
    floats_above,
    floats_below,
    stable_order,
)
from recency.core.dispersion import dispersion, sharing, wider
from recency.core.level_sample import NO_LEVEL, LevelSample, group_of, levels_of_weights
from recency.core.rank_log import RankLog, before_merging, guarantee, loosest
from recency.core.sizing import sum_interval

_BLOCK = 1 << 13  # events looked at in one pass: temporaries that stay in the cache
_ABSORB = 1 << 16  # elements collected, at least, before the sample takes them in


class Counts(Protocol):
    """What all cells count in one window."""

    @property
    def middle(self) -> FloatArray:
        """The estimate of each cell."""
        ...

    def bounds(self, cells: NDArray[np.intp], doubt: float) -> tuple[FloatArray, FloatArray]:
        """The least and the most that some cells may count; each is wrong with this doubt."""
        ...

    def total(self, depth: int, doubt: float) -> tuple[float, float, float]:
        """All events: estimate, the least, the most."""
        ...

    @property
    def is_total_certain(self) -> bool:
        """Whether those bounds are not in doubt."""
        ...


@dataclass(frozen=True)
class CertainCounts:
    """Counts of rank logs, whose bounds are certain."""

    lower: Int64Array
    middle: FloatArray
    upper: Int64Array

    def bounds(self, cells: NDArray[np.intp], doubt: float) -> tuple[FloatArray, FloatArray]:
        """Certain, whatever the doubt."""
        return floats_below(self.lower[cells]), floats_above(self.upper[cells])

    def total(self, depth: int, doubt: float) -> tuple[float, float, float]:
        """Every row counts all events: the best of their bounds holds.

        Bytes that were made up may have rows that disagree; then there is no best.
        """
        lower = floats_below(self.lower.reshape(depth, -1).sum(axis=1)).max()
        upper = max(floats_above(self.upper.reshape(depth, -1).sum(axis=1)).min(), lower)
        middle = self.middle.sum() / depth
        return float(min(max(middle, lower), upper)), float(lower), float(upper)

    is_total_certain = True


@dataclass(frozen=True)
class SampledCounts:
    """Counts of samples: a sum that is certain, and n events that stand for ``scale`` each."""

    certain: Int64Array
    sampled: Int64Array
    scale: FloatArray  # 0 where all events are present
    present: Int64Array  # what can be seen, so the truth is not less
    told: tuple[FloatArray, FloatArray, FloatArray]  # of shared coins, see core.dispersion
    capacity: int

    @property
    def middle(self) -> FloatArray:
        """The estimate of each cell."""
        estimate: FloatArray = self.certain + self.sampled * self.scale
        return np.maximum(estimate, self.present)

    def bounds(self, cells: NDArray[np.intp], doubt: float) -> tuple[FloatArray, FloatArray]:
        """Poisson intervals for the events that were sampled; none where coins are shared."""
        wide = wider(*self.told, 1 - doubt)
        sampled = self.sampled / wide
        numbers, which = np.unique(sampled[cells], return_inverse=True)
        intervals = np.array([sum_interval(n, n, 1 - doubt) for n in numbers.tolist()])
        low, high = (
            intervals.reshape(-1, 2)[which.reshape(cells.shape), end] * (wide * self.scale)[cells]
            for end in (0, 1)
        )
        shared = (self.scale > 0) & (
            sharing(self.sampled, wide, self.capacity) | (self.sampled == 0)
        )
        high[shared[cells]] = np.inf
        return (
            np.maximum(floats_below(self.certain[cells]) + low, floats_below(self.present[cells])),
            np.maximum(floats_above(self.certain[cells]) + high, floats_above(self.present[cells])),
        )

    def total(self, depth: int, doubt: float) -> tuple[float, float, float]:
        """It has a sample of its own, the last."""
        last = np.array([self.sampled.size - 1])
        lower, upper = self.bounds(last, doubt)
        return float(self.middle[-1]), float(lower[0]), float(upper[0])

    @property
    def is_total_certain(self) -> bool:
        """Whether nothing was forgotten."""
        return bool(self.scale[-1] == 0)


@dataclass(frozen=True, eq=False)
class LogCells:
    """Rank logs of one tightness."""

    log: RankLog
    spread: float = 1.0  # 1 + ε₂, as in a window counter

    def put(
        self, cells: Int64Array, ticks: Int64Array, weights: Int64Array, cutoff: int
    ) -> "LogCells":
        """Count events, in time order: ``cells`` has a row for each row of the sketch."""
        edges = np.full(self.log.size, cutoff)
        depth, size = cells.shape
        width = self.log.size // depth
        orders, counts = [], np.empty((depth, width), dtype=np.int64)
        for row, own in enumerate(cells):
            local = own - row * width
            orders.append(stable_order(local))
            counts[row] = np.bincount(local, minlength=width)
        counts = counts.ravel()
        if (weights == 1).all() and (ticks[1:] > ticks[:-1]).all():

            def times_of(places: Int64Array) -> Int64Array:
                cuts = np.searchsorted(places, np.arange(0, cells.size, size))
                parts = zip(orders, np.split(places, cuts[1:]), strict=True)
                return np.concatenate([ticks[order[part % size]] for order, part in parts])

            return replace(self, log=self.log.append_units(counts, times_of, edges))
        keys, order = np.repeat(np.arange(self.log.size), counts), np.concatenate(orders)
        log = self.log.append_sorted(keys, ticks[order], weights[order], edges)
        return replace(self, log=log)

    def expired(self, cutoff: int) -> "LogCells":
        """The cells at a later time."""
        none = np.empty(0, dtype=np.int64)
        edges = np.full(self.log.size, cutoff)
        return replace(self, log=self.log.append(none, none, none, edges))

    def counts(self, since: int) -> CertainCounts:
        """What each cell counts later than ``since``."""
        lower, upper = self.log.bounds(np.full(self.log.size, since))
        middle = (lower.astype(np.float64) + upper) / 2
        lower, upper = before_merging(lower, upper, self.log.totals, self.spread)
        return CertainCounts(lower, middle, upper)

    @property
    def error(self) -> float:
        """The relative error of a cell, merging included."""
        tightness = int(self.log.tightness[0])
        return float(guarantee(self.spread, self.log.rule.relative_error(tightness)))

    @classmethod
    def merged(cls, cells: Sequence[Self], own_cutoffs: Sequence[int], cutoff: int) -> "LogCells":
        """Cell by cell, Papapetrou et al. 2012, Theorem 4."""
        logs = [each.log for each in cells]
        size = logs[0].size
        log = RankLog.merge(
            logs,
            [np.full(size, own) for own in own_cutoffs],
            tightness=np.max([each.tightness for each in logs], axis=0),
            cutoff=np.full(size, cutoff),
        )
        spread = max(
            each.spread * (1 + each.log.rule.relative_error(int(each.log.tightness[0])))
            for each in cells
        )
        return LogCells(log, spread)

    def loosened(self, relative_error: float, cutoff: int) -> "LogCells":
        """No tighter than it takes to keep this error in each cell."""
        tightness = loosest(self.log.rule, relative_error, np.full(self.log.size, self.spread))
        return replace(self, log=self.log.loosened(tightness, np.full(self.log.size, cutoff)))


@dataclass(frozen=True, eq=False)
class SampleCells:
    """Level samples of events, and one more, behind the others, of all events."""

    sample: LevelSample
    size: int  # without that one

    def put(
        self,
        cells: Int64Array,
        ticks: Int64Array,
        weights: Int64Array,
        coins: UInt64Array,
        cutoff: int,
    ) -> "SampleCells":
        """Count events; those of one event in all its cells share its coin."""
        edges = np.full(self.size + 1, cutoff)
        sample = self.sample
        survivors: list[tuple[Int64Array, Int64Array, FloatArray]] = []
        waiting = 0
        for end in range(ticks.size, 0, -_BLOCK):  # mostly the last are the newest
            rows = slice(max(0, end - _BLOCK), end)
            values = weights[rows].astype(np.float64)
            levels = levels_of_weights(values, coins[rows])
            total = np.full((1, levels.size), self.size)
            groups = group_of(np.concatenate([cells[:, rows], total]), levels).ravel()
            times = np.tile(ticks[rows], len(cells) + 1)
            kept = np.flatnonzero(sample.may_be_kept(groups, times) & (times > cutoff))
            values = np.tile(values, len(cells) + 1)[kept]
            survivors.append((groups[kept], times[kept], values))
            waiting += kept.size
            if waiting >= max(_ABSORB, sample.times.size // 2) or rows.start == 0:
                groups, times, values = (
                    np.concatenate(column) for column in zip(*survivors, strict=True)
                )
                sample = sample.absorb(groups, times, (values,), edges)
                survivors, waiting = [], 0
        return replace(self, sample=sample)

    def expired(self, cutoff: int) -> "SampleCells":
        """The cells at a later time."""
        none = self.sample.times[:0]
        edges = np.full(self.size + 1, cutoff)
        sample = self.sample.absorb(none, none, (self.sample.columns[0][:0],), edges)
        return replace(self, sample=sample)

    def counts(self, since: int) -> SampledCounts:
        """What each cell counts later than ``since``; the last one is the total."""
        sample = self.sample
        size = self.size + 1
        query_levels = sample.query_levels(np.full(size, since))
        rows = np.flatnonzero(sample.times > since)
        keys, weights = sample.keys[rows], sample.columns[0][rows]
        is_exact = query_levels == NO_LEVEL
        scale = np.exp2(np.where(is_exact, 0, query_levels).astype(np.float64))
        in_sample = is_exact[keys] | (sample.levels[rows] >= query_levels[keys])
        large = in_sample & (is_exact[keys] | (weights >= scale[keys]))
        small = np.flatnonzero(in_sample & ~large)
        of, kept = keys[small], rows[small]
        classes = sample.times[kept], sample.columns[0][kept].view(np.int64)
        return SampledCounts(
            _sums(keys[large], weights[large], size),
            np.bincount(of, minlength=size),
            np.where(is_exact, 0.0, scale),
            _sums(keys, weights, size),
            dispersion(of, sample.levels[kept] - query_levels[of], classes, size),
            sample.capacity,
        )

    @classmethod
    def merged(
        cls, cells: Sequence[Self], own_cutoffs: Sequence[int], cutoff: int
    ) -> "SampleCells":
        """Exact."""
        edges = np.full(cells[0].size + 1, cutoff)
        sample = LevelSample.merge([each.sample for each in cells], edges)
        return replace(cells[0], sample=sample)


def _sums(keys: Int64Array, weights: FloatArray, size: int) -> Int64Array:
    """Sums of whole numbers, exact, and so the same in any order."""
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, keys, weights.astype(np.int64))
    return sums
