"""Buckets of time that grow with age, as the decay of weights slows down.

Cohen & Strauss 2006; Cormode, Tirthapura & Xu 2009 (*Time-Decayed Correlated Aggregates*), §3.2.
Ages are divided into regions [b_i, b_{i+1}) within which a decay f changes by at most a factor
1 + ε: b_0 = 0, and b_{i+1} is the first age with f < f(b_i) / (1 + ε). Times are grouped into
buckets: new ones have b_1 ticks, and two neighbours become one as soon as their ages are within one
region. If f(x + 1)/f(x) does not fall ("converging"), elements of a bucket remain as alike as they
were.

No tick needs any work. From region i on, buckets have grown to I_{i+1} = ⌊|G_i|/I_i⌋ · I_i ticks
(Lemma 3.1 there, with I_1 = b_1), and all begin at multiples of that: the bucket of a time is a
function of the time and the clock.
"""

import math
from functools import lru_cache

import numpy as np

from recency.core.arrays import (
    INT64_MAX,
    INT64_MIN,
    Int64Array,
    run_starts,
    stable_order,
    ticks_between,
)
from recency.decay import Decay

_FAR = 1 << 60  # ages from here on are one region
_LITTLE = 1e-290  # so are those at which a decay has fallen this far: floats end soon
MOST_REGIONS = 4096


def number_of_regions(decay: Decay, spread: float) -> float:
    """How many regions there can be, at most: β of the paper, for the oldest age there is."""
    fallen = max(float(decay.at(np.array([_FAR]))[0]), _LITTLE)
    return math.log(1 / fallen) / math.log1p(spread) + 1


@lru_cache(maxsize=64)
def regions_of(decay: Decay, spread: float) -> "Regions":
    """The regions of a decay; they are made once."""
    return Regions(decay, spread)


class Regions:
    """The regions of a converging decay that changes by 1 + ``spread`` in each; made as needed."""

    def __init__(self, decay: Decay, spread: float) -> None:
        self._decay, self._spread = decay, spread
        # b_i, one more than there are regions, and I_{i+1}, of buckets that region i has done with.
        self._made: tuple[list[int], list[int]] = [0], []
        edges, _ = self._reaching(0)
        self.is_one = edges[1] >= 2 * _FAR
        """Whether one bucket is enough for all times: the decay never falls that much."""

    def _reaching(self, age: int) -> tuple[list[int], list[int]]:
        """All regions that begin up to an age, and one more.

        Sketches of several threads may share the regions of a decay. Each makes what it lacks, the
        same as the others would: no lock, which an interrupted call would hold for ever.
        """
        edges, blocks = self._made
        if edges[-1] <= min(age, _FAR):
            edges, blocks = edges.copy(), blocks.copy()
            while edges[-1] <= min(age, _FAR):
                size = self._end_of_region(edges[-1]) - edges[-1]
                block = blocks[-1] if blocks else size
                # Regions grow, but where rounding makes one shorter.
                blocks.append(max(size // block, 1) * block)
                edges.append(edges[-1] + size)
            self._made = edges, blocks
        return edges, blocks

    def _end_of_region(self, begin: int) -> int:
        value = self._decay.at(np.array([begin]))
        if value[0] < _LITTLE:
            return 2 * _FAR
        bound = value / (1 + self._spread)
        return min(int(self._decay.first_age_below(np.ones(1), bound)[0]), 2 * _FAR)

    def buckets(self, times: Int64Array, clock: int | Int64Array) -> tuple[Int64Array, Int64Array]:
        """The first and the last tick of the bucket of each time up to ``clock`` (or clocks)."""
        if self.is_one or not times.size:
            return np.full_like(times, INT64_MIN), np.full_like(times, INT64_MAX)
        # Twice the last edge is as good as any larger age, and keeps what follows within int64.
        ages = np.minimum(ticks_between(times, clock), np.uint64(4 * _FAR)).view(np.int64)
        made = self._reaching(int(ages.max()))
        edges, blocks = np.array(made[0][:-1]), np.array(made[1])
        # Of which region is it done with? Blocks grow and their ends have less time to be past
        # the regions' edges: where one is not, no larger one is.
        low, high = np.zeros(times.size, dtype=np.int64), np.full(times.size, blocks.size - 1)
        while (low < high).any():
            middle = (low + high + 1) >> 1
            is_done = ages - _to_go(times, blocks[middle]) >= edges[middle]
            low, high = np.where(is_done, middle, low), np.where(is_done, high, middle - 1)
        own = blocks[low]
        gone, to_go = times % own, _to_go(times, own)
        # Those that the next region has begun to put together, from the start of what they become.
        further = np.minimum(low + 1, blocks.size - 1)
        together = (ages - to_go >= edges[further]) & (further > low)
        gone_of_whole = times % blocks[further]
        size = (ages + gone_of_whole - edges[further] + 1) // own * own
        gone = np.where(together, gone_of_whole, gone)
        to_go = np.where(together, size - 1 - gone, to_go)
        # At the ends of time a bucket is cut off.
        first = np.where(
            ticks_between(INT64_MIN, times) < gone.view(np.uint64), INT64_MIN, times - gone
        )
        last = np.where(
            ticks_between(times, INT64_MAX) < to_go.view(np.uint64), INT64_MAX, times + to_go
        )
        return first, last

    def grid(self, oldest: int, clock: int) -> Int64Array:
        """The first ticks of all buckets from that of ``oldest`` to that of ``clock``, ascending.

        Two buckets for each region, or fewer: looking at one time in each region finds most of
        them, and looking into the gaps between those the others.
        """
        if self.is_one:
            return np.full(1, INT64_MIN)
        edges, _ = self._reaching(min(clock - oldest, 4 * _FAR))
        inside = [clock - edge for edge in edges if clock - edge > oldest]
        first, last = self.buckets(np.array([*inside, oldest]), clock)
        while True:
            first, which = np.unique(first, return_index=True)
            last = last[which]
            gaps = np.flatnonzero(last[:-1] < first[1:] - 1)
            if not gaps.size:
                return first
            more = self.buckets(last[gaps] + 1, clock)
            first, last = np.append(first, more[0]), np.append(last, more[1])

    def covering(
        self, keys: Int64Array, times: Int64Array, clocks: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """First ticks of buckets that the times are in, and how many each key has of them.

        Each key has a clock. Its buckets come in order, after those of the keys before it; of a
        single key these are all from its oldest time on, which is faster.
        """
        if clocks.size == 1:
            firsts = self.grid(int(times.min()), int(clocks[0])) if times.size else times
            return firsts, np.array([firsts.size])
        firsts, _ = self.buckets(times, clocks[keys])
        order = np.argsort(firsts, kind="stable")
        order = order[stable_order(keys[order])]
        different = order[run_starts(keys[order], firsts[order])]
        return firsts[different], np.bincount(keys[different], minlength=clocks.size)


def _to_go(times: Int64Array, blocks: Int64Array) -> Int64Array:
    """How many ticks later the block of a time ends."""
    ticks: Int64Array = blocks - 1 - times % blocks
    return ticks
