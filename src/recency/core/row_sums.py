"""Sums of counts that share cells with others: what is known of them.

A range of a noisy scale has a cell in each of d rows. In row j the cells of k ranges hold

    C_j = x + noise_j,    E noise_j = (k·T − x)/w,    Var noise_j ≤ Σ n_s² F_s / w

where x is what the ranges count together, T the total, w the width, F_s the sum of squares of the
counts of scale s and n_s the number of ranges of that scale (their noises may be correlated, those
of different scales have different hash functions; which are taken for random ones, as everywhere:
pairs of ranges must meet a third one independently). Two bounds follow, each with a given failure
probability δ:

- **Markov.** noise_j exceeds a·k·T/w in all rows with probability a⁻ᵈ: a = δ^(−1/d). With a = e
  this is what Papapetrou et al. 2012 and Cormode & Muthukrishnan 2005 (Theorem 4) have.
- **Chebyshev.** Row j is λσ off its mean with probability at most 1/λ². Of d rows m = ⌈d/2⌉ or more
  are with probability at most C(d, m) λ^(−2m) = δ, so that x is between order statistics of what
  the rows say.

The first is better where one item dominates, the second where many are alike.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from recency.core.arrays import FloatArray, Int64Array

_ROUNDING = 1e-12
_EXACT = 2.0**53


def markov(failure: float, rows: int) -> float:
    """How many times its mean something is in all rows with this probability, at most."""
    return float(failure ** (-1 / rows))


@dataclass
class RowSums:
    """The sum of what ranges count, row by row."""

    width: int
    rows: int
    total: tuple[float, float, float]  # estimate, least, most
    nodes: int = 0
    noisy: FloatArray = field(init=False)  # for each row: estimate, least, most
    best: FloatArray = field(init=False)  # the least, over rows, of each: least, most
    exact: FloatArray = field(init=False)  # of ranges without noise: estimate, least, most
    variance: float = 0.0

    def __post_init__(self) -> None:
        self.noisy, self.best, self.exact = np.zeros((3, self.rows)), np.zeros(2), np.zeros(3)

    def add(
        self,
        scales: Int64Array,
        middle: FloatArray,
        least: FloatArray,
        most: FloatArray,
        squares: FloatArray,
    ) -> None:
        """Add ranges of these scales, by row; ``squares`` bounds the sums of squares of scales."""
        self.noisy += np.stack([middle.sum(axis=1), least.sum(axis=1), most.sum(axis=1)])
        self.best += [least.min(axis=0).sum(), most.min(axis=0).sum()]
        sizes = np.bincount(scales, minlength=squares.size)
        some = sizes > 0  # squares that are not known may be infinite
        self.variance += float((sizes[some] ** 2 * squares[some]).sum()) / self.width
        self.nodes += scales.size

    def add_exact(self, middle: FloatArray, least: FloatArray, most: FloatArray) -> None:
        """Add ranges that share cells with nothing."""
        self.exact += [middle.sum(), least.sum(), most.sum()]

    def answer(self, failure: float) -> tuple[float, float, float]:
        """Estimate, lower and upper bound; each bound may fail with this probability."""
        value, lower, upper = self._noisy_answer(failure) if self.nodes else (0.0, 0.0, 0.0)
        value, lower, upper = np.add(self.exact, (value, lower, upper)).tolist()
        if upper >= _EXACT:  # sums of floats are not exact any more
            lower, upper = lower * (1 - _ROUNDING), upper * (1 + _ROUNDING)
        upper = min(upper, self.total[2])
        lower = min(lower, upper)
        return float(min(max(value, lower), upper)), float(lower), float(upper)

    def _noisy_answer(self, failure: float) -> tuple[float, float, float]:
        middle, least, most = (self.nodes * each / self.width for each in self.total)
        best_lower, best_upper = self.best.tolist()
        lower = max(best_lower - markov(failure, self.rows) * most, 0.0)
        half = (self.rows + 1) // 2
        chance = (failure / math.comb(self.rows, half)) ** (1 / half)
        spread = math.sqrt(self.variance / chance)
        keep = 1 - 1 / self.width
        lows = np.sort((self.noisy[1] - most - spread) / keep)
        highs = np.sort((self.noisy[2] - least + spread) / keep)
        lower = max(lower, float(lows[self.rows - half]) * (1 - _ROUNDING))
        upper = min(best_upper, max(float(highs[half - 1]), 0.0) * (1 + _ROUNDING))
        value = float(np.median((self.noisy[0] - middle) / keep))
        return max(value, 0.0), min(lower, upper), upper
