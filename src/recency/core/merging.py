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

from collections.abc import Callable

import numpy as np

from recency.core.arrays import FloatArray, Int64Array

_FAR = 1 << 60  # ages from here on are one region

FirstAgeBelow = Callable[[FloatArray], Int64Array]
"""The first age at which a decay is below each of some bounds; 2⁶³ − 1 for never."""


class Regions:
    """The regions of a converging decay that changes by 1 + ``spread`` in each; made as needed."""

    def __init__(
        self, at: Callable[[Int64Array], FloatArray], first_below: FirstAgeBelow, spread: float
    ) -> None:
        self._at, self._first_below, self._spread = at, first_below, spread
        self._edges = [0]  # b_i
        self._blocks: list[int] = []  # I_{i+1}, of buckets that region i has done with

    def _reach(self, age: int) -> None:
        """Have all regions that begin up to an age, and one more."""
        while self._edges[-1] <= min(age, _FAR):
            begin = self._edges[-1]
            bound = self._at(np.array([begin])) / (1 + self._spread)
            end = min(int(self._first_below(bound)[0]), 2 * _FAR)
            size = end - begin
            block = self._blocks[-1] if self._blocks else size
            self._blocks.append(size // block * block)
            self._edges.append(end)

    def buckets(self, times: Int64Array, clock: int) -> tuple[Int64Array, Int64Array]:
        """The first and the last tick of the bucket of each time up to ``clock``."""
        if not times.size:
            return times, times
        self._reach(clock - int(times.min()))
        edges, blocks = np.array(self._edges[:-1]), np.array(self._blocks)
        # Of which region is it done with? Blocks grow and their ends have less time to be past
        # the regions' edges: where one is not, no larger one is.
        low, high = np.zeros(times.size, dtype=np.int64), np.full(times.size, blocks.size - 1)
        while (low < high).any():
            middle = (low + high + 1) >> 1
            is_done = _last_of(times, blocks[middle]) <= clock - edges[middle]
            low, high = np.where(is_done, middle, low), np.where(is_done, high, middle - 1)
        own, first = blocks[low], times // blocks[low] * blocks[low]
        last = first + own - 1
        # Those that the next region has begun to put together, from the start of what they become.
        further = np.minimum(low + 1, blocks.size - 1)
        entered = clock - edges[further]
        whole = times // blocks[further] * blocks[further]
        together = (last <= entered) & (further > low)
        size = (entered + 1 - whole) // own * own
        return np.where(together, whole, first), np.where(together, whole + size - 1, last)


def _last_of(times: Int64Array, blocks: Int64Array) -> Int64Array:
    last: Int64Array = times // blocks * blocks + (blocks - 1)
    return last
