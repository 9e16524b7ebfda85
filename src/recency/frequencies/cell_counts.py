"""Counts of cells in one window, with bounds; for many keys with the same number of cells.

Empty cells are not stored. Arrays of places of cells have one row per key, and arrays of totals one
element per key.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recency.core.arrays import BoolArray, FloatArray, Int64Array, floats_above, floats_below
from recency.core.dispersion import sharing, wider
from recency.core.sizing import sum_interval
from recency.frequencies.grid import Grid

Bounds = tuple[FloatArray, FloatArray]
Totals = tuple[FloatArray, FloatArray, FloatArray]
Places = NDArray[np.intp]


class Counts(ABC):
    """Counts of cells in ascending order of their numbers, key · stride + cell."""

    is_certain: bool
    """Whether upper bounds are certain."""
    middle: FloatArray
    """The estimate of each cell, and 0 behind them: of cells that are left out."""

    def __init__(self, keys: int, grid: Grid, stride: int, numbers: Int64Array) -> None:
        self.keys, self.grid, self.stride, self.numbers = keys, grid, stride, numbers

    def places(self, cells: Int64Array) -> Places:
        """Return the places of some cells of each key."""
        first = np.arange(0, self.keys * self.stride, self.stride)
        numbers = first.reshape(-1, *(1,) * cells.ndim) + cells
        places = np.searchsorted(self.numbers, numbers)
        return np.where(np.append(self.numbers, -1)[places] == numbers, places, self.numbers.size)

    @abstractmethod
    def bounds(self, places: Places, failure: float) -> Bounds:
        """Return bounds of some counts; those of a cell fail with the given probability."""

    @abstractmethod
    def total(self, failure: float) -> Totals:
        """Return estimate, lower and upper bound of the total of each key."""

    @property
    @abstractmethod
    def is_total_certain(self) -> BoolArray:
        """Return for each key whether the bounds of the total are certain."""


class CertainCounts(Counts):
    """Counts of rank logs; their bounds are certain."""

    is_certain = True

    def __init__(
        self,
        keys: int,
        grid: Grid,
        stride: int,
        numbers: Int64Array,
        lower: Int64Array,
        middle: FloatArray,
        upper: Int64Array,
    ) -> None:
        super().__init__(keys, grid, stride, numbers)
        self._lower, self._upper = np.append(lower, 0), np.append(upper, 0)
        self.middle = np.append(middle, 0.0)

    def bounds(self, places: Places, failure: float) -> Bounds:
        """Return certain bounds; the failure probability has no effect."""
        return floats_below(self._lower[places]), floats_above(self._upper[places])

    def total(self, failure: float) -> Totals:
        """Return the best bounds of all rows, since every row counts all events."""
        return self._totals

    @cached_property
    def _totals(self) -> Totals:
        """Return bounds of totals, lower ≤ upper also if rows of forged bytes disagree."""
        rows = self.grid.rows
        sums = np.zeros((2, self.keys * rows), dtype=np.int64)
        row = self.numbers // self.grid.width
        np.add.at(sums[0], row, self._lower[:-1])
        np.add.at(sums[1], row, self._upper[:-1])
        least, most = sums.reshape(2, -1, rows)
        lower = floats_below(least).max(axis=1)
        upper = np.maximum(floats_above(most).min(axis=1), lower)
        middle = np.bincount(self.numbers // self.stride, self.middle[:-1], self.keys) / rows
        return np.minimum(np.maximum(middle, lower), upper), lower, upper

    @property
    def is_total_certain(self) -> BoolArray:
        """Return True for every key."""
        return np.ones(self.keys, dtype=np.bool_)


class SampledCounts(Counts):
    """Counts of samples: a certain sum, and n sampled events that represent ``scale`` each.

    Cell ``stride`` − 1 of each key is a sample of all events.
    """

    is_certain = False

    def __init__(
        self,
        keys: int,
        grid: Grid,
        stride: int,
        numbers: Int64Array,
        certain: Int64Array,
        sampled: Int64Array,
        scale: FloatArray,
        present: Int64Array,
        told: Sequence[FloatArray],
        capacity: int,
    ) -> None:
        super().__init__(keys, grid, stride, numbers)
        self._certain, self._sampled = np.append(certain, 0), np.append(sampled, 0)
        self._scale = np.append(scale, 0.0)  # 0 where the sample has all events
        self._present = np.append(present, 0)  # sums of the sampled events: lower bounds of counts
        by_class, freedom, by_element = told  # for shared coins, see core.dispersion
        self._told = np.append(by_class, 1), np.append(freedom, np.inf), np.append(by_element, 1)
        self._capacity = capacity
        estimate = self._certain + self._sampled * self._scale
        self.middle = np.maximum(estimate, self._present)

    def bounds(self, places: Places, failure: float) -> Bounds:
        """Return Poisson intervals; there are no bounds where events share coins."""
        wide = wider(*self._told, 1 - failure)
        sampled = self._sampled / wide
        numbers, which = np.unique(sampled[places], return_inverse=True)
        intervals = np.array([sum_interval(n, n, 1 - failure) for n in numbers.tolist()])
        low, high = (
            intervals.reshape(-1, 2)[which.reshape(places.shape), end]
            * (wide * self._scale)[places]
            for end in (0, 1)
        )
        shared = (self._scale > 0) & (
            sharing(self._sampled, wide, self._capacity) | (self._sampled == 0)
        )
        high[shared[places]] = np.inf
        certain, present = self._certain[places], self._present[places]
        return (
            np.maximum(floats_below(certain) + low, floats_below(present)),
            np.maximum(floats_above(certain) + high, floats_above(present)),
        )

    def total(self, failure: float) -> Totals:
        """Return the total from the sample of all events."""
        places = self.places(np.array([self.stride - 1]))[:, 0]
        return self.middle[places], *self.bounds(places, failure)

    @property
    def is_total_certain(self) -> BoolArray:
        """Return True for keys that dropped no event of the window."""
        places = self.places(np.array([self.stride - 1]))[:, 0]
        return np.asarray(self._scale[places] == 0)
