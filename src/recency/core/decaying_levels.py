"""Level samples of elements that fade: their weight decays, so they sink to lower levels.

An element of weight w with coin U in (0, 1] is at level i while f = w·g(age) ≥ U·2ⁱ, that is with
probability min(1, f/2ⁱ), and stands for max(f, 2ⁱ) (Cormode, Tirthapura & Xu 2009, *Time-Decaying
Sketches*, §3, for any decay that does not increase). So at each level it has an *expiry*, the first
time at which that fails. A level keeps the elements that expire last: the sample at level i for any
later time is what it holds, if nothing that expires later was dropped (Lemma 3.2 there: the order
of arrival does not matter).

This is a level sample with expiries in the place of times and the clock in the place of the cutoff,
in which an element is in every level up to its highest.

Weights may be any numbers, so there is no lowest level by nature. Levels are kept down to 2⁻³² of
the largest weight ever seen: less than that is sampled, and hardly ever matters.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from recency.core import by_key
from recency.core.arrays import (
    INT64_MAX,
    BoolArray,
    FloatArray,
    Int64Array,
    floats_below,
    run_starts,
    ticks_between,
)
from recency.core.elementary import exp2, log2
from recency.core.level_sample import Columns, Edges, LevelSample, group_of
from recency.core.range_sampling import PRIME, first_hit
from recency.core.samplers import LIMITS, RangeSampler, Sampler, UniformSampler, progressions
from recency.decay import Decay

LEVELS_BELOW = 32  # the highest bit of the largest weight
_STEPS = 16  # of a halving, in a quick test that an exact one follows
_MOST_HALVINGS = 53 + LEVELS_BELOW + 5  # more than from the highest level to the lowest
_LEVELS_AT_ONCE = 8
_BLOCK = 1 << 12  # elements placed at once, at all levels
_TABLE = 1 << 23  # entries, at most
_ODD_1, _ODD_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_NEVER = 2.0**62


DecayFunction = Decay  # as other modules call it


def ages_of(times: Int64Array, now: Int64Array) -> FloatArray:
    """now − times, which must not be negative; beyond 2⁵³ rounded down.

    Then age < width is decided as if there were no rounding, for any width that is a float.
    """
    return floats_below(ticks_between(times, now))


def before_the_end(time: int) -> int:
    """A time that an expiry which never comes is later than."""
    return min(time, INT64_MAX - 1)


@lru_cache(maxsize=64)
def _enough(decay: Decay) -> FloatArray:
    """Ages, not too small, at which a decay has fallen by 1/16, 2/16, … halvings; first, −1."""
    halvings = np.arange(1, _STEPS * _MOST_HALVINGS) / _STEPS
    ages = _or_never(decay.first_age_below(np.ones(halvings.size), exp2(-halvings)))
    return np.append(-1.0, ages * (1 + 1e-9) + 2)


def _or_never(ages: Int64Array) -> FloatArray:
    """Ages as floats, infinite where they say never: there are ages up to 2⁶⁴."""
    return np.where(ages == INT64_MAX, np.inf, ages.astype(np.float64))


@dataclass(frozen=True, eq=False)
class Fading:
    """Where elements go under one decay, at levels from ``bottoms`` on, as of the clocks of keys.

    Columns of elements are coin (53 bits), value, weight, time.
    """

    decay: Decay
    bottoms: Int64Array
    clocks: Int64Array
    sampler: ClassVar[Sampler] = UniformSampler()

    def placed(
        self, until: "Until", keys: Int64Array, columns: Columns
    ) -> tuple[Int64Array, Int64Array, Columns]:
        """Groups, expiries and columns of elements at all levels of their keys that may keep them.

        A single key stands for all of them.
        """
        coins, _, weights, times = columns
        times = np.minimum(times, before_the_end(INT64_MAX))
        tops = self.sampler.levels(weights, coins)
        uniform = (coins + np.uint64(1)).astype(np.float64) * 2.0**-53
        halvings = log2(weights) - log2(uniform)  # until the element leaves level 0
        enough = _enough(self.decay)
        bottoms = by_key.of_rows(self.bottoms, keys)
        heights = tops - bottoms
        none = np.empty(0, dtype=np.int64)
        found = [(none, none, none)]
        for begin in range(0, int(heights.max(initial=-1)) + 1, _LEVELS_AT_ONCE):
            # A quick look at all elements that were ever so high: few of them last long enough.
            rows = np.flatnonzero(heights >= begin)
            end = begin + _LEVELS_AT_ONCE
            levels = by_key.of_rows(bottoms, rows)[:, None] + np.arange(begin, end)
            least = until.of(by_key.of_rows(keys, rows), begin, end)
            steps = ((halvings[rows, None] - levels) * _STEPS).astype(np.int64)
            lasts = enough[np.maximum(steps, -1) + 1]
            row, column = np.nonzero(lasts >= ages_of(times[rows, None], least))
            levels, least = (np.broadcast_to(each, lasts.shape) for each in (levels, least))
            found.append((rows[row], levels[row, column], least[row, column]))
        rows, levels, least = (np.concatenate(column) for column in zip(*found, strict=True))
        expiries = self._expiries(times[rows], weights[rows], uniform[rows], halvings[rows], levels)
        kept = np.flatnonzero((expiries > least) & (levels <= tops[rows]))
        rows = rows[kept]
        groups = group_of(by_key.of_rows(keys, rows), levels[kept])
        return groups, expiries[kept], tuple(column[rows] for column in columns)

    def _expiries(
        self,
        times: Int64Array,
        weights: FloatArray,
        uniform: FloatArray,
        halvings: FloatArray,
        levels: Int64Array,
    ) -> Int64Array:
        """The first times at which elements are no longer at levels.

        By formula alone where there is one: the last bit of it is as good as any other coin, unless
        the decay has a jump there.
        """
        lasts = None
        if not self.decay.jumps:
            lasts = self.decay.last_ages(np.maximum(halvings - levels, 0.0))
        if lasts is None:
            ages = self.decay.first_age_below(weights, np.ldexp(uniform, levels))
        else:
            never = lasts >= _NEVER
            ages = np.where(never, INT64_MAX, np.where(never, 0.0, lasts + 1).astype(np.int64))
        return _later(times, ages)

    def pruned(self, sample: LevelSample) -> LevelSample:
        """The sample without the levels below the bottom."""
        rows = np.flatnonzero(sample.levels >= by_key.of_rows(self.bottoms, sample.keys))
        edges = np.flatnonzero(sample.edge_levels >= by_key.of_rows(self.bottoms, sample.edge_keys))
        if rows.size == sample.times.size and edges.size == sample.edges.size:
            return sample
        return replace(
            sample.only(rows), edge_groups=sample.edge_groups[edges], edges=sample.edges[edges]
        )

    def restored(self, stored: LevelSample) -> LevelSample:
        """The inverse of :func:`stored_once`."""
        until, columns = Until(self, stored), (*stored.columns, stored.times)
        blocks, is_one = [], self.clocks.size == 1
        for begin in range(0, max(stored.times.size, 1), _BLOCK):
            rows = slice(begin, begin + _BLOCK)
            keys = np.zeros(1, dtype=np.int64) if is_one else stored.keys[rows]
            blocks.append(self.placed(until, keys, tuple(each[rows] for each in columns)))
        groups, expiries, payload = zip(*blocks, strict=True)
        return replace(
            stored,
            groups=np.concatenate(groups),
            times=np.concatenate(expiries),
            columns=tuple(np.concatenate(column) for column in zip(*payload, strict=True)),
        )


@dataclass(frozen=True, eq=False)
class RangeFading(Fading):
    """The same for ranges of integers, under ⌊w·g⌋ instead of w·g; the lowest level is 0.

    An element is at level i while the first of its integers that is sampled there is one of its
    first ⌊w·g⌋ (Lemma 3.5).
    """

    sampler: ClassVar[Sampler] = RangeSampler()

    def placed(
        self, until: "Until", keys: Int64Array, columns: Columns
    ) -> tuple[Int64Array, Int64Array, Columns]:
        """Groups, expiries and columns of elements at all levels of their keys that may keep them.

        A single key stands for all of them.
        """
        coins, _, weights, times = columns
        times = np.minimum(times, before_the_end(INT64_MAX))
        tops = self.sampler.levels(weights, coins)
        levels = np.arange(int(tops.max(initial=0)) + 1)
        least = until.of(keys, 0, levels.size)
        # Which elements have any integers left at the time that they must outlast, how many, and
        # is one of those sampled?
        gone = _or_never(self.decay.first_age_below(weights, np.ones_like(weights)))
        # Ages that are as good as never count alike, or what is kept would depend on the clock.
        ages = np.minimum(ages_of(times[:, None], least), _NEVER)
        rows, places = np.nonzero((tops[:, None] >= levels) & (ages < gone[:, None]))
        left = self.sampler.decayed(weights[rows], self.decay.at(ages[rows, places]))
        starts, steps = (column[rows] for column in progressions(coins))
        first = first_hit(starts, steps, left.astype(np.int64), LIMITS[places], PRIME)
        hit = np.flatnonzero(first >= 0)
        rows, places, first = rows[hit], places[hit], first[hit]
        last_ages = self.decay.first_age_below(weights[rows], (first + 1).astype(np.float64))
        expiries = _later(times[rows], last_ages)
        kept = np.flatnonzero(expiries > np.broadcast_to(least, ages.shape)[rows, places])
        rows = rows[kept]
        groups = group_of(by_key.of_rows(keys, rows), places[kept])
        return groups, expiries[kept], tuple(column[rows] for column in columns)


class Until:
    """Per key and level, the last time that an element must not expire at, to stay there."""

    def __init__(self, fading: Fading, sample: LevelSample) -> None:
        self._clocks, self._bottoms, self._sample = fading.clocks, fading.bottoms, sample
        keys = sample.edge_keys
        heights = sample.edge_levels - by_key.of_rows(self._bottoms, keys)
        # Edges below the bottom are still there if a heavier element has just come.
        mine = np.flatnonzero(heights >= 0)
        self._width = int(heights.max(initial=-1)) + 1
        self._fits = self._clocks.size * self._width <= _TABLE
        if self._fits:
            self._table = np.repeat(self._clocks[:, None], self._width, axis=1)
            places = keys[mine], heights[mine]
            self._table[places] = np.maximum(self._table[places], sample.edges[mine])

    def of(self, keys: Int64Array, begin: int, end: int) -> Int64Array:
        """Rows of keys; columns of their levels, from ``begin`` to ``end`` above the bottom."""
        clocks = self._clocks[keys][:, None]
        if begin >= self._width:
            return np.broadcast_to(clocks, (clocks.size, end - begin))
        if self._fits:
            known = self._table[:, begin:end][keys]
            if end <= self._width:
                return known
            return np.append(known, np.repeat(clocks, end - self._width, axis=1), axis=1)
        levels = by_key.of_rows(self._bottoms, keys)[:, None] + np.arange(begin, end)
        edges: Int64Array = Edges(self._sample).of(group_of(keys[:, None], levels))
        return np.maximum(clocks, edges)


def stored_once(sample: LevelSample, sampler: Sampler) -> LevelSample:
    """Each element once, at its highest level, with its own time: the other levels follow."""
    coins, values, weights, times = sample.columns
    keys = sample.keys
    hashes = coins * _ODD_1 + keys.view(np.uint64) * _ODD_2
    rows = np.argsort(hashes)  # faster than by coin and key
    first = run_starts(keys[rows], coins[rows])
    if first.size > run_starts(hashes[rows]).size:  # different elements have a hash in common
        rows = np.lexsort((coins, keys))
        first = run_starts(keys[rows], coins[rows])
    rows = rows[first]
    coins, weights = coins[rows], weights[rows]
    return replace(
        sample,
        groups=group_of(keys[rows], sampler.levels(weights, coins)),
        times=times[rows],
        columns=(coins, values[rows], weights),
    )


def _later(times: Int64Array, ages: Int64Array) -> Int64Array:
    """times + ages; the end of time where that is beyond it, or where ages say never."""
    never: BoolArray = (ages == INT64_MAX) | (ages > INT64_MAX - np.maximum(times, 0))
    return np.where(never, INT64_MAX, times + np.where(never, 0, ages))
