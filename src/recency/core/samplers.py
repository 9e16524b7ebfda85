"""Two ways to sample elements by weight, and what the sampled ones stand for.

Both draw on one coin of 53 bits per element, the same wherever it comes from, and put an element of
weight w into the samples of all levels up to its own. What it stands for there is w on average.

:class:`UniformSampler`: the coin is one uniform number U in (0, 1], and the element is at level i
iff U·2ⁱ ≤ w. It stands for max(w, 2ⁱ). Weights may be any numbers, so levels may be negative.

:class:`RangeSampler` (Cormode, Tirthapura & Xu 2009, *Time-Decaying Sketches*, §3.2): the element
has w integers, and the coin a progression modulo p that hashes them; integers with a hash below
⌊p/2ⁱ⌋ are sampled at level i. The element is there if any of its integers is, and stands for
p/⌊p/2ⁱ⌋ for each that is. Weights are integers, and level 0 holds all elements. The hashes of one
range are pairwise independent, not more: their number of hits has the variance of a Poisson number,
but now and then there are many at once, or none where 16 are expected (1.4 % of cases, not 10⁻⁷).
"""

from typing import Protocol

import numpy as np

from recency.core.arrays import FloatArray, Int64Array, UInt64Array
from recency.core.hashing import xxh64
from recency.core.level_sample import NO_LEVEL, levels_of_weights
from recency.core.range_sampling import PRIME, range_hits, range_min

_START, _STEP = 1, 2  # seeds of what is made of a coin
LIMITS = PRIME >> np.arange(44)  # ⌊p/2ⁱ⌋, of which the last is 0: nothing is that high


class Sampler(Protocol):
    """How elements of a weight and a coin are sampled."""

    def levels(self, weights: FloatArray, coins: UInt64Array) -> Int64Array:
        """The highest level of each element."""
        ...

    def scales(self, levels: Int64Array) -> FloatArray:
        """What one that was sampled at a level stands for; 0 where all are there."""
        ...

    def standing(
        self, weights: FloatArray, coins: UInt64Array, levels: Int64Array
    ) -> tuple[FloatArray, FloatArray]:
        """What elements in the samples of these levels stand for, and the units of that.

        It is a number of units that is random; 0 where it is not, and the weight known.
        """
        ...

    def decayed(self, weights: FloatArray, decays: FloatArray) -> FloatArray:
        """What weights become under a decay that they are sampled with."""
        ...


class UniformSampler:
    """Elements have one uniform number each."""

    def levels(self, weights: FloatArray, coins: UInt64Array) -> Int64Array:
        """The level is ⌊log₂(w/U)⌋."""
        return levels_of_weights(weights, coins << np.uint64(11))

    def scales(self, levels: Int64Array) -> FloatArray:
        """One that was sampled stands for 2ˡ."""
        return np.where(levels == NO_LEVEL, 0.0, np.ldexp(1.0, np.maximum(levels, -1100)))

    def standing(
        self, weights: FloatArray, coins: UInt64Array, levels: Int64Array
    ) -> tuple[FloatArray, FloatArray]:
        """An element stands for max(w, 2ˡ), which is one unit, or certain."""
        scales = self.scales(levels)
        return np.maximum(weights, scales), np.where(weights < scales, scales, 0.0)

    def decayed(self, weights: FloatArray, decays: FloatArray) -> FloatArray:
        """The weight times the decay."""
        return weights * decays


class RangeSampler:
    """An element of weight w has w integers."""

    def levels(self, weights: FloatArray, coins: UInt64Array) -> Int64Array:
        """The last level whose limit is above the smallest hash of the range."""
        smallest = range_min(*progressions(coins), weights.astype(np.int64), PRIME)
        return LIMITS.size - 1 - np.searchsorted(LIMITS[::-1], smallest, side="right")

    def scales(self, levels: Int64Array) -> FloatArray:
        """p/⌊p/2ˡ⌋; all integers are at level 0."""
        limits = np.maximum(LIMITS[np.maximum(levels, 0)], 1)
        return np.where(levels <= 0, 0.0, PRIME / limits)

    def standing(
        self, weights: FloatArray, coins: UInt64Array, levels: Int64Array
    ) -> tuple[FloatArray, FloatArray]:
        """A unit for each integer that was sampled."""
        scales = self.scales(levels)
        amounts = weights.copy()
        rows = np.flatnonzero((levels > 0) & (weights > 0))
        hits = range_hits(
            *progressions(coins[rows]), weights[rows].astype(np.int64), LIMITS[levels[rows]], PRIME
        )
        amounts[rows] = hits * scales[rows]
        return amounts, scales

    def decayed(self, weights: FloatArray, decays: FloatArray) -> FloatArray:
        """Rounded down: there are no parts of integers (Definition 1.2)."""
        return np.floor(weights * decays)


def progressions(coins: UInt64Array) -> tuple[Int64Array, Int64Array]:
    """First terms and steps of the hashes of the ranges of elements."""
    start = xxh64(coins, _START) % np.uint64(PRIME)
    step = xxh64(coins, _STEP) % np.uint64(PRIME - 1) + np.uint64(1)
    return start.view(np.int64), step.view(np.int64)


SAMPLERS: dict[str, Sampler] = {"uniform": UniformSampler(), "range": RangeSampler()}
