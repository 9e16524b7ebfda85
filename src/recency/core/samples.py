"""Level samples of many sketches, of which each has one or several."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from recency.core.age_cells import NO_CELLS, AgeCells
from recency.core.arrays import Int64Array, offsets, ranges, stable_order
from recency.core.level_sample import Columns, LevelSample, Places


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples of n sketches, whose keys in ``sample`` follow one another."""

    sample: LevelSample
    counts: Int64Array
    """How many samples each sketch has."""
    labels: Columns = ()
    """What is known of each sample."""
    cells: AgeCells = NO_CELLS
    """Sums beside the samples, for some of the sketches or for none."""
    per_row: int = 1
    """How many elements one row brings, at most."""

    @classmethod
    def joined(cls, bodies: Sequence["Samples"]) -> "Samples":
        """Return the samples of several bodies, one after the other."""
        filled = [each for each in bodies if each.sample.times.size or each.sample.edges.size]
        if len(filled) == 1 and filled[0] is bodies[0]:
            sample = bodies[0].sample
        else:
            firsts = offsets(np.array([int(each.counts.sum()) for each in bodies]))[:-1]
            sample = LevelSample.side_by_side([each.sample for each in bodies], firsts)
        return cls(
            sample,
            np.concatenate([each.counts for each in bodies]),
            tuple(map(np.concatenate, zip(*(each.labels for each in bodies), strict=True))),
            AgeCells.joined([each.cells for each in bodies], [each.counts.size for each in bodies]),
            bodies[0].per_row,
        )

    def take(self, keys: Int64Array) -> "Samples":
        """Return the samples of some sketches."""
        counts = self.counts[keys]
        rows = ranges(offsets(self.counts)[:-1][keys], counts)
        labels = tuple(each[rows] for each in self.labels)
        cells = self.cells.take(keys)
        return Samples(self.sample.take(rows), counts, labels, cells, self.per_row)

    def split(self) -> list["Samples"]:
        """Return the samples of each sketch on their own."""
        if self.counts.size == 1:
            return [self]
        bounds = offsets(self.counts)
        samples = self.sample.only(stable_order(self.sample.keys)).split(bounds)
        counts = (self.counts[i : i + 1] for i in range(self.counts.size))
        labels = (tuple(each[a:b] for each in self.labels) for a, b in pairwise(bounds.tolist()))
        cells = self.cells.split(self.counts.size)
        parts = zip(samples, counts, labels, cells, strict=True)
        return [Samples(*each, self.per_row) for each in parts]

    def alike(self, into: Int64Array, size: int) -> "Samples":
        """Return the samples where sketch i has the number ``into[i]``; all have as many samples.

        Samples of one number are to be united (:meth:`LevelSample.united`).
        """
        count, keys = self.counts[0].item(), into
        if count > 1:
            keys = (into[:, None] * count + np.arange(count)).ravel()
        counts = np.full(size, count)
        return Samples(self.sample.renamed(keys), counts, per_row=self.per_row)

    def owners(self) -> Int64Array:
        """The sketch of each element."""
        return self.sketches()[self.sample.keys]

    def kept(self) -> Int64Array:
        """How many elements each sketch has."""
        return np.bincount(self.owners(), minlength=self.counts.size)

    def sketches(self) -> Int64Array:
        """The sketch of each sample."""
        return np.repeat(np.arange(self.counts.size), self.counts)

    @cached_property
    def places(self) -> Places:
        """Index of the elements, for questions."""
        return Places(self.sample)

    @property
    def entries(self) -> int:
        """Number of rows that bring as many elements as are kept."""
        return self.sample.times.size // self.per_row

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.sample.nbytes + self.cells.nbytes
