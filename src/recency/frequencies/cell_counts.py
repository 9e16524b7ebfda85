"""What cells count in one window, of many keys, each with as many cells: ranges that hold it.

Cells that have counted nothing are left out. Arrays of places of cells have a row for each key, and
answers about totals have an element for each.
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
    """Counts of cells, by number: key · stride + cell, ascending."""

    is_certain: bool
    """Whether upper bounds hold without a doubt."""
    middle: FloatArray
    """The estimate of each cell, and 0 behind them: of cells that are left out."""

    def __init__(self, keys: int, grid: Grid, stride: int, numbers: Int64Array) -> None:
        self.keys, self.grid, self.stride, self.numbers = keys, grid, stride, numbers

    def places(self, cells: Int64Array) -> Places:
        """Where some cells are, of each key."""
        first = np.arange(0, self.keys * self.stride, self.stride)
        numbers = first.reshape(-1, *(1,) * cells.ndim) + cells
        places = np.searchsorted(self.numbers, numbers)
        return np.where(np.append(self.numbers, -1)[places] == numbers, places, self.numbers.size)

    @abstractmethod
    def bounds(self, places: Places, failure: float) -> Bounds:
        """The least and the most that some cells may count; each fails with this probability."""

    @abstractmethod
    def total(self, failure: float) -> Totals:
        """All events of each key: estimate, the least, the most."""

    @property
    @abstractmethod
    def is_total_certain(self) -> BoolArray:
        """Of which keys those bounds are not in doubt."""


class CertainCounts(Counts):
    """Counts of rank logs, whose bounds are certain."""

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
        """Certain, whatever the probability."""
        return floats_below(self._lower[places]), floats_above(self._upper[places])

    def total(self, failure: float) -> Totals:
        """Every row counts all events: the best of their bounds holds."""
        return self._totals

    @cached_property
    def _totals(self) -> Totals:
        """Bytes that were made up may have rows that disagree; then there is no best bound."""
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
        """All."""
        return np.ones(self.keys, dtype=np.bool_)


class SampledCounts(Counts):
    """Counts of samples: a sum that is certain, and n events that stand for ``scale`` each.

    Cell ``stride`` − 1 of each key is that of all events.
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
        self._scale = np.append(scale, 0.0)  # 0 where all events are present
        self._present = np.append(present, 0)  # what can be seen, so the truth is not less
        by_class, freedom, by_element = told  # of shared coins, see core.dispersion
        self._told = np.append(by_class, 1), np.append(freedom, np.inf), np.append(by_element, 1)
        self._capacity = capacity
        estimate = self._certain + self._sampled * self._scale
        self.middle = np.maximum(estimate, self._present)

    def bounds(self, places: Places, failure: float) -> Bounds:
        """Poisson intervals for the events that were sampled; none where coins are shared."""
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
        """It has a sample of its own."""
        places = self.places(np.array([self.stride - 1]))[:, 0]
        return self.middle[places], *self.bounds(places, failure)

    @property
    def is_total_certain(self) -> BoolArray:
        """Where nothing was forgotten."""
        places = self.places(np.array([self.stride - 1]))[:, 0]
        return np.asarray(self._scale[places] == 0)
